"""The presets against the peers' and the paper's numbers through the engine, with its own neighbour selection."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from stream_tgat.engine import Engine, FinalEmbeddings, settle
from stream_tgat.storage.stores import MemoryStore
from tests.kept_rows import kept_rows
from tests.parity.fixtures import NAMES, Fixture, half_edges, load_fixture, node_keys

TOLERANCE = {"paper_layer": 1e-5, "reference": 5e-6, "dyglib": 5e-6}


class Replay:
    """An engine that has seen all events strictly before a time, and the embeddings that left on the way."""

    def __init__(self, fixture: Fixture) -> None:
        self._events = half_edges(fixture)
        assert (np.diff(self._events.time) >= 0).all()
        self._at = 0
        self.engine, store = Engine(fixture.model, 1), MemoryStore()
        self.left: list[FinalEmbeddings] = []
        self.engine.open(0, store)
        keys = node_keys(np.arange(len(fixture.node_features)))
        self.engine.set_features(0, keys, fixture.node_features.float().numpy())
        self.engine.save(0)

    def until(self, time: float) -> None:
        """Append, compute and deliver everything strictly before `time`."""
        end = int(np.searchsorted(self._events.time, time))
        if end > self._at:
            self.engine.append(0, self._events.take(slice(self._at, end)))
            self.left += settle(self.engine, 0, 10_000)
            self._at = end


def in_time_order(fixture: Fixture) -> Iterator[tuple[float, np.ndarray]]:
    """Query times, rising, with the queries at each."""
    for time in np.unique(fixture.times):
        yield float(time), np.flatnonzero(fixture.times == time)


@pytest.mark.parametrize("name", NAMES)
def test_engine_with_the_fixtures_weights_gives_its_embeddings(name: str) -> None:
    fixture = load_fixture(name)
    replay = Replay(fixture)
    got = np.empty(fixture.expected.shape, np.float32)
    for time, queries in in_time_order(fixture):
        replay.until(time)
        got[queries] = replay.engine.embed(0, node_keys(fixture.nodes[queries]), fixture.times[queries])
    assert np.abs(got - fixture.expected).max() <= TOLERANCE[name]
    if fixture.peer_float32 is not None:
        clean = ~fixture.flagged
        assert np.abs(got - fixture.peer_float32)[clean].max() <= 1e-5


@pytest.mark.parametrize("name", ["reference", "dyglib"])
@pytest.mark.parametrize("batch", [1, 700])
def test_embeddings_that_leave_at_events_equal_the_fixtures(name: str, batch: int) -> None:
    fixture = load_fixture(name)
    replay = Replay(fixture)
    count = len(fixture.interactions)
    for at in range(0, count if batch > 1 else 400, batch):
        replay.engine.append(0, half_edges(fixture, slice(at, min(count, at + batch))))
        replay.left += settle(replay.engine, 0, 10_000)
    left = FinalEmbeddings.concatenate(replay.left)
    found = {
        (node, time): vector
        for node, time, vector in zip(left.node.tolist(), left.time.tolist(), left.embedding, strict=True)
    }
    kinds, keys = np.tile(fixture.raw["query_kind"], 2), node_keys(fixture.nodes).tolist()
    at_events = [q for q in np.flatnonzero(kinds == 0) if (keys[q], fixture.times[q]) in found]
    assert len(at_events) >= (50 if batch > 1 else 5)
    got = np.array([found[keys[q], fixture.times[q]] for q in at_events])
    assert np.abs(got - fixture.expected[at_events]).max() <= TOLERANCE[name]


@pytest.mark.parametrize("name", ["reference", "dyglib"])
@pytest.mark.parametrize("end", ["src", "dst"])
def test_engine_keeps_and_selects_the_fixtures_neighbours(name: str, end: str) -> None:
    fixture = load_fixture(name)
    raw, neighbours = fixture.raw, fixture.model.config.neighbours
    replay = Replay(fixture)
    expected = list(zip(raw[f"{end}_hop1_nodes"], raw[f"{end}_hop1_events"], raw[f"{end}_hop1_times"], strict=True))
    nodes, times = raw[f"query_{end}"][: len(expected)], raw["query_time"][: len(expected)]
    for q in np.argsort(times, kind="stable"):
        replay.until(times[q])
        rows = kept_rows(replay.engine, 0, b"n%d" % nodes[q])
        peers, events, when = (array[array != 0] for array in expected[q])
        newest = slice(max(0, len(rows.time) - neighbours), None)
        assert rows.peer[newest].tolist() == [b"n%d" % peer for peer in peers]
        assert rows.interaction[newest].tolist() == [b"%012d" % (event - 1) for event in events]
        assert rows.time[newest].tolist() == when.tolist()
