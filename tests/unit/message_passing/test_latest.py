"""Topic `latest`: when nodes are written, when they are written again, and what the state is told of it."""

from __future__ import annotations

import time
from typing import Any
from uuid import UUID

import numpy as np
import orjson
import pytest

from stream_tgat.engine import Engine
from stream_tgat.message_passing.latest import LATEST_KEY, LatestWriter
from stream_tgat.message_passing.outputs import OutputEncoder
from stream_tgat.storage.stores import MemoryStore
from stream_tgat.topology import Topology
from stream_tgat.wire.packets import PacketLayout
from tests.unit.engine.small import peer_embeddings, rows, small_engine, small_model

TOPOLOGY = Topology.model_validate({"name": "test", "graph": {"bipartite": False}})
TOPICS = (UUID(int=1), UUID(int=2))


def written(deliveries: list[Any]) -> dict[str, Any]:
    """What went to topic `latest`, by node."""
    assert {each.topic for each in deliveries} <= {"latest"}
    contents = [orjson.loads(record.value) for each in deliveries for record in each.records]
    return {content["node"]: content for content in contents}


def writer_on(
    engine: Engine, store: MemoryStore, topic: UUID | None = TOPICS[0], *, is_on: bool = True
) -> LatestWriter:
    encoder = OutputEncoder(TOPOLOGY, PacketLayout(40, 0, 0, (0, 3)), {"latest": 1, "propagation": 1})
    made = LatestWriter(engine, encoder, topic, is_on=is_on)
    made.open(0, store)
    return made


def all_again(writer: LatestWriter) -> dict[str, Any]:
    """What is written until nothing is left."""
    found: dict[str, Any] = {}
    while some := written(writer.again()):
        found |= some
    return found


def told(writer: LatestWriter, store: MemoryStore) -> bool:
    """Whether the state is told something, which is stored."""
    changes = writer.account(0)
    assert [key for key, _ in changes] in ([], [LATEST_KEY])
    store.write(changes)
    return bool(changes)


def test_changed_node_is_written_once_as_it_is_just_after_its_newest_row() -> None:
    engine = small_engine(layers=1)
    writer = writer_on(engine, MemoryStore())
    engine.append(0, rows((b"a", 1.0), (b"b", 2.0)))
    engine.take_changes(0)
    (node,) = written(writer.changed([0])).values()
    assert (node["timestamp"], node["interactions"], node["complete"], node["model"]) == (2.0, 2, True, engine.version)
    just_after = engine.embed(0, np.array([b"n0"]), np.array([np.nextafter(2.0, 3.0)]))
    np.testing.assert_allclose(node["embedding"], just_after[0], atol=1e-6)
    engine.take_changes(0)
    assert writer.changed([]) == []


def test_node_that_lacks_something_is_passed_over_until_it_has_come_but_not_twice() -> None:
    engine = small_engine(layers=2)
    writer = writer_on(engine, MemoryStore())
    engine.append(0, rows((b"a", 1.0)))
    engine.take_changes(0)
    assert written(writer.changed([0])) == {}
    engine.fill(0, peer_embeddings((b"a", 1.0)))
    engine.take_changes(0)
    assert [each["complete"] for each in written(writer.changed([0])).values()] == [True]
    # One that always lacks something is told all the same.
    for name, at, told in ((b"b", 2.0, []), (b"c", 3.0, [False]), (b"d", 4.0, [])):
        engine.append(0, rows((name, at)))
        engine.take_changes(0)
        assert [each["complete"] for each in written(writer.changed([0])).values()] == told


@pytest.fixture
def stored() -> tuple[Engine, MemoryStore]:
    """An engine with a node that is stored."""
    store = MemoryStore()
    engine = small_engine(layers=1, store=store)
    engine.append(0, rows((b"a", 1.0)))
    engine.save(0)
    return engine, store


def test_what_is_stored_is_written_once_for_each_model_and_topic(stored: tuple[Engine, MemoryStore]) -> None:
    engine, store = stored
    writer = writer_on(engine, store)
    assert all_again(writer).keys() == {"0"}
    assert told(writer, store)
    assert not told(writer, store)
    # The next start finds that it is done.
    writer = writer_on(engine, store)
    assert not writer.is_due(np.inf)
    assert all_again(writer) == {}
    # Until another model serves, which is told when all are written.
    engine.swap(small_model(layers=1), engine.version + 1)
    writer.renew()
    assert not writer.has_news(0)
    assert {each["model"] for each in all_again(writer).values()} == {engine.version}
    assert told(writer, store)
    # Or the topic is another one.
    writer = writer_on(engine, store, TOPICS[1])
    assert all_again(writer).keys() == {"0"}


def test_many_nodes_are_written_again_a_few_at_a_time(stored: tuple[Engine, MemoryStore]) -> None:
    engine, store = stored
    for n in range(150):
        engine.append(0, rows((b"a", 1.0), node=b"n%03d" % n))
    engine.save(0)
    writer = writer_on(engine, store)
    assert [len(written(writer.again())) for _ in range(4)] == [64, 64, 23, 0]
    # Meanwhile the stream has its turn.
    writer = writer_on(engine, store)
    now = time.monotonic()
    assert writer.is_due(now)
    writer.again()
    assert not writer.is_due(now)
    assert writer.is_due(time.monotonic() + 0.1)


def test_what_was_missed_is_written_when_it_can_be(stored: tuple[Engine, MemoryStore]) -> None:
    engine, store = stored
    writer = writer_on(engine, store)
    all_again(writer)
    assert told(writer, store)
    # While the topic is off, or the partition's model is not here, changes are not written.
    off = writer_on(engine, store, is_on=False)
    engine.append(0, rows((b"b", 2.0)))
    engine.take_changes(0)
    assert off.changed([0]) == off.again() == []
    assert told(off, store)
    writer = writer_on(engine, store)
    assert all_again(writer)["0"]["timestamp"] == 2.0
    assert told(writer, store)
    writer.miss(0)
    assert told(writer, store)
    assert writer_on(engine, store).is_due(np.inf)
