"""What is measured: by default only what the release has not learnt from; anything else is said."""

from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest

from stream_tgat.errors import DataError
from stream_tgat.evaluation.measured_part import measured_part, part_for_both
from stream_tgat.training.registry import Release, ReleaseCard

TIMES = np.array([0.0, 1, 2, 3, 4, 4, 4, 7, 8, 9])


def release(**card):
    made = ReleaseCard(
        created=datetime(2026, 1, 1, tzinfo=UTC), topology="shop", topology_hash="", model={}, features={},
        features_hash="", code_version="1", **card,
    )  # fmt: skip
    return Release("r1", Path("releases"), made)


TRAINED = {"manifest": {"interactions": {"0": (0, 10)}}, "metrics": {"links.test.average_precision": 0.9}}


def test_trained_release_is_measured_on_what_is_not_older_than_what_it_learnt():
    part = measured_part(TIMES, release(**TRAINED, learnt_until=4.0))
    assert (part.first, part.begin, part.end, part.count, part.unseen) == (4, 4.0, 9.0, 6, True)


def test_time_asked_for_wins_and_says_whether_it_was_learnt_from():
    later = measured_part(TIMES, release(**TRAINED, learnt_until=4.0), since=7.5)
    assert (later.first, later.unseen) == (8, True)
    earlier = measured_part(TIMES, release(**TRAINED, learnt_until=4.0), since=3.0)
    assert (earlier.first, earlier.unseen) == (3, False)
    assert "flatters" in earlier.note
    assert measured_part(TIMES, release(**TRAINED), since=3.0).unseen is None


def test_release_that_does_not_say_what_it_learnt_is_measured_on_the_newest_share_with_a_warning():
    part = measured_part(TIMES, release(**TRAINED))
    assert (part.first, part.unseen) == (8, None)  # 15 % of ten
    assert "the card does not say" in part.note


def test_untrained_release_has_learnt_from_nothing():
    part = measured_part(TIMES, release())
    assert (part.first, part.unseen) == (8, True)


def test_at_most_takes_the_newest_and_parts_no_time():
    assert measured_part(TIMES, release(), since=0.0, at_most=3).first == 7
    assert measured_part(TIMES, release(), since=0.0, at_most=5).first == 4, "three interactions share that time"
    assert measured_part(TIMES, release(), since=0.0, at_most=10).first == 0


@pytest.mark.parametrize("arguments", [{"since": 9.5}, {}])
def test_nothing_new_is_told_with_what_to_do(arguments):
    with pytest.raises(DataError, match=r"Nothing here is new to release r1.*earlier --since"):
        measured_part(TIMES, release(**TRAINED, learnt_until=10.0), **arguments)


def test_empty_log_is_told():
    with pytest.raises(DataError, match="nothing to measure"):
        measured_part(np.zeros(0), release())


def test_models_are_compared_on_what_neither_has_learnt_from() -> None:
    later = part_for_both(TIMES, 3.0, release(**TRAINED, learnt_until=4.0), 1)
    assert (later.first, later.count, later.unseen) == (4, 6, True)
    earlier = part_for_both(TIMES, 7.0, release(**TRAINED, learnt_until=4.0), 1)
    assert (earlier.first, earlier.count, earlier.unseen) == (7, 3, True)
    assert "either model" in later.note
    assert "either model" in earlier.note


@pytest.mark.parametrize(("fewest", "first", "unseen"), [(3, 7, True), (4, 3, False)])
def test_with_too_little_new_to_both_the_serving_one_may_know_some_and_that_is_said(fewest, first, unseen) -> None:
    part = part_for_both(TIMES, 3.0, release(**TRAINED, learnt_until=5.0), fewest)
    assert (part.first, part.unseen) == (first, unseen)
    assert ("only 3 of them are new to r1 too, fewer than 4" in part.note) is not unseen


@pytest.mark.parametrize("serving", [None, release()])
def test_model_that_has_learnt_nothing_leaves_all_that_is_new_to_the_new_one(serving) -> None:
    part = part_for_both(TIMES, 3.0, serving, 1)
    assert (part.first, part.begin, part.end, part.count, part.unseen) == (3, 3.0, 9.0, 7, True)


def test_serving_model_that_does_not_say_what_it_learnt_may_know_it_all() -> None:
    part = part_for_both(TIMES, 3.0, release(**TRAINED), 1)
    assert (part.first, part.unseen) == (3, None)
    assert "r1 does not say until when it learnt" in part.note


def test_nothing_left_to_compare_on_is_told_with_what_to_do() -> None:
    with pytest.raises(DataError, match=r"Nothing is left to compare.*retrain\.held_out"):
        part_for_both(TIMES, 9.5, None, 1)
