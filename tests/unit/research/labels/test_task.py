"""What may be known when: a task refuses, or hides, every answer before its time."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from research.labels import HeadQuestions, LabelTask, label_task
from stream_tgat.errors import DataError
from stream_tgat.graph.interactions import Interactions
from stream_tgat.training.log import LabelSet


def small():
    """Twenty interactions a second apart of five users; each asks, and the answer comes 4 s later."""
    number = np.arange(20)
    interactions = Interactions.in_time_order(number % 5, 5 + number % 3, number.astype(float))
    labels = LabelSet(number, (number % 2).astype(float), number + 4.0)
    part = np.repeat([0, 1, -1, 2], 5).astype(np.int8)
    return label_task("small", interactions, None, {"odd": labels}, {"odd": part})


def test_cutoff_is_the_first_test_question_and_answers_after_it_are_in_no_part():
    task = small()
    (target,) = task.targets
    assert task.cutoff == 15.0
    assert_array_equal(target.train, np.arange(5))
    assert_array_equal(target.validation, np.arange(5, 10))
    assert_array_equal(target.test, np.arange(15, 20))
    late = LabelSet(target.labels.event, target.labels.value, target.labels.known + 3)
    moved = label_task(
        "small", task.interactions, None, {"odd": late}, {"odd": np.repeat([0, 1, -1, 2], 5).astype(np.int8)}
    )
    assert_array_equal(moved.targets[0].validation, np.arange(5, 9)), "that of 9 comes at 16"


def test_method_sees_answers_of_train_and_validation_only():
    seen = small().at_cutoff().targets[0].labels.value
    assert_array_equal(seen[:10], np.arange(10) % 2)
    assert np.isnan(seen[10:]).all()


def changed(task: LabelTask, **values: object) -> LabelTask:
    return replace(task, targets=(replace(task.targets[0], **values),))


def with_labels(task: LabelTask, **values: object) -> LabelTask:
    return changed(task, labels=replace(task.targets[0].labels, **values))


@pytest.mark.parametrize(
    ("broken", "reason"),
    [
        (lambda task: changed(task, validation=np.array([12])), "known only after the cut-off"),
        (lambda task: changed(task, test=np.array([14, 15])), "asked before the cut-off"),
        (lambda task: changed(task, validation=np.array([4])), "in two parts"),
        (lambda task: with_labels(task, known=np.arange(20) - 1.0), "before it is asked"),
        (lambda task: with_labels(task, event=np.append(np.arange(19), 0)), "twice at one time"),
    ],
)
def test_task_that_lets_an_answer_be_seen_early_is_refused(broken, reason):
    with pytest.raises(DataError, match=reason):
        broken(small())


def test_encoder_learns_from_what_is_strictly_before_the_cutoff():
    links = small().links()
    assert links.split.train == slice(0, 13)
    assert links.split.validation == slice(13, 15)
    assert not links.hidden.any()


def test_task_without_a_test_question_is_refused():
    task = small()
    with pytest.raises(DataError, match="no test question"):
        label_task("small", task.interactions, None, {"odd": task.targets[0].labels}, {"odd": np.zeros(20, np.int8)})


def test_targets_name_the_users_of_their_questions():
    task = small()
    target: HeadQuestions = task.targets[0]
    assert_array_equal(task.interactions.source[target.labels.event[target.test]], np.arange(5))
