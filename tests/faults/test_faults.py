"""A short seed of the fault suite; `make faults` plays all of it for as long as one likes."""

from __future__ import annotations

from pathlib import Path

import pytest
from broker import Broker

from tests.faults.scenarios import SCENARIOS
from tests.faults.trial import Trial


@pytest.mark.parametrize("name", ["frozen workers", "poison"])
def test_scenario_equals_single_pass_and_a_difference_would_be_seen(
    broker: Broker, topic_prefix: str, tmp_path: Path, name: str
) -> None:
    trial = Trial(name, seed=7, brokers=[broker], folder=tmp_path, prefix=topic_prefix, length=0.5)
    try:
        SCENARIOS[name].play(trial)
        assert trial.outcome.faults == 2
        assert trial.outcome.embeddings > 1000
        trial.deployment.outputs.embeddings.popitem()
        with pytest.raises(AssertionError, match="1 embeddings are missing"):
            trial.compare()
    finally:
        trial.close()
