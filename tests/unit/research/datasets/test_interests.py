"""Groceries as a task: parts with gaps as long as an answer takes, and the features that the demo has."""

from pathlib import Path

import numpy as np
from numpy.testing import assert_allclose

from research.datasets.groceries import DAY_S, FEATURES, START, Groceries, Purchases
from research.datasets.interests import BEGIN_OF_TEST, InterestFeatures, edge_features, interest_task
from research.labels import QuestionPart
from stream_tgat.topology import load_topology

GROCERIES = Path(__file__).resolve().parents[4] / "topologies" / "groceries.toml"


def data(households=3, seed=0):
    """Each household has a basket every third day, and now and then one of a group."""
    random = np.random.default_rng(seed)
    day = np.repeat(np.arange(0, 365, 3), households)
    count = len(day)
    household = np.tile(np.arange(households), count // households)
    time = START + day * DAY_S + 3600.0 * (8 + household)
    fields = np.abs(random.normal(3.0, 2.0, (count, len(FEATURES))))
    fields[:, FEATURES.index("private_brand")] = random.integers(0, 2, count)
    group = random.random((count, 4)) < 0.02
    bought = Purchases(household, random.integers(0, 5, count), time, np.arange(count), group, fields)
    names = tuple(str(number) for number in range(households))
    return Groceries(names, tuple("abcde"), bought, random.normal(size=(5, 100)).astype(np.float32), BEGIN_OF_TEST)


def test_every_answer_of_a_part_is_known_before_the_next_part_asks():
    task = interest_task(data())
    time = task.interactions.time
    for target in task.targets:
        asked = time[target.labels.event]
        known = target.labels.known
        assert_allclose(known, asked + 28 * DAY_S)
        for part, later in (
            (QuestionPart.TRAIN, QuestionPart.VALIDATION),
            (QuestionPart.VALIDATION, QuestionPart.TEST),
        ):
            assert known[target.part(part)].max() <= asked[target.part(later)].min()
        days = [np.floor((asked[target.part(part)] - START) / DAY_S) for part in QuestionPart]
        bounds = [(each.min() >= first, each.max() <= last) for each, (first, last) in
                  zip(days, ((56, 172), (200, 234), (262, 337)), strict=True)]  # fmt: skip
        assert bounds == [(True, True)] * 3


def test_edge_features_are_those_of_the_demo():
    bought = data().purchases
    topology = load_topology(GROCERIES)
    fields = [
        dict(zip(FEATURES, row.tolist(), strict=True))
        | {"private_brand": bool(row[FEATURES.index("private_brand")])}
        | dict(zip(("dietary", "organic", "baby", "pet"), groups.tolist(), strict=True))
        for row, groups in zip(bought.fields[:20], bought.group[:20], strict=True)
    ]
    vectors, errors = topology.encoder.encode(fields)
    assert errors == [None] * 20
    assert_allclose(edge_features(bought)[:20], vectors, atol=1e-6)


def test_features_of_the_trees_are_row_by_row_those_of_the_questions():
    groceries = data()
    task = interest_task(groceries)
    for target in task.targets:
        found = InterestFeatures(groceries)(task, target)
        assert len(found) == len(target.labels)
        asked = task.interactions.time[target.labels.event]
        assert_allclose(found[:, 0], (asked - START) / DAY_S)
