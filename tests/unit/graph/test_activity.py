import numpy as np

from stream_tgat.graph.activity import ABSENT, activity


def test_activity_closed_form() -> None:
    nan = np.nan
    got = activity(
        np.array([100.0, 100.0, 100.0]), np.array([0, 4, 7]), np.array([nan, 99.0, 90.0]), np.array([nan, nan, 50.0])
    )
    expected = [[0.0, -1.0, -1.0], [np.log(5.0), np.log(2.0), -1.0], [np.log(8.0), np.log(11.0), np.log(51.0)]]
    assert got.dtype == np.float32
    np.testing.assert_allclose(got, expected, rtol=1e-6)


def test_absent_cannot_be_mistaken_for_a_span() -> None:
    shortest = activity(np.array([1.0]), np.array([5]), np.array([1.0]), np.array([1.0]))
    assert (shortest[0, 1:] >= 0.0).all()
    assert ABSENT < 0.0


def test_time_spans_are_formed_in_float64() -> None:
    now = 1_600_000_000.5
    got = activity(np.array([now]), np.array([5]), np.array([now - 1.0]), np.array([now - 7.0]))
    np.testing.assert_allclose(got[0, 1:], [np.log(2.0), np.log(8.0)], rtol=1e-6)
