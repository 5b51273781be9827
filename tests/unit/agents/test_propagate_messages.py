"""Messages between owners of nodes: which are held, heard before they are read, and count once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest
from faust.types import TP

from tests.unit.agents.fakes import Message
from tests.unit.agents.propagating import (
    TPS,
    Setup,
    both_ends,
    changed,
    messages_sent,
    of_interaction,
    stream_of,
)


def test_peer_embeddings_for_nodes_of_this_worker_do_not_wait_until_they_are_read(setup: Setup) -> None:
    """Two layers of both ends in one cycle; the peer embeddings are sent all the same."""

    async def go() -> None:
        await setup.propagate.on_recovered(TPS)
        await setup.cycle(*both_ends(setup, 1.0, 2.0))

    asyncio.run(go())
    assert (setup.metrics.embeddings, setup.propagate.pending) == (4, 0)
    assert min(messages_sent(setup)) > 0


def test_peer_embeddings_for_nodes_of_this_worker_are_sent_before_any_partition_commits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Embeddings leave at once; messages that are in their rows here need not be in the log before a state says so."""
    setup = Setup()

    async def go() -> None:
        await setup.open()
        for offset in range(3):
            await setup.cycle(*both_ends(setup, 1.0 + offset, offset=offset, first=offset))
        assert (len(setup.embeddings()), messages_sent(setup)) == (3, [0, 0])
        setup.app.happened.clear()
        monkeypatch.setattr("stream_tgat.message_passing.partition.COMMIT_S", -1.0)
        await setup.cycle()

    asyncio.run(go())
    delivered = [("delivered", "propagation", partition) for partition in (0, 1)]
    assert sorted(setup.app.happened[:2]) == delivered
    assert setup.app.happened[2][0] == "committed"
    assert messages_sent(setup) == [3, 3]


def test_peer_embeddings_that_were_held_are_forgotten_with_what_was_computed() -> None:
    """They are computed again, as no state says that they were."""
    setup = Setup()

    async def go() -> None:
        propagate = setup.propagate
        await setup.open()
        await setup.cycle(*both_ends(setup, 1.0))
        setup.table.fenced = True
        await setup.lose_tenure()
        asyncio.get_running_loop().call_later(0.1, lambda: setattr(setup.table, "fenced", False))
        await setup.cycle()
        assert messages_sent(setup) == [0, 0]
        await setup.cycle(*both_ends(setup, 1.0))
        await propagate.on_revoked(TPS)

    asyncio.run(go())
    assert messages_sent(setup) == [1, 1]
    assert [setup.progress(partition).offset for partition in (0, 1)] == [0, 0]


def test_peer_embeddings_for_nodes_of_other_workers_are_sent_at_once() -> None:
    setup = Setup()

    async def go() -> None:
        (record, _) = both_ends(setup, 1.0)
        await setup.open(frozenset({record.tp}))
        await setup.cycle(record)

    asyncio.run(go())
    assert sorted(messages_sent(setup)) == [0, 1]


def test_what_was_sent_from_here_makes_no_cycle_when_it_is_heard_or_read(
    setup: Setup, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither the echo of peer embeddings that are in their rows nor the twins of records that were received."""
    setup.app.outbox.begin["propagation"] = 1
    woken: list[None] = []

    async def nothing() -> AsyncIterator[list[Message]]:
        for batch in ():
            yield batch

    async def go() -> None:
        propagate = setup.propagate
        await propagate.on_recovered(TPS)
        ends = both_ends(setup, 1.0)
        for record in ends:
            propagate.sent(record.partition, record.offset, record.value or b"")
        await setup.cycle()
        assert len(setup.embeddings()) == 1
        # The stream has nothing; what is sent from here wakes it.
        await propagate.run(stream_of(monkeypatch, nothing(), lambda: woken.append(None)))
        monkeypatch.setattr("stream_tgat.message_passing.partition.COMMIT_S", 99.0)
        cycles = setup.metrics.cycle_s.count
        sent = [setup.app.outbox.sent["propagation", end.partition][0].value for end in ends]
        twins = [replace(end, offset=1, value=value) for end, value in zip(ends, sent, strict=True)]
        await setup.cycle(*ends, *twins)
        assert (woken, setup.metrics.cycle_s.count) == ([], cycles)
        assert propagate.start_offset(TP("propagation", 0)) == 2
        # Nobody needs to read them; they are acknowledged with the next commit.
        assert setup.app.heard == {TP("propagation", 0): 2, TP("propagation", 1): 2}
        assert sorted(setup.app.acknowledged) == [("propagation", 0, 0), ("propagation", 1, 0)]
        monkeypatch.setattr("stream_tgat.message_passing.partition.COMMIT_S", -1.0)
        await setup.cycle()

    asyncio.run(go())
    assert [setup.progress(partition).offset for partition in (0, 1)] == [1, 1]
    assert sorted(setup.app.acknowledged) == [("propagation", p, offset) for p in (0, 1) for offset in (0, 1)]
    assert setup.metrics.messages == 0


def test_record_that_was_sent_is_received_before_it_is_read_and_counts_once(setup: Setup) -> None:
    async def go() -> None:
        propagate, records = setup.propagate, [setup.record(0, k, k, 1.0 + k, node=b"u%d" % k) for k in range(4)]
        value = [record.value or b"" for record in records]
        await propagate.on_recovered(TPS)
        propagate.sent(0, 0, value[0])
        # Acknowledged out of order: it waits for its turn.
        propagate.sent(0, 2, value[2])
        await setup.cycle()
        assert list(setup.embeddings()) == ["x0-0"]
        assert (setup.app.heard[TP("propagation", 0)], setup.app.acknowledged) == (1, [("propagation", 0, 0)])
        propagate.sent(0, 1, value[1])
        await setup.cycle()
        assert setup.app.heard[TP("propagation", 0)] == 3
        assert list(setup.embeddings()) == ["x0-0", "x0-1", "x0-2"]
        await setup.cycle(*records)

    asyncio.run(go())
    assert list(setup.embeddings()) == ["x0-0", "x0-1", "x0-2", "x0-3"]
    assert setup.progress(0).offset == 3
    assert setup.app.acknowledged == [("propagation", 0, offset) for offset in range(4)]


def test_repeat_from_another_partition_is_dropped_and_counted_once_also_after_a_restart(
    setup: Setup, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its user and its item belong to different partitions, and both drop it."""

    def halves(offset: int, source: int, first: int) -> list[Message]:
        found = []
        for partition in (0, 1):
            record = of_interaction(setup, setup.record(partition, offset, first, 1.0), source)
            node, peer = ((b"ua", b"ib"), (b"ib", b"ua"))[partition]
            found.append(changed(setup, record, side=partition, node=node, peer=peer))
        return found

    async def go() -> None:
        await setup.propagate.on_recovered(TPS)
        await setup.cycle(*halves(0, source=0, first=0))
        monkeypatch.setattr("stream_tgat.message_passing.partition.COMMIT_S", 99.0)
        await setup.cycle(*halves(1, source=1, first=0))
        assert (setup.metrics.half_edges, setup.metrics.repeats) == (4, 1)
        await setup.propagate.on_revoked(TPS)
        await setup.propagate.on_recovered(TPS)
        # The record that held but a repeat is read again, since nothing hurried its commit.
        setup.metrics.repeats = 0
        await setup.cycle(*halves(1, source=1, first=0), *halves(2, source=2, first=0))

    asyncio.run(go())
    assert (setup.metrics.repeats, setup.metrics.differing_repeats, setup.metrics.duplicates) == (2, 0, 0)
    assert setup.metrics.arrived_behind == 0
    assert len(setup.embeddings()) == 1
    assert len(setup.app.outbox.sent["embeddings", 0]) == 2
