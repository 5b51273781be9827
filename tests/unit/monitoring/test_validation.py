"""Labels meet the predictions made at the time: by hand, and against a plain loop over everything."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stream_tgat.monitoring.figures import answer_figures, head_quality
from stream_tgat.monitoring.validation import KnownAnswers, ProgressiveValidation
from stream_tgat.wire import DecodedEmbedding
from tests.unit.monitoring.records import alerted, joined_by_a_loop, said, topology_with, turned_out

DAY = 86_400.0


def answers_of(validation: ProgressiveValidation, head: int = 0) -> KnownAnswers:
    return validation.answers()[head][1]


def rows(answers: KnownAnswers) -> list[tuple[float, float, float]]:
    """(time of the question, probability, truth) of each answer."""
    return list(zip(answers.asked.tolist(), answers.probability.tolist(), answers.truth.tolist(), strict=True))


def test_label_judges_the_last_prediction_not_after_its_time() -> None:
    validation = ProgressiveValidation(topology_with())
    validation.predictions([said("ann", "a", 10, 0.1), said("ann", "b", 20, 0.2), said("ann", "c", 30, 0.3)])
    validation.labels([turned_out("ann", 25, 1.0)])
    assert rows(answers_of(validation)) == [(20.0, 0.2, 1.0)]


def test_prediction_exactly_at_the_time_of_the_label_counts_and_one_just_after_does_not() -> None:
    validation = ProgressiveValidation(topology_with())
    validation.predictions([said("ann", "a", 10, 0.1), said("ann", "b", np.nextafter(10.0, 11.0), 0.9)])
    validation.labels([turned_out("ann", 10, 1.0)])
    assert rows(answers_of(validation)) == [(10.0, 0.1, 1.0)]


def test_of_two_predictions_at_one_time_the_larger_id_is_the_last() -> None:
    validation = ProgressiveValidation(topology_with())
    validation.predictions([said("ann", "b", 10, 0.2), said("ann", "a", 10, 0.1)])
    validation.labels([turned_out("ann", 10, 0.0)])
    assert rows(answers_of(validation)) == [(10.0, 0.2, 0.0)]


@pytest.mark.parametrize("values", [(0.0, 1.0), (1.0, 0.0)])
def test_two_labels_of_one_question_are_one_answer_the_larger(values: tuple[float, float]) -> None:
    validation = ProgressiveValidation(topology_with())
    validation.predictions([said("ann", "a", 10, 0.4)])
    for at, value in enumerate(values):
        validation.labels([turned_out("ann", 11.0 + at, value)])
    found = answers_of(validation)
    assert rows(found) == [(10.0, 0.4, 1.0)]
    assert (found.labels, found.without_prediction) == (2, 0)


def test_label_that_comes_before_its_prediction_finds_it_later() -> None:
    """Topics are read side by side: a worker may lag behind the labels."""
    validation = ProgressiveValidation(topology_with())
    validation.predictions([said("ann", "a", 10, 0.1)])
    validation.labels([turned_out("ann", 20, 1.0)])
    assert rows(answers_of(validation)) == [(10.0, 0.1, 1.0)]
    validation.predictions([said("ann", "b", 20, 0.2)])
    assert rows(answers_of(validation)) == [(20.0, 0.2, 1.0)]


def test_late_label_is_joined_within_the_horizon_and_counted_beyond_it() -> None:
    validation = ProgressiveValidation(topology_with(horizon_days=10.0))
    validation.predictions([said("ann", "a", 0, 0.1), said("bob", "b", 10 * DAY, 0.2)])
    validation.labels([turned_out("ann", 5, 1.0, known=10 * DAY)])
    assert rows(answers_of(validation)) == [(0.0, 0.1, 1.0)]
    validation.predictions([said("bob", "c", 10 * DAY + 100, 0.3)])
    validation.labels([turned_out("ann", 50, 1.0)])
    # The first label had its answer, and is forgotten with it; the second came too late.
    found = answers_of(validation)
    assert (rows(found), found.labels, found.without_prediction, found.too_old) == ([], 1, 0, 1)


def test_labels_without_a_prediction_are_counted_apart_from_those_that_are_too_old() -> None:
    validation = ProgressiveValidation(topology_with())
    validation.predictions([said("ann", "a", 100, 0.1)])
    validation.labels([turned_out("ann", 99, 1.0), turned_out("bob", 101, 1.0), turned_out("ann", 101, 0.0)])
    found = answers_of(validation)
    assert (found.labels, found.without_prediction, found.too_old) == (3, 1, 1)


def test_users_and_items_of_one_name_are_different_nodes() -> None:
    validation = ProgressiveValidation(topology_with())
    item = DecodedEmbedding(b"a", b"iann", b"ubob", 1, 10.0, (), 1)
    validation.predictions([item])
    validation.labels([turned_out("ann", 11, 1.0)])
    assert rows(answers_of(validation)) == []


def test_of_a_repeat_by_another_model_the_first_counts() -> None:
    validation = ProgressiveValidation(topology_with())
    validation.predictions([said("ann", "a", 10, 0.1, model=1), said("ann", "a", 10, 0.7, model=2)])
    validation.labels([turned_out("ann", 11, 1.0)])
    found = answers_of(validation)
    assert (found.model.tolist(), found.probability.tolist()) == ([1], [0.1])


def test_each_head_reads_its_own_label_and_two_may_share_one() -> None:
    topology = topology_with("ban", "churn")
    shared = topology.heads[1].model_copy(update={"name": "late_churn", "label": "churn"})
    validation = ProgressiveValidation(topology.model_copy(update={"heads": (*topology.heads, shared)}))
    validation.predictions([said("ann", "a", 10, 0.1, 0.2, 0.3)])
    validation.labels([turned_out("ann", 11, 1.0, label="churn"), turned_out("ann", 11, 1.0, label="unknown")])
    assert [rows(found) for _, found in validation.answers()] == [[], [(10.0, 0.2, 1.0)], [(10.0, 0.3, 1.0)]]


def test_alert_counts_where_its_question_was_answered() -> None:
    validation = ProgressiveValidation(topology_with("ban", "churn", answers_after="1s"))
    validation.alerts([alerted("ann", "a", 10), alerted("ann", "c", 30), alerted("bob", "b", 10, head="churn")])
    validation.predictions(
        [said("ann", "a", 10, 0.9, 0.1), said("bob", "b", 10, 0.2, 0.9), said("ann", "c", 30, 0.8, 0.1)]
    )
    validation.labels([turned_out("ann", 12, 1.0), turned_out("bob", 10, 0.0), turned_out("ann", 31, 0.0)])
    (ban, answers), _ = validation.answers()
    figures = head_quality(ban, answers).overall
    assert (figures.count, figures.alerts, figures.alert_precision) == (3, 2, 0.5)


def test_models_are_told_apart_and_the_whole_says_which_they_are() -> None:
    random = np.random.default_rng(3)
    validation = ProgressiveValidation(topology_with())
    truth = random.integers(0, 2, 200)
    # The second model knows the answer, the first says its opposite.
    for at, value in enumerate(truth.tolist()):
        model = 4 if at < 150 else 9
        probability = 0.5 + (value - 0.5) * (0.2 if model == 9 else -0.2)
        validation.predictions([said("ann", f"{at:04}", at, probability, model=model)])
        validation.labels([turned_out("ann", at, float(value))])
    ((head, answers),) = validation.answers()
    quality = head_quality(head, answers)
    assert {model: (each.count, each.auc) for model, each in quality.by_model.items()} == {4: (150, 0.0), 9: (50, 1.0)}
    assert quality.overall.count == 200
    assert (quality.since, quality.until) == (0.0, 199.0)


def test_what_a_model_has_learnt_from_does_not_count_and_does_not_fill_the_window() -> None:
    validation = ProgressiveValidation(topology_with(window=10, answers_after="1s"))
    for at in range(60):
        validation.predictions([said("ann", f"{at:03}", at, 0.5, model=at // 30)])
        # What the second model predicts from 30 to 44, it has learnt; it became known last.
        validation.labels([turned_out("ann", at, 1.0, known=1000.0 if 30 <= at < 45 else at)])
    ((_, answers),) = validation.answers(lambda model: {0: -np.inf, 1: 45.0}[model])
    assert answers.asked.tolist() == list(range(50, 60))
    assert answers.learnt_from == 15
    assert len(answers_of(validation).asked) == 10
    assert answers_of(validation).learnt_from == 0


@st.composite
def histories(draw: st.DrawFn) -> tuple[list[DecodedEmbedding], list[tuple[object, float]]]:
    times = st.integers(0, 6).map(float)
    predictions = [
        said(
            draw(st.sampled_from("xyz")),
            f"{number // 3:02}",  # some share an id, and perhaps user and time, but not the item
            draw(times),
            draw(st.floats(0, 1)),
            model=draw(st.integers(1, 2)),
            item=f"{number:02}",
        )
        for number in draw(st.permutations(range(draw(st.integers(0, 12)))))
    ]
    labels = [
        turned_out(draw(st.sampled_from("xyzw")), draw(times), draw(st.sampled_from([0.0, 1.0])), draw(times) + 10 * at)
        for at in range(draw(st.integers(0, 12)))
    ]
    return predictions, labels


@settings(max_examples=150, deadline=None)
@given(history=histories(), window=st.integers(10, 12), data=st.data())
def test_join_equals_a_plain_loop_whatever_the_order_of_reading(
    history: tuple, window: int, data: st.DataObject
) -> None:
    predictions, labels = history
    validation = ProgressiveValidation(topology_with(window=window, answers_after="5s"))
    # Records of one topic come in their order, the topics one beside the other.
    sides = data.draw(st.permutations([0] * len(predictions) + [1] * len(labels)))
    waiting = [iter(predictions), iter(labels)]
    for side in sides:
        (validation.labels if side else validation.predictions)([next(waiting[side])])
    found = answers_of(validation)
    expected = joined_by_a_loop(predictions, labels, 0, "ban", answers_after=5.0)[-window:]
    assert rows(found) == [(each.asked, each.probability, each.truth) for each in expected]
    assert found.model.tolist() == [each.model for each in expected]


def test_window_is_of_the_answers_that_became_known_last() -> None:
    validation = ProgressiveValidation(topology_with(window=10, answers_after="40s"))
    random = np.random.default_rng(5)
    predictions = [said(f"u{at % 7}", f"{at:03}", at, float(random.random())) for at in range(60)]
    labels = [
        turned_out(f"u{at % 7}", at, float(random.integers(2)), known=at + random.random() * 40) for at in range(60)
    ]
    validation.predictions(predictions)
    validation.labels(labels)
    expected = joined_by_a_loop(predictions, labels, 0, "ban", answers_after=40.0)[-10:]
    assert rows(answers_of(validation)) == [(each.asked, each.probability, each.truth) for each in expected]


def test_memory_is_bounded_and_keeps_all_of_some_users() -> None:
    topology = topology_with(predictions=1000, horizon_days=1000.0)
    validation = ProgressiveValidation(topology)
    users, each = 500, 20
    for at in range(each):
        validation.predictions([said(f"u{user}", f"{user}/{at}", at, 0.5) for user in range(users)])
        validation.labels([turned_out(f"u{user}", at, 1.0) for user in range(users)])
        validation.alerts([alerted(f"u{user}", f"{user}/{at}", at) for user in range(users)])
        assert validation.count <= 1000
    found = answers_of(validation)
    assert validation.memory.user_share in (2.0**-4, 2.0**-5)
    assert 0 < len(found.asked) <= 1000
    # Of the users that are left nothing is missing, so that no label judges an earlier question than it should.
    assert np.unique(found.asked, return_counts=True)[1].tolist() == [len(found.asked) // each] * each
    assert (found.without_prediction, found.too_old) == (0, 0)
    assert found.alerted.all()


def test_users_are_not_given_up_while_older_rows_can_be() -> None:
    validation = ProgressiveValidation(topology_with(predictions=1000, horizon_days=1.0))
    for day in range(20):
        validation.predictions([said(f"u{user}", f"{user}/{day}", day * DAY, 0.5) for user in range(400)])
    assert validation.memory.user_share == 1.0
    assert validation.count == 800


def test_one_user_who_fills_the_memory_keeps_the_newest() -> None:
    validation = ProgressiveValidation(topology_with(predictions=100))
    validation.predictions([said("ann", f"{at:05}", at, 0.5) for at in range(1000)])
    validation.labels([turned_out("ann", 999, 1.0)])
    assert 50 <= validation.count <= 100
    assert validation.memory.user_share == 1.0
    assert rows(answers_of(validation)) == [(999.0, 0.5, 1.0)]


def test_figures_equal_their_definitions() -> None:
    random = np.random.default_rng(1)
    truth = random.integers(0, 2, 80).astype(float)
    probability = np.round(np.clip(truth * 0.2 + random.random(80) * 0.8, 0, 1), 1)  # with ties
    raised = random.random(80) < 0.3
    found = answer_figures(truth, probability, raised)
    pairs = [(p > q) + (p == q) / 2 for p in probability[truth == 1] for q in probability[truth == 0]]
    assert found.auc == pytest.approx(np.mean(pairs))
    assert found.brier == pytest.approx(np.mean((probability - truth) ** 2))
    assert found.base_rate == pytest.approx(truth.mean())
    assert found.alert_precision == pytest.approx(truth[raised].mean())
    # Precision at each distinct threshold, weighted by the recall that it adds.
    steps = [
        (truth[probability >= level].mean(), truth[probability >= level].sum() / truth.sum())
        for level in np.unique(probability)[::-1]
    ]
    recall = np.diff([0.0, *(step[1] for step in steps)])
    assert found.average_precision == pytest.approx(
        sum(step[0] * gain for step, gain in zip(steps, recall, strict=True))
    )


def test_figures_that_are_undefined_are_none() -> None:
    nothing = answer_figures(np.zeros(0), np.zeros(0), np.zeros(0, np.bool_))
    assert (nothing.count, nothing.auc, nothing.brier, nothing.alert_precision) == (0, None, None, None)
    one_class = answer_figures(np.ones(3), np.full(3, 0.5), np.zeros(3, np.bool_))
    assert (one_class.count, one_class.auc, one_class.base_rate, one_class.alerts) == (3, None, 1.0, 0)


def test_questions_of_which_one_kind_of_answer_is_known_are_in_no_figure_and_counted() -> None:
    """True answers are known after one second, false ones after thirty."""
    validation = ProgressiveValidation(topology_with())
    labels = [turned_out("ann", at, float(at % 2), known=at + (1.0 if at % 2 else 30.0)) for at in range(200)]
    validation.predictions([said("ann", f"{at:03}", at, 0.5) for at in range(200)])
    validation.labels([each for each in labels if each.known < 200])
    answers = answers_of(validation)
    assert answers.answers_after == 30.0
    assert sorted(answers.asked.tolist()) == list(range(169)), "the newest answer, to 197, became known at 198"
    assert answers.truth.sum() == 84
    assert answers.immature == 15
