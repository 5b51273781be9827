"""What the gate promises, by simulation: worse models seldom pass, better ones do, and losses are bounded."""

from __future__ import annotations

import numpy as np
import pytest

from research.experiments.gate import CHOSEN, HELD_AGAINST, MARGIN, answer_row, gate_row, sequence_row

GATES = 1000
CHANCE = 0.02
"""Three standard errors of a share of 5 % in so many gates."""


@pytest.mark.parametrize("error", [0.003, 0.012, 0.05])
@pytest.mark.parametrize("figures", [1, 5])
def test_model_worse_by_the_margin_passes_in_one_of_twenty_gates_at_most(error: float, figures: int) -> None:
    assert gate_row([-MARGIN] * figures, [error] * figures, GATES, 1).promoted[CHOSEN] < 0.05 + CHANCE
    assert gate_row([-0.1] + [0.0] * (figures - 1), [error] * figures, GATES, 1).promoted[CHOSEN] < 0.05 + CHANCE


def test_rule_before_promoted_nearly_all_that_were_ten_points_worse_and_measured_badly() -> None:
    row = gate_row([-0.1], [0.05], GATES, 1)
    assert row.promoted["not shown worse"] > 0.5
    assert row.promoted[CHOSEN] < 0.02


def test_better_model_passes_where_the_data_can_tell() -> None:
    assert gate_row([0.02] * 5, [0.012] * 5, GATES, 1).promoted[CHOSEN] > 0.95
    assert gate_row([0.0], [MARGIN / 2.487], GATES, 1).promoted[CHOSEN] == pytest.approx(0.8, abs=0.05), "its power"
    assert gate_row([0.0] * 5, [0.012] * 5, GATES, 1).promoted[CHOSEN] > 0.7
    assert gate_row([0.0] * 5, [0.012] * 5, GATES, 1).promoted["every figure"] < 0.2, "which it was chosen over"


def test_bootstrap_over_users_tells_the_error_of_answers_that_are_drawn() -> None:
    row = answer_row(600, -0.05, 150, 1)
    assert row.error == pytest.approx(row.spread, rel=0.2)
    assert row.promoted[CHOSEN] < 0.05 + 0.06


def test_losses_of_retrainings_in_a_row_stay_within_the_margin_of_the_best() -> None:
    before, alone, best = (
        sequence_row("each 0.01 worse than what serves", rule, 0.012, 5, 300, 1) for rule in HELD_AGAINST
    )
    assert before.loss > 0.1
    assert alone.loss > 2 * MARGIN
    assert best.loss < MARGIN
    assert best.worst < 1.5 * MARGIN


def test_best_release_does_not_keep_better_ones_from_serving() -> None:
    rows = [sequence_row("0.003 better each time", rule, 0.012, 5, 300, 1) for rule in HELD_AGAINST[1:]]
    assert rows[1].quality == pytest.approx(rows[0].quality, abs=0.005)
    assert np.isfinite(rows[1].loss)
