"""Answers from the engine of one worker: a pure look, in the engine's thread."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Protocol

import numpy as np

from stream_tgat.engine import Engine, Look
from stream_tgat.errors import NotHereError
from stream_tgat.query.messages import MOST_NODES, MOST_PAIRS, Answer, PastRows, Question
from stream_tgat.topology import Topology
from stream_tgat.wire.packets import partitions_of


class Received(Protocol):
    """How far a partition has received: see `agents.progress.PartitionProgress`."""

    passed: float


class Lookup:
    """Looks nodes up for one deployment."""

    def __init__(self, topology: Topology) -> None:
        self._partitions = topology.kafka.partitions
        self._id_bytes = topology.id_bytes
        self._edge_width = topology.edge_width
        self._by_the_clock = topology.time.clock == "wall"

    def check(self, question: Question) -> None:
        """ValueError for a question that no service asks: whatever fails inside the engine ends what it holds."""
        nodes, keys = len(question.node), [*question.node, *question.peer]
        if not 1 <= nodes <= MOST_NODES or len(question.peer) > MOST_PAIRS or len(question.event) > MOST_PAIRS:
            raise ValueError(f"{nodes} nodes, {len(question.peer)} pairs and {len(question.event)} interactions")
        if any(not 1 < len(key) <= self._id_bytes or b"\0" in key for key in keys):
            raise ValueError(f"keys have 2 to {self._id_bytes} bytes, none of them 0")
        if question.time.shape != (nodes,) or np.isinf(question.time).any():
            raise ValueError("each node has a finite time, or NaN for now")
        for places, count in ((question.met, len(question.peer)), (question.event, len(question.edge))):
            if places.shape != (count,) or (count and not 0 <= places.min() <= places.max() < nodes):
                raise ValueError("pairs and interactions are of the nodes asked about")
        if len(question.edge) and question.edge.shape[1] != self._edge_width:
            raise ValueError(f"an interaction has {self._edge_width} features")
        if not np.isfinite(question.edge).all():
            raise ValueError("features are finite")

    def answer(self, question: Question, engine: Engine, received: Mapping[int, Received]) -> Answer:
        """What the engine says now.

        received: of each partition that may be asked.   Raises NotHereError if a node is of another one.
        """
        owners = partitions_of(question.node, self._partitions).astype(np.int32)
        elsewhere = set(owners.tolist()) - received.keys()
        if elsewhere:
            raise NotHereError(f"partitions {sorted(elsewhere)} are not with this worker now")
        passed = np.array([received[owner].passed for owner in owners.tolist()])
        now = np.full(len(passed), time.time()) if self._by_the_clock else np.where(np.isfinite(passed), passed, 0.0)
        look = engine.look(owners, np.array(question.node), question.time, now)
        alerts, which = look.alerts, question.met.astype(np.int64)
        return Answer(
            model=engine.version,
            received=passed,
            time=look.time,
            embedding=look.embedding,
            degree=look.degree,
            last=look.last,
            is_cut=look.is_cut,
            awaited=look.awaited,
            probability=alerts.probability,
            said_at=alerts.at,
            alerted=alerts.alerted,
            threshold=np.array(engine.alerts.thresholds, np.float64),
            meetings=look.meetings(which, np.array(question.peer or [b""])[: len(which)]),
            predictions=look.predictions(question.event.astype(np.int64), question.edge)
            if len(question.event)
            else np.empty((0, len(engine.config.head_names)), np.float32),
            past=[_past(look, at, question.rows) for at in range(len(look))] if question.rows else [],
        )


def _past(look: Look, at: int, limit: int) -> PastRows:
    past = look.past(at, limit)
    return PastRows(
        interaction=[each.decode() for each in past.interaction.tolist()],
        peer=past.peer.tolist(),
        side=past.side,
        time=past.time,
        late=past.late,
        edge=past.edge,
        weight=past.weight,
    )
