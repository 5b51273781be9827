"""Figures against hand-made values and slow definitions."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from stream_tgat.evaluation.link_prediction import figures

SCORES = st.lists(st.integers(0, 4).map(float), min_size=1, max_size=12).map(np.array)


@settings(deadline=None)
@given(positive=SCORES, negative=SCORES)
def test_auc_counts_pairs_ties_half(positive, negative):
    pairs = [(p > n) + (p == n) / 2 for p in positive for n in negative]
    assert figures.auc(positive, negative) == pytest.approx(np.mean(pairs))


@settings(deadline=None)
@given(positive=SCORES, negative=SCORES)
def test_average_precision_is_the_step_sum_over_distinct_thresholds(positive, negative):
    area = recall = 0.0
    for threshold in sorted({*positive, *negative}, reverse=True):
        hits, wrong = (positive >= threshold).sum(), (negative >= threshold).sum()
        area += (hits / len(positive) - recall) * hits / (hits + wrong)
        recall = hits / len(positive)
    assert figures.average_precision(positive, negative) == pytest.approx(area)


def test_batch_average_precision_is_the_mean_over_batches_the_last_one_included():
    positive, negative = np.array([1.0, 1.0, 0.0]), np.array([0.0, 0.0, 1.0])
    # 1 for the first two; the last alone has its positive below its negative: 1/2.
    assert figures.batch_average_precision(positive, negative, 2) == pytest.approx(0.75)
    assert figures.average_precision(positive, negative) == pytest.approx(2 / 3 * 2 / 3 + 1 / 3 * 3 / 6)


@settings(deadline=None)
@given(positive=SCORES, negative=SCORES)
def test_best_threshold_is_beaten_by_no_other(positive, negative):
    best = figures.accuracy(positive, negative, figures.best_threshold(positive, negative))
    others = [figures.accuracy(positive, negative, t) for t in np.arange(-1, 6, 0.5)]
    # Below the lowest score everything is a yes: half right, which no threshold at a score falls short of.
    assert best == pytest.approx(max(others))


def test_ranks_share_ties_and_leave_out_absent_candidates():
    positive = np.array([2.0, 2.0, 0.0, 5.0])
    others = np.array([[3.0, 1.0, 0.0], [2.0, 2.0, np.nan], [1.0, 2.0, 3.0], [np.nan] * 3])
    assert_array_equal(figures.ranks(positive, others), [2, 2, 4, np.nan])


def test_rank_of_a_constant_scorer_is_the_middle():
    assert_array_equal(figures.ranks(np.zeros(1), np.zeros((1, 100))), [51])


def test_figures_of_nothing_are_undefined():
    nothing = np.zeros(0)
    for value in (
        figures.average_precision(nothing, nothing),
        figures.batch_average_precision(nothing, nothing, 10),
        figures.auc(nothing, np.ones(1)),
        figures.accuracy(np.ones(1), nothing, 0.5),
        figures.accuracy(np.ones(1), np.ones(1), math.nan),
        figures.best_threshold(nothing, nothing),
    ):
        assert math.isnan(value)
