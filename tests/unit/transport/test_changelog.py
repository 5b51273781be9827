"""One commit is one record batch, or nothing; someone else's batch is noticed."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka.producer.message_accumulator import BatchBuilder
from aiokafka.record.memory_records import MemoryRecords
from hypothesis import given
from hypothesis import strategies as st

from stream_tgat.errors import BatchTooLargeError, FencedError, ForeignWriterError
from stream_tgat.rocks import Change
from stream_tgat.transport.changelog import Changelog


class Log:
    """A producer whose broker is a list of batches."""

    def __init__(self) -> None:
        self.end = 10
        self.batches: list[bytes] = []
        self.kafka = self

    def new_batch(self, capacity_bytes: int) -> BatchBuilder:
        return BatchBuilder(capacity_bytes, 0)

    async def send_batch(self, batch: Any, topic: str, *, partition: int) -> Any:
        self.batches.append(bytes(batch._build()))
        first, self.end = self.end, self.end + batch.record_count()
        future = asyncio.get_running_loop().create_future()
        future.set_result(SimpleNamespace(offset=first))
        return future


def _changelog(max_batch_bytes: int = 10**6, *, end: int | None = 10) -> tuple[Changelog, Log]:
    log = Log()
    changelog = Changelog(SimpleNamespace(producer=log), "state", max_batch_bytes)
    if end is not None:
        changelog.resume(0, end)
    return changelog, log


def _read(batch: bytes) -> list[Change]:
    records = MemoryRecords(batch)
    found = [(record.key, record.value) for record in records.next_batch()]
    assert not records.has_next(), "more than one record batch"
    return found


CHANGES: list[Change] = [(b"a", b"1"), (b"b", None), (b"c", b"")]


def test_append_is_one_record_batch_and_returns_its_last_offset() -> None:
    changelog, log = _changelog()
    assert asyncio.run(changelog.append({0: CHANGES})) == {0: 12}
    assert [_read(batch) for batch in log.batches] == [CHANGES]


def test_partitions_that_are_appended_to_together_have_a_batch_each_or_none_has() -> None:
    changelog, log = _changelog()
    changelog.resume(1, 13)
    assert asyncio.run(changelog.append({0: CHANGES, 1: CHANGES[:2]})) == {0: 12, 1: 14}
    assert [_read(batch) for batch in log.batches] == [CHANGES, CHANGES[:2]]
    with pytest.raises(FencedError, match="state/2: not recovered"):
        asyncio.run(changelog.append({0: CHANGES, 2: CHANGES}))
    with pytest.raises(BatchTooLargeError, match="state/1"):
        asyncio.run(changelog.append({0: CHANGES, 1: []}))
    assert len(log.batches) == 2


def test_append_goes_on_where_the_last_one_ended() -> None:
    changelog, _ = _changelog()

    async def twice() -> list[dict[int, int]]:
        return [await changelog.append({0: CHANGES}), await changelog.append({0: CHANGES[:1]})]

    assert asyncio.run(twice()) == [{0: 12}, {0: 13}]


def test_batch_of_another_writer_is_noticed_and_nothing_is_appended_after_it() -> None:
    changelog, log = _changelog()
    log.end += 1
    with pytest.raises(ForeignWriterError, match="state/0: appended at offset 11 instead of 10"):
        asyncio.run(changelog.append({0: CHANGES}))
    with pytest.raises(FencedError, match="not recovered"):
        asyncio.run(changelog.append({0: CHANGES}))
    assert len(log.batches) == 1


def test_partition_that_was_not_recovered_is_refused() -> None:
    changelog, log = _changelog(end=None)
    with pytest.raises(FencedError, match="not recovered by this worker"):
        asyncio.run(changelog.append({0: CHANGES}))
    assert not log.batches


@pytest.mark.parametrize(
    "changes",
    [
        [(b"key%d" % number, bytes(100)) for number in range(20)],
        [(b"one", bytes(2000))],
        [],
    ],
    ids=["many", "one", "none"],
)
def test_changes_that_are_not_one_batch_are_refused_before_anything_is_sent(changes: list[Change]) -> None:
    changelog, log = _changelog(1000)
    with pytest.raises(BatchTooLargeError, match=r"state/0"):
        asyncio.run(changelog.append({0: changes}))
    assert not log.batches


@given(st.lists(st.tuples(st.binary(max_size=300), st.none() | st.binary(max_size=3000)), min_size=1, max_size=200))
def test_size_is_an_upper_bound_that_always_fits(changes: list[Change]) -> None:
    size = Changelog.size(changes)
    changelog, log = _changelog(size)
    asyncio.run(changelog.append({0: changes}))
    assert len(log.batches[0]) <= size
