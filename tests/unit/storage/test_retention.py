"""Which rows stay: the rule as written in the design, row by row, against the arena."""

from __future__ import annotations

import random

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from stream_tgat.engine import Engine
from stream_tgat.storage.layout import NODE_PREFIX
from stream_tgat.storage.stores import MemoryStore
from tests.kept_rows import kept_rows
from tests.unit.engine.small import NODE, commit, peer_embeddings, reopen, rows, small_engine

Key = tuple[float, bytes]


def must_stay(everything: list[Key], pending: list[Key], candidates: int) -> set[Key]:
    """The union over all times that can be asked of the C newest strictly before."""
    everything = sorted(everything)
    asks = [time for time, _ in pending] + [everything[-1][0], np.inf]
    return {row for ask in asks for row in [r for r in everything if r[0] < ask][-candidates:]}


def kept(engine: Engine) -> tuple[set[Key], set[Key]]:
    """All rows of the node, and those pending."""
    found = kept_rows(engine, 0, NODE)
    keys = list(zip(found.time.tolist(), found.interaction.tolist(), strict=True))
    return set(keys), {key for key, done in zip(keys, found.done, strict=True) if not done}


@given(seed=st.integers(0, 1 << 30))
@settings(max_examples=60, deadline=None)
def test_rows_that_can_be_asked_stay_and_others_go_when_nothing_is_pending(seed: int) -> None:
    draw = random.Random(seed)
    engine, store = small_engine(layers=1, neighbours=2, candidates=4), MemoryStore()
    everything: list[Key] = []
    watermark = 0.0
    for step in range(draw.randint(1, 12)):
        # Baskets: many rows of one time, more than C.
        entries = [
            (b"%02d/%02d" % (step, k), watermark + draw.choice([0.5, 1.0, 3.0])) for k in range(draw.randint(1, 9))
        ]
        everything += [(time, name) for name, time in entries]
        engine.append(0, rows(*entries))
        if draw.random() < 0.7:
            watermark += draw.choice([0.0, 0.5, 1.0])
            while len(engine.compute({0: watermark}, draw.randint(1, 5)).embeddings):
                # Only while something is pending may more stay than must.
                present, pending = kept(engine)
                assert must_stay(everything, list(pending), 4) | pending <= present
        if draw.random() < 0.3:
            commit(engine, store)
    while engine.pending():
        engine.compute({0: np.inf}, draw.randint(1, 5))
    present, _ = kept(engine)
    assert present == must_stay(everything, [], 4)
    assert kept_rows(engine, 0, NODE).degree == len(everything)


@given(seed=st.integers(0, 1 << 30))
@settings(max_examples=40, deadline=None)
def test_row_gets_the_lowest_number_that_is_free(seed: int) -> None:
    draw = random.Random(seed)
    store = MemoryStore()
    engine = small_engine(layers=1, neighbours=2, candidates=2, store=store)

    def numbers() -> set[int]:
        """By the keys of rows that the node's record lists: stored, and live."""
        records = [value for _, value in store.scan(NODE_PREFIX)]
        return {int(entry) >> 1 for value in records for entry in engine._arena.layout.read_node(value).entries}

    for step in range(draw.randint(5, 40)):
        if draw.random() < 0.5:
            before, count = numbers(), draw.randint(1, 12)
            free = (number for number in range(1000) if number not in before)
            engine.append(0, rows(*[(b"%02d/%02d" % (step, k), float(step)) for k in range(count)]))
            commit(engine, store)
            assert numbers() == before | {next(free) for _ in range(count)}
        elif draw.random() < 0.8:
            engine.compute({0: np.inf}, draw.randint(1, 20))
            commit(engine, store)
        else:
            reopen(engine, store)


def test_store_does_not_keep_what_a_burst_left() -> None:
    # 500 rows pending at once, then gone: beside those that live, at most the 2C lowest numbers stay, to be used again.
    store = MemoryStore()
    engine = small_engine(layers=1, neighbours=2, candidates=4, store=store)
    engine.append(0, rows(*[(b"%03d" % k, float(k)) for k in range(500)]))
    commit(engine, store)
    assert len(list(store.scan(b"r"))) == 500
    while engine.pending():
        engine.compute({0: np.inf}, 50)
        commit(engine, store)
    assert len(list(store.scan(b"r"))) <= 8 + 5
    engine.drop(0)
    engine.open(0, store)
    found = kept_rows(engine, 0, NODE)
    assert found.interaction.tolist() == [b"%03d" % k for k in range(495, 500)]
    assert found.degree == 500


@given(seed=st.integers(0, 1 << 30))
@settings(max_examples=60, deadline=None)
def test_peer_embeddings_leave_nothing_that_retention_would_drop(seed: int) -> None:
    # Peer embeddings before, with and long after their rows; nothing is pending in the end, and then all rows are
    # looked at anew.
    draw = random.Random(seed)
    engine = small_engine(layers=2, neighbours=2, candidates=4)
    names = [(b"%02d" % k, float(draw.randint(0, 15))) for k in range(draw.randint(1, 25))]
    steps = [("row", name) for name in names] + [("peer_embedding", name) for name in names + draw.choices(names, k=5)]
    draw.shuffle(steps)
    for kind, name in steps:
        if kind == "row":
            engine.append(0, rows(name))
        else:
            engine.fill(0, peer_embeddings(name))
        if draw.random() < 0.3:
            engine.compute({0: draw.choice([name[1], np.inf])}, draw.randint(1, 5))
    while engine.pending():
        if not engine.compute({0: np.inf}, 5).rows:
            # A late row's neighbours may be placeholders whose peer embeddings have come and gone.
            engine.fill(0, peer_embeddings(*names))
    present = kept(engine)
    in_use = engine.used_bytes()
    engine._arena.retain(engine._arena.nodes_of(0, np.array([NODE]), 0.0))
    assert kept(engine) == present
    assert engine.used_bytes() == in_use
    assert kept_rows(engine, 0, NODE).degree == len(names)
