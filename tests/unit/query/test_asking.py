"""Questions over real sockets to workers that have some partitions: what comes back, also while they move."""

from __future__ import annotations

import asyncio
import math
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import msgpack
import numpy as np
import pytest

from stream_tgat.errors import QueryError, SettingsError
from stream_tgat.query import workers as asked_by
from stream_tgat.query.access import TOKEN_VARIABLE
from stream_tgat.query.answers import NodeAt
from stream_tgat.query.asking import Target
from stream_tgat.query.endpoint import MOST_OF_SLICE, Endpoint
from stream_tgat.query.messages import MOST_NODES, Question, Reply, Status
from stream_tgat.query.workers import MovingError, PartialQuestion
from stream_tgat.wire.packets import partitions_of
from tests.unit.engine.oracle import Oracle
from tests.unit.query.ask import PARTITIONS, FakeWorker, deployment, engine_over, model_for, purchases, shop

SHOP = shop()
MODEL = model_for(SHOP)
STREAM = purchases(SHOP)
NOW = 1100.0


def nodes() -> list[bytes]:
    return sorted({*STREAM.node.tolist(), SHOP.node_key("user", "stranger")})


def test_answers_equal_the_recursion_whoever_has_the_node() -> None:
    async def ask() -> None:
        engines = [engine_over(SHOP, MODEL, STREAM) for _ in range(2)]
        async with deployment(SHOP, engines) as made:
            made.move(1, 1)
            made.move(3, 1)
            targets = [Target(key, NOW) for key in nodes()]
            replies = await made.asking.look(targets)
            oracle = Oracle(MODEL, STREAM)
            for target, found in zip(targets, replies.found, strict=True):
                expected = oracle.state(2, target.key, NOW)
                assert np.abs(found.embedding - expected).max() < 1e-5 * max(1.0, np.abs(expected).max())
                assert found.degree == len(oracle.past(target.key, NOW))
                assert (found.model, found.received, found.time) == (7, 2000.0, NOW)
            assert all(worker.slices for worker in made.workers)

    asyncio.run(ask())


def test_now_is_the_event_time_that_has_been_received_or_just_after_the_newest_interaction() -> None:
    async def ask() -> None:
        async with deployment(SHOP, [engine_over(SHOP, MODEL, STREAM)], passed=1030.0) as made:
            oracle = Oracle(MODEL, STREAM)
            found = (await made.asking.look([Target(key) for key in nodes()])).found
            for key, each in zip(nodes(), found, strict=True):
                newest = max([row.time for row in oracle.rows.get(key, [])], default=-math.inf)
                assert each.time == max(1030.0, np.nextafter(newest, math.inf))
                assert each.degree == len(oracle.rows.get(key, []))

    asyncio.run(ask())


def test_many_nodes_pairs_and_events_come_back_in_the_order_of_asking() -> None:
    """More than one question holds, of each sort; the worker answers no slice that is larger than one."""

    async def ask() -> None:
        async with deployment(SHOP, [engine_over(SHOP, MODEL, STREAM)]) as made:
            rng = np.random.default_rng(1)
            keys = [nodes()[at] for at in rng.integers(0, len(nodes()), 5 * MOST_NODES)]
            targets = [Target(key, 1001.0 + at % 90) for at, key in enumerate(keys)]
            met = [(int(at), nodes()[peer]) for at, peer in rng.integers(0, (3, 12), (3000, 2))]
            edges = rng.standard_normal((5, SHOP.edge_width)).astype(np.float32)
            events = [(int(at), edges[k % 5]) for k, at in enumerate(rng.integers(0, 300, 400))]
            replies = await made.asking.look(targets, met=met, events=events)
            look = made.workers[0].engine.look
            owners = partitions_of(keys, PARTITIONS).astype(np.int32)
            expected = look(owners, np.array(keys), np.array([target.time for target in targets]))
            assert np.abs(np.array([each.embedding for each in replies.found]) - expected.embedding).max() < 1e-5
            assert (
                replies.meetings
                == expected.meetings(np.array([at for at, _ in met]), np.array([peer for _, peer in met]))
            ).all()
            said = expected.predictions(np.array([at for at, _ in events]), np.stack([edge for _, edge in events]))
            np.testing.assert_allclose(replies.predictions, said, atol=1e-6)

    asyncio.run(ask())


def test_partition_that_moves_is_found_again_and_answers_are_never_of_the_old_owner(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(asked_by, "PATIENCE_S", 5.0)

    async def ask() -> None:
        # The new owner's state is ahead, so that answers tell who gave them.
        engines = [engine_over(SHOP, MODEL, STREAM.take(slice(0, 60))), engine_over(SHOP, MODEL, STREAM)]
        async with deployment(SHOP, engines) as made:
            key = nodes()[0]
            partition = int(partitions_of([key], PARTITIONS)[0])
            expected = [len(Oracle(MODEL, part).past(key, NOW)) for part in (STREAM.take(slice(0, 60)), STREAM)]
            assert expected[0] != expected[1]
            assert (await made.asking.look([Target(key, NOW)])).found[0].degree == expected[0]
            made.move(partition, None)
            waiting = asyncio.create_task(made.asking.look([Target(key, NOW)]))
            await asyncio.sleep(0.2)
            assert not waiting.done()
            made.move(partition, 1)
            assert (await waiting).found[0].degree == expected[1]

    asyncio.run(ask())


def test_nodes_of_one_worker_share_a_question_and_a_look_whatever_their_partitions() -> None:
    async def ask() -> None:
        engines = [engine_over(SHOP, MODEL, STREAM) for _ in range(2)]
        async with deployment(SHOP, engines) as made:
            looks = [0, 0]
            for at, engine in enumerate(engines):
                engine.look = _counted(engine.look, looks, at)  # type: ignore[method-assign]
            await made.asking.look([Target(key, NOW) for key in nodes()])
            assert [worker.slices for worker in made.workers] == [[1], []]
            # The group is thought to be as before, so all are asked of the first, and again where they are now.
            made.workers[0].partitions -= {1, 3}
            made.workers[1].partitions |= {1, 3}
            made.owners.address |= {1: made.addresses[1], 3: made.addresses[1]}
            replies = await made.asking.look([Target(key, NOW) for key in nodes()])
            assert [worker.slices for worker in made.workers] == [[1, 1, 1], [1]]
            oracle = Oracle(MODEL, STREAM)
            assert [each.degree for each in replies.found] == [len(oracle.past(key, NOW)) for key in nodes()]
            # Several that wait are answered by one look.
            before = list(looks)
            await asyncio.gather(*(made.asking.look([Target(key, NOW)]) for key in nodes()))
            assert sum(looks) - sum(before) < len(nodes())

    asyncio.run(ask())


def _counted(look: Callable[..., Any], looks: list[int], at: int) -> Callable[..., Any]:
    def counting(*given: Any) -> Any:
        looks[at] += 1
        return look(*given)

    return counting


@pytest.mark.parametrize("gone", ["partition", "worker"])
def test_partition_that_nobody_has_is_told_after_a_while(monkeypatch: pytest.MonkeyPatch, gone: str) -> None:
    monkeypatch.setattr(asked_by, "PATIENCE_S", 0.1)

    async def ask() -> None:
        async with deployment(SHOP, [engine_over(SHOP, MODEL, STREAM)]) as made:
            await made.asking.look([Target(nodes()[0])])
            if gone == "partition":
                for partition in range(PARTITIONS):
                    made.move(partition, None)
            else:
                made.workers[0].reason = "no heartbeat for 9.0 s"
            begin = time.monotonic()
            with pytest.raises(MovingError, match="no worker has" if gone == "partition" else "no heartbeat for"):
                await made.asking.look([Target(nodes()[0])])
            assert time.monotonic() - begin < 2.0

    asyncio.run(ask())


def test_right_to_speak_that_ends_while_the_engine_looks_is_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asked_by, "PATIENCE_S", 0.0)

    async def ask() -> None:
        async with deployment(SHOP, [engine_over(SHOP, MODEL, STREAM)]) as made:
            worker, look = made.workers[0], made.workers[0].look

            async def loses(work):
                answers = await look(work)
                worker.reason = "the partitions are being assigned"
                return answers

            worker.look = loses  # type: ignore[method-assign]
            with pytest.raises(MovingError, match="are being assigned"):
                await made.asking.look([Target(nodes()[0])])

    asyncio.run(ask())


def test_questions_that_wait_share_a_slice_of_bounded_size() -> None:
    async def ask() -> None:
        async with deployment(SHOP, [engine_over(SHOP, MODEL, STREAM)]) as made:
            await made.asking.look([Target(nodes()[0])])
            await asyncio.gather(*(made.asking.look([Target(key, NOW)]) for key in nodes() * 50))
            slices = made.workers[0].slices
            assert sum(slices) == 1 + 50 * len(nodes())
            assert max(slices) <= MOST_OF_SLICE
            assert Counter(slices).most_common(1)[0][0] > 1

    asyncio.run(ask())


def test_small_question_rides_along_with_the_next_slice_of_a_large_one() -> None:
    async def ask() -> None:
        async with deployment(SHOP, [engine_over(SHOP, MODEL, STREAM)]) as made:
            (worker,) = made.workers
            worker.goes_on.clear()
            many = (nodes() * MOST_NODES)[: 4 * MOST_NODES]
            large = asyncio.create_task(made.asking.look([Target(key, NOW) for key in many]))
            small = asyncio.create_task(made.asking.look([Target(nodes()[0], NOW)]))
            await asyncio.sleep(0)
            with pytest.raises(QueryError, match="does not take the question"):
                # Refused at once, and those before it on the connection are there then.
                await made.connections.ask([0], lambda _: [PartialQuestion([0], [], [], Question([], np.empty(0)))])
            worker.goes_on.set()
            await asyncio.gather(large, small)
            # However many were there when the first slice was cut.
            assert worker.slices in ([1, 2, 1, 1], [2, 1, 1, 1])

    asyncio.run(ask())


@pytest.mark.parametrize(
    "question",
    [
        Question([], np.empty(0)),
        Question([b"u1"] * (MOST_NODES + 1), np.zeros(MOST_NODES + 1)),
        Question([b"u" + b"x" * 80], np.zeros(1)),
        Question([b"u\x00"], np.zeros(1)),
        Question([b"u1"], np.zeros(2)),
        Question([b"u1"], np.array([np.inf])),
        Question([b"u1"], np.zeros(1), met=np.array([1], np.int32), peer=[b"i1"]),
        Question([b"u1"], np.zeros(1), met=np.array([0], np.int32), peer=[b"i" * 99]),
        Question([b"u1"], np.zeros(1), event=np.array([0], np.int32), edge=np.zeros((1, 99), np.float32)),
        Question([b"u1"], np.zeros(1), event=np.array([0], np.int32), edge=np.full((1, 4), np.nan, np.float32)),
    ],
)
def test_question_that_no_service_asks_is_refused_before_the_engine_sees_it(question: Question) -> None:
    async def ask() -> None:
        async with deployment(SHOP, [engine_over(SHOP, MODEL, STREAM)]) as made:
            with pytest.raises(QueryError, match="does not take the question"):
                await made.connections.ask([0], lambda _: [PartialQuestion([0], [], [], question)])
            assert not made.workers[0].slices
            # The connection goes on.
            assert (await made.asking.look([Target(nodes()[0])])).found

    asyncio.run(ask())


@pytest.mark.parametrize("frame", [b"\xff\xff\xff\xff", b"\x00\x00\x00\x01\xc1", b"\x00\x00\x00\x02\x92\x01"])
def test_connection_that_sends_anything_else_is_closed_and_the_others_go_on(frame: bytes) -> None:
    async def ask() -> None:
        async with deployment(SHOP, [engine_over(SHOP, MODEL, STREAM)]) as made:
            host, port = made.addresses[0].split(":")
            reader, writer = await asyncio.open_connection(host, int(port))
            writer.write(b"\x00\x00\x00\x00" + frame)
            writer.write_eof()
            assert await asyncio.wait_for(reader.read(), 5) == b""
            writer.close()
            assert (await made.asking.look([Target(nodes()[0])])).found

    asyncio.run(ask())


def test_another_token_gets_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asked_by, "PATIENCE_S", 0.0)
    monkeypatch.setenv(TOKEN_VARIABLE, "secret")

    async def ask() -> None:
        async with deployment(SHOP, [engine_over(SHOP, MODEL, STREAM)], token="guess") as made:
            with pytest.raises(MovingError):
                await made.asking.look([Target(nodes()[0])])
        async with deployment(SHOP, [engine_over(SHOP, MODEL, STREAM)], token="secret") as made:
            assert (await made.asking.look([Target(nodes()[0])])).found

    asyncio.run(ask())


def test_endpoint_that_others_reach_needs_a_token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(TOKEN_VARIABLE, raising=False)
    open_to_all = shop(query={"worker_host": "0.0.0.0"})
    worker = FakeWorker(engine_over(SHOP, MODEL, STREAM), set())

    async def start() -> None:
        await Endpoint(open_to_all, worker, worker.why_not).start()

    with pytest.raises(SettingsError, match=r"query\.worker_host is 0\.0\.0\.0.*STREAM_TGAT_TOKEN"):
        asyncio.run(start())


def test_messages_survive_the_wire() -> None:
    question = Question([b"u1", b"i2"], np.array([1.5, np.nan]), 3, np.array([1], np.int32), [b"u1"])
    for each in (question, replace(question, together=True)):
        np.testing.assert_equal(vars(Question.decode(each.encode())), vars(each))
    assert b"together" not in question.encode()
    engine = engine_over(SHOP, MODEL, STREAM)
    lookup = FakeWorker(engine, {0, 1, 2, 3})

    async def ask() -> Reply:
        endpoint = Endpoint(SHOP, lookup, lookup.why_not)
        await endpoint.start()
        try:
            status, content = await endpoint._asked(question.encode())
        finally:
            await endpoint.stop()
        assert status == Status.ANSWERED
        return Reply.decode(content)

    answer = asyncio.run(ask())
    np.testing.assert_equal(vars(Reply.decode(answer.encode()).past[0]), vars(answer.past[0]))
    with pytest.raises(ValueError, match="an array of"):
        Question.decode(msgpack.packb({"node": ["|O", [1], b"12345678"]}))


def test_directory_tells_neighbours_in_the_fields_of_the_topology() -> None:
    async def ask() -> None:
        async with deployment(SHOP, [engine_over(SHOP, MODEL, STREAM)]) as made:
            found = await made.directory.neighbours(NodeAt(kind="user", id="u1", time=NOW), 4)
            rows = Oracle(MODEL, STREAM).past(b"uu1", NOW)[::-1]
            assert [each.interaction for each in found.neighbours] == [row.interaction.decode() for row in rows[:4]]
            assert [each.peer for each in found.neighbours] == [row.peer[1:].decode() for row in rows[:4]]
            assert {each.kind for each in found.neighbours} == {"item"}
            assert found.older == len(rows) - 4
            assert sum(each.weight for each in found.neighbours) == pytest.approx(1.0, rel=1e-5)
            for each in found.neighbours:
                assert each.features["channel"] == ("web", "app")[int(each.interaction[1:]) % 2]
                assert each.features["price"] == round(each.features["price"])

    asyncio.run(ask())


@pytest.mark.parametrize(
    ("name", "message"), [("x" * 50, "no node's id has more than 39"), ("\ud800", "no valid text")]
)
def test_name_that_no_node_can_have_is_refused(name: str, message: str) -> None:
    async def ask() -> None:
        async with deployment(SHOP, [engine_over(SHOP, MODEL, STREAM)]) as made:
            with pytest.raises(QueryError, match=message):
                made.directory.target(NodeAt.model_construct(kind="user", id=name, time=None))

    asyncio.run(ask())


def test_where_ids_are_shared_either_kind_is_the_same_node() -> None:
    together = shop(graph={"bipartite": False})
    model, stream = model_for(together), purchases(together)

    async def ask() -> None:
        async with deployment(together, [engine_over(together, model, stream)]) as made:
            found = [await made.directory.node(NodeAt(kind=kind, id="u1", time=NOW)) for kind in ("user", "item")]
            assert found[0].embedding == found[1].embedding
            assert found[0].predictions == found[1].predictions != {}

    asyncio.run(ask())
