"""Where partitions are, and where they were a while ago, is read from the log of their commits."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from kafka import TopicPartition

from stream_tgat.backlog.committed import partition_progress
from stream_tgat.message_passing.progress import RESERVED_KEY, PartitionProgress
from stream_tgat.topology import Topology

TOPOLOGY = Topology.model_validate({"name": "t", "kafka": {"partitions": 2}})


class Consumer:
    """A changelog as kafka-python reads it. log: (time, key, value) of the records of each partition"""

    def __init__(self, log: dict[int, list[tuple[float, bytes, bytes]]]) -> None:
        self._log = log
        self._places: dict[Any, int] = {}

    def topics(self) -> set[str]:
        return {TOPOLOGY.changelog}

    def end_offsets(self, places: list[Any]) -> dict[Any, int]:
        return {place: len(self._log.get(place.partition, ())) for place in places}

    def offsets_for_times(self, times: dict[Any, int]) -> dict[Any, Any]:
        found = {}
        for place, at in times.items():
            later = [n for n, (time, _, _) in enumerate(self._log[place.partition]) if 1000 * time >= at]
            found[place] = SimpleNamespace(offset=later[0]) if later else None
        return found

    def assign(self, places: list[Any]) -> None:
        self._places = {}

    def seek(self, place: TopicPartition, offset: int) -> None:
        self._places[place] = offset

    def poll(self, timeout_ms: int) -> dict[Any, list[Any]]:
        """Everything from the places on."""
        return {
            place: [SimpleNamespace(key=key, value=value) for _, key, value in self._log[place.partition][at:]]
            for place, at in self._places.items()
        }


def _commit(time: float, offset: int) -> list[tuple[float, bytes, bytes]]:
    """A row, and the reserved key, which is the last record of each commit."""
    return [(time, b"row", b""), (time, RESERVED_KEY, PartitionProgress(layout=1, offset=offset).encode())]


def _offsets(log: dict[int, list[tuple[float, bytes, bytes]]], as_of: float | None = None) -> dict[int, int]:
    found = partition_progress(TOPOLOGY, Consumer(log), as_of)  # type: ignore[arg-type]
    return {partition: each.offset for partition, each in found.items()}


def test_newest_commit_and_that_of_a_while_ago() -> None:
    log = {0: [*_commit(10.0, 1), *_commit(12.0, 2), *_commit(20.0, 3)], 1: _commit(11.0, 7)}
    assert _offsets(log) == {0: 3, 1: 7}
    assert _offsets(log, as_of=15.0) == {0: 2, 1: 7}, "nothing has come since: it was as it is"
    assert _offsets(log, as_of=11.0) == {0: 1}, "there was no commit of the other before"
    assert _offsets(log, as_of=5.0) == {}
    assert _offsets({}) == {}
