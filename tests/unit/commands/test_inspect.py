"""`inspect` reads what an engine wrote, from a RocksDB that is open in another place, and agrees with the engine."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import orjson
import pytest
import torch
from click.testing import CliRunner

from stream_tgat.commands.inspect import inspect_command, open_state, read_neighbourhood
from stream_tgat.engine import Engine, HalfEdges, both_halves, single_pass
from stream_tgat.errors import DataError
from stream_tgat.nn.model import Model, ModelConfig
from stream_tgat.storage.stores import RocksStore
from stream_tgat.topology import Graph, Head, Kafka, ModelShape, Topology
from tests.kept_rows import kept_rows

CANDIDATES = 4
TOPOLOGY = Topology.model_validate(
    {
        "name": "test",
        "kafka": Kafka(partitions=1),
        "graph": Graph(bipartite=True),
        "model": ModelShape(
            layers=2, neighbours=3, candidates=CANDIDATES, hidden=8, time_dim=4, attention_heads=2, preset="paper"
        ),
        "features": [{"name": "x", "kind": "vector", "size": 3}],
        "heads": [Head(name="ban")],
    }
)


def interactions(count: int) -> HalfEdges:
    """User "ann" with items "t0" … in turn, one a second from 100 on, and user "tea", whose name an item has too."""
    rng = np.random.default_rng(0)
    users = np.array([b"uann", b"utea"], "S40")[np.arange(count) % 2]
    items = np.array([b"i" + b"t%d" % (i % 5) if i else b"itea" for i in range(count)], "S40")
    ids = np.array([b"x/%04d" % i for i in range(count)], "S40")
    edge = rng.normal(size=(count, 3)).astype(np.float32)
    return both_halves(users, items, ids, 100.0 + np.arange(count), edge)


@pytest.fixture
def engine() -> Engine:
    torch.manual_seed(0)
    shape = TOPOLOGY.model
    config = ModelConfig(
        layers=shape.layers,
        neighbours=shape.neighbours,
        candidates=shape.candidates,
        hidden=shape.hidden,
        time_dim=shape.time_dim,
        edge_features=3,
        head_names=("ban",),
    )
    return Engine(Model(config).eval(), 7, id_bytes=TOPOLOGY.id_bytes, cache_bytes=1 << 24)


@pytest.fixture
def data(tmp_path: Path, engine: Engine) -> Iterator[Path]:
    """A worker's data folder whose database is open, and so locked, as in a running worker."""
    tables = tmp_path / "worker-1" / "v1" / "tables"
    tables.mkdir(parents=True)
    store = RocksStore(tables / "graph-0.db")
    single_pass(engine, interactions(30), 5, store=store)
    yield tmp_path
    store.close()


@pytest.mark.parametrize("node", [b"uann", b"utea", b"it3", b"itea"])
def test_neighbourhood_read_from_disk_is_the_engines(node: bytes, data: Path, engine: Engine) -> None:
    expected = kept_rows(engine, 0, node)
    with open_state(data, 0) as reader:
        found = read_neighbourhood(reader, TOPOLOGY, node)
    assert found is not None
    assert found.evicted + len(found.rows) == expected.degree
    assert [row.interaction.encode() for row in found.rows] == expected.interaction.tolist()
    assert [row.peer.encode() for row in found.rows] == [peer[1:] for peer in expected.peer.tolist()]
    assert [row.time for row in found.rows] == expected.time.tolist()
    assert [row.side == "item" for row in found.rows] == expected.side.astype(bool).tolist()
    assert [row.done for row in found.rows] == expected.done.tolist()
    assert [
        [-1 if peer_embedding is None else peer_embedding for peer_embedding in row.peer_embeddings]
        for row in found.rows
    ] == expected.versions.tolist()
    np.testing.assert_array_equal([row.edge for row in found.rows], expected.edge)


def test_user_with_more_interactions_than_are_kept_is_counted_in_full(data: Path) -> None:
    with open_state(data, 0) as reader:
        found = read_neighbourhood(reader, TOPOLOGY, b"uann")
    assert found is not None
    assert found.evicted + len(found.rows) == 15
    assert [row.time for row in found.rows] == [100.0 + i for i in range(28 - 2 * (len(found.rows) - 1), 30, 2)]
    assert found.evicted > 0
    assert found.alerts["ban"][0] is not None


def test_state_written_after_the_first_look_is_seen_by_the_next(tmp_path: Path, engine: Engine) -> None:
    (tmp_path / "tables").mkdir()
    store = RocksStore(tmp_path / "tables" / "graph-0.db")
    events = interactions(30)
    engine.open(0, store)
    for part in (slice(0, 20), slice(20, 60)):
        engine.append(0, events.take(part))
        engine.save(0)
        with open_state(tmp_path, 0) as reader:
            found = read_neighbourhood(reader, TOPOLOGY, b"uann")
        assert found is not None
        assert found.rows[-1].time == events.time[part.stop - 3]
        assert not found.rows[-1].done
    store.close()


def test_copy_that_has_come_furthest_is_read(tmp_path: Path, engine: Engine) -> None:
    stores = []
    for worker, count in (("a", 30), ("b", 10)):
        (tmp_path / worker / "tables").mkdir(parents=True)
        stores.append(RocksStore(tmp_path / worker / "tables" / "graph-0.db"))
        single_pass(engine, interactions(count), 5, store=stores[-1])
        engine.drop(0)
        stores[-1].write([(b"__faust\0offset__", b"%d" % count)])
    with open_state(tmp_path, 0) as reader:
        found = read_neighbourhood(reader, TOPOLOGY, b"uann")
    assert found is not None
    assert found.rows[-1].time == 128.0
    for store in stores:
        store.close()


def test_command_shows_newest_first_and_prefers_the_user(data: Path) -> None:
    result = CliRunner().invoke(inspect_command(TOPOLOGY), ["tea", "--data-dir", str(data), "--limit", "2"])
    assert result.exit_code == 0, result.output
    assert "user tea, partition 0: 15 interactions" in result.output
    lines = [line for line in result.output.splitlines() if "1970-01-01" in line]
    assert [line.split()[1] for line in lines] == ["00:02:09", "00:02:07"]
    item = CliRunner().invoke(inspect_command(TOPOLOGY), ["tea", "--data-dir", str(data), "--kind", "item", "--json"])
    assert item.exit_code == 0, item.output
    content = orjson.loads(item.output)
    assert (content["kind"], content["interactions"]) == ("item", 1)
    assert [(row["peer"], row["time"]) for row in content["rows"]] == [("ann", 100.0)]


def test_node_without_past_and_folder_without_state_are_said(data: Path, tmp_path: Path) -> None:
    unknown = CliRunner().invoke(inspect_command(TOPOLOGY), ["bob", "--data-dir", str(data)])
    assert unknown.exit_code == 1
    assert "'bob' has no past in the state below" in unknown.output
    (tmp_path / "empty").mkdir()
    nowhere = CliRunner().invoke(inspect_command(TOPOLOGY), ["ann", "--data-dir", str(tmp_path / "empty")])
    assert nowhere.exit_code == 1
    assert "--datadir" in nowhere.output
    with pytest.raises(DataError, match="no state of partition 3"), open_state(data, 3):
        pass
