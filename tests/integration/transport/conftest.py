"""A cluster per test: topics with a prefix of their own, and workers that are gone when the test is."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from broker import Broker

from tests.integration.transport.cluster import Cluster


@pytest.fixture
def cluster(broker: Broker, topic_prefix: str, tmp_path: Path) -> Iterator[Cluster]:
    """Four partitions, topics `numbers` and `outputs`."""
    made = Cluster(broker.bootstrap_servers, topic_prefix, tmp_path)
    made.create("numbers", "outputs")
    yield made
    made.stop()
