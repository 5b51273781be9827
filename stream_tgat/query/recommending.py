"""Whom next: items that a user may meet, by the exact score of good candidates, and nodes that are like another."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Collection, Sequence
from typing import Final, Literal, ParamSpec, TypeVar

import numpy as np
from numpy.typing import NDArray

from stream_tgat.query.answers import (
    CandidateSource,
    NodeAt,
    Recommendation,
    Recommendations,
    Similar,
    SimilarNode,
)
from stream_tgat.query.asking import Asking, Found, Target
from stream_tgat.query.catalog import Catalog
from stream_tgat.query.directory import checked_key
from stream_tgat.query.scoring import Meeting, Scoring
from stream_tgat.topology import Topology, split_node_key

_P = ParamSpec("_P")
_T = TypeVar("_T")

#: Candidates of each source, and of the items met last, whose neighbours are candidates too.
_OF_EACH: Final = 100
_NEAR_OF: Final = 5
_NEAR: Final = 20
#: Nodes whose exact embeddings are compared, for each that is asked for.
_AGAIN: Final = 3
_MOST_AGAIN: Final = 300


class Recommending:
    """Recommends in one deployment."""

    def __init__(self, topology: Topology, asking: Asking, scoring: Scoring, catalog: Catalog) -> None:
        self._topology = topology
        self._asking = asking
        self._scoring = scoring
        self._catalog = catalog

    async def recommend(
        self,
        user: str,
        k: int,
        at: float | None = None,
        met: Literal["all", "new", "known"] = "all",
        allow: Collection[str] = (),
        deny: Collection[str] = (),
    ) -> Recommendations:
        """The k items most likely to be met next.

        met: all items, or only those not among, or among, the user's kept interactions   allow: only these, if any
        """
        key = checked_key(self._topology, "user", user)
        (found,) = (await self._asking.look([Target(key, self._time(at))], rows=self._topology.model.candidates)).found
        before = _met(found)
        sources = await self._search(self._sources, before, found.model) if not allow else {i: [] for i in allow}
        wanted = [item for item in sources if item not in deny and _fits(item in before, met)]
        meetings = [Meeting(key, checked_key(self._topology, "item", item), found.time) for item in wanted]
        if not meetings:
            return Recommendations(
                user=user, known=found.degree > 0, time=found.time, model=found.model, considered=0, items=[]
            )
        scored = await self._scoring.scored(meetings)
        best = np.argsort(-scored.probability, kind="stable")[:k].tolist()
        return Recommendations(
            user=user,
            known=found.degree > 0,
            time=found.time,
            model=scored.version,
            considered=len(wanted),
            items=[
                Recommendation(
                    item=wanted[at],
                    probability=float(scored.probability[at]),
                    known=scored.item[at].degree > 0,
                    met_at=before.get(wanted[at]),
                    why=sources[wanted[at]],
                )
                for at in best
            ],
        )

    async def similar(self, asked: NodeAt, k: int) -> Similar:
        """The k nodes of the same kind whose embeddings point the same way now, as one model has it."""
        target = Target(checked_key(self._topology, asked.kind, asked.id), self._time(asked.time))
        (found,) = (await self._asking.look([target])).found
        vectors = self._catalog.vectors(asked.kind, found.model)
        count = min(_AGAIN * k, _MOST_AGAIN) + 1
        near = [] if vectors is None else await self._search(vectors.near, found.embedding[None], count)
        names = [each.id for of_one in near for each in of_one if each.id != asked.id]
        again = [Target(checked_key(self._topology, asked.kind, name), found.time) for name in names]
        others = (await self._asking.look(again)).found if again else []
        cosines = [_cosine(found.embedding, each.embedding) for each in others]
        same = [n for n, each in enumerate(others) if each.model == found.model]
        best = sorted(same, key=lambda n: -cosines[n])[:k]
        return Similar(
            kind=asked.kind,
            id=asked.id,
            known=found.degree > 0,
            time=found.time,
            model=found.model,
            searched=0 if vectors is None else len(vectors),
            nodes=[
                SimilarNode(
                    id=names[n],
                    similarity=cosines[n],
                    last_seen=_or_none(others[n].last),
                    interactions=others[n].degree,
                )
                for n in best
            ],
        )

    async def _search(self, search: Callable[_P, _T], *given: _P.args, **named: _P.kwargs) -> _T:
        """What a search of the catalog finds; of a large one in a thread, so that others are answered meanwhile."""
        if self._catalog.is_large:
            return await asyncio.to_thread(search, *given, **named)
        return search(*given, **named)

    def _time(self, at: float | None) -> float:
        """NaN lets the node's owner say what is now; by the clock it is one time for all that are compared."""
        if at is not None:
            return at
        return time.time() if self._topology.time.clock == "wall" else math.nan

    def _sources(self, before: dict[str, float], model: int) -> dict[str, list[CandidateSource]]:
        """Candidates, with where each comes from."""
        items = self._catalog.items
        lists: list[tuple[CandidateSource, Sequence[str]]] = [
            ("met before", list(before)),
            ("popular", items.popular(_OF_EACH)),
            ("recent", items.recent(_OF_EACH)),
            ("near what was met", self._near(before, model)),
        ]
        found: dict[str, list[CandidateSource]] = {}
        for source, names in lists:
            for name in dict.fromkeys(names):
                found.setdefault(name, []).append(source)
        return found

    def _near(self, before: dict[str, float], model: int) -> list[str]:
        """Items like those that the user met last."""
        vectors = self._catalog.vectors("item", model)
        if vectors is None:
            return []
        newest = sorted(before, key=before.__getitem__, reverse=True)[:_NEAR_OF]
        known = [vector for item in newest if (vector := vectors.of(item)) is not None]
        return [near.id for found in vectors.near(np.array(known), _NEAR) for near in found] if known else []


def _met(found: Found) -> dict[str, float]:
    """Items that a user has met, with the time of the newest meeting."""
    past = found.past
    if past is None:
        return {}
    peers = [split_node_key(key)[1] for key in past.peer]
    return {peer: at for peer, at, side in zip(peers, past.time.tolist(), past.side.tolist(), strict=True) if side == 0}


def _fits(is_met: bool, met: Literal["all", "new", "known"]) -> bool:
    return met == "all" or is_met == (met == "known")


def _cosine(one: NDArray[np.float32], other: NDArray[np.float32]) -> float:
    length = float(np.linalg.norm(one) * np.linalg.norm(other))
    return float(one @ other) / length if length else 0.0


def _or_none(value: float) -> float | None:
    return value if math.isfinite(value) else None
