"""Every method is asked the same, learns only what was known, and is compared user by user."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal

from research.baselines.temporal import TemporalMethod
from research.baselines.time_encodings import TimeEncodingKind
from research.baselines.varied import time_encoding_methods
from research.experiments import labels as experiment
from research.labels import LabelTask, compare, label_task, measure
from research.labels.methods import Activity, EncoderMethod, EventOnly, Heads
from research.labels.protocol import LabelProtocol
from research.labels.sums import with_decayed_sums
from research.labels.trees import BoostedTrees, event_and_user, with_running_aggregates
from stream_tgat.errors import DataError
from stream_tgat.graph.interactions import Interactions
from stream_tgat.training.fine_tuning import FineTuning
from stream_tgat.training.fitting import HeadSettings
from stream_tgat.training.heads import embed_events
from stream_tgat.training.links import LinkSettings
from stream_tgat.training.log import LabelSet

QUICK = LabelProtocol(rounds=20)
HEADS = Heads(HeadSettings(epochs=4, penalties=(0.001, 0.1), learning_rate=0.01))
LIKE = TemporalMethod("TGAT", width=8, time_width=8, layers=1, neighbours=4, settings=LinkSettings(epochs=1))
FEATURES = (event_and_user, with_running_aggregates)


def task(count: int = 600, seed: int = 0) -> LabelTask:
    """Two heads: one is told by the interaction's first feature, the other by a coin."""
    random = np.random.default_rng(seed)
    users = random.integers(0, 30, count)
    edge = random.normal(size=(count, 2)).astype(np.float32)
    time = np.arange(count, dtype=np.float64)
    interactions = Interactions.in_time_order(users, 30 + random.integers(0, 8, count), time, edge)
    features = random.normal(size=(38, 3)).astype(np.float32)
    told = (edge[:, 0] > 0).astype(np.float64)
    labels = {
        "told": LabelSet(np.arange(count), told, time + 10),
        "coin": LabelSet(np.arange(count), random.integers(0, 2, count).astype(np.float64), time + 10),
    }
    part = np.repeat([0, 1, 2], count // 3).astype(np.int8)
    return label_task("coins", interactions, features, labels, {"told": part, "coin": part})


def test_every_method_gets_the_same_questions_and_no_answer_of_the_test():
    asked = []

    class Spy:
        name = "spy"

        def scores(self, task, seed):
            asked.append(task)
            return tuple(np.zeros(len(target.labels)) for target in task.targets)

    whole = task()
    reports = [measure(whole, Spy(), seed, QUICK) for seed in range(2)]
    for seen in asked:
        for target, true in zip(seen.targets, whole.targets, strict=True):
            assert_array_equal(target.labels.event, true.labels.event)
            assert np.isnan(target.labels.value[true.test]).all()
            unknown = whole.targets[0].labels.known > whole.cutoff
            assert np.isnan(target.labels.value[unknown]).all()
    assert reports[0].heads[0].test.auc.estimate == 0.5
    assert reports[0].heads[0].test.count == 200


@pytest.mark.parametrize(
    "method",
    [
        EventOnly(HEADS),
        BoostedTrees(FEATURES, least=5),
        EncoderMethod(LIKE, HEADS),
        EncoderMethod(LIKE, HEADS, FineTuning(epochs=2, learning_rate=0.01)),
        with_decayed_sums(LIKE, HEADS),
    ],
    ids=lambda method: method.name,
)
def test_answers_known_after_the_cutoff_change_no_score(method):
    """Flip every answer whose time has not come: the scores stay, to the last bit."""
    whole = task()
    targets = []
    for target in whole.targets:
        late = target.labels.known > whole.cutoff
        value = np.where(late, 1 - target.labels.value, target.labels.value)
        targets.append(replace(target, labels=replace(target.labels, value=value)))
    flipped = replace(whole, targets=tuple(targets))
    one, other = (measure(each, method, 1, QUICK) for each in (whole, flipped))
    for mine, theirs in zip(one.heads, other.heads, strict=True):
        assert mine.scores == theirs.scores
        assert mine.validation == theirs.validation
    assert one.heads[0].test.auc.estimate > 0.8, "the feature tells the answer"
    assert other.heads[0].test.auc.estimate < 0.2, "and now the opposite"


def test_time_encodings_change_what_heads_read_and_nothing_else():
    """Every encoding but the model's own has a row; without time, when things happened leaves no trace."""
    whole = task()
    others = {method.encoding: method for method in time_encoding_methods(LIKE)}
    assert set(others) == set(TimeEncodingKind) - {TimeEncodingKind.LOG}
    assert all((each.width, each.settings.epochs) == (8, 1) for each in others.values())
    gaps = np.random.default_rng(1).exponential(size=len(whole.interactions)) + 0.01
    slower = replace(whole, interactions=replace(whole.interactions, time=np.cumsum(gaps)), targets=())

    def read(method: TemporalMethod, seen: LabelTask) -> np.ndarray:
        model = method.fit(whole.links(), 0).model
        graph = method.past_of(seen.interactions, seen.node_features)
        return embed_events(model, graph, np.arange(len(seen.interactions))).numpy()

    def differ(method: TemporalMethod) -> bool:
        return not np.allclose(read(method, whole), read(method, slower), atol=1e-5)

    assert not differ(others[TimeEncodingKind.NONE])
    assert not differ(others[TimeEncodingKind.POSITION_LEARNT])
    assert differ(LIKE)
    assert differ(others[TimeEncodingKind.RAW])
    assert differ(others[TimeEncodingKind.REAL_NVP])


def test_validation_is_answered_without_its_own_answers():
    """A method that learns from validation in the end must not be praised there for what it was told."""
    whole = task()
    target = whole.targets[1]
    value = target.labels.value.copy()
    x = whole.interactions.edge
    value[target.validation] = (x[target.validation, 1] > 0).astype(np.float64)
    known = replace(whole, targets=(replace(target, labels=replace(target.labels, value=value)),))
    report = measure(known, BoostedTrees((event_and_user,), least=5), 0, QUICK)
    assert report.heads[0].validation.auc.estimate < 0.65


def test_comparison_pairs_questions_users_heads_and_seeds():
    whole = task()
    trees = [measure(whole, BoostedTrees((event_and_user,), least=5), seed, QUICK) for seed in range(2)]
    rule = [measure(whole, Activity(50.0), 0, QUICK)]
    found = compare(whole, trees, rule, QUICK)
    expected = np.mean([each.mean_auc() for each in trees]) - rule[0].mean_auc()
    assert_allclose(found.estimate, expected, atol=1e-5)
    assert found.low < found.estimate < found.high
    same = compare(whole, rule, rule, QUICK)
    assert (same.estimate, same.low, same.high) == (0.0, 0.0, 0.0)


def test_running_aggregates_are_of_the_strict_past():
    interactions = Interactions.in_time_order(
        [0, 0, 0, 0], [1, 1, 1, 1], [0.0, 1.0, 1.0, 2.0], [[1.0], [2.0], [3.0], [9.0]]
    )
    labels = LabelSet(np.array([0, 1, 3]), np.zeros(3), np.array([9.0, 9.0, 9.0]))
    asked = label_task("past", interactions, None, {"x": labels}, {"x": np.full(3, 2, np.int8)})
    found = with_running_aggregates(asked, asked.targets[0])
    assert_array_equal(found[:, 0], [1, 2, 9])
    assert_array_equal(found[:, 4:], [[np.nan] * 3, [1, 1, 1], [2, 2, 3]])


def test_activity_counts_the_window_strictly_before():
    interactions = Interactions.in_time_order([0, 0, 0, 1], [2, 2, 2, 2], [0.0, 5.0, 9.0, 10.0])
    labels = LabelSet(np.array([2, 3]), np.zeros(2), np.array([20.0, 20.0]))
    asked = label_task("window", interactions, None, {"x": labels}, {"x": np.full(2, 2, np.int8)})
    assert_array_equal(Activity(5.0).scores(asked, 0)[0], [1, 0])


def test_score_that_is_missing_is_refused():
    class Silent:
        name = "silent"

        def scores(self, task, seed):
            return tuple(np.full(len(target.labels), np.nan) for target in task.targets)

    with pytest.raises(DataError, match="silent must answer all 600"):
        measure(task(), Silent(), 0, QUICK)


@pytest.mark.slow
def test_table_has_every_row_and_is_made_once(tmp_path):
    every = experiment.methods(LIKE, FEATURES, HEADS)
    names = [method.name for method in every]
    assert len(names) == len(set(names)) == 30
    chosen = [method for method in every if method.name in ("TGAT", "GAE", experiment.BASELINE)]
    told: list[bool] = []
    for _ in range(2):
        drawn = experiment.make(
            task(), chosen, 1, lambda _: "s", tmp_path / "table", QUICK, lambda _, there: told.append(there)
        )
    assert told == [False] * 3 + [True] * 3
    assert drawn.row_count == 3
    lines = (tmp_path / "table.jsonl").read_text().splitlines()
    assert sorted(json.loads(line)["key"] for line in lines) == [
        "coins-s-boosted_trees_on_the_same_past-0",
        "coins-s-gae-0",
        "coins-s-tgat-0",
    ]


def test_encoder_is_not_touched_by_its_heads():
    whole = task()
    fitted = []

    class Watched(TemporalMethod):
        def fit(self, task, seed):
            scorer = super().fit(task, seed)
            fitted.append((scorer.model, {k: v.clone() for k, v in scorer.model.state_dict().items()}))
            return scorer

    watched = Watched("TGAT", width=8, time_width=8, layers=1, neighbours=4, settings=LinkSettings(epochs=1))
    measure(whole, EncoderMethod(watched, HEADS), 0, QUICK)
    model, before = fitted[0]
    for name, value in model.state_dict().items():
        assert torch.equal(value, before[name]), name
