"""What the tests of equality begin with."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from broker import Broker

from tests.integration.equality.deployment import Deployment
from tests.integration.equality.oracle import Oracle
from tests.integration.equality.scenarios import Deployed, deploy
from tests.integration.equality.settings import Settings
from tests.integration.equality.streams import Log


@pytest.fixture
def deployed(broker: Broker, topic_prefix: str, tmp_path: Path) -> Iterator[Deployed]:
    """Deployments on the suite's broker, with topics and a promoted release; no worker of theirs outlives the test."""
    with ExitStack() as open_deployments:

        def make(
            log: Log, settings: Settings | None = None, *, oracle_takes_log: bool = True
        ) -> tuple[Deployment, Oracle]:
            deployment, oracle = deploy(broker.bootstrap_servers, tmp_path, topic_prefix, log, settings)
            if oracle_takes_log:
                oracle.take(log.records)
            return open_deployments.enter_context(deployment), oracle

        yield make
