"""The bootstrap over users, against scikit-learn and closed forms."""

import math

import numpy as np
import pytest
from sklearn.metrics import average_precision_score, brier_score_loss, roc_auc_score

from stream_tgat.evaluation.bootstrap import (
    HeadScores,
    Paired,
    mean_bootstrap,
    paired_mean_bootstrap,
    paired_replicates,
    user_bootstrap,
)


def rows_of_users(users=60, each=10, seed=0):
    random = np.random.default_rng(seed)
    user = np.repeat(np.arange(users), each)
    truth = random.random(users)[user] > 0.5
    score = np.round(random.normal(size=users)[user] + truth, 1)
    return truth.astype(int), score, user


def test_estimate_is_the_auc_of_all_rows():
    truth, score, user = rows_of_users()
    assert user_bootstrap(truth, score, user, rounds=5).estimate == pytest.approx(roc_auc_score(truth, score))


def test_replicates_are_aucs_of_users_drawn_with_all_their_rows():
    truth, score, user = rows_of_users(users=8, each=3)
    random = np.random.default_rng(4)
    expected = []
    for _ in range(50):
        rows = np.concatenate([np.flatnonzero(user == drawn) for drawn in random.integers(8, size=8)])
        if len(set(truth[rows])) == 2:
            expected.append(roc_auc_score(truth[rows], score[rows]))
    found = user_bootstrap(truth, score, user, seed=4, rounds=50)
    assert found.rounds == len(expected)
    assert found.std_error == pytest.approx(np.std(expected, ddof=1))
    assert (found.low, found.high) == tuple(pytest.approx(q) for q in np.quantile(expected, [0.025, 0.975]))


def test_rows_of_one_user_count_as_one_piece_of_evidence():
    truth, score, user = rows_of_users()
    by_user = user_bootstrap(truth, score, user, rounds=300)
    by_row = user_bootstrap(truth, score, np.arange(len(user)), rounds=300)
    # Rows of a user are copies, so that the error is that of 60 and not of 600: √10 larger.
    assert by_user.std_error / by_row.std_error == pytest.approx(math.sqrt(10), rel=0.2)


def test_paired_difference_is_far_surer_than_either():
    truth, score, user = rows_of_users()
    nearly = score + np.random.default_rng(1).normal(scale=0.05, size=len(score))
    paired = paired_mean_bootstrap([HeadScores(truth, score, user)], [HeadScores(truth, nearly, user)], rounds=300)
    assert paired.estimate == pytest.approx(roc_auc_score(truth, score) - roc_auc_score(truth, nearly))
    assert paired.std_error < user_bootstrap(truth, score, user, rounds=300).std_error / 4
    same = paired_mean_bootstrap([HeadScores(truth, score, user)], [HeadScores(truth, score, user)], rounds=20)
    assert (same.estimate, same.low, same.high) == (0, 0, 0)


def test_one_class_has_no_auc():
    found = user_bootstrap([1, 1], [0.1, 0.2], [0, 1], rounds=10)
    assert math.isnan(found.estimate)
    assert found.rounds == 0


def test_nothing_has_no_auc():
    assert math.isnan(user_bootstrap([], [], []).estimate)


def test_same_seed_gives_the_same_interval():
    truth, score, user = rows_of_users()
    assert user_bootstrap(truth, score, user, 3, 50) == user_bootstrap(truth, score, user, 3, 50)
    assert user_bootstrap(truth, score, user, 3, 50) != user_bootstrap(truth, score, user, 4, 50)


def test_mean_over_heads_and_seeds_draws_each_user_once_for_all():
    truth, score, user = rows_of_users(users=8, each=3)
    random = np.random.default_rng(9)
    heads = [HeadScores(truth, score + random.normal(size=len(score)), user) for _ in range(2)]
    other = [HeadScores(truth[::2], score[::2], user[::2])]
    draws = np.random.default_rng(5)
    expected = []
    for _ in range(40):
        weight = np.bincount(draws.integers(8, size=8), minlength=8)
        areas = [
            roc_auc_score(each.truth, each.score, sample_weight=weight[each.user])
            if len(set(each.truth[weight[each.user] > 0])) == 2
            else np.nan
            for each in (*heads, *other)
        ]
        expected.append(np.mean(areas[:2]) - areas[2])
    found = paired_mean_bootstrap(heads, other, seed=5, rounds=40)
    kept = np.array(expected)[np.isfinite(expected)]
    assert found.rounds == len(kept)
    assert (found.low, found.high) == tuple(pytest.approx(q) for q in np.quantile(kept, [0.025, 0.975]))


def test_mean_over_heads_draws_the_same_users_for_all():
    truth, score, user = rows_of_users(users=12, each=4)
    heads = [HeadScores(truth, score, user), HeadScores(1 - truth[8:], score[8:], user[8:])]
    random = np.random.default_rng(3)
    expected = []
    for _ in range(30):
        weight = np.bincount(random.integers(12, size=12), minlength=12)
        rows = [np.repeat(np.arange(48), weight[user]), np.repeat(np.arange(8, 48), weight[user[8:]])]
        flipped = np.r_[truth[:8], 1 - truth[8:]]
        expected.append(
            np.mean([roc_auc_score(truth[rows[0]], score[rows[0]]), roc_auc_score(flipped[rows[1]], score[rows[1]])])
        )
    found = mean_bootstrap(heads, seed=3, rounds=30)
    assert found.estimate == pytest.approx((roc_auc_score(truth, score) + roc_auc_score(1 - truth[8:], score[8:])) / 2)
    assert (found.low, found.high) == tuple(pytest.approx(q) for q in np.quantile(expected, [0.025, 0.975]))


def test_mean_over_nothing_is_nothing():
    assert np.isnan(mean_bootstrap([]).estimate)
    assert mean_bootstrap([]).rounds == 0


@pytest.mark.parametrize(
    ("figure", "oracle"),
    [("auc", roc_auc_score), ("average_precision", average_precision_score), ("brier", brier_score_loss)],
)
def test_error_of_a_difference_is_the_spread_over_users_drawn_with_all_their_rows(figure, oracle):
    truth, score, user = rows_of_users(users=12, each=4)
    score = np.clip(np.round((score + 2) / 5, 1), 0, 1)
    other = np.random.default_rng(9).permutation(score)
    random, expected = np.random.default_rng(4), []
    for _ in range(60):
        rows = np.concatenate([np.flatnonzero(user == drawn) for drawn in random.integers(12, size=12)])
        if len(set(truth[rows])) == 2:
            expected.append(oracle(truth[rows], score[rows]) - oracle(truth[rows], other[rows]))
    assert len(expected) == 60
    found = paired_replicates([Paired(figure, truth, score, other, user)], seed=4, rounds=60)
    assert found[:, 0] == pytest.approx(expected)


def test_all_figures_of_a_round_are_of_the_same_users():
    truth, score, user = rows_of_users(users=12, each=4)
    other = np.random.default_rng(9).permutation(score)
    pair = Paired("auc", truth, score, other, user)
    found = paired_replicates([pair, pair], rounds=20)
    assert found.shape == (20, 2)
    assert (found[:, 0] == found[:, 1]).all()
    assert found[:, 0].std() > 0
    assert paired_replicates([]).shape == (200, 0)


def test_error_of_a_difference_is_undefined_where_the_figure_is():
    for pair in (
        Paired("auc", [1, 1], [0.1, 0.2], [0.3, 0.4], [0, 1]),
        Paired("average_precision", [0, 0], [0.1, 0.2], [0.3, 0.4], [0, 1]),
        Paired("brier", [], [], [], []),
    ):
        assert np.isnan(paired_replicates([pair])).all()
