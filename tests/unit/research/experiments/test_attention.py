"""What is told of attention, where it is known: constant weights, a line as a curve, and meetings counted slowly."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from research.baselines.temporal import TemporalMethod
from research.experiments.ablations import Choice
from research.experiments.attention import (
    FEWEST,
    loess,
    measure,
    of_target_time,
    relative_weights,
    target_times,
    times_met,
)
from stream_tgat.evaluation.link_prediction.model_scorer import ModelScorer
from stream_tgat.training.scoring import TemporalGraph
from tests.unit.research.baselines.small import circles

TASK = circles(300)
NODES = np.arange(24)


def scorer(**options: object) -> ModelScorer:
    method = replace(TemporalMethod("", width=8, time_width=8, neighbours=8, layers=1), **options)  # type: ignore[arg-type]
    return ModelScorer(method.untrained(), TemporalGraph.of(TASK.interactions, None))


def test_constant_attention_is_one_of_every_neighbour() -> None:
    times = np.full(24, TASK.interactions.time[40])
    found, relative = relative_weights(scorer(aggregation="constant"), NODES, times)
    assert found.mask.any()
    assert np.allclose(relative[found.mask], 1.0)
    assert set(found.mask.sum(1)) <= {0, *range(FEWEST, 9)}


def test_relative_weights_are_one_in_the_mean_of_a_neighbourhood() -> None:
    found, relative = relative_weights(scorer(), NODES, np.full(24, TASK.interactions.time[-1]))
    each = [row[mask].mean() for row, mask in zip(relative, found.mask, strict=True) if mask.any()]
    assert len(each) == 24
    assert np.allclose(each, 1.0, atol=1e-5)
    assert np.ptp(relative[found.mask]) > 1e-3


def test_times_met_counts_either_side_and_only_the_past() -> None:
    past = TASK.interactions.select(slice(0, 200))
    time = TASK.interactions.time[200]
    found, _ = relative_weights(scorer(), NODES, np.full(24, time))
    met = times_met(past, NODES, found)
    ends = list(zip(past.source.tolist(), past.destination.tolist(), strict=True))
    for row, node in enumerate(NODES.tolist()):
        for place in np.flatnonzero(found.mask[row]):
            other = int(found.node[row, place])
            assert met[row, place] == ends.count((node, other)) + ends.count((other, node)) > 0


def test_recurrence_is_flat_where_attention_is() -> None:
    found = of_target_time(TASK.interactions, scorer(aggregation="constant"), target_times(TASK)[-1])
    assert found.relative
    assert np.allclose(found.relative, 1.0)
    assert np.allclose(found.error[:-1], 0.0, atol=1e-9)  # of the last class there is one
    assert list(found.met) == sorted(found.met)
    assert found.day == pytest.approx((TASK.interactions.time[-1] - TASK.interactions.time[0]) / 86_400, abs=0.01)


def test_loess_of_a_line_is_the_line() -> None:
    spans = 10.0 ** np.random.default_rng(0).uniform(0, 6, 400)
    grid, curve = loess(spans, 2.0 - 0.25 * np.log10(spans))
    assert np.allclose(curve, 2.0 - 0.25 * np.log10(grid), atol=1e-6)
    assert (np.diff(grid) > 0).all()


def test_report_of_a_small_training_holds_both_figures() -> None:
    report = measure(TASK, Choice(width=8, time_width=8, layers=1, epochs=1), 0)
    assert len(report.spans) == len(report.relative) > 0
    assert len(report.curve) == len(report.curve_spans) == 80
    assert len(report.recurrences) == 4
    assert 0 < report.average_precision <= 1
