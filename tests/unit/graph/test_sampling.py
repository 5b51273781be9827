"""Samplers: always from the past, never twice the same row, deterministic, and of the right distribution."""

from collections import Counter
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stream_tgat.graph.history import History, Neighbourhood
from stream_tgat.graph.interactions import Interactions
from stream_tgat.graph.sampling import Sampler, inverse_timespan, recent, uniform, uniform_places

SAMPLERS: dict[str, Sampler] = {
    "recent": recent,
    "uniform": uniform(),
    "uniform of candidates": uniform(6),
    "inverse timespan": inverse_timespan(6),
}


def star(times: list[float]) -> History:
    """Node 0 meets 1, 2, 3, … at these times."""
    return History(Interactions.in_time_order([0] * len(times), range(1, len(times) + 1), times))


def assert_same(one: Neighbourhood, other: Neighbourhood) -> None:
    for name in ("node", "event", "time", "side", "mask"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))


@settings(max_examples=60, deadline=None)
@given(name=st.sampled_from(sorted(SAMPLERS)), k=st.integers(1, 5), count=st.integers(0, 30), seed=st.integers(0, 99))
def test_every_sampler_takes_different_past_rows_in_order(name: str, k: int, count: int, seed: int) -> None:
    random = np.random.default_rng(seed)
    times = np.sort(random.integers(0, 10, count)).astype(np.float64)
    history = History(
        Interactions.in_time_order(random.integers(0, 4, count), random.integers(0, 4, count), times), node_count=4
    )
    nodes, queries = random.integers(0, 4, 9), random.integers(0, 12, 9).astype(np.float64)
    found = SAMPLERS[name](history, nodes, queries, k)
    degree = history.looked_back(nodes, queries)[0]
    np.testing.assert_array_equal(found.mask.sum(1), np.minimum(degree, k))
    interactions = history.interactions
    for row in range(9):
        mask = found.mask[row]
        assert (np.diff(mask.astype(int)) >= 0).all(), "padding lies on the left"
        rows = list(zip(found.event[row][mask], found.side[row][mask], strict=True))
        assert rows == sorted(set(rows))
        for (event, side), peer, time in zip(rows, found.node[row][mask], found.time[row][mask], strict=True):
            ends = (interactions.source[event], interactions.destination[event])
            assert (ends[side], ends[1 - side]) == (nodes[row], peer)
            assert time == interactions.time[event] < queries[row]
        assert not found.node[row][~mask].any()


@pytest.mark.parametrize("name", sorted(SAMPLERS))
def test_every_sampler_depends_on_node_and_time_only(name: str) -> None:
    history = star([float(i) for i in range(40)])
    times = np.linspace(1.0, 45.0, 30)
    nodes = np.zeros(30, np.int64)
    together = SAMPLERS[name](history, nodes, times, 3)
    for row in range(30):
        alone = SAMPLERS[name](history, nodes[row : row + 1], times[row : row + 1], 3)
        np.testing.assert_array_equal(alone.event[0], together.event[row])
    assert_same(together, SAMPLERS[name](history, nodes, times, 3))


@pytest.mark.parametrize("make", [lambda seed: uniform(seed=seed), lambda seed: inverse_timespan(40, seed=seed)])
def test_another_seed_gives_another_sample(make: object) -> None:
    history, times = star([float(i) for i in range(40)]), np.linspace(41.0, 45.0, 30)
    nodes = np.zeros(30, np.int64)
    one, other = (make(seed)(history, nodes, times, 5) for seed in (0, 1))  # type: ignore[operator]
    assert (one.event != other.event).any(1).all()


def test_uniform_of_candidates_takes_from_the_newest() -> None:
    history, times = star([float(i) for i in range(40)]), np.linspace(41.0, 45.0, 300)
    found = uniform(6)(history, np.zeros(300, np.int64), times, 3)
    assert sorted(set(found.event.ravel().tolist())) == list(range(34, 40))


def test_uniform_places_every_subset_is_equally_likely() -> None:
    rows = 20_000
    places, mask = uniform_places(np.full(rows, 5), 3, np.arange(rows).astype(np.uint64))
    assert mask.all()
    counts = Counter(map(tuple, places.tolist()))
    assert set(counts) == set(combinations(range(5), 3))
    expected = rows / 10
    chi_squared = sum((count - expected) ** 2 / expected for count in counts.values())
    assert chi_squared < 27.9  # 9 degrees of freedom, p = 0.001


def test_inverse_timespan_first_draw_follows_the_weights() -> None:
    """Spans 1, 2 and 4 s: weights 4/7, 2/7 and 1/7."""
    rows = 20_000
    history = History(
        Interactions.in_time_order(
            np.tile(np.arange(rows), 3), np.full(3 * rows, rows), np.repeat([0.0, 2.0, 3.0], rows)
        )
    )
    found = inverse_timespan(3)(history, np.arange(rows), np.full(rows, 4.0), 1)
    shares = [(found.time == time).mean() for time in (3.0, 2.0, 0.0)]
    np.testing.assert_allclose(shares, [4 / 7, 2 / 7, 1 / 7], atol=0.015)
