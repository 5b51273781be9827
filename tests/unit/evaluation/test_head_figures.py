"""Figures of a head by hand, and answers that see nothing of the interaction's own time."""

import numpy as np
import pytest
import torch

from stream_tgat.evaluation.head_figures import HeadAnswers, answers_of, head_figures
from stream_tgat.evaluation.measured_part import MeasuredPart
from stream_tgat.training.pipeline import untrained
from stream_tgat.training.scoring import TemporalGraph


def part_from(log, first):
    times = log.interactions.time
    return MeasuredPart(first, float(times[first]), float(times[-1]), len(times) - first, True, "")


def test_figures_of_a_few_answers_are_what_a_hand_computes():
    answers = HeadAnswers(np.array([0.0, 0, 1, 1]), np.array([0.1, 0.6, 0.6, 0.8]), np.array([1, 1, 2, 3]))
    found = head_figures("h", answers, 0.6)
    assert (found.answers, found.users, found.base_rate) == (4, 3, 0.5)
    # Of the four pairs three are right and one is a tie.
    assert found.auc.estimate == pytest.approx(3.5 / 4)
    assert found.auc.low <= found.auc.estimate <= found.auc.high
    # 0.8 alone: precision 1, recall 1/2; with both of 0.6: precision 2/3, recall 1.
    assert found.average_precision == pytest.approx(0.5 * 1 + 0.5 * 2 / 3)
    assert found.brier == pytest.approx((0.01 + 0.36 + 0.16 + 0.04) / 4)
    assert (found.alerts.count, found.alerts.share, found.alerts.recall) == (3, 0.75, 1.0)
    assert found.alerts.precision == pytest.approx(2 / 3)


def test_no_answers_and_no_alerts_leave_figures_undefined():
    empty = head_figures("h", HeadAnswers(np.zeros(0), np.zeros(0), np.zeros(0, np.int64)), 0.5)
    assert empty.answers == 0
    assert np.isnan([empty.base_rate, empty.brier, empty.calibration_error, empty.alerts.precision]).all()
    quiet = head_figures("h", HeadAnswers(np.array([0.0, 1.0]), np.array([0.1, 0.2]), np.array([0, 1])), 0.5)
    assert (quiet.alerts.count, quiet.alerts.recall) == (0, 0.0)
    assert np.isnan(quiet.alerts.precision)


def test_answers_are_those_of_the_model_to_the_questions_of_the_part_only(shop, log):
    model = untrained(shop, 3)
    part = part_from(log, 500)
    told = []
    answers = answers_of(model, log, part, shop.heads, lambda *place: told.append(place))["even"]
    labels = log.labels["even"]
    asked = labels.event[labels.event >= 500]
    assert len(answers.truth) == len(asked)
    assert answers.truth.tolist() == labels.value[labels.event >= 500].tolist()
    assert answers.user.tolist() == log.interactions.source[asked].tolist()
    assert told[-1] == (len(asked), len(asked))
    graph = TemporalGraph.of(log.interactions, log.node_features)
    for place in (0, len(asked) // 2, len(asked) - 1):
        event = asked[place : place + 1]
        with torch.inference_mode():
            embedding = graph.embed(model, log.interactions.source[event], log.interactions.time[event])
            expected = model.predict(embedding, torch.from_numpy(log.interactions.edge[event]))
        assert answers.probability[place] == pytest.approx(float(expected), abs=1e-6)
