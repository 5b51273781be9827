"""A node's past and all nodes as of a time, as a plain list of all moments has them, within a bound."""

from __future__ import annotations

import math
from collections import defaultdict

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stream_tgat.query.watching.moments import Name, Remembered, RememberedMoment
from stream_tgat.query.watching.projection import Projections, fitted

FEW = 2_200
"""Bytes for six rows of two numbers and one head."""


def moment(number: int, time: float, model: int = 1) -> RememberedMoment:
    vector = np.array([number, -number], np.float32)
    return RememberedMoment(f"p{number}", "x", time, np.array([number / 100], np.float32), vector, model, False)


EVENTS = st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 8), st.integers(1, 2)), max_size=30)


@settings(max_examples=60, deadline=None)
@given(events=EVENTS, at=st.integers(0, 9))
def test_moments_and_snapshots_are_those_of_the_newest_rows(events: list[tuple[str, int, int]], at: int) -> None:
    remembered = Remembered(["returns"], FEW)
    for number, (node, time, model) in enumerate(events):
        remembered.put(("user", node), moment(number, time, model))
    rows = FEW // (8 + 4 + 300)
    kept = list(enumerate(events))[-rows:]
    assert len(remembered) == len(kept)
    by_node: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for number, (node, time, _) in kept:
        by_node[node].append((time, number))
    assert remembered.nodes == len(by_node)
    for node in "abc":
        told = [each.interaction for each in remembered.moments(("user", node), 3)]
        assert told == [f"p{number}" for _, number in sorted(by_node[node])[-3:]]
        later = [time for time, _ in by_node[node] if time > at]
        assert remembered.next_time(("user", node), at) == min(later, default=math.inf)
    found = remembered.as_of(at, 100, model=1)
    newest = {
        node: max(
            (time, number) for number, (other, time, model) in kept if other == node and model == 1 and time <= at
        )
        for node in {node for _, (node, time, model) in kept if model == 1 and time <= at}
    }
    assert {
        name[1]: (time, vector[0]) for name, time, vector in zip(found.name, found.time, found.vector, strict=True)
    } == newest


def test_names_are_found_by_their_beginning_whatever_the_case(monkeypatch: pytest.MonkeyPatch) -> None:
    remembered = Remembered([])
    names: list[Name] = [("user", "Ann"), ("item", "anchovy"), ("user", "bob"), ("user", "ann2"), ("item", "Ångström")]
    for number, name in enumerate(names):
        remembered.put(
            name, RememberedMoment("p", "x", number, np.empty(0, np.float32), np.ones(2, np.float32), 1, False)
        )
    assert remembered.names("AN", None, 10) == [("item", "anchovy"), ("user", "Ann"), ("user", "ann2")]
    assert remembered.names("an", "user", 1) == [("user", "Ann")]
    assert remembered.names("ång", None, 10) == [("item", "Ångström")]
    assert remembered.names("zz", None, 10) == []
    assert len(remembered.names("", None, 100)) == 5


def test_sample_of_a_map_holds_the_same_nodes_at_every_time() -> None:
    remembered = Remembered([])
    for time in range(3):
        for node in range(50):
            vector = np.array([node, time], np.float32)
            remembered.put(
                ("user", str(node)), RememberedMoment("p", "x", time, np.empty(0, np.float32), vector, 1, False)
            )
    early, late = remembered.as_of(0, 10), remembered.as_of(9, 10)
    assert early.name == late.name
    assert set(early.vector[:, 1]) == {0.0}
    assert set(late.vector[:, 1]) == {2.0}


def test_plane_is_that_of_the_largest_variance_and_takes_new_points_as_they_are() -> None:
    rng = np.random.default_rng(2)
    # Variance along two known directions of five; what is small in the others does not matter.
    axes, _ = np.linalg.qr(rng.standard_normal((5, 5)))
    spread = rng.standard_normal((400, 5)) * [9.0, 4.0, 0.1, 0.1, 0.1]
    vector = (spread @ axes.T + 3.0).astype(np.float32)
    plane = fitted(vector, 7)
    assert plane is not None
    assert plane.share == pytest.approx(1.0, abs=0.01)
    np.testing.assert_allclose(np.abs(plane.axes @ axes[:, :2]), np.eye(2), atol=0.05)
    placed = plane.place(vector[:3])
    np.testing.assert_allclose(
        np.abs(placed - plane.place(vector[3:6])), np.abs(plane.axes @ (vector[:3] - vector[3:6]).T).T, atol=1e-4
    )
    assert fitted(vector[:2], 7) is None
    assert fitted(np.ones((9, 5), np.float32), 7) is None


def test_plane_is_kept_until_another_model_comes_or_there_are_many_more_nodes() -> None:
    remembered, rng = Remembered([]), np.random.default_rng(5)

    def come(first: int, end: int, model: int) -> None:
        for node in range(first, end):
            vector = rng.standard_normal(4).astype(np.float32)
            remembered.put(
                ("item", str(node)), RememberedMoment("p", "x", node, np.empty(0, np.float32), vector, model, False)
            )

    projections = Projections(remembered)
    assert projections.newest() is None
    come(0, 10, 1)
    first = projections.newest()
    come(10, 30, 1)
    assert projections.newest() is first
    come(30, 60, 1)
    grown = projections.newest()
    assert grown is not first
    come(0, 10, 2)
    other = projections.newest()
    assert other is not None
    assert (other.model, other.fitted_on) == (2, 10)
