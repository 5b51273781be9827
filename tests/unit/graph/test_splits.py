import numpy as np
import pytest

from stream_tgat.errors import DataError
from stream_tgat.graph.interactions import Interactions
from stream_tgat.graph.splits import chronological_split, hold_out_nodes


def test_split_shares() -> None:
    split = chronological_split(np.arange(20.0))
    assert (split.train, split.validation, split.test) == (slice(0, 14), slice(14, 17), slice(17, 20))


def test_split_never_parts_interactions_of_one_time() -> None:
    split = chronological_split(np.array([0.0, 1, 2, 3, 4, 5, 6, 6, 6, 9]))
    assert (split.train, split.validation, split.test) == (slice(0, 9), slice(9, 9), slice(9, 10))


def test_split_of_nothing_is_empty() -> None:
    assert chronological_split(np.zeros(0)).test == slice(0, 0)


def test_split_with_impossible_shares_is_refused() -> None:
    with pytest.raises(DataError, match="shares"):
        chronological_split(np.arange(5.0), 0.9, 0.2)


def test_hold_out_nodes_are_of_later_interactions_and_repeatable() -> None:
    interactions = Interactions.in_time_order(np.arange(100) // 2, np.full(100, 60), np.arange(100.0))
    split = chronological_split(interactions.time)
    hidden = hold_out_nodes(interactions, split, 0.2, seed=3)
    assert hidden.sum() == 10  # of 51 nodes
    assert not hidden[:35].any()
    np.testing.assert_array_equal(hidden, hold_out_nodes(interactions, split, 0.2, seed=3))
    assert (hidden != hold_out_nodes(interactions, split, 0.2, seed=4)).any()


def test_hold_out_nodes_are_at_most_those_that_come_later() -> None:
    interactions = Interactions.in_time_order(np.arange(100) // 2, np.full(100, 60), np.arange(100.0))
    hidden = hold_out_nodes(interactions, chronological_split(interactions.time), 0.9)
    np.testing.assert_array_equal(np.flatnonzero(hidden), [*range(35, 50), 60])
