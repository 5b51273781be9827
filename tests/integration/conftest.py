"""What the tests against the real broker share."""

from __future__ import annotations

import pytest
from broker import Broker

from stream_tgat.topology import Kafka, Topology


@pytest.fixture
def topology(broker: Broker, topic_prefix: str) -> Topology:
    """A small deployment on the real broker, with topics of its own that do not exist yet."""
    kafka = Kafka(bootstrap_servers=broker.bootstrap_servers, topic_prefix=topic_prefix, partitions=4)
    return Topology(name="test", kafka=kafka)
