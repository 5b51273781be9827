"""Which half-edges come behind: those that a later row of their node was computed without, and no others."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from stream_tgat.engine import Engine
from stream_tgat.storage import tables
from stream_tgat.storage.stores import MemoryStore
from tests.kept_rows import kept_rows
from tests.unit.engine.promise import check_what_no_marked_row_has_touched
from tests.unit.engine.small import INFINITY, NODE, commit, left, peer_embeddings, reopen, rows, small_engine
from tests.unit.engine.streams import awkward_stream
from tests.unit.nn.models import random_model


def behind(engine: Engine, *entries: tuple[bytes, float], passed: float = -np.inf, **which: Any) -> list[bool]:
    half = rows(*entries, **which)
    return engine.append(0, replace(half, passed=np.full(len(half), passed))).behind.tolist()


def test_row_is_behind_only_of_later_computed_rows_of_its_own_node() -> None:
    engine = small_engine(layers=1)
    engine.append(0, rows((b"a", 1.0), (b"c", 3.0)))
    engine.compute({0: 2.0}, 10)
    assert behind(engine, (b"b", 2.0)) == [False], "c still waits, and will see it"
    engine.compute(INFINITY, 10)
    assert behind(engine, (b"d", 2.5)) == [True]
    assert behind(engine, (b"e", 3.0)) == [False], "rows of one time do not see each other"
    assert behind(engine, (b"f", 2.5), node=b"other") == [False]
    assert behind(engine, (b"d", 2.5)) == [False], "a repeat is nothing new"
    late = engine.compute(INFINITY, 10).embeddings
    assert dict(zip(late.interaction.tolist(), late.late.tolist(), strict=True)) == {
        b"d": True,
        b"e": False,
        b"f": False,
    }


def test_row_is_behind_as_soon_as_a_later_one_has_looked_back() -> None:
    # Two layers, no peer embedding for c's neighbour: c's layer 1 has gone to its peer, its embedding waits.
    engine = small_engine(layers=2)
    engine.append(0, rows((b"a", 1.0), (b"c", 3.0)))
    computed = engine.compute(INFINITY, 10)
    assert computed.peer_embeddings[0].interaction.tolist() == [b"a", b"c"]
    assert left(computed) == [b"a"]
    assert engine.pending() == 1
    assert behind(engine, (b"b", 2.0)) == [True]


@pytest.mark.parametrize(("activity", "expected"), [(True, [True]), (False, [False])])
def test_activity_is_a_look_back_and_own_features_are_none(activity: bool, expected: list[bool]) -> None:
    engine = small_engine(layers=1, activity=activity, node_features=1, candidates=5)
    engine.append(0, rows((b"a", 1.0), (b"c", 3.0)))
    engine.compute(INFINITY, 10)
    assert engine.pending() == 1, "c waits for the peer embedding of a"
    assert behind(engine, (b"b", 2.0)) == expected


def test_row_that_the_watermark_has_passed_is_behind_whether_or_not_it_was_computed_yet() -> None:
    """So that it is after a crash too, when what was computed, and sent, before is computed again."""
    engine = small_engine(layers=1)
    engine.append(0, rows((b"c", 3.0)))
    assert behind(engine, (b"a", 1.0), passed=2.9) == [False]
    assert behind(engine, (b"b", 2.0), passed=3.0) == [True]
    assert behind(engine, (b"d", 4.0), passed=9.0) == [False], "nothing later is there"


@pytest.mark.parametrize("crash", [False, True])
def test_row_older_than_all_that_is_kept_is_behind(crash: bool) -> None:
    engine, store = small_engine(layers=1), MemoryStore()
    engine.append(0, rows(*[(b"%02d" % k, float(k)) for k in range(30)]))
    engine.compute(INFINITY, 99)
    commit(engine, store)
    if crash:
        reopen(engine, store)
    assert len(kept_rows(engine, 0, NODE).time) < 5
    assert behind(engine, (b"early", 3.5)) == [True]


def test_half_edge_of_a_placeholder_comes_behind_like_any_other() -> None:
    engine = small_engine(layers=2)
    engine.append(0, rows((b"c", 3.0)))
    engine.compute(INFINITY, 10)
    engine.fill(0, peer_embeddings((b"b", 2.0)))
    assert behind(engine, (b"b", 2.0)) == [True]


def test_rows_of_a_node_leave_together_after_any_number_of_passes() -> None:
    engine = small_engine(layers=1)
    engine._arena.t.counters[tables.PASS] = 2**31 - 1
    engine.append(0, rows((b"a", 1.0), (b"b", 2.0)))
    assert left(engine.compute(INFINITY, 10)) == [b"a", b"b"]


@pytest.mark.parametrize("shape", [{"layers": 1}, {"layers": 2}, {"layers": 2, "activity": True}])
@pytest.mark.parametrize("seed", range(6))
def test_what_no_marked_row_has_touched_equals_the_single_pass_in_any_order_of_arrival(
    shape: dict[str, Any], seed: int
) -> None:
    """Interactions out of order, computed as far as each has come: all else is as if they had been in order."""
    draw = random.Random(seed)
    model = random_model(torch.float32, edge_features=2, neighbours=20, candidates=20, **shape)
    half_edges = awkward_stream(draw, 60, 2, nodes=40, span=600)
    order = sorted(range(60), key=lambda k: half_edges.time[2 * k] + draw.uniform(0.0, 20.0))
    engine = Engine(model, 7, id_bytes=16)
    engine.open(0, MemoryStore())
    marked: set[tuple[bytes, int]] = set()
    found: dict[tuple[bytes, int], Any] = {}
    watermark = -np.inf
    for k in order:
        arriving = half_edges.take(slice(2 * k, 2 * k + 2))
        appended = engine.append(0, replace(arriving, passed=np.full(2, watermark)))
        late = arriving.take(appended.behind)
        marked |= set(zip(late.interaction.tolist(), late.side.tolist(), strict=True))
        watermark = max(watermark, float(arriving.time[0]))
        while (computed := engine.compute({0: watermark}, 100)).rows:
            for message in computed.peer_embeddings:
                engine.fill(0, message)
            names = zip(computed.embeddings.interaction.tolist(), computed.embeddings.side.tolist(), strict=True)
            found |= dict(zip(names, computed.embeddings.embedding, strict=True))
    while (computed := engine.compute(INFINITY, 100)).rows:
        for message in computed.peer_embeddings:
            engine.fill(0, message)
        names = zip(computed.embeddings.interaction.tolist(), computed.embeddings.side.tolist(), strict=True)
        found |= dict(zip(names, computed.embeddings.embedding, strict=True))
    assert marked
    assert check_what_no_marked_row_has_touched(model, half_edges, marked, found) > 30
