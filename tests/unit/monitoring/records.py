"""Predictions, labels and alerts made by hand, and what a plain loop makes of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from stream_tgat.topology import Topology
from stream_tgat.wire import DecodedAlert, DecodedEmbedding, DecodedLabel


def topology_with(*heads: str, answers_after: str = "", **monitoring: Any) -> Topology:
    stated = [{"name": name, "answers_after": answers_after} for name in heads or ("ban",)]
    return Topology.model_validate({"name": "t", "heads": stated, "monitoring": monitoring})


def said(
    user: str, interaction: str, time: float, *predictions: float, model: int = 1, item: str = "tea"
) -> DecodedEmbedding:
    ends = b"u" + user.encode(), b"i" + item.encode()
    return DecodedEmbedding(interaction.encode(), *ends, 0, time, predictions or (0.5,), model)


def turned_out(user: str, time: float, value: float, known: float | None = None, label: str = "ban") -> DecodedLabel:
    return DecodedLabel(b"u" + user.encode(), label, value, time, time if known is None else known)


def alerted(user: str, interaction: str, time: float, head: str = "ban", item: str = "tea") -> DecodedAlert:
    return DecodedAlert(interaction.encode(), b"u" + user.encode(), b"i" + item.encode(), time, head)


class Answer(NamedTuple):
    """One question that was answered."""

    known: float
    asked: float
    question: Question
    truth: float
    probability: float
    model: int


Question = tuple[float, bytes, bytes, bytes]


def _question(asked: DecodedEmbedding) -> Question:
    return asked.timestamp, asked.interaction, asked.node, asked.peer


def joined_by_a_loop(
    predictions: Sequence[DecodedEmbedding],
    labels: Iterable[DecodedLabel],
    head: int,
    label: str,
    answers_after: float = 0.0,
) -> list[Answer]:
    """Each label looks for its question through all predictions; the largest value of a question is its answer.

    Only questions asked `answers_after` before the newest answer count.
    """
    first: dict[Question, DecodedEmbedding] = {}
    for each in predictions:
        first.setdefault(_question(each), each)
    answers: dict[Question, Answer] = {}
    for told in labels:
        before = [each for each in first.values() if each.node == told.node and each.timestamp <= told.timestamp]
        if told.label != label or not before:
            continue
        asked = max(before, key=_question)
        found = answers.get(_question(asked))
        if found is None or (told.value, -told.known) > (found.truth, -found.known):
            answers[_question(asked)] = Answer(
                told.known, asked.timestamp, _question(asked), told.value, asked.predictions[head], asked.model
            )
    until = max((each.known for each in answers.values()), default=0.0) - answers_after
    return sorted(each for each in answers.values() if each.asked <= until)
