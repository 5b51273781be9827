"""How likely users meet items, by the release's own affinity, and what heads would say of it."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from stream_tgat.errors import QueryError
from stream_tgat.query.answers import PairAt, Score
from stream_tgat.query.asking import Asking, Found, Replies, Target
from stream_tgat.query.directory import checked_key
from stream_tgat.query.workers import MovingError
from stream_tgat.topology import Kind, Topology

if TYPE_CHECKING:
    from stream_tgat.nn.model import Model

#: So often a question is asked anew while workers answer by different models: a switch takes them a moment.
_TRIES: Final = 5
_PAUSE_S: Final = 0.2


@dataclass(frozen=True)
class Meeting:
    """A user and an item, by their keys, at a time (unix seconds; not a number for now, one time for all).

    edge: [E], features of the interaction, if heads are to say something of it
    """

    user: bytes
    item: bytes
    time: float
    edge: NDArray[np.float32] | None = None


@dataclass(frozen=True)
class Scored:
    """Of n meetings: probability [n], and what heads would say [n, heads], NaN where no features were given.

    user, item: what was found of each, both at one time   version: of the model
    """

    version: int
    probability: NDArray[np.float64]
    predictions: NDArray[np.float32]
    user: list[Found]
    item: list[Found]


class Models(Protocol):
    """Knows the models by which workers answer: see `Serving`."""

    async def model(self, version: int | None = None) -> Model:
        """The model of this version; by default of the one that serves."""


class Scoring:
    """Scores meetings of one deployment."""

    def __init__(self, topology: Topology, asking: Asking, models: Models) -> None:
        self._topology = topology
        self._asking = asking
        self._models = models

    async def score(self, asked: Sequence[PairAt]) -> tuple[int, list[Score]]:
        """Version of the model, and a score for each pair; QueryError for features that no interaction can have."""
        edges = self._edges(asked)
        keys = [(self._key("user", pair.user), self._key("item", pair.item)) for pair in asked]
        now = time.time() if self._topology.time.clock == "wall" else math.nan
        times = [now if pair.time is None else pair.time for pair in asked]
        meetings = [Meeting(*key, at, edge) for key, at, edge in zip(keys, times, edges, strict=True)]
        scored = await self.scored(meetings)
        heads = self._topology.head_names
        return scored.version, [
            Score(
                user=pair.user,
                item=pair.item,
                time=scored.user[n].time,
                probability=float(scored.probability[n]),
                known_user=scored.user[n].degree > 0,
                known_item=scored.item[n].degree > 0,
                predictions=None
                if meeting.edge is None
                else dict(zip(heads, scored.predictions[n].tolist(), strict=True)),
                complete=_is_complete(scored.user[n]) and _is_complete(scored.item[n]),
            )
            for n, (pair, meeting) in enumerate(zip(asked, meetings, strict=True))
        ]

    async def scored(self, meetings: Sequence[Meeting]) -> Scored:
        """Scores of meetings; MovingError while workers answer by different models."""
        version: int | None = None
        for attempt in range(_TRIES):
            if attempt:
                await asyncio.sleep(_PAUSE_S)
            model = await self._models.model(version)
            question = _MeetingQuestions(meetings, pair_features=model.config.pair_features)
            replies = await question.ask(self._asking)
            versions = {each.model for each in replies.found}
            if len(versions) > 1:
                continue
            (found,) = versions
            answering = await self._models.model(found)
            if answering.config.pair_features == model.config.pair_features:
                return question.scored(answering, found, replies)
            version = found
        raise MovingError("workers switch to another model just now, and answer by different ones")

    def _key(self, kind: Kind, node_id: str) -> bytes:
        return checked_key(self._topology, kind, node_id)

    def _edges(self, asked: Sequence[PairAt]) -> list[NDArray[np.float32] | None]:
        """The edge vector of each pair that has features."""
        given = [n for n, pair in enumerate(asked) if pair.features is not None]
        vectors, errors = self._topology.encoder.encode([asked[n].features or {} for n in given])
        for n, error in zip(given, errors, strict=True):
            if error is not None:
                raise QueryError(f"pairs.{n}.features: {error}; it takes the fields that the topology names")
        edges: list[NDArray[np.float32] | None] = [None] * len(asked)
        for n, vector in zip(given, vectors, strict=True):
            edges[n] = vector
        return edges


class _MeetingQuestions:
    """What is asked of the workers about meetings: each end once, however many meetings it is in."""

    def __init__(self, meetings: Sequence[Meeting], *, pair_features: bool) -> None:
        self._meetings = meetings
        ends = [((each.user, each.time), (each.item, each.time)) for each in meetings]
        self._places = _places(end for pair in ends for end in pair)
        self._user = [self._places[user] for user, _ in ends]
        self._item = [self._places[item] for _, item in ends]
        self._met = []
        if pair_features:
            self._met = [(at, each.item) for at, each in zip(self._user, meetings, strict=True)]
            self._met += [(at, each.user) for at, each in zip(self._item, meetings, strict=True)]

    async def ask(self, asking: Asking) -> Replies:
        """What workers say of both ends."""
        events = [(at, each.edge) for at, each in zip(self._user, self._meetings, strict=True) if each.edge is not None]
        return await asking.look([Target(*end) for end in self._places], met=self._met, events=events, together=True)

    def scored(self, model: Model, version: int, replies: Replies) -> Scored:
        """Probabilities from what workers have said."""
        # Loaded with the model, in the background: a service that starts answers other questions before.
        import torch

        embedding = torch.from_numpy(np.stack([each.embedding for each in replies.found]))
        pair = None
        if self._met:
            count = len(self._meetings)
            pair = torch.from_numpy(np.concatenate([replies.meetings[:count], replies.meetings[count:]], 1))
        with torch.inference_mode():
            logits = model.affinity(embedding[self._user], embedding[self._item], pair)
        predictions = np.full((len(self._meetings), replies.predictions.shape[1]), np.nan, np.float32)
        predictions[[n for n, each in enumerate(self._meetings) if each.edge is not None]] = replies.predictions
        return Scored(
            version=version,
            probability=torch.sigmoid(logits.double()).numpy(),
            predictions=predictions,
            user=[replies.found[at] for at in self._user],
            item=[replies.found[at] for at in self._item],
        )


def _places(keys: Iterable[Any]) -> Mapping[Any, int]:
    """Each distinct key with its place among them."""
    places: dict[Any, int] = {}
    for key in keys:
        places.setdefault(key, len(places))
    return places


def _is_complete(found: Found) -> bool:
    return not found.awaited and not found.is_cut
