"""Decayed sums in the stream: of all that came before, however few rows are kept, batches are cut or crashes come."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose

from stream_tgat.engine import Engine
from stream_tgat.errors import ModelError
from stream_tgat.graph.decayed import compressed
from stream_tgat.storage.stores import MemoryStore
from tests.kept_rows import kept_rows
from tests.unit.engine.small import INFINITY, NODE, commit, left, reopen, rows, small_engine, small_model

DECAYS = (3.0, 40.0)
# Every third has the time of the one before: neither sees the other.
EVENTS = [(b"%02d" % k, 2.0 + 1.5 * k - (1.5 if k % 3 == 2 else 0.0)) for k in range(30)]


def model():
    torch.manual_seed(0)
    return small_model(layers=1, head_names=("ban",), decay_s=DECAYS).eval()


def engine_over(store: MemoryStore) -> Engine:
    return small_engine(model=model(), store=store)


def sums_before(time: float, events: list[tuple[bytes, float]]) -> np.ndarray:
    """As they are defined; the edge feature of a row is the sine of its time."""
    past = [then for _, then in events if then < time]
    result = np.zeros((len(DECAYS), 2))
    for at, decay in enumerate(DECAYS):
        for then in past:
            result[at] += np.exp((then - time) / decay) * np.array([1.0, np.sin(then)])
    return result.ravel()


def expected_probability(embedding: np.ndarray, time: float, events: list[tuple[bytes, float]]) -> float:
    event = np.concatenate([[np.float32(np.sin(time))], compressed(sums_before(time, events))]).astype(np.float32)
    with torch.inference_mode():
        return float(model().predict(torch.from_numpy(embedding[None]), torch.from_numpy(event[None]))[0, 0])


@pytest.mark.parametrize("batch", [1, 7, 30])
@pytest.mark.parametrize("crash", [False, True])
def test_heads_read_the_sums_of_all_that_is_strictly_before(batch: int, crash: bool) -> None:
    """Three rows are kept; the others live on in the sums alone."""
    store = MemoryStore()
    engine, seen = engine_over(store), 0
    for at in range(0, len(EVENTS), batch):
        engine.append(0, rows(*EVENTS[at : at + batch]))
        found = engine.compute(INFINITY, 99).embeddings
        commit(engine, store)
        if crash:
            reopen(engine, store)
        for row, time in enumerate(found.time.tolist()):
            probability = expected_probability(found.embedding[row], time, EVENTS)
            assert_allclose(found.predictions[row, 0], probability, atol=1e-6)
            seen += 1
    assert seen == len(EVENTS)
    assert len(kept_rows(engine, 0, NODE).time) < 6


def test_row_that_comes_late_counts_as_of_its_own_time() -> None:
    """Older than all that is kept: what follows has it faded by its own age."""
    store = MemoryStore()
    engine = engine_over(store)
    engine.append(0, rows(*EVENTS))
    engine.compute(INFINITY, 99)
    commit(engine, store)
    late, last = (b"late", 4.1), (b"zz", 60.0)
    engine.append(0, rows(late))
    assert left(engine.compute(INFINITY, 99)) == [b"late"]
    commit(engine, store)
    reopen(engine, store)
    engine.append(0, rows(last))
    found = engine.compute(INFINITY, 99).embeddings
    expected = expected_probability(found.embedding[0], 60.0, [*EVENTS, late])
    without = expected_probability(found.embedding[0], 60.0, EVENTS)
    assert_allclose(found.predictions[0, 0], expected, atol=1e-6)
    assert abs(expected - without) > 1e-4


def test_repeats_count_once_and_items_have_no_predictions() -> None:
    store = MemoryStore()
    engine = engine_over(store)
    engine.append(0, rows(*EVENTS[:4]))
    engine.append(0, rows(*EVENTS[:4]))
    found = engine.compute(INFINITY, 99).embeddings
    assert len(found.time) == 4
    probability = expected_probability(found.embedding[3], EVENTS[3][1], EVENTS[:4])
    assert_allclose(found.predictions[3, 0], probability, atol=1e-6)
    engine.append(0, rows((b"item", 50.0), side=1))
    assert np.isnan(engine.compute(INFINITY, 99).embeddings.predictions).all()


def test_weights_with_other_time_constants_cannot_take_over() -> None:
    engine = engine_over(MemoryStore())
    with pytest.raises(ModelError, match="decay_s"):
        engine.swap(small_model(layers=1, head_names=("ban",), decay_s=(3.0,)), 8)
