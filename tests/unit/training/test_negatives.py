"""Negatives: from the past only, the same from the same seed and place."""

import numpy as np
from numpy.testing import assert_array_equal

from stream_tgat.graph.interactions import Interactions
from stream_tgat.training.negatives import AnyDestination, HistoricalNegatives, RandomNegatives


def make_interactions():
    return Interactions.in_time_order([0, 0, 1, 1], [10, 11, 12, 10], [1.0, 2.0, 2.0, 5.0])


def test_negatives_never_use_the_future():
    drawn = RandomNegatives(make_interactions()).draw(np.repeat([2.0, 2.5, 9.0], 200), 3, (0, 0))
    assert set(drawn[:200].ravel()) == {10}
    assert set(drawn[200:400].ravel()) == {10, 11, 12}
    assert set(drawn[400:].ravel()) == {10, 11, 12}


def test_negatives_before_anything_was_seen_are_the_earliest_destinations():
    drawn = RandomNegatives(make_interactions()).draw(np.array([0.5, 1.0]), 4, (0, 0))
    assert set(drawn.ravel()) == {10}


def test_negatives_are_uniform_over_what_was_seen():
    drawn = RandomNegatives(make_interactions(), seed=3).draw(np.full(30_000, 9.0), 1, (0, 0)).ravel()
    shares = np.bincount(drawn)[10:] / len(drawn)
    assert np.abs(shares - 1 / 3).max() < 0.01


def test_negatives_depend_on_seed_and_place_only():
    times = np.full(50, 9.0)
    one, two = RandomNegatives(make_interactions(), 1), RandomNegatives(make_interactions(), 1)
    two.draw(times, 1, (4, 4))
    assert_array_equal(one.draw(times, 2, (0, 1)), two.draw(times, 2, (0, 1)))
    assert (one.draw(times, 2, (0, 1)) != one.draw(times, 2, (0, 2))).any()
    assert (one.draw(times, 2, (0, 1)) != RandomNegatives(make_interactions(), 2).draw(times, 2, (0, 1))).any()


def test_any_destination_may_come_from_the_future_but_no_source_does():
    drawn = AnyDestination(make_interactions()).draw(np.repeat([0.0, 2.0, 9.0], 10_000), 1, (0, 0)).ravel()
    for part in np.split(drawn, 3):
        assert np.abs(np.bincount(part, minlength=13)[10:] / len(part) - 1 / 3).max() < 0.03
    assert set(drawn) == {10, 11, 12}
    same = AnyDestination(make_interactions()).draw(np.repeat([0.0, 2.0, 9.0], 10_000), 1, (0, 0)).ravel()
    assert_array_equal(drawn, same)


def repeated(event, count):
    """One of some interactions, many times: 0 meets 10, 11, 10 and 12, and at last 10; 1 meets 13."""
    log = Interactions.in_time_order([0, 0, 0, 1, 0, 0], [10, 11, 10, 13, 12, 10], [1.0, 2.0, 3.0, 3.0, 4.0, 4.0])
    return log, log.select(np.full(count, event))


def test_historical_negatives_are_those_met_strictly_before_and_not_now():
    log, happened = repeated(5, 3000)
    drawn = HistoricalNegatives(log).put(np.full((3000, 2), 99), happened, 1.0, (0, 0))
    assert set(drawn.ravel()) == {11}  # 12 comes at the same time, 13 is another's
    log, happened = repeated(4, 3000)
    drawn = HistoricalNegatives(log).put(np.full((3000, 2), 99), happened, 1.0, (0, 0))
    shares = np.bincount(drawn.ravel())[10:12] / drawn.size
    assert np.abs(shares - 0.5).max() < 0.02  # however often each was met


def test_historical_negatives_take_their_share_and_leave_the_rest():
    log, happened = repeated(4, 10_000)
    others = np.full((10_000, 2), 99)
    drawn = HistoricalNegatives(log).put(others, happened, 0.3, (0, 0))
    assert abs((drawn != 99).mean() - 0.3) < 0.02
    assert (others == 99).all()
    assert_array_equal(HistoricalNegatives(log).put(others, happened, 0.0, (0, 0)), others)


def test_others_stay_where_a_source_has_met_nobody_else():
    for event in (0, 3):
        log, happened = repeated(event, 50)
        assert set(HistoricalNegatives(log).put(np.full((50, 1), 99), happened, 1.0, (0, 0)).ravel()) == {99}
    log = Interactions.in_time_order([0, 0], [10, 10], [1.0, 2.0])
    assert HistoricalNegatives(log).put(np.array([[99]]), log.select([1]), 1.0, (0, 0)) == 99


def test_historical_negatives_depend_on_seed_and_place_only():
    log, happened = repeated(4, 100)

    def drawn(seed, place):
        return HistoricalNegatives(log, seed).put(np.full((100, 2), 99), happened, 0.5, place)

    assert_array_equal(drawn(1, (0, 1)), drawn(1, (0, 1)))
    assert (drawn(1, (0, 1)) != drawn(1, (0, 2))).any()
    assert (drawn(1, (0, 1)) != drawn(2, (0, 1))).any()
