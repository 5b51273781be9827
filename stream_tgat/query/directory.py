"""The nodes of one deployment, asked for by name: what the service's handlers call, without HTTP."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from stream_tgat.errors import QueryError
from stream_tgat.query.answers import HeadState, Neighbour, Neighbours, Node, NodeAt, NodeEmbedding
from stream_tgat.query.asking import Asking, Found, Target
from stream_tgat.query.messages import PastRows
from stream_tgat.query.readable import fields_of
from stream_tgat.topology import Kind, Topology, split_node_key


class Directory:
    """Nodes by kind and id."""

    def __init__(self, topology: Topology, asking: Asking) -> None:
        self._topology = topology
        self._asking = asking

    async def node(self, asked: NodeAt) -> Node:
        """A node with what was said about it."""
        (found,) = (await self._asking.look([self.target(asked)])).found
        return Node(**dict(self._embedding(asked, found)), predictions=self._heads(asked.kind, found))

    async def embeddings(self, asked: Sequence[NodeAt]) -> list[NodeEmbedding]:
        """Many nodes, in their order."""
        replies = await self._asking.look([self.target(each) for each in asked])
        return [self._embedding(each, found) for each, found in zip(asked, replies.found, strict=True)]

    async def neighbours(self, asked: NodeAt, limit: int) -> Neighbours:
        """The newest past interactions of a node."""
        (found,) = (await self._asking.look([self.target(asked)], rows=limit)).found
        past = found.past
        assert past is not None  # noqa: S101
        return Neighbours(
            kind=asked.kind,
            id=asked.id,
            known=found.degree > 0,
            time=found.time,
            model=found.model,
            neighbours=[self._neighbour(past, at) for at in reversed(range(len(past.time)))],
            older=found.degree - len(past.time),
            received_until=_or_none(found.received),
        )

    def target(self, asked: NodeAt) -> Target:
        """What to ask a worker; QueryError for a name that no node can have."""
        key = checked_key(self._topology, asked.kind, asked.id)
        return Target(key, math.nan if asked.time is None else asked.time)

    def _embedding(self, asked: NodeAt, found: Found) -> NodeEmbedding:
        return NodeEmbedding(
            kind=asked.kind,
            id=asked.id,
            known=found.degree > 0,
            time=found.time,
            embedding=found.embedding.astype(np.float64).round(8).tolist(),
            interactions=found.degree,
            last_seen=_or_none(found.last),
            model=found.model,
            received_until=_or_none(found.received),
            complete=not found.awaited and not found.is_cut,
            note=_note(asked, found),
        )

    def _heads(self, kind: Kind, found: Found) -> dict[str, HeadState]:
        if kind == "item" and self._topology.graph.bipartite:
            return {}
        columns = zip(found.probability, found.said_at, found.alerted, found.threshold, strict=True)
        return {
            name: HeadState(
                probability=_or_none(probability),
                at=_or_none(at),
                threshold=_or_none(threshold),
                alerted_at=_or_none(alerted),
            )
            for name, (probability, at, alerted, threshold) in zip(self._topology.head_names, columns, strict=True)
        }

    def _neighbour(self, past: PastRows, at: int) -> Neighbour:
        return Neighbour(
            interaction=past.interaction[at],
            kind="user" if past.side[at] else "item",
            peer=split_node_key(past.peer[at])[1],
            time=float(past.time[at]),
            weight=float(past.weight[at]),
            late=bool(past.late[at]),
            features=fields_of(self._topology.features, past.edge[at]),
        )


def checked_key(topology: Topology, kind: Kind, node_id: str) -> bytes:
    """A node's key; QueryError for a name that no node can have."""
    try:
        key = topology.node_key(kind, node_id)
    except UnicodeEncodeError:
        raise QueryError(f"{kind} {node_id!r}: the id is no valid text") from None
    if len(key) > topology.id_bytes:
        raise QueryError(
            f"{kind} {node_id[:40]!r}… has {len(key) - 1} bytes; no node's id has more than {topology.id_bytes - 1} "
            "(graph.max_id_bytes)"
        )
    return key


def _note(asked: NodeAt, found: Found) -> str | None:
    if found.degree == 0:
        when = "" if asked.time is None else " before this time"
        return f"no interaction of {asked.kind} {asked.id!r} is known{when}: this is the embedding of any newcomer"
    if found.awaited:
        return f"the state of {found.awaited} of its newest neighbours is still on its way; ask again in a moment"
    if found.is_cut:
        return "so long ago that interactions that it should look at are not kept any more (model.candidates)"
    return None


def _or_none(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None
