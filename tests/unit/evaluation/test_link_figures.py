"""A release and the rules answer the same questions; pair features go into the release's answers."""

import numpy as np
import torch
from numpy.testing import assert_allclose

from stream_tgat.evaluation.link_figures import RELEASE, link_rows, link_task_of, protocol
from stream_tgat.evaluation.link_prediction import EvaluationNegatives, Group, NegativeKind, Part
from stream_tgat.evaluation.link_prediction.model_scorer import ModelScorer
from stream_tgat.evaluation.measured_part import MeasuredPart
from stream_tgat.training.pipeline import untrained
from stream_tgat.training.scoring import TemporalGraph, affinities


def part_from(log, first):
    times = log.interactions.time
    return MeasuredPart(first, float(times[first]), float(times[-1]), len(times) - first, True, "")


def test_task_asks_about_the_part_and_knows_all_before_it(log):
    task = link_task_of(log, part_from(log, 450))
    assert task.events(Part.TEST).tolist() == list(range(450, 600))
    assert len(task.learnt) == 450
    assert not task.hidden.any()


def test_rows_are_the_release_and_every_rule_on_the_same_questions(shop, log):
    progress = {}
    part = part_from(log, 540)
    rows = link_rows(
        untrained(shop, 1), log, part, protocol(20, 5, 0), lambda name, *at: progress.setdefault(name, []).append(at)
    )
    names = [row.method for row in rows]
    assert names[0] == RELEASE
    assert {"EdgeBank (unlimited)", "Destination recency", "Pair recency, then destination recency"} < set(names)
    for row in rows:
        assert row.report.pair().count == rows[0].report.pair().count > 50
        assert row.report.rank().count == 20
        assert progress[row.method][-1] == (80, 80), "sixty interactions, twenty of them ranked"
        seen, unseen = (row.report.pair(group=group).count for group in (Group.SEEN, Group.UNSEEN))
        assert seen + unseen == row.report.pair().count
    # Users meet items of their own kind only, so that a rule that remembers pairs is better than chance.
    assert rows[names.index("EdgeBank (unlimited)")].report.pair().average_precision > 0.6


def test_scores_of_a_release_with_pair_features_are_those_that_training_maximises(shop, log):
    model = untrained(shop, 1)
    events = np.arange(500, 520)
    drawn = EvaluationNegatives(link_task_of(log, part_from(log, 500))).draw(NegativeKind.RANDOM, events, 3)
    with torch.inference_mode():
        _, expected = affinities(model, TemporalGraph.of(log.interactions, None), events, drawn)
    interactions = log.interactions
    found = ModelScorer(model, TemporalGraph.of(interactions, None)).scores(
        interactions.source[events], drawn, interactions.time[events]
    )
    assert_allclose(found, expected.numpy(), atol=2e-5)
