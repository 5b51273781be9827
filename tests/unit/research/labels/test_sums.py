"""What decayed sums tell that heads alone do not see."""

import numpy as np

from research.labels import LabelTask, QuestionPart, label_task, measure
from research.labels.methods import EventOnly, Heads
from research.labels.protocol import LabelProtocol
from research.labels.sums import DAY_S, DecayedSums
from stream_tgat.graph.adjacency import TemporalAdjacency
from stream_tgat.graph.interactions import Interactions
from stream_tgat.training.fitting import HeadSettings
from stream_tgat.training.log import LabelSet

QUICK = LabelProtocol(rounds=20)
HEADS = Heads(HeadSettings(epochs=15, penalties=(0.01,), learning_rate=0.01), dropout=0.1)


def busy(count: int = 900) -> LabelTask:
    """Yes when the user did more than usual in the fortnight before."""
    random = np.random.default_rng(0)
    time = np.sort(random.random(count)) * 200 * DAY_S
    users = random.integers(0, 12, count)
    interactions = Interactions.in_time_order(
        users, 12 + random.integers(0, 5, count), time, random.normal(size=(count, 1))
    )
    history = TemporalAdjacency(interactions)
    recent = history.before(users, time)[1] - history.before(users, time - 14 * DAY_S)[1]
    labels = LabelSet(np.arange(count), (recent > np.median(recent)).astype(np.float64), time)
    return label_task("busy", interactions, None, {"busy": labels}, {"busy": np.repeat([0, 1, 2], count // 3)})


def test_heads_over_sums_know_how_busy_a_user_was():
    asked = busy()
    alone, sums = (measure(asked, method, 0, QUICK) for method in (EventOnly(HEADS), DecayedSums(heads=HEADS)))
    assert alone.mean_auc(QuestionPart.TEST) < 0.65
    assert sums.mean_auc(QuestionPart.TEST) > 0.85
