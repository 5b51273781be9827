"""Answers from the engine of one worker: a pure look, in the engine's thread."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from stream_tgat.engine import Engine, Look
from stream_tgat.errors import NotHereError
from stream_tgat.query.messages import MOST_NODES, MOST_PAIRS, PastRows, Question, Reply
from stream_tgat.topology import Topology
from stream_tgat.wire.packets import partitions_of


class ReceivedUpTo(Protocol):
    """How far a partition has received: see `message_passing.progress.PartitionProgress`."""

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

    def answers(
        self, questions: Sequence[Question], engine: Engine, received: Mapping[int, ReceivedUpTo]
    ) -> list[Reply | NotHereError]:
        """What the engine says now, by one look for all questions; NotHereError to one that has a node of elsewhere.

        received: of each partition that may be asked
        """
        owners = [partitions_of(question.node, self._partitions).astype(np.int32) for question in questions]
        elsewhere = [set(of_one.tolist()) - received.keys() for of_one in owners]
        here = [n for n, missing in enumerate(elsewhere) if not missing]
        found = iter(self._look([questions[n] for n in here], [owners[n] for n in here], engine, received))
        return [
            NotHereError(f"partitions {sorted(missing)} are not with this worker now") if missing else next(found)
            for missing in elsewhere
        ]

    def _look(
        self,
        questions: Sequence[Question],
        owners: Sequence[NDArray[np.int32]],
        engine: Engine,
        received: Mapping[int, ReceivedUpTo],
    ) -> Iterator[Reply]:
        """Answers of one look. owners: the partition of each node, i4[B] of each question"""
        if not questions:
            return
        of_all = np.concatenate(owners)
        passed = np.array([received[owner].passed for owner in of_all.tolist()])
        now = np.full(len(passed), time.time()) if self._by_the_clock else np.where(np.isfinite(passed), passed, 0.0)
        keys = [key for question in questions for key in question.node]
        nodes, pairs, events = (
            _slices(counts)
            for counts in (
                [len(question.node) for question in questions],
                [len(question.peer) for question in questions],
                [len(question.event) for question in questions],
            )
        )
        times = np.concatenate([question.time for question in questions])
        together = [node for question, node in zip(questions, nodes, strict=True) if question.together]
        look = engine.look(of_all, np.array(keys), times, now, together)
        peers = np.array([peer for question in questions for peer in question.peer] or [b""])[: pairs[-1].stop]
        meetings = look.meetings(_places([question.met for question in questions], nodes), peers)
        predictions = np.empty((0, len(engine.config.head_names)), np.float32)
        if events[-1].stop:
            edges = np.concatenate([question.edge for question in questions if len(question.edge)])
            predictions = look.predictions(_places([question.event for question in questions], nodes), edges)
        alerts, is_cut, awaited = look.alerts, look.is_cut, look.awaited
        thresholds = np.array(engine.alerts.thresholds, np.float64)
        for question, node, pair, event in zip(questions, nodes, pairs, events, strict=True):
            yield Reply(
                model=engine.version,
                received=passed[node],
                time=look.time[node],
                embedding=look.embedding[node],
                degree=look.degree[node],
                last=look.last[node],
                is_cut=is_cut[node],
                awaited=awaited[node],
                probability=alerts.probability[node],
                said_at=alerts.at[node],
                alerted=alerts.alerted[node],
                threshold=thresholds,
                meetings=meetings[pair],
                predictions=predictions[event],
                past=[_past(look, at, question.rows) for at in range(node.start, node.stop)] if question.rows else [],
            )


def _slices(counts: Sequence[int]) -> list[slice]:
    """Where each of so many stands when they follow each other."""
    ends = list(accumulate(counts))
    return [slice(end - count, end) for count, end in zip(counts, ends, strict=True)]


def _places(of: Sequence[NDArray[np.int32]], nodes: Sequence[slice]) -> NDArray[np.int64]:
    """Places among the nodes of each question, as places among those of all."""
    return np.concatenate([each + node.start for each, node in zip(of, nodes, strict=True)]).astype(np.int64)


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
