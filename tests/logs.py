"""Logs as training reads them, from records that a producer would have sent."""

from __future__ import annotations

from collections.abc import Iterable

from stream_tgat.datasets.stream import StreamRecord
from stream_tgat.topology import Topology
from stream_tgat.training.log import LogBuilder, TrainingLog


def build_log(topology: Topology, records: Iterable[StreamRecord]) -> TrainingLog:
    """A log of these records; interactions lie in one partition, at the places that they have among them."""
    builder = LogBuilder(topology)
    for offset, each in enumerate(records):
        match each.topic:
            case "interactions":
                builder.interaction(each.value, each.headers, 0, offset)
            case "nodes":
                builder.node(each.value, each.headers)
            case "labels":
                builder.label(each.value, each.headers)
    return builder.build()
