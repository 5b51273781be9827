"""A model of a step knows what was known then and nothing else; policies are asked the same; drift is what pays."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from research.labels import QuestionPart
from research.prequential import (
    FirstEncoder,
    Maker,
    NewModel,
    Policy,
    PrequentialStream,
    StepAnswers,
    Trees,
    answers,
    cut_into_steps,
    serving,
)
from research.prequential.step_report import Made, age_report, step_report
from stream_tgat.errors import DataError
from stream_tgat.graph.interactions import Interactions
from stream_tgat.training.log import LabelSet
from stream_tgat.training.metrics import binary_metrics
from tests.unit.research.prequential.drifting import BOOSTED, DELAY_S, ENCODER, HEADS, drifting, stream

MAKERS = [NewModel(ENCODER, HEADS), FirstEncoder(ENCODER, HEADS), Trees(BOOSTED), Trees(BOOSTED, as_first=True)]
ROUNDS = 50


def made_by(maker: Maker, of: PrequentialStream) -> Made:
    return [[answers(of, maker, step, 0) for step in range(len(of.cuts))]]


def test_steps_begin_every_so_often_and_a_short_rest_joins_the_last_one() -> None:
    task = drifting(drifts=False)
    assert cut_into_steps(task, 300.0, 200.0).cuts == (300.0, 500.0, 700.0, 900.0)
    # 1199 s is the last question: from 1100 on it is less than half a step, with 190 s a step it is more.
    assert cut_into_steps(task, 300.0, 190.0).cuts == (300.0, 490.0, 680.0, 870.0, 1060.0)
    steps = cut_into_steps(task, 300.0, 200.0)
    assert [len(steps.places("told", step)) for step in range(4)] == [200, 200, 200, 300]
    with pytest.raises(DataError, match="fewer than two steps"):
        cut_into_steps(task, 1000.0, 200.0)


def test_task_of_a_step_shows_what_is_known_and_asks_what_follows() -> None:
    task = stream(drifts=False).task(1)
    (target, _) = task.targets
    assert task.cutoff == 500.0
    shown = np.flatnonzero(~np.isnan(target.labels.value))
    assert_array_equal(shown, np.arange(491))  # that of 490 s is known at 500 s
    assert_array_equal(target.validation, np.arange(392, 491))  # the newest fifth of 491
    assert_array_equal(target.train, np.arange(383))  # that of 382 s was known when validation began, at 392 s
    assert_array_equal(target.part(QuestionPart.TEST), np.arange(500, 1200))


@pytest.mark.parametrize("maker", MAKERS, ids=lambda maker: maker.name)
def test_answers_known_later_change_nothing_that_a_model_says(maker: Maker) -> None:
    """Turn every answer whose time has not come when the step begins."""
    true = stream(drifts=True)
    turned = replace(
        true,
        labels={
            head: LabelSet(each.event, np.where(each.known > true.cuts[1], 1 - each.value, each.value), each.known)
            for head, each in true.labels.items()
        },
    )
    fresh = replace(maker, **({"_inputs": {}} if isinstance(maker, FirstEncoder) else {}))
    one, other = answers(true, maker, 1, 0), answers(turned, fresh, 1, 0)
    assert one.scores == other.scores


@pytest.mark.parametrize("maker", MAKERS, ids=lambda maker: maker.name)
def test_interactions_of_a_step_have_no_say_in_its_model(maker: Maker) -> None:
    """What the model says of earlier questions stays the same to the bit, whatever happens from its step on."""
    true = stream(drifts=True)
    later = true.interactions.time >= true.cuts[1]
    edge, peer = true.interactions.edge.copy(), true.interactions.destination.copy()
    edge[later] += 3.0
    peer[later] = 37 - (peer[later] - 30)
    interactions = Interactions(true.interactions.source, peer, true.interactions.time, edge)
    changed = replace(true, interactions=interactions)
    fresh = replace(maker, **({"_inputs": {}} if isinstance(maker, FirstEncoder) else {}))
    one, other = answers(true, maker, 1, 0).arrays, answers(changed, fresh, 1, 0).arrays
    assert_array_equal(one[0][:500], other[0][:500])
    assert (one[0][500:] != other[0][500:]).any()


def test_first_models_of_the_networks_are_one_and_the_same() -> None:
    of = stream(drifts=True)
    new, heads_alone = (answers(of, maker, 0, 3) for maker in MAKERS[:2])
    assert new.scores == heads_alone.scores
    assert answers(of, MAKERS[0], 0, 4).scores != new.scores


@pytest.mark.parametrize("maker", [MAKERS[0], MAKERS[1], MAKERS[2]], ids=lambda maker: maker.name)
def test_retraining_wins_where_the_answer_changes_its_feature(maker: Maker) -> None:
    of = stream(drifts=True)
    made = made_by(maker, of)
    steps = [step_report(of, maker.name, Policy.SCHEDULE, made, made, [step], False, ROUNDS) for step in range(4)]
    told = [each.heads[0].auc for each in steps]
    assert told[0] > 0.8
    # The model of 700 s has seen 90 answers of the new kind, that of 900 s 290.
    assert told[3] > 0.7
    assert steps[3].gain.low > 0.0
    assert steps[3].gain.estimate > 0.1  # mean of two heads, one of which nobody can answer
    forever = step_report(of, maker.name, Policy.FIRST, made, made, [3], False, ROUNDS)
    assert forever.heads[0].auc < 0.65
    old = age_report(of, maker.name, made, 3, ROUNDS)
    assert_allclose(old.less.estimate, -steps[3].gain.estimate)


def test_retraining_gains_nothing_where_nothing_changes() -> None:
    of = stream(drifts=False)
    made = made_by(Trees(BOOSTED), of)
    found = step_report(of, "Trees", Policy.SCHEDULE, made, made, [1, 2, 3], False, 200)
    assert found.heads[0].auc > 0.95
    assert found.gain.low < 0.0 < found.gain.high
    assert abs(found.gain.estimate) < 0.03


def test_policies_are_asked_the_same_and_the_first_gains_nothing_over_itself() -> None:
    of = stream(drifts=True)
    made = made_by(Trees(BOOSTED), of)
    for steps in ([0], [2], [1, 2, 3]):
        reports = [step_report(of, "Trees", policy, made, made, steps, False, ROUNDS) for policy in Policy]
        asked = {tuple((head.count, head.base_rate) for head in each.heads) for each in reports}
        assert len(asked) == 1
        assert {each.known for each in reports} == {2 * (of.cuts[steps[-1]] - DELAY_S + 1)}
        forever = reports[0].gain
        assert (forever.estimate, forever.low, forever.high) == (0.0, 0.0, 0.0)
    nothing_done_yet = step_report(of, "Trees", Policy.SCHEDULE, made, made, [0], False, ROUNDS)
    assert nothing_done_yet.gain.estimate == 0.0


def test_figures_of_several_steps_are_their_means_or_those_of_all_questions() -> None:
    of = stream(drifts=True)
    made = made_by(Trees(BOOSTED), of)
    apart = [step_report(of, "Trees", Policy.SCHEDULE, made, made, [step], False, ROUNDS) for step in (1, 2, 3)]
    mean = step_report(of, "Trees", Policy.SCHEDULE, made, made, [1, 2, 3], False, ROUNDS)
    assert_allclose(mean.auc.estimate, np.mean([each.auc.estimate for each in apart]))
    assert_allclose(mean.gain.estimate, np.mean([each.gain.estimate for each in apart]))
    assert mean.heads[0].count == sum(each.heads[0].count for each in apart) == 700
    pooled = step_report(of, "Trees", Policy.SCHEDULE, made, made, [1, 2, 3], True, ROUNDS)
    score = np.concatenate([made[0][step].arrays[0][of.places("told", step)] for step in (1, 2, 3)])
    assert_allclose(pooled.heads[0].auc, binary_metrics(of.labels["told"].value[500:], score).auc)


def gate(of: PrequentialStream, *rows: np.ndarray) -> tuple[int, ...]:
    return serving(Policy.GATE, of, [(row, np.full(len(row), 0.5)) for row in rows])


def test_gate_promotes_what_is_better_on_what_neither_has_learnt() -> None:
    of = stream(drifts=False)
    truth = of.labels["told"].value
    assert gate(of, 1 - truth, truth, 1 - truth, truth) == (0, 1, 1, 1)
    assert gate(of, truth, 1 - truth, np.full(1200, 0.5), 1 - truth) == (0, 0, 0, 0)
    assert serving(Policy.FIRST, of, []) == (0, 0, 0, 0)
    assert serving(Policy.SCHEDULE, of, []) == (0, 1, 2, 3)


def test_gate_looks_at_no_answer_that_the_serving_model_was_taught() -> None:
    """With steps of 40 s the newest fifth of what is known reaches back further than the last step."""
    of = cut_into_steps(drifting(drifts=False), 300.0, 40.0)
    of = replace(of, cuts=of.cuts[:6])
    truth, known = of.labels["told"].value, of.labels["told"].known
    held_out = of.task(5).targets[0].validation
    taught = held_out[known[held_out] <= of.cuts[4]]
    assert (len(held_out), len(taught)) == (99, 59)
    wrong_on_taught = truth.copy()
    wrong_on_taught[taught] = 1 - truth[taught]
    before = [1 - truth] * 4
    # What the serving model was taught does not speak for it: beyond that it is as good, or worse.
    assert gate(of, *before, truth, wrong_on_taught)[4:] == (4, 4)
    right_on_taught = np.full(len(truth), 0.5)
    right_on_taught[taught] = truth[taught]
    assert gate(of, *before, right_on_taught, wrong_on_taught)[4:] == (4, 5)


def test_trees_on_as_many_answers_as_the_first_step_knew_take_the_newest() -> None:
    """They forget what was before the change."""
    of = stream(drifts=True)
    forgetting = Trees(BOOSTED, as_first=True)
    told = [
        binary_metrics(of.labels["told"].value[900:], answers(of, maker, 3, 0).arrays[0][900:]).auc
        for maker in (Trees(BOOSTED), forgetting)
    ]
    assert min(told) > 0.7
    assert answers(of, forgetting, 0, 0).scores == answers(of, Trees(BOOSTED), 0, 0).scores


def test_score_that_is_missing_is_refused() -> None:
    class Silent:
        name, device = "silent", "cpu"

        def scores(self, stream: PrequentialStream, *_: object) -> tuple[np.ndarray, ...]:
            return tuple(np.full(len(each), np.nan) for each in stream.labels.values())

    with pytest.raises(DataError, match="silent of step 2 does not answer every question of told"):
        answers(stream(drifts=False), Silent(), 2, 0)


def test_kept_scores_are_arrays_again() -> None:
    kept = StepAnswers("x", 0, 0, 1.0, ((0.25, 0.5), (1.0, 0.0)))
    assert_array_equal(kept.arrays[0], [0.25, 0.5])
    assert_array_equal(kept.arrays[1], [1.0, 0.0])
