"""Topic `latest`: what each node is just after its newest interaction, written again whenever that changes.

A partition that commits writes its changed nodes first, each once: they are acknowledged before the state behind them
is stored, as all outputs are. So a crash leaves nothing behind that the next start would not compute, and write, again.
Beside that, all nodes are written again, a few at a time, when another model serves, and when the topic was made anew
or switched on; the state says when that is done.
"""

import logging
import struct
import time
from collections.abc import Collection, Iterator
from itertools import islice
from typing import Final
from uuid import UUID

import numpy as np

from stream_tgat.engine import Engine, LatestNodes
from stream_tgat.message_passing.outputs import OutputEncoder
from stream_tgat.rocks import Change
from stream_tgat.storage.layout import NODE_PREFIX
from stream_tgat.storage.stores import Store
from stream_tgat.transport.outbox import Delivery

_log = logging.getLogger(__name__)

#: Beside the reserved key: by which model all nodes of the partition are on the topic, and on which topic.
LATEST_KEY: Final = b"\x00latest"

#: Nodes that are written again at a time, and in a second, so that the stream hardly notices.
_AT_ONCE: Final = 64
_PER_S: Final = 2000

_VALUE: Final = struct.Struct("<q16s")
_UNKNOWN: Final = UUID(int=0)


class LatestWriter:
    """Says what to write for the partitions of this worker; in the engine's thread."""

    def __init__(self, engine: Engine, encoder: OutputEncoder, topic: UUID | None, *, is_on: bool) -> None:
        """topic: its id, if the brokers tell   is_on: see `serving.latest`; if not, the state is told that it is off"""
        self._engine = engine
        self._encoder = encoder
        self._topic = topic or _UNKNOWN
        self._is_on = is_on
        self._stores: dict[int, Store] = {}
        # What the state says, and what is to be said.
        self._stored: dict[int, bytes | None] = {}
        self._reached: dict[int, bytes | None] = {}
        # Keys of nodes that are still to be written again.
        self._left: dict[int, Iterator[bytes]] = {}
        self._next_at = 0.0
        # Nodes that lacked something when they had changed last: they are written when it has come, which is a change.
        self._passed_over: set[bytes] = set()

    def open(self, partition: int, store: Store) -> None:
        """Take over a partition, whose nodes may have to be written again."""
        (stored,) = store.get_many([LATEST_KEY])
        self._stores[partition] = store
        self._stored[partition] = self._reached[partition] = stored
        if not self._is_on:
            self._reached[partition] = None
        elif stored != self._now:
            self._begin(partition)

    def forget(self) -> None:
        """Drop all partitions."""
        for kept in (self._stores, self._stored, self._reached, self._left, self._passed_over):
            kept.clear()

    def renew(self) -> None:
        """Another model computes from now on: all nodes are written again."""
        if self._is_on:
            for partition in self._stores:
                self._begin(partition)

    def changed(self, partitions: Collection[int]) -> list[Delivery]:
        """Records for the nodes whose changes were taken last from these partitions."""
        if not self._is_on or not partitions:
            return []
        return self._encoder.latest(self._without_passed_over(self._engine.latest_of_changes(partitions)))

    def miss(self, partition: int) -> None:
        """Note that nodes of a partition changed which cannot be written now, as a newer model has served it elsewhere.

        All of its nodes are written again once that model is here.
        """
        self._reached[partition] = None

    def is_due(self, now: float) -> bool:
        """Whether `again` has something to write at `now` (monotonic seconds), or `account` something to store."""
        return now >= self._next_at if self._left else any(map(self.has_news, self._stores))

    def again(self) -> list[Delivery]:
        """Records for the next few of the nodes that are to be written again; empty when all are."""
        for partition, keys in list(self._left.items()):
            some = list(islice(keys, _AT_ONCE))
            if some:
                self._next_at = time.monotonic() + len(some) / _PER_S
                return self._encoder.latest(self._engine.latest_of(partition, np.array(some)))
            del self._left[partition]
            self._reached[partition] = self._now
            if not self._left:
                _log.info("All nodes of this worker are on topic latest, by model %d", self._engine.version)
        return []

    def has_news(self, partition: int) -> bool:
        """Whether `account` has something to store."""
        return self._reached[partition] != self._stored[partition]

    def account(self, partition: int) -> list[Change]:
        """What the next commit of a partition stores: by which model all its nodes are on the topic, if that is new."""
        if not self.has_news(partition):
            return []
        self._stored[partition] = self._reached[partition]
        return [(LATEST_KEY, self._reached[partition])]

    @property
    def _now(self) -> bytes:
        return _VALUE.pack(self._engine.version, self._topic.bytes)

    def _begin(self, partition: int) -> None:
        records = self._stores[partition].scan(NODE_PREFIX)
        self._left[partition] = (key[1:].rstrip(b"\0") for key, _ in records)

    def _without_passed_over(self, found: LatestNodes) -> LatestNodes:
        """A node that lacks something is passed over once: one that always lacks something is written all the same."""
        keep = found.is_complete.copy()
        for at in np.flatnonzero(~keep).tolist():
            node = found.node[at]
            keep[at] = node in self._passed_over
            (self._passed_over.discard if keep[at] else self._passed_over.add)(node)
        self._passed_over.difference_update(found.node[found.is_complete].tolist())
        return found if keep.all() else found.take(keep)
