"""What rows wait for: watermarks of all sources, and peer embeddings for as long as max_wait."""

from __future__ import annotations

import asyncio
from uuid import UUID

import numpy as np
import pytest
from aiokafka.errors import KafkaConnectionError
from faust.types import TP

from stream_tgat.errors import LostDataError
from tests.unit.agents.propagating import (
    TPS,
    A,
    Clock,
    Setup,
)


def test_rows_wait_for_the_watermark_of_every_source(setup: Setup) -> None:
    setup.cluster.topics["interactions"] = [100, 100]

    async def go() -> None:
        await setup.propagate.on_recovered(TPS)
        await setup.cycle(setup.record(0, 0, 0, 1.0))
        assert setup.propagate.pending == 1
        assert setup.metrics.embeddings == 0
        setup.cluster.topics["interactions"] = [100]
        await setup.propagate.look_at_sources()
        await setup.cycle()

    asyncio.run(go())
    assert (setup.metrics.embeddings, setup.propagate.pending) == (1, 0)


def test_rows_that_wait_for_a_watermark_are_told_in_the_state_and_those_that_wait_for_peer_embeddings_are_not(
    setup: Setup,
) -> None:
    async def go() -> tuple[int, int, int]:
        await setup.propagate.on_recovered(TPS)
        # The second of a node sees the first, whose peer embedding its peer never sends.
        await setup.cycle(setup.record(0, 0, 0, 5.0, 6.0, 7.0, 200.0, 300.0))
        return setup.propagate.pending, await setup.propagate.waiting(), setup.progress(0).waiting

    pending, waiting, stored = asyncio.run(go())
    assert (waiting, stored) == (2, 2)
    assert pending > 2


def test_row_whose_peer_embedding_never_comes_goes_without_it_after_max_wait_and_is_counted(clock: Clock) -> None:
    setup = Setup(max_wait_s=60.0)

    async def go() -> None:
        await setup.propagate.on_recovered(TPS)
        await setup.cycle(setup.record(0, 0, 0, 1.0, 2.0))
        clock.now += 60.0
        await setup.cycle()
        assert list(setup.embeddings()) == ["x0-0"]
        assert (setup.propagate.pending, setup.metrics.forced) == (1, 0)
        clock.now += 1.0
        await setup.cycle()

    asyncio.run(go())
    assert (setup.propagate.pending, setup.metrics.forced, setup.metrics.embeddings) == (0, 1, 2)
    # Masked: the second sees only the first, whose peer embedding is not there, so it is what it would be without any
    # past.
    first, second = setup.embeddings().values()
    np.testing.assert_allclose(second, first, atol=1e-6)


@pytest.mark.parametrize("where", ["here", "with another owner"])
def test_max_wait_does_not_run_while_peer_embeddings_may_simply_not_have_been_read(clock: Clock, where: str) -> None:
    setup = Setup(max_wait_s=60.0)
    if where == "here":
        setup.app.consumer.unread[TP("propagation", 1)] = 501
    else:
        setup.throttle.sent(5, 0, 101)

    async def go() -> None:
        await setup.propagate.on_recovered(TPS)
        await setup.cycle(setup.record(0, 0, 0, 1.0, 2.0))
        for _ in range(10):
            clock.now += 50.0
            await setup.cycle()
        setup.app.consumer.unread.clear()
        setup.throttle.read(5, 1)
        clock.now += 50.0
        await setup.cycle()
        assert (setup.propagate.pending, setup.metrics.forced) == (1, 0)
        clock.now += 50.0
        await setup.cycle()

    asyncio.run(go())
    assert (setup.propagate.pending, setup.metrics.forced) == (0, 1)


def test_nothing_is_computed_before_the_sources_are_known(setup: Setup) -> None:
    """A source that nobody has heard of yet may hold earlier events."""
    setup.cluster.silent = KafkaConnectionError("no broker")

    async def go() -> None:
        await setup.propagate.on_recovered(TPS)
        await setup.cycle(setup.record(0, 0, 0, 1.0))
        assert (setup.propagate.expected, setup.propagate.pending) == ((), 1)
        assert setup.embeddings() == {}
        setup.cluster.silent = None
        await setup.propagate.look_at_sources()
        await setup.cycle()

    asyncio.run(go())
    assert setup.propagate.expected == (A,)
    assert list(setup.embeddings()) == ["x0-0"]


def test_look_that_fails_leaves_the_sources_that_were_found_before(setup: Setup) -> None:
    async def go() -> None:
        await setup.propagate.on_recovered(TPS)
        setup.cluster.silent = KafkaConnectionError("no broker")
        with pytest.raises(KafkaConnectionError):
            await setup.propagate.look_at_sources()

    asyncio.run(go())
    assert setup.propagate.expected == (A,)


def test_source_that_ends_below_what_was_received_stops_the_worker(setup: Setup) -> None:
    async def go() -> None:
        await setup.propagate.on_recovered(TPS)
        await setup.cycle(setup.record(0, 0, 0, 1.0, 2.0, 3.0))
        setup.cluster.topics["interactions"] = [2]
        await setup.propagate.look_at_sources()

    with pytest.raises(LostDataError, match="interactions/0 ends at offset 2, but everything below 3"):
        asyncio.run(go())


@pytest.mark.parametrize(
    ("topic", "way_on"),
    [
        ("interactions", "kafka.topic_prefix"),
        ("propagation", "kafka.topic_prefix"),
        ("models", "kafka.topic_prefix"),
        ("stream-tgat-t-graph-changelog", "kafka.topic_prefix"),
        ("labels", "start the worker again"),
        ("nodes", "start the worker again"),
    ],
)
def test_topic_made_anew_stops_the_worker_however_many_records_it_has(topic: str, way_on: str) -> None:
    names = ("interactions", "propagation", "models", "stream-tgat-t-graph-changelog", "labels", "nodes")
    setup = Setup(ids={name: UUID(int=1 + at) for at, name in enumerate(names)})
    setup.cluster.ids = {name: UUID(int=1 + at) for at, name in enumerate(names)}

    async def go() -> None:
        await setup.propagate.on_recovered(TPS)
        await setup.cycle(setup.record(0, 0, 0, 1.0))
        await setup.propagate.look_at_sources()
        setup.cluster.ids[topic] = UUID(int=99)
        with pytest.raises(LostDataError, match=f"'{topic}' was deleted and created again.*{way_on}"):
            await setup.propagate.look_at_sources()

    asyncio.run(go())
