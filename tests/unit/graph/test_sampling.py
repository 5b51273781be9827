"""Samplers: always from the past, never twice the same row, deterministic, and of the right distribution."""

from collections import Counter
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stream_tgat.graph.adjacency import Neighbourhood, TemporalAdjacency
from stream_tgat.graph.interactions import Interactions
from stream_tgat.graph.sampling import Sampler, inverse_timespan, recent, uniform

SAMPLERS: dict[str, Sampler] = {
    "recent": recent,
    "uniform": uniform(6),
    "uniform, another seed": uniform(6, 1),
    "inverse timespan": inverse_timespan(6),
}


def star(times: list[float]) -> TemporalAdjacency:
    """Node 0 meets 1, 2, 3, … at these times."""
    return TemporalAdjacency(Interactions.in_time_order([0] * len(times), range(1, len(times) + 1), times))


def assert_same(one: Neighbourhood, other: Neighbourhood) -> None:
    for name in ("node", "event", "time", "side", "mask"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))


@settings(max_examples=60, deadline=None)
@given(name=st.sampled_from(sorted(SAMPLERS)), k=st.integers(1, 5), count=st.integers(0, 30), seed=st.integers(0, 99))
def test_every_sampler_takes_different_past_rows_in_order(name: str, k: int, count: int, seed: int) -> None:
    random = np.random.default_rng(seed)
    times = np.sort(random.integers(0, 10, count)).astype(np.float64)
    history = TemporalAdjacency(
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


@pytest.mark.parametrize("make", [lambda seed: uniform(40, seed), lambda seed: inverse_timespan(40, seed)])
def test_another_seed_gives_another_sample(make: object) -> None:
    history, times = star([float(i) for i in range(40)]), np.linspace(41.0, 45.0, 30)
    nodes = np.zeros(30, np.int64)
    one, other = (make(seed)(history, nodes, times, 5) for seed in (0, 1))  # type: ignore[operator]
    assert (one.event != other.event).any(1).all()


def test_uniform_of_candidates_takes_from_the_newest() -> None:
    history, times = star([float(i) for i in range(40)]), np.linspace(41.0, 45.0, 300)
    found = uniform(6)(history, np.zeros(300, np.int64), times, 3)
    assert sorted(set(found.event.ravel().tolist())) == list(range(34, 40))


SPACINGS = {
    "seconds": [1.6e9 + i for i in range(6)],
    "microseconds": [1.6e9 + i * 1e-6 for i in range(6)],
    "days": [1.6e9 + i * 86_400.0 for i in range(6)],
    "one time": [1.6e9] * 6,
    "two times": [1.6e9] * 3 + [1.6e9 + 1.0] * 3,
}


@pytest.mark.parametrize("spacing", SPACINGS)
@pytest.mark.parametrize("step", [1e-3, 1.0, 86_400.0])
def test_uniform_every_subset_is_equally_likely(spacing: str, step: float) -> None:
    """Of the 5 newest of 6, whatever the clock."""
    queries = 20_000
    times = 1.6e9 + 1e6 + step * np.arange(queries)
    found = uniform(5)(star(SPACINGS[spacing]), np.zeros(queries, np.int64), times, 3)
    assert_equally_likely(found.event)


def test_uniform_every_subset_is_equally_likely_over_seeds() -> None:
    history, node, time = star(SPACINGS["seconds"]), np.zeros(1, np.int64), np.full(1, 1.7e9)
    assert_equally_likely(np.concatenate([uniform(5, seed)(history, node, time, 3).event for seed in range(1000)]))


def assert_equally_likely(events: np.ndarray) -> None:
    """Draws [n, 3] from interactions 1 … 5, each in order."""
    counts = Counter(map(tuple, events.tolist()))
    assert set(counts) == set(combinations(range(1, 6), 3))
    expected = len(events) / 10
    chi_squared = sum((count - expected) ** 2 / expected for count in counts.values())
    assert chi_squared < 33.7  # 9 degrees of freedom, p = 0.0001


def test_uniform_draws_of_one_query_are_independent_between_nodes_of_other_times() -> None:
    """Two nodes whose past has other times: what the one draws says nothing about the other."""
    one, other, queries = star([float(i) for i in range(4)]), star([i + 0.5 for i in range(4)]), 20_000
    nodes, times = np.zeros(queries, np.int64), 10.0 + np.arange(queries)
    pairs = zip(*(uniform(4)(history, nodes, times, 1).event[:, 0].tolist() for history in (one, other)), strict=True)
    expected = queries / 16
    counts = Counter(pairs)
    assert len(counts) == 16
    assert sum((count - expected) ** 2 / expected for count in counts.values()) < 44.3  # 15 degrees, p = 0.0001


def test_inverse_timespan_first_draw_follows_the_weights() -> None:
    """Spans 1, 2 and 4 s: weights 4/7, 2/7 and 1/7."""
    nodes, begin = np.arange(20_000), 10.0 * np.arange(20_000)
    times = np.concatenate([begin, begin + 2.0, begin + 3.0])
    history = TemporalAdjacency(Interactions.in_time_order(np.tile(nodes, 3), np.full(len(times), len(nodes)), times))
    found = inverse_timespan(3)(history, nodes, begin + 4.0, 1).time[:, 0] - begin
    shares = [(found == after).mean() for after in (3.0, 2.0, 0.0)]
    np.testing.assert_allclose(shares, [4 / 7, 2 / 7, 1 / 7], atol=0.015)
