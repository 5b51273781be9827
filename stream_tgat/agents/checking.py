"""The agent on what is produced for others: `labels`, and `nodes` where the topology gives nodes no features.

Training and monitoring read these from the log, the stream does not compute with them. It reads them all the same, so
that a record which nobody can use is found among the dead letters like any other. Whoever owns its partition does so;
the place is the group's offset, acknowledged when the brokers have the dead letters.

A label that no head learns may be learnt by one that is to come, so it is no dead letter; but it is counted, and its
name is told once, as it may be mistyped.
"""

import asyncio
import logging
from collections.abc import Sequence
from typing import Any, Final

from faust.types import TP

from stream_tgat.agents.dead_letters import deliver_dead_letters, log_refused
from stream_tgat.agents.metrics import Metrics
from stream_tgat.agents.registry_wait import RegistryWait
from stream_tgat.errors import UnreachableRegistryError
from stream_tgat.message_passing.refused import Refused
from stream_tgat.message_passing.state_identity import is_of_another
from stream_tgat.topology import Topology, split_node_key
from stream_tgat.training.unmatched import no_head
from stream_tgat.transport.application import Application
from stream_tgat.transport.drain import drain
from stream_tgat.wire import DeadLetter, DecodedLabel, LabelReader, NodeReader

_log = logging.getLogger(__name__)

#: Nobody waits for this agent, and events do: a few milliseconds of work at a time, however much there is to check.
_BATCH: Final = 500
_PACE_S: Final = 0.05
#: Names of labels without a head that are told, each once: whoever sends more has another mistake.
_NAMES_TOLD: Final = 20


def checked_topics(topology: Topology) -> tuple[str, ...]:
    """The topics that only this agent of a worker reads."""
    nodes = () if topology.graph.node_features else topology.input_topics("nodes")
    return (*topology.input_topics("labels"), *nodes)


class Checking:
    """Decodes each record as its readers will, and sends on what they could not use."""

    def __init__(self, app: Application, topology: Topology, metrics: Metrics) -> None:
        self._app = app
        self._topics = topology.topics
        self._names = checked_topics(topology)
        self._of_labels = frozenset(topology.input_topics("labels"))
        self._labels = LabelReader(topology)
        self._nodes = NodeReader(topology)
        self._metrics = metrics
        self._starts: dict[TP, int] = {}
        self._learnt = {head.label_name for head in topology.heads}
        self._told: set[str] = set()
        self._registry_wait = RegistryWait()

    async def on_recovered(self, tps: frozenset[TP]) -> None:
        """Find out where reading starts: where the group left off, but with its first record in a topic made anew."""
        mine = [tp for tp in tps if tp.topic in self._names]
        for topic in {tp.topic for tp in mine}:
            expected, notes = self._app.commit_notes.get(topic, ""), await self._app.offsets.notes(topic)
            other = [tp for tp in mine if tp.topic == topic and is_of_another(notes.get(tp.partition), expected)]
            if other:
                _log.warning("%s was deleted and created again: it is read from its beginning", topic)
                earliest = await self._app.consumer.earliest_offsets(*other)
                self._starts |= {TP(tp.topic, tp.partition): at or 0 for tp, at in earliest.items()}

    async def on_revoked(self, tps: frozenset[TP]) -> None:  # noqa: ARG002
        """Forget where reading started."""
        self._starts.clear()

    def start_offset(self, tp: TP) -> int | None:
        """Where reading starts, if not at the group's offset."""
        return self._starts.get(tp)

    async def run(self, stream: Any) -> None:
        """Send on to the dead letters what nobody could use."""
        async for batch in drain(stream, _BATCH, pace_s=_PACE_S):
            if not await self._have_schemas(batch):
                self._app.abandon(batch)
                continue
            refused = [Refused.of(each, reason) for each in batch if (reason := self._reason(each)) is not None]
            if refused:
                await deliver_dead_letters(self._app.outbox, self._topics.dead_letters, refused)
                self._metrics.refuse(refused)
                log_refused(refused)
            self._app.acknowledge(batch)

    async def _have_schemas(self, batch: Sequence[Any]) -> bool:
        """Wait until all is at hand that these records need; False if they are no longer this worker's before that."""
        labels = [each for each in batch if each.topic in self._of_labels]
        nodes = [each for each in batch if each.topic not in self._of_labels]
        while self._labels.lacks(labels) or self._nodes.lacks(nodes):
            try:
                await asyncio.to_thread(self._labels.fetch, labels)
                await asyncio.to_thread(self._nodes.fetch, nodes)
            except UnreachableRegistryError as problem:
                await self._registry_wait.pause(problem)
                self._app.progress()
                if self._app.rebalancing or self._app.should_stop:
                    return False
        self._registry_wait.over()
        return True

    def _reason(self, message: Any) -> str | None:
        """Why a record cannot be used; None if it can."""
        if message.topic in self._of_labels:
            decoded: object = self._labels.read(message, message.timestamp)
            if isinstance(decoded, DecodedLabel) and decoded.label not in self._learnt:
                self._count_unknown(decoded, message.topic)
        else:
            decoded = self._nodes.read(message, message.timestamp)
        return decoded.reason if isinstance(decoded, DeadLetter) else None

    def _count_unknown(self, label: DecodedLabel, topic: str) -> None:
        self._metrics.unknown_labels += 1
        if label.label not in self._told and len(self._told) < _NAMES_TOLD:
            self._told.add(label.label)
            why, node = no_head(label.label, self._learnt), split_node_key(label.node)[1]
            _log.warning("A label on %s says nothing to anybody, that of %s: %s", topic, node, why)
