import numpy as np
import pytest

from stream_tgat.errors import DataError
from stream_tgat.graph.interactions import Interactions


def test_in_time_order_keeps_the_order_of_ties() -> None:
    made = Interactions.in_time_order([1, 2, 3, 4], [5, 6, 7, 8], [2.0, 1.0, 2.0, 1.0], [[10], [20], [30], [40]])
    assert made.source.tolist() == [2, 4, 1, 3]
    assert made.destination.tolist() == [6, 8, 5, 7]
    assert made.edge.tolist() == [[20.0], [40.0], [10.0], [30.0]]
    assert made.edge.dtype == np.float32
    assert made.node_count == 9
    assert len(made) == 4


def test_in_time_order_without_edge_features_has_width_zero() -> None:
    assert Interactions.in_time_order([1], [2], [3.0]).edge.shape == (1, 0)


def test_select_takes_a_part_in_order() -> None:
    made = Interactions.in_time_order([1, 2, 3], [4, 5, 6], [1.0, 2.0, 3.0])
    assert made.select(slice(1, None)).source.tolist() == [2, 3]
    assert made.select(np.array([True, False, True])).time.tolist() == [1.0, 3.0]


@pytest.mark.parametrize(
    ("source", "time", "edge", "reason"),
    [
        ([1, 2], [2.0, 1.0], np.zeros((2, 1)), "in_time_order"),
        ([1], [1.0, 2.0], np.zeros((2, 1)), "one length"),
        ([1, 2], [1.0, 2.0], np.zeros((3, 1)), "one length"),
        ([1, 2], [1.0, 2.0], np.zeros(2), "shape"),
        ([1, -2], [1.0, 2.0], np.zeros((2, 1)), "negative"),
        ([1, 2], [1.0, np.nan], np.zeros((2, 1)), "finite"),
    ],
)
def test_arrays_that_do_not_fit_are_refused(
    source: list[int], time: list[float], edge: np.ndarray, reason: str
) -> None:
    with pytest.raises(DataError, match=reason):
        Interactions(np.array(source), np.array([3] * len(source)), np.array(time), edge.astype(np.float32))
