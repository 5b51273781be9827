"""The log as arrays: what training sees of `interactions`, `nodes` and `labels`.

`LogBuilder` takes raw records, from Kafka or from a data set, decodes them as the stream does and skips what the stream
would send to the dead letters, counted by reason. What lies outside a window it forgets as it goes, so that its memory
is bounded by the window. Knows no Kafka.
"""

import time as clock
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from stream_tgat.graph.interactions import Interactions
from stream_tgat.topology import Topology, split_node_key
from stream_tgat.training.maturity import AT_ONCE, Maturity, maturity_of
from stream_tgat.training.unmatched import Unmatched, without_head, without_question
from stream_tgat.training.window import WHOLE_LOG, Window
from stream_tgat.wire import (
    DeadLetter,
    DecodedNode,
    Given,
    Headers,
    InteractionReader,
    LabelReader,
    NodeReader,
    PassedOver,
    Punctuation,
    Several,
)

ENCODE_AT_ONCE = 8192

REPEAT: Final = "a repeat: id, user, item and timestamp are those of another record"
DIFFERING_REPEAT: Final = f"{REPEAT}, but its features are not; the first record's stay"


@dataclass(frozen=True, eq=False)
class LabelSet:
    """Labels of one name, at most one per (node, time); parallel arrays by time.

    event: int64, the interaction (its place in the log) at which the question is asked: the node's last, as user, not
    after the label's time   value: float64 0 or 1   known: float64, unix seconds
    maturity: when answers to a question are complete
    """

    event: NDArray[np.int64]
    value: NDArray[np.float64]
    known: NDArray[np.float64]
    maturity: Maturity = AT_ONCE

    def __len__(self) -> int:
        return len(self.event)

    def select(self, which: NDArray[Any]) -> "LabelSet":
        """A part of them."""
        return LabelSet(self.event[which], self.value[which], self.known[which], self.maturity)


@dataclass(frozen=True, eq=False)
class TrainingLog:
    """n interactions in the order of time, id, user and item, no two of which agree in all four; N nodes.

    nodes: their keys, by number   ids: [n] bytes   node_features: [N, F] float32, None where F = 0
    labels: {name: labels}   skipped: {topic: {reason: count}}   unmatched: labels that are in none of these
    """

    nodes: tuple[bytes, ...]
    interactions: Interactions
    ids: NDArray[np.bytes_]
    node_features: NDArray[np.float32] | None
    labels: Mapping[str, LabelSet]
    skipped: Mapping[str, Mapping[str, int]]
    unmatched: tuple[Unmatched, ...] = ()


@dataclass(frozen=True, eq=False)
class _LogRows:
    """n interactions as they were read. ids: [n] bytes   source, destination: [n] int64   time: [n] float64

    edge: [n, E] float32   place, offset: [n] int64, where each lies in the log; see `source_place`
    """

    ids: NDArray[np.bytes_]
    source: NDArray[np.int64]
    destination: NDArray[np.int64]
    time: NDArray[np.float64]
    edge: NDArray[np.float32]
    place: NDArray[np.int64]
    offset: NDArray[np.int64]

    def select(self, which: NDArray[Any]) -> "_LogRows":
        return _LogRows(*(getattr(self, each.name)[which] for each in fields(self)))

    @classmethod
    def joined(cls, parts: Sequence["_LogRows"]) -> "_LogRows":
        return cls(*(np.concatenate([getattr(part, each.name) for part in parts]) for each in fields(cls)))


class LogBuilder:
    """Collects raw records, in any order, and makes a TrainingLog of those in a window."""

    def __init__(self, topology: Topology, window: Window = WHOLE_LOG) -> None:
        self._topology, self._window = topology, window
        self._interaction_reader = InteractionReader(topology)
        self._node_reader = NodeReader(topology)
        self._label_reader = LabelReader(topology)
        self._number_of_topic = {name: number for number, name in enumerate(topology.input_topics("interactions"))}
        self._numbers: dict[bytes, int] = {}
        self._parts: list[_LogRows] = [_LogRows(*_no_rows(topology.edge_width))]
        self._count, self._count_after_cut = 0, 0
        self._waiting: list[tuple[bytes, bytes, bytes, float, dict[str, Any], int, int, int]] = []
        self._read = 0
        self._features: dict[bytes, NDArray[np.float32]] = {}
        self._labels: list[tuple[bytes, str, float, float, float]] = []
        self._skipped: dict[str, Counter[str]] = {}
        self._now = clock.time()
        self.begin = window.since
        """Unix seconds of event time: what is older was left out; −inf where nothing is."""
        self.left_out = 0
        """Interactions that are older than the window."""

    def interaction(
        self,
        value: bytes | None,
        headers: Headers | None,
        partition: int = 0,
        offset: int = 0,
        written: float | None = None,
        *,
        key: bytes | None = None,
        topic: str | None = None,
    ) -> None:
        """A record of interactions; one with the id, user, item and timestamp of another is a repeat, and counted.

        written: unix seconds, when it was written to the log; None for what was never in one, which counts as new
        topic: None for the first of those that interactions are read from
        """
        topic, written = topic or self._topology.topics.interactions, self._now if written is None else written
        found = self._interaction_reader.read(Given(topic, partition, offset, key, value, headers), written)
        if isinstance(found, DeadLetter):
            self.skip("interactions", found.reason)
            return
        if isinstance(found, Punctuation | PassedOver):
            return
        self._read += 1
        place, number = source_place(self._number_of_topic[topic], partition), self._read
        for each in found.interactions if isinstance(found, Several) else (found,):
            if each.timestamp < self.begin:
                self.left_out += 1
            else:
                self._waiting.append(
                    (each.id, each.user, each.item, each.timestamp, each.fields, place, offset, number)
                )
        if len(self._waiting) >= ENCODE_AT_ONCE:
            self._encode()

    def node(self, value: bytes | None, headers: Headers | None, *, key: bytes | None = None, topic: str = "") -> None:
        """A record of node features; the last one of a node holds."""
        decoded = self._node_reader.read(Given(topic, 0, 0, key, value, headers), self._now)
        if isinstance(decoded, DeadLetter):
            self.skip("nodes", decoded.reason)
        elif isinstance(decoded, DecodedNode):
            self._features[decoded.node] = decoded.features

    def label(
        self,
        value: bytes | None,
        headers: Headers | None,
        written: float | None = None,
        *,
        key: bytes | None = None,
        topic: str = "",
    ) -> None:
        """A record of labels. written: see `interaction`"""
        record = Given(topic, 0, 0, key, value, headers)
        decoded = self._label_reader.read(record, self._now if written is None else written)
        if isinstance(decoded, DeadLetter):
            self.skip("labels", decoded.reason)
            return
        if isinstance(decoded, PassedOver):
            return
        if decoded.timestamp < self.begin:
            return  # what it speaks of is outside the window
        self._labels.append((decoded.node, decoded.label, decoded.timestamp, decoded.value, decoded.known))

    def build(self) -> TrainingLog:
        """All that was collected and is in the window, in order.

        Nodes are numbered in the order in which they occur there: the same records give the same numbers, in whatever
        order partitions were read.
        """
        self._encode()
        self._cut()
        (rows,) = self._parts
        self._parts = [self._renumbered(rows)]
        (rows,) = self._parts
        interactions = Interactions(rows.source, rows.destination, rows.time, rows.edge)
        labels, unmatched = self._joined_labels(interactions)
        return TrainingLog(
            tuple(self._numbers), interactions, rows.ids, self._node_features(), labels,
            {topic: dict(reasons) for topic, reasons in self._skipped.items()}, tuple(unmatched),
        )  # fmt: skip

    def first_offsets(self, topic: str | None = None) -> dict[int, int]:
        """{partition of a topic: offset of the first interaction that is in the window}, once it is built."""
        (rows,) = self._parts
        number = self._number_of_topic[topic or self._topology.topics.interactions]
        places = {int(each): split_place(int(each)) for each in np.unique(rows.place)}
        return {
            partition: int(rows.offset[rows.place == place].min())
            for place, (of_topic, partition) in places.items()
            if of_topic == number
        }

    def skip(self, topic: str, reason: str, count: int = 1) -> None:
        """Count what cannot be used of a topic, and why."""
        self._skipped.setdefault(topic, Counter())[reason] += count

    def _number(self, node: bytes) -> int:
        return self._numbers.setdefault(node, len(self._numbers))

    def _encode(self) -> None:
        """Edge vectors of the waiting records; those whose fields are wrong are skipped."""
        vectors, errors = self._topology.encoder.encode([each[4] for each in self._waiting])
        # All of a record in which one is wrong is refused, and once, as in the stream.
        wrong: dict[int, str] = {}
        for each, error in zip(self._waiting, errors, strict=True):
            if error is not None:
                wrong.setdefault(each[7], self._interaction_reader.told(error))
        for reason in wrong.values():
            self.skip("interactions", reason)
        good = [row for row, each in enumerate(self._waiting) if each[7] not in wrong]
        taken = [self._waiting[row] for row in good]
        ends = [(self._number(user), self._number(item)) for _, user, item, *_ in taken]
        source, destination = np.array(ends, np.int64).reshape(-1, 2).T
        self._parts.append(
            _LogRows(
                np.array([each[0] for each in taken], np.bytes_),
                source,
                destination,
                np.array([each[3] for each in taken], np.float64),
                vectors[good],
                np.array([each[5] for each in taken], np.int64),
                np.array([each[6] for each in taken], np.int64),
            )
        )
        self._waiting.clear()
        self._count += len(taken)
        # Cut once in as many rows as were kept, each is looked at a few times, and at most twice the window is held.
        if self._window.is_limited and self._count >= 2 * self._count_after_cut + ENCODE_AT_ONCE:
            self._cut()

    def _cut(self) -> None:
        """Sort, and forget repeats and what can no longer be in the window: its begin only moves on."""
        rows = self._distinct(_LogRows.joined(self._parts))
        self.begin = max(self.begin, self._window.begin(rows.time))
        inside = rows.time >= self.begin
        if not inside.all():
            self.left_out += int((~inside).sum())
            rows = self._renumbered(rows.select(inside))
        self._parts = [rows]
        self._count = self._count_after_cut = len(rows.time)

    def _distinct(self, rows: _LogRows) -> _LogRows:
        """The rows in order, and of those that agree in time, id, user and item the first in the log."""
        rank = np.argsort(np.argsort(np.array(list(self._numbers), np.bytes_)))
        source, destination = rank[rows.source], rank[rows.destination]
        rows = rows.select(np.lexsort((rows.offset, rows.place, destination, source, rows.ids, rows.time)))
        again = np.zeros(len(rows.time), np.bool_)
        again[1:] = True
        for column in (rows.time, rows.ids, rows.source, rows.destination):
            again[1:] &= column[1:] == column[:-1]
        first = np.maximum.accumulate(np.where(again, 0, np.arange(len(again))))
        differs = again & (rows.edge != rows.edge[first]).any(1)
        for reason, which in ((REPEAT, again & ~differs), (DIFFERING_REPEAT, differs)):
            if which.any():
                self.skip("interactions", reason, int(which.sum()))
        return rows.select(~again) if again.any() else rows

    def _renumbered(self, rows: _LogRows) -> _LogRows:
        """The rows with their nodes numbered by first occurrence, and no number for any other node."""
        ends = np.stack([rows.source, rows.destination], 1)
        found, first, place = np.unique(ends, return_index=True, return_inverse=True)
        order = np.argsort(first)
        number = np.empty(len(found), np.int64)
        number[order] = np.arange(len(found))
        names = list(self._numbers)
        self._numbers = {names[found[each]]: at for at, each in enumerate(order)}
        source, destination = number[place.reshape(ends.shape)].T
        return replace(rows, source=np.ascontiguousarray(source), destination=np.ascontiguousarray(destination))

    def _node_features(self) -> NDArray[np.float32] | None:
        width = self._topology.graph.node_features
        if width == 0:
            return None
        features = np.zeros((len(self._numbers), width), np.float32)
        for node, number in self._numbers.items():
            own = self._features.get(node)
            if own is not None:
                features[number] = own
        return features

    def _joined_labels(self, interactions: Interactions) -> tuple[dict[str, LabelSet], list[Unmatched]]:
        """Labels by name, each with the interaction that it judges; and those that judge none."""
        heads = {head.label_name for head in self._topology.heads}
        rows: dict[str, list[tuple[bytes, float, float, float]]] = {name: [] for name in sorted(heads)}
        others: dict[str, Counter[str]] = {}
        for node, name, time, value, known in self._labels:
            if time < self.begin:
                continue
            if name in rows:
                rows[name].append((node, time, value, known))
            else:
                others.setdefault(name, Counter())[split_node_key(node)[1]] += 1
        unmatched = without_head(others, heads)
        return {name: self._joined(name, found, interactions, unmatched) for name, found in rows.items()}, unmatched

    def _joined(
        self,
        name: str,
        rows: Sequence[tuple[bytes, float, float, float]],
        interactions: Interactions,
        unmatched: list[Unmatched],
    ) -> LabelSet:
        node = np.array([self._numbers.get(row[0], -1) for row in rows], np.int64)
        time, value, known = (np.array([row[at] for row in rows], np.float64) for at in (1, 2, 3))
        event = last_as_source(interactions, node, time)
        homeless = Counter(split_node_key(rows[row][0])[1] for row in np.flatnonzero(event < 0).tolist())
        if homeless:
            where = "" if self.begin == -np.inf else " in the part of the log that is read"
            unmatched.append(without_question(name, homeless, *self._names_of_ends(interactions), where))
        found = one_per_question(event, value, known)
        asked = interactions.time[found.event]
        stated = self._topology.answers_after_s(name)
        return replace(found, maturity=maturity_of(asked, found.known, found.value, stated))

    def _names_of_ends(self, interactions: Interactions) -> tuple[list[str], list[str]]:
        """Ids of all users and of all items."""
        names = [split_node_key(key)[1] for key in self._numbers]
        ends = (np.unique(interactions.source), np.unique(interactions.destination))
        users, items = ([names[number] for number in each] for each in ends)
        return users, items


def source_place(number: int, partition: int) -> int:
    """One number for a partition of one of several topics, by the topic's number."""
    return number << 32 | partition


def split_place(place: int) -> tuple[int, int]:
    """The inverse of `source_place`: number of the topic, and partition."""
    return place >> 32, place & 0xFFFF_FFFF


def _no_rows(edge_width: int) -> tuple[NDArray[Any], ...]:
    """Columns of `_LogRows`, empty."""
    whole = np.zeros(0, np.int64)
    return np.zeros(0, np.bytes_), whole, whole, np.zeros(0), np.zeros((0, edge_width), np.float32), whole, whole


def one_per_question(event: NDArray[np.int64], value: NDArray[np.float64], known: NDArray[np.float64]) -> LabelSet:
    """Labels [n] by the interaction that each judges, those without one (−1) left out.

    One target per (node, time), the largest value: several labels of a basket are one question. Of labels that say the
    same, the one known first.
    """
    joined = np.flatnonzero(event >= 0)
    joined = joined[np.lexsort((known[joined], -value[joined], event[joined]))]
    first = np.ones(len(joined), np.bool_)
    first[1:] = event[joined][1:] != event[joined][:-1]
    joined = joined[first]
    return LabelSet(event[joined], value[joined], known[joined])


def last_as_source(
    interactions: Interactions, nodes: NDArray[np.int64], times: NDArray[np.float64]
) -> NDArray[np.int64]:
    """The last interaction of each node as source, not after each time: int64 [B], −1 where there is none.

    nodes: [B] int64, −1 for an unknown node   times: [B] float64
    """
    if len(interactions) == 0:
        return np.full(len(nodes), -1, np.int64)
    moments = np.unique(interactions.time)
    stride = len(moments) + 1
    order = np.argsort(interactions.source, kind="stable")
    axis = interactions.source[order] * stride + np.searchsorted(moments, interactions.time[order])
    place = np.searchsorted(axis, nodes * stride + np.searchsorted(moments, times, "right"), "left") - 1
    found = order[np.maximum(place, 0)]
    return np.where((place >= 0) & (interactions.source[found] == nodes), found, -1)
