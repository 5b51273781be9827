"""Peer embeddings on their way to the owners of their rows, by a process that is no worker."""

import time
from collections.abc import Iterator
from typing import Any, Final

from kafka import KafkaConsumer
from kafka.errors import KafkaError

from stream_tgat.backlog.committed import partition_progress
from stream_tgat.brokers import producer
from stream_tgat.engine import PeerEmbeddings
from stream_tgat.errors import TopicError
from stream_tgat.message_passing.outputs import MessageEncoder
from stream_tgat.message_passing.release import packet_layout
from stream_tgat.nn.model import Model
from stream_tgat.topology import Topology
from stream_tgat.training.kafka_log import topic_range
from stream_tgat.training.promotion import REENCODED_KEY
from stream_tgat.wire import ReencodedRecord

_PACKET_BYTES: Final = 65_536
_SEND_TIMEOUT_S: Final = 60.0


class PeerEmbeddingSender:
    """Sends peer embeddings to the owners of their rows, so many in a second at most. count: how many were sent"""

    def __init__(self, topology: Topology, model: Model, peer_embeddings_per_s: float) -> None:
        self._topology = topology
        self._topic = topology.topics.propagation
        self._rate = peer_embeddings_per_s
        self._layout = packet_layout(topology, model)
        partitions = len(topic_range(topology, self._topic))
        self._encoder = MessageEncoder(self._layout, self._topic, partitions)
        self._partitions = partitions
        self._producer = producer(topology.kafka, acks="all", linger_ms=0, max_request_size=2 << 20)
        self._under_way: list[tuple[int, Any]] = []
        self._reached: dict[int, int] = {}
        self._began: float | None = None
        self.count = 0

    def close(self) -> None:
        """Disconnect."""
        self._producer.close(timeout=5)

    def send(self, peer_embeddings: PeerEmbeddings) -> Iterator[int]:
        """Send these; yields how many, some at a time."""
        at_once = (
            max(1, _PACKET_BYTES // self._layout.peer_embedding[peer_embeddings.layer].itemsize) * self._partitions
        )
        for first in range(0, len(peer_embeddings), at_once):
            some = peer_embeddings.take(slice(first, first + at_once))
            for delivery in self._encoder.encode([some]):
                for record in delivery.records:
                    sent = self._producer.send(delivery.topic, value=record.value, partition=delivery.partition)
                    self._under_way.append((delivery.partition, sent))
            self.flush()
            self.count += len(some)
            self._rest()
            yield len(some)

    def flush(self) -> None:
        """Wait until the brokers have all that was sent."""
        try:
            for partition, sent in self._under_way:
                self._reached[partition] = sent.get(timeout=_SEND_TIMEOUT_S).offset
        except KafkaError as problem:
            raise TopicError(f"peer embeddings could not be sent to {self._topic!r}: {problem!r}") from problem
        self._under_way.clear()

    def is_received(self, consumer: KafkaConsumer) -> bool:
        """Whether all that was sent is in the state of the partitions."""
        progress = partition_progress(self._topology, consumer)
        return all(
            partition in progress and progress[partition].offset >= offset
            for partition, offset in self._reached.items()
        )

    def say(self, topic: str, record: ReencodedRecord) -> None:
        """Write down that it is done."""
        try:
            self._producer.send(
                topic,
                key=REENCODED_KEY,
                value=record.model_dump_json().encode(),
                headers=[("content-type", b"application/json")],
                partition=0,
            ).get(timeout=_SEND_TIMEOUT_S)
        except KafkaError as problem:
            raise TopicError(
                f"peer embeddings were sent, but {topic!r} does not take the note of it: {problem!r}"
            ) from problem

    def _rest(self) -> None:
        self._began = time.monotonic() if self._began is None else self._began
        ahead = self.count / self._rate - (time.monotonic() - self._began)
        if ahead > 0:
            time.sleep(ahead)
