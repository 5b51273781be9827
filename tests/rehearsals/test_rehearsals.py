"""Short runs of the rehearsals; `make rehearse` plays all of them, and as an operator would meet them."""

from __future__ import annotations

from pathlib import Path

import pytest
from broker import Broker

from tests.rehearsals.blue_green import blue_green
from tests.rehearsals.rolling_upgrade import rolling_upgrade
from tests.rehearsals.traffic import PARTITIONS


@pytest.mark.slow
def test_rolling_upgrade_loses_nothing_and_tells_what_each_replacement_costs(
    broker: Broker, topic_prefix: str, tmp_path: Path
) -> None:
    rolled = rolling_upgrade(
        broker.bootstrap_servers, tmp_path, topic_prefix, static=False, workers=2, rate=50.0, seconds=240.0
    )
    assert rolled.report.embeddings > 500
    assert [each.worker for each in rolled.replaced] == ["worker-0", "worker-1"]
    for each in rolled.replaced:
        # Its partitions have gone to the other one, and something of them back: that is two rebalances, or more.
        assert each.rebalances >= 2, each.line()
        assert len(each.pauses_s) == PARTITIONS
        assert 0 < max(each.pauses_s) < 120, each.line()


@pytest.mark.slow
def test_state_rebuilt_under_another_prefix_equals_that_of_the_running_deployment(
    broker: Broker, topic_prefix: str, tmp_path: Path
) -> None:
    rebuilt = blue_green(broker.bootstrap_servers, tmp_path, topic_prefix, rate=20.0, history=600, seconds=240.0)
    assert rebuilt.compared > 1200
    assert rebuilt.lost == 0
    assert rebuilt.repeats > 0
