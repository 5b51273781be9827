"""Nodes at times, wherever they are: what is asked is cut by owner, and answers come in the order of asking."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from stream_tgat.query.messages import MOST_NODES, MOST_PAIRS, Answer, PastRows, Question
from stream_tgat.wire.packets import partitions_of


@dataclass(frozen=True)
class Target:
    """A node by its key, and a time in unix seconds; NaN is now."""

    key: bytes
    time: float = float("nan")


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

    async def ask(self, questions: Sequence[tuple[int, Question]]) -> list[Answer]:
        """Answers to questions, each about nodes of one partition."""


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
    ) -> Replies:
        """What the owners say.

        rows: past interactions of each target to tell   met: (place of a target, peer), how the two met
        events: (place of a target, edge vector), what heads would say of it
        """
        met_of, events_of = _by_target(met), _by_target(events)
        cuts = self._cut([target.key for target in targets], met_of, events_of)
        asked = [
            (partition, _question(targets, places, rows, [met[m] for m in pairs], [events[e] for e in happening]))
            for partition, places, pairs, happening in cuts
        ]
        answers = await self._workers.ask(asked)
        found: dict[int, Found] = {}
        meetings = np.zeros((len(met), 3), np.float32)
        predictions: dict[int, NDArray[np.float32]] = {}
        for (_, places, pairs, happening), answer in zip(cuts, answers, strict=True):
            found.update(zip(places, _each(answer), strict=True))
            meetings[pairs] = answer.meetings
            predictions.update(zip(happening, answer.predictions, strict=True))
        said = [predictions[event] for event in range(len(events))]
        heads = answers[0].predictions.shape[1] if answers else 0
        return Replies(
            [found[place] for place in range(len(targets))],
            meetings,
            np.array(said, np.float32).reshape(len(events), heads),
        )

    def _cut(
        self, keys: Sequence[bytes], met_of: Mapping[int, list[int]], events_of: Mapping[int, list[int]]
    ) -> list[tuple[int, list[int], list[int], list[int]]]:
        """Partition, places of targets, of pairs and of events of each question, none larger than a worker takes.

        A target of more pairs than one question holds is asked about more than once.
        """
        cuts: list[tuple[int, list[int], list[int], list[int]]] = []
        open_cuts: dict[int, tuple[int, list[int], list[int], list[int]]] = {}
        for place, partition in enumerate(partitions_of(keys, self._partitions).tolist()):
            pairs, happening = met_of.get(place, []), events_of.get(place, [])
            for at in range(0, max(len(pairs), len(happening), 1), MOST_PAIRS):
                more, events = pairs[at : at + MOST_PAIRS], happening[at : at + MOST_PAIRS]
                cut = open_cuts.get(partition)
                if (
                    cut is None
                    or len(cut[1]) == MOST_NODES
                    or max(len(cut[2]) + len(more), len(cut[3]) + len(events)) > MOST_PAIRS
                ):
                    cut = open_cuts[partition] = (partition, [], [], [])
                    cuts.append(cut)
                cut[1].append(place)
                cut[2].extend(more)
                cut[3].extend(events)
        return cuts


def _by_target(of: Sequence[tuple[int, object]]) -> dict[int, list[int]]:
    result = defaultdict(list)
    for number, (place, _) in enumerate(of):
        result[place].append(number)
    return result


def _question(
    targets: Sequence[Target],
    places: list[int],
    rows: int,
    met: list[tuple[int, bytes]],
    events: list[tuple[int, NDArray[np.float32]]],
) -> Question:
    at = {place: here for here, place in enumerate(places)}
    question = Question(
        node=[targets[place].key for place in places],
        time=np.array([targets[place].time for place in places]),
        rows=rows,
        met=np.array([at[place] for place, _ in met], np.int32),
        peer=[peer for _, peer in met],
    )
    if not events:
        return question
    event = np.array([at[place] for place, _ in events], np.int32)
    return Question(**vars(question) | {"event": event, "edge": np.stack([edge for _, edge in events])})


def _each(answer: Answer) -> list[Found]:
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
