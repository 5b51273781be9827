"""Progressive validation: labels that arrive later, joined with the predictions made at the time.

The join is training's (`training.log`): a label judges the user's last interaction not after the label's time, and
several labels of one interaction are one question, whose answer is the largest value. It is made anew for each report
from all that is remembered, so the result does not depend on the order in which topics were read, and a label that came
before its prediction finds it later.

Limits. A prediction that is older than the horizon, or older than where the monitor began to read, is not there to be
judged; such labels are counted. While workers lag behind, a label may for a moment judge the interaction before.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final

import numpy as np
from numpy.typing import NDArray

from stream_tgat.graph.interactions import Interactions
from stream_tgat.monitoring.memory import NodeTimeRows, RecentRows, interaction_hash, node_hash
from stream_tgat.topology import Head, Topology, split_node_key
from stream_tgat.training.log import LabelSet, last_as_source, one_per_question
from stream_tgat.training.maturity import maturity_of
from stream_tgat.training.unmatched import EXAMPLES
from stream_tgat.wire import DecodedAlert, DecodedEmbedding, DecodedLabel

_DAY_S: Final = 86_400.0
_UNKNOWN: Final = 100
"""Names of labels without a head that are counted, each by itself."""
_NODES: Final = 1000
"""Nodes of the newest labels whose names are remembered, to give examples."""
_PREDICTIONS, _LABELS, _ALERTS = "predictions", "labels", "alerts"


@dataclass(frozen=True, eq=False)
class KnownAnswers:
    """The n answers of a head that became known last, in that order, in event time.

    truth: float64 0 or 1   probability: float64   model: int64, the version that predicted   asked: float64, unix
    seconds, the question's time   alerted: bool
    labels: remembered   without_prediction: of these, how many found none   without_prediction_of: some of their nodes
    too_old: of a time before all predictions
    learnt_from: answers left out, as the model may have learnt them
    immature: answers left out, as their question is so new that perhaps but one kind of answer is known
    answers_after: seconds after which both kinds are known, see `training.maturity`
    """

    truth: NDArray[np.float64]
    probability: NDArray[np.float64]
    model: NDArray[np.int64]
    asked: NDArray[np.float64]
    alerted: NDArray[np.bool_]
    labels: int
    without_prediction: int
    without_prediction_of: tuple[str, ...]
    too_old: int
    learnt_from: int
    immature: int
    answers_after: float


@dataclass(frozen=True, eq=False)
class _Questions:
    """Predictions, those of a user in the order of the log, one for each interaction: the one that came first.

    question: stands for the interaction, see `interaction_hash`
    """

    node: NDArray[np.uint64]
    time: NDArray[np.float64]
    question: NDArray[np.uint64]
    probability: NDArray[np.float64]
    model: NDArray[np.int64]


class ProgressiveValidation:
    """Remembers predictions, labels and alerts within bounds, and joins them."""

    def __init__(self, topology: Topology) -> None:
        self._heads = topology.heads
        self._names = sorted({head.label_name for head in topology.heads})
        self._alerting = {head.name: at for at, head in enumerate(topology.heads)}
        self._unknown: Counter[str] = Counter()
        self._nodes: dict[int, bytes] = {}
        self._answers_after = [topology.answers_after_s(head.label_name) for head in topology.heads]
        wanted = topology.monitoring
        self._window = wanted.window
        many, several = wanted.predictions, wanted.predictions * max(len(topology.heads), 1)
        user, time, question, key = ("node", "u8"), ("time", "f8"), ("question", "u8"), f"S{topology.id_bytes}"
        order = [("interaction", key), ("item", key)]
        self.memory = RecentRows(
            {
                _PREDICTIONS: (
                    [user, time, question, *order, ("model", "i8"), ("probability", "f8", (len(self._heads),))],
                    many,
                ),
                _LABELS: ([user, time, ("name", "u2"), ("value", "f8"), ("known", "f8"), ("found", "?")], several),
                _ALERTS: ([user, time, question, ("head", "u2")], several),
            },
            wanted.horizon_days * _DAY_S,
        )

    def predictions(self, predictions: Iterable[DecodedEmbedding]) -> None:
        """Predictions of users, as they come; embeddings of items say nothing here."""
        asked = [each for each in predictions if each.side == 0 and each.predictions]
        if asked:
            self.memory.advance(max(each.timestamp for each in asked))
        self.memory.add(
            _PREDICTIONS,
            [
                (
                    node_hash(each.node),
                    each.timestamp,
                    _question(each),
                    each.interaction,
                    each.peer,
                    each.model,
                    each.predictions,
                )
                for each in asked
            ],
        )

    def labels(self, labels: Iterable[DecodedLabel]) -> None:
        """Labels; those that no head learns are counted."""
        numbers = {name: at for at, name in enumerate(self._names)}
        labels = list(labels)
        for each in labels:
            if each.label not in numbers and (each.label in self._unknown or len(self._unknown) < _UNKNOWN):
                self._unknown[each.label] += 1
            self._nodes[node_hash(each.node)] = each.node
        while len(self._nodes) > _NODES:
            self._nodes.pop(next(iter(self._nodes)))
        self.memory.add(
            _LABELS,
            [
                (node_hash(each.node), each.timestamp, numbers[each.label], each.value, each.known, False)
                for each in labels
                if each.label in numbers
            ],
        )

    def alerts(self, alerts: Iterable[DecodedAlert]) -> None:
        """Alerts; those of heads that the topology does not know are passed over."""
        self.memory.add(
            _ALERTS,
            [
                (node_hash(each.node), each.timestamp, _question(each), self._alerting[each.head])
                for each in alerts
                if each.head in self._alerting
            ],
        )

    @property
    def unknown(self) -> Mapping[str, int]:
        """How many labels of each name that no head learns have been read."""
        return self._unknown

    @property
    def learnt(self) -> Sequence[str]:
        """Names of the labels that heads learn."""
        return self._names

    @property
    def count(self) -> int:
        """How many predictions may still be judged."""
        return len(self._recent(_PREDICTIONS))

    def answers(self, learnt_until: Callable[[int], float] = lambda _: -np.inf) -> list[tuple[Head, KnownAnswers]]:
        """Each head's newest answers, in the topology's order.

        learnt_until: time before which a model's questions do not count, since it may have learnt their answers
        """
        questions, labels = self._questions(), self.memory.rows(_LABELS)
        learnt = np.zeros(len(questions.time), np.bool_)
        for model in np.unique(questions.model):
            learnt |= (questions.model == model) & (questions.time < learnt_until(int(model)))
        event = _judged(questions, labels)
        labels["found"] |= event >= 0
        alerts = self.memory.rows(_ALERTS)
        return [
            (
                head,
                self._of_head(at, head, questions, learnt, labels, event, alerts["question"][alerts["head"] == at]),
            )
            for at, head in enumerate(self._heads)
        ]

    def _of_head(
        self,
        at: int,
        head: Head,
        questions: _Questions,
        learnt: NDArray[np.bool_],
        labels: NodeTimeRows,
        event: NDArray[np.int64],
        raised: NDArray[np.uint64],
    ) -> KnownAnswers:
        """event: the question that each label judges, −1 for none   raised: questions at which this head alerted"""
        # A label that had its answer is forgotten with it; one that came too late is told of.
        remembered = (labels["time"] >= self.memory.oldest) | ~labels["found"]
        mine = remembered & (labels["name"] == self._names.index(head.label_name))
        labels, event = labels[mine], event[mine]
        missing = event < 0
        oldest = questions.time[0] if len(questions.time) else -np.inf
        is_too_old = missing & (labels["time"] < oldest)
        too_old = int(is_too_old.sum())
        answered = one_per_question(event, labels["value"], labels["known"])
        # A release that had not this head said nothing about it.
        answered = answered.select(np.isfinite(questions.probability[answered.event, at]))
        asked, stated = questions.time[answered.event], self._answers_after[at]
        maturity = maturity_of(asked, answered.known, answered.value, stated)
        mature = asked <= maturity.complete_until
        unseen = ~learnt[answered.event]
        newest = _known_last(answered.select(unseen & mature), self._window)
        return KnownAnswers(
            newest.value,
            questions.probability[newest.event, at],
            questions.model[newest.event],
            questions.time[newest.event],
            np.isin(questions.question[newest.event], raised),
            len(labels),
            int(missing.sum()) - too_old,
            self._named(labels["node"][missing & ~is_too_old]),
            too_old,
            int((~unseen).sum()),
            int((unseen & ~mature).sum()),
            maturity.delay_s,
        )

    def _named(self, nodes: NDArray[np.uint64]) -> tuple[str, ...]:
        """Some of the nodes with these hashes, the newest first; of those labelled long ago the names are not kept."""
        known = (self._nodes.get(each) for each in dict.fromkeys(nodes[::-1].tolist()))
        return tuple(split_node_key(node)[1] for node in islice(filter(None, known), EXAMPLES))

    def _recent(self, kind: str) -> NodeTimeRows:
        rows = self.memory.rows(kind)
        return rows[rows["time"] >= self.memory.oldest]

    def _questions(self) -> _Questions:
        rows = self._recent(_PREDICTIONS)
        # Stable, so that of repeats the first stays: one around a switch of models may name the other model.
        order = np.lexsort((rows["item"], rows["node"], rows["interaction"], rows["time"]))
        question = rows["question"][order]
        first = np.ones(len(order), np.bool_)
        first[1:] = question[1:] != question[:-1]
        order = order[first]
        return _Questions(
            rows["node"][order],
            rows["time"][order],
            question[first],
            rows["probability"][order],
            rows["model"][order],
        )


def _question(of: DecodedEmbedding | DecodedAlert) -> int:
    """The interaction that a user's prediction or alert is about."""
    return interaction_hash(of.interaction, of.timestamp, of.node, of.peer)


def _judged(questions: _Questions, labels: NodeTimeRows) -> NDArray[np.int64]:
    """The question that each label judges; −1 where there is none: int64 [labels]."""
    count = len(questions.time)
    _, numbers = np.unique(np.concatenate([questions.node, labels["node"]]), return_inverse=True)
    number = numbers.astype(np.int64)
    nowhere, no_features = np.zeros(count, np.int64), np.zeros((count, 0), np.float32)
    asked = Interactions(number[:count], nowhere, questions.time, no_features)
    return last_as_source(asked, number[count:], labels["time"])


def _known_last(labels: LabelSet, count: int) -> LabelSet:
    """Those that became known last, in that order; of one moment, in the order of their questions."""
    return labels.select(np.argsort(labels.known, kind="stable")[-count:])
