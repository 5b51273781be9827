"""From what the engine computed to records: embeddings and alerts for users, messages for the owners of the peers."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import numpy as np
from numpy.typing import ArrayLike

from stream_tgat.engine import Computed, FinalEmbeddings, LatestNodes, PeerEmbeddings, ThresholdCrossing
from stream_tgat.message_passing.traces import Traces
from stream_tgat.topology import Topology
from stream_tgat.transport.outbox import Delivery, OutgoingRecord
from stream_tgat.wire import AlertEncoder, EmbeddingEncoder, LatestEncoder, latest_headers, output_headers
from stream_tgat.wire.formats import HeaderList
from stream_tgat.wire.origins import source_offsets, source_partitions
from stream_tgat.wire.output_schemas import OutputSchemas
from stream_tgat.wire.packets import (
    MAX_PACKET_BYTES,
    MOST_PARTITIONS,
    Entries,
    PacketLayout,
    PeerEmbeddingSection,
    encode_packet,
    partitions_of,
)

#: The headers that differ from one interaction to the next.
_OF_EACH: Final = frozenset({"source-partition", "source-offset"})


class MessageEncoder:
    """Encodes peer embeddings for the owners of the rows that they belong to.

    topic: full name of `propagation`   partitions: that it has
    """

    def __init__(self, layout: PacketLayout, topic: str, partitions: int) -> None:
        self._layout, self._topic, self._partitions = layout, topic, partitions

    def encode(self, peer_embeddings: Sequence[PeerEmbeddings]) -> Iterator[Delivery]:
        """Peer embeddings for the owners of the rows that they belong to."""
        count = self._partitions
        sections: list[list[PeerEmbeddingSection]] = [[] for _ in range(count)]
        for peer_embedding in peer_embeddings:
            if not len(peer_embedding):
                continue
            owner = partitions_of(peer_embedding.node.tolist(), count)
            order = np.argsort(owner, kind="stable")
            entries = self._entries(peer_embedding.take(order))
            cuts = np.cumsum(np.bincount(owner, minlength=count))
            for partition in range(count):
                part = entries[cuts[partition - 1] if partition else 0 : cuts[partition]]
                if len(part):
                    sections[partition].append(PeerEmbeddingSection(peer_embedding.layer, part))
        for partition, mine in enumerate(sections):
            if mine:
                records = [
                    OutgoingRecord(None, encode_packet(self._layout, peer_embeddings=part)) for part in _cut(mine)
                ]
                yield Delivery(self._topic, partition, records)

    def _entries(self, peer_embedding: PeerEmbeddings) -> Entries:
        entries = np.zeros(len(peer_embedding), self._layout.peer_embedding[peer_embedding.layer])
        entries["version"] = peer_embedding.version
        entries["time"] = peer_embedding.time
        entries["node"] = peer_embedding.node
        entries["interaction"] = peer_embedding.interaction
        entries["peer"] = peer_embedding.peer
        entries["vector"] = peer_embedding.vectors
        entries["side"] = peer_embedding.side
        return entries


class OutputEncoder:
    """Encodes results for one deployment.

    partitions: of the topics that are written, by full topic name   schemas: where outputs are Avro
    traces: which interactions belong to
    """

    def __init__(
        self,
        topology: Topology,
        layout: PacketLayout,
        partitions: Mapping[str, int],
        schemas: OutputSchemas | None = None,
        traces: Traces | None = None,
    ) -> None:
        self._topology = topology
        self._topics = topology.topics
        self._partitions = partitions
        self._traces = Traces() if traces is None else traces
        self._messages = MessageEncoder(layout, self._topics.propagation, partitions[self._topics.propagation])
        self._embeddings = EmbeddingEncoder(topology, schemas)
        self._alerts = AlertEncoder(topology, schemas)
        self._latest = LatestEncoder(topology, schemas)
        self._same_headers: dict[tuple[int, int], list[tuple[str, bytes]]] = {}

    def encode(self, computed: Computed) -> list[Delivery]:
        """Records for embeddings, alerts and messages, all to be acknowledged before what they rest on is committed."""
        return [
            *self.messages(computed.peer_embeddings),
            *self._of_users(computed.embeddings),
            *self._of_alerts(computed.alerts),
        ]

    def latest(self, latest: LatestNodes) -> list[Delivery]:
        """Nodes for topic `latest`."""
        records = []
        for node, time, degree, embedding, probability, is_complete, version in zip(
            latest.node.tolist(),
            latest.time.tolist(),
            latest.degree.tolist(),
            latest.embedding,
            latest.probability,
            latest.is_complete.tolist(),
            latest.version.tolist(),
            strict=True,
        ):
            key, value = self._latest.encode(
                node=node,
                timestamp=time,
                interactions=degree,
                probability=probability,
                is_complete=is_complete,
                model=version,
                embedding=embedding,
            )
            records.append(OutgoingRecord(key, value, latest_headers(self._topology, version)))
        return self._by_key(self._topics.latest, records) if records else []

    def messages(self, peer_embeddings: Sequence[PeerEmbeddings]) -> Iterator[Delivery]:
        """Peer embeddings for the owners of the rows that they belong to."""
        return self._messages.encode(peer_embeddings)

    def _of_users(self, embeddings: FinalEmbeddings) -> list[Delivery]:
        records = []
        encode = self._embeddings.encode
        headers = self._headers(embeddings.version, embeddings.origin)
        for node, peer, interaction, side, time, late, version, vector, predictions, described in zip(
            embeddings.node.tolist(),
            embeddings.peer.tolist(),
            embeddings.interaction.tolist(),
            embeddings.side.tolist(),
            embeddings.time.tolist(),
            embeddings.late.tolist(),
            embeddings.version.tolist(),
            embeddings.embedding,
            embeddings.predictions,
            headers,
            strict=True,
        ):
            key, value = encode(
                interaction=interaction,
                node=node,
                peer=peer,
                side=side,
                timestamp=time,
                embedding=vector,
                predictions=predictions,
                model=version,
                late=late,
            )
            records.append(OutgoingRecord(key, value, described))
        return self._by_key(self._topics.embeddings, records)

    def _of_alerts(self, alerts: Sequence[ThresholdCrossing]) -> list[Delivery]:
        records = []
        headers = self._headers([alert.version for alert in alerts], [alert.origin for alert in alerts])
        for alert, described in zip(alerts, headers, strict=True):
            key, value = self._alerts.encode(
                interaction=alert.interaction,
                node=alert.node,
                peer=alert.peer,
                head=alert.head,
                probability=alert.probability,
                threshold=alert.threshold,
                timestamp=alert.time,
                model=alert.version,
                because=((b.peer, b.interaction, b.time, b.weight) for b in alert.because),
            )
            records.append(OutgoingRecord(key, value, described))
        return self._by_key(self._topics.alerts, records)

    def _by_key(self, topic: str, records: Sequence[OutgoingRecord]) -> list[Delivery]:
        """The same records in their order, each for the partition of its key."""
        mine: dict[int, list[OutgoingRecord]] = {}
        to = partitions_of([record.key or b"" for record in records], self._partitions[topic])
        for partition, record in zip(to.tolist(), records, strict=True):
            mine.setdefault(partition, []).append(record)
        return [Delivery(topic, partition, each) for partition, each in mine.items()]

    def _headers(self, models: ArrayLike, origins: ArrayLike) -> Iterator[HeaderList]:
        """Of each record: models and origins, [n]."""
        numbers, offsets = np.asarray(origins, np.int64), source_offsets(np.asarray(origins, np.int64))
        topics, partitions = np.divmod(source_partitions(numbers), MOST_PARTITIONS)
        of_each = np.asarray(models), topics, partitions, offsets, numbers
        for model, topic, partition, offset, origin in zip(*(each.tolist() for each in of_each), strict=True):
            same = self._same_headers.get((model, topic))
            if same is None:
                same = self._same_headers[model, topic] = self._headers_of(model, topic)
            found = [*same, ("source-partition", b"%d" % partition), ("source-offset", b"%d" % offset)]
            trace = self._traces.of(origin)
            yield found if trace is None else [*found, *trace.headers]

    def _headers_of(self, model: int, topic: int) -> HeaderList:
        """Those that are the same for all interactions of a topic."""
        name = self._topology.input_topics("interactions")[topic]
        headers = output_headers(self._topology, model, name, 0, 0)
        return [pair for pair in headers if pair[0] not in _OF_EACH]


def _cut(sections: Sequence[PeerEmbeddingSection]) -> Iterator[list[PeerEmbeddingSection]]:
    """The same entries in lists that each fit into one packet."""
    packet: list[PeerEmbeddingSection] = []
    room = MAX_PACKET_BYTES
    for section in sections:
        entries = section.entries
        while len(entries):
            fitting = max(room // entries.itemsize, 0 if packet else 1)
            if fitting:
                packet.append(PeerEmbeddingSection(section.layer, entries[:fitting]))
                room -= packet[-1].entries.nbytes
                entries = entries[fitting:]
            if len(entries):
                yield packet
                packet, room = [], MAX_PACKET_BYTES
    if packet:
        yield packet
