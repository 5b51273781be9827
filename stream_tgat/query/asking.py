"""Nodes at times, wherever they are: what is asked is cut by worker, and answers come in the order of asking."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from stream_tgat.query.messages import MOST_NODES, MOST_PAIRS, PastRows, Question, Reply
from stream_tgat.query.workers import PartialQuestion
from stream_tgat.wire.packets import partitions_of


@dataclass(frozen=True)
class Target:
    """A node by its key, and a time in unix seconds; NaN is now."""

    key: bytes
    time: float = math.nan


@dataclass(frozen=True)
class Found:
    """One node at one time; see `engine.Look`. By head: probability, said_at, alerted, threshold."""

    model: int
    received: float
    time: float
    embedding: NDArray[np.float32]
    degree: int
    last: float
    is_cut: bool
    awaited: int
    probability: NDArray[np.float64]
    said_at: NDArray[np.float64]
    alerted: NDArray[np.float64]
    threshold: NDArray[np.float64]
    past: PastRows | None


@dataclass(frozen=True)
class Replies:
    """found: of each target   meetings: f4[P, 3]   predictions: f4[Q, heads]"""

    found: list[Found]
    meetings: NDArray[np.float32]
    predictions: NDArray[np.float32]


class Asker(Protocol):
    """Takes questions to workers: see `Workers`."""

    async def ask(
        self, partitions: Sequence[int], cut: Callable[[list[int]], Iterable[PartialQuestion]]
    ) -> list[tuple[PartialQuestion, Reply]]:
        """Answers to the questions that `cut` makes about nodes of one worker."""


class Asking:
    """Asks the workers of one deployment."""

    def __init__(self, workers: Asker, partitions: int) -> None:
        self._workers = workers
        self._partitions = partitions

    async def look(
        self,
        targets: Sequence[Target],
        *,
        rows: int = 0,
        met: Sequence[tuple[int, bytes]] = (),
        events: Sequence[tuple[int, NDArray[np.float32]]] = (),
        together: bool = False,
    ) -> Replies:
        """What the owners say.

        rows: past interactions of each target to tell   met: (place of a target, peer), how the two met
        events: (place of a target, edge vector), what heads would say of it
        together: whether now is one time for all targets, the latest of theirs
        """
        met_of, events_of = _by_target(met), _by_target(events)

        def cut(of_worker: list[int]) -> Iterator[PartialQuestion]:
            for places, pairs, happening in _cut(of_worker, met_of, events_of):
                question = _question(targets, places, [met[m] for m in pairs], [events[e] for e in happening])
                question = replace(question, rows=rows, together=together and bool(np.isnan(question.time).any()))
                yield PartialQuestion(places, pairs, happening, question)

        partitions = partitions_of([target.key for target in targets], self._partitions).tolist()
        answers = await self._workers.ask(partitions, cut)
        found: dict[int, Found] = {}
        meetings = np.zeros((len(met), 3), np.float32)
        predictions: dict[int, NDArray[np.float32]] = {}
        for part, answer in answers:
            found.update(zip(part.places, _each(answer), strict=True))
            meetings[part.pairs] = answer.meetings
            predictions.update(zip(part.events, answer.predictions, strict=True))
        if together:
            times = {found[place].time for place, target in enumerate(targets) if math.isnan(target.time)}
            if len(times) > 1:
                # Each worker knows its own nodes, and a slice of its thread holds so many of them.
                now = max(times)
                targets = [Target(each.key, now) if math.isnan(each.time) else each for each in targets]
                return await self.look(targets, rows=rows, met=met, events=events)
        said = [predictions[event] for event in range(len(events))]
        heads = answers[0][1].predictions.shape[1] if answers else 0
        return Replies(
            [found[place] for place in range(len(targets))],
            meetings,
            np.array(said, np.float32).reshape(len(events), heads),
        )


def _cut(
    places: Sequence[int], met_of: Mapping[int, list[int]], events_of: Mapping[int, list[int]]
) -> list[tuple[list[int], list[int], list[int]]]:
    """Places of targets, of pairs and of events of each question, none larger than a worker takes.

    A target of more pairs than one question holds is asked about more than once.
    """
    cuts: list[tuple[list[int], list[int], list[int]]] = []
    for place in places:
        pairs, happening = met_of.get(place, []), events_of.get(place, [])
        for at in range(0, max(len(pairs), len(happening), 1), MOST_PAIRS):
            more, events = pairs[at : at + MOST_PAIRS], happening[at : at + MOST_PAIRS]
            if (
                not cuts
                or len(cuts[-1][0]) == MOST_NODES
                or max(len(cuts[-1][1]) + len(more), len(cuts[-1][2]) + len(events)) > MOST_PAIRS
            ):
                cuts.append(([], [], []))
            cuts[-1][0].append(place)
            cuts[-1][1].extend(more)
            cuts[-1][2].extend(events)
    return cuts


def _by_target(of: Sequence[tuple[int, object]]) -> dict[int, list[int]]:
    result = defaultdict(list)
    for number, (place, _) in enumerate(of):
        result[place].append(number)
    return result


def _question(
    targets: Sequence[Target],
    places: list[int],
    met: list[tuple[int, bytes]],
    events: list[tuple[int, NDArray[np.float32]]],
) -> Question:
    at = {place: here for here, place in enumerate(places)}
    question = Question(
        node=[targets[place].key for place in places],
        time=np.array([targets[place].time for place in places]),
        met=np.array([at[place] for place, _ in met], np.int32),
        peer=[peer for _, peer in met],
    )
    if not events:
        return question
    event = np.array([at[place] for place, _ in events], np.int32)
    return replace(question, event=event, edge=np.stack([edge for _, edge in events]))


def _each(answer: Reply) -> list[Found]:
    return [
        Found(
            model=answer.model,
            received=float(answer.received[b]),
            time=float(answer.time[b]),
            embedding=answer.embedding[b],
            degree=int(answer.degree[b]),
            last=float(answer.last[b]),
            is_cut=bool(answer.is_cut[b]),
            awaited=int(answer.awaited[b]),
            probability=answer.probability[b],
            said_at=answer.said_at[b],
            alerted=answer.alerted[b],
            threshold=answer.threshold,
            past=answer.past[b] if answer.past else None,
        )
        for b in range(len(answer.time))
    ]
