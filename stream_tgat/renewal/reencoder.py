"""The peer embeddings of a model, made anew from the log: the stream in one process, with one partition for all nodes.

Neighbourhoods alone cannot give the peer embeddings of other weights: a peer embedding needs its peer's past before it,
of which the peer has kept only the newest part. So the log is read again, through the same packer, receiver and engine
as in a worker, and what its nodes keep in the end is what the nodes of all workers keep. Knows no Kafka client.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from stream_tgat.engine import Engine, PeerEmbeddings
from stream_tgat.message_passing.packing import IngestedSource, Packer, SourceRecord
from stream_tgat.message_passing.receiving import Receiver, receive
from stream_tgat.message_passing.release import packet_layout
from stream_tgat.message_passing.state_identity import Identity
from stream_tgat.message_passing.watermarks import NodesClock, SourceClock
from stream_tgat.nn.model import Model
from stream_tgat.storage.stores import Store
from stream_tgat.topology import Topology
from stream_tgat.wire.formats import Headers
from stream_tgat.wire.packets import MAX_PACKET_BYTES, Source, SourceTopic

#: A commit goes to a store on this machine only, so nothing bounds it but memory.
_COMMIT_BYTES: Final = 1 << 26


@dataclass(slots=True)
class _Fed:
    """A packet as if it had been read from `propagation`."""

    offset: int
    value: bytes | None
    headers: Headers | None = None


class Reencoder:
    """Feeds the engine with the log, and knows the peer embeddings that it has made.

    sources: where the log begins, of all partitions of `interactions` and `nodes`
    version: of the model, which goes into its peer embeddings   store: where the nodes are kept, of this object alone
    interactions: how many were taken
    """

    def __init__(
        self, topology: Topology, model: Model, version: int, sources: Mapping[Source, int], store: Store
    ) -> None:
        serving, lateness = topology.serving, topology.time.allowed_lateness_s
        is_live = topology.time.clock == "wall"
        self._engine = Engine(
            model.eval(), version, id_bytes=topology.id_bytes, cache_bytes=serving.cache_bytes, device="cpu"
        )
        layout = packet_layout(topology, model)
        self._packer = Packer(topology, layout, 1, MAX_PACKET_BYTES)
        self._receiver = Receiver(self._engine, layout, "the log", 0, store, Identity.of(topology, {}))
        self._max_pending = serving.max_pending
        self._is_holding = False
        self._limit = serving.micro_batch
        self._sources = {
            source: IngestedSource(
                SourceClock(lateness, is_live) if is_interactions(source) else NodesClock(), position
            )
            for source, position in sources.items()
        }
        self._fed = 0
        self.interactions = 0

    @property
    def max_records(self) -> int:
        """How many records may be taken at once."""
        return min(self._packer.max_interactions, self._packer.max_nodes)

    @property
    def pending(self) -> int:
        """Half-edges that wait for what may still come before them."""
        return self._engine.pending()

    def free(self) -> set[Source]:
        """The sources that may be read on: all, or those furthest behind while much waits for them."""
        # Once it was too much, until it is half of that: whoever reads need not change what it reads all the time.
        self._is_holding = self.pending > self._max_pending // (2 if self._is_holding else 1)
        if not self._is_holding:
            return set(self._sources)
        smallest = min(state.announced for state in self._sources.values())
        return {
            source
            for source, state in self._sources.items()
            if state.announced <= smallest or not is_interactions(source)
        }

    def take(
        self, batch: Mapping[Source, Sequence[SourceRecord]], caught_up: Mapping[Source, float], now: float
    ) -> list[PeerEmbeddings]:
        """Take records in, and compute all that is ready; returns the peer embeddings that weights have made.

        batch: in offset order, each source's from where its last has ended   now: unix seconds
        caught_up: sources that are at their end with it, and the unix time until which that is known
        """
        made: list[PeerEmbeddings] = []
        left: Mapping[Source, Sequence[SourceRecord]] | None = batch
        while left is not None:
            packed = self._packer.pack(left, self._sources, caught_up, now)
            for source, end in packed.ends.items():
                self._sources[source].position = end
            for source, watermark in packed.watermarks.items():
                self._sources[source].announced = watermark
            self.interactions += packed.interactions
            (packet,) = packed.packets
            if packet is not None:
                receive(self._engine, [(self._receiver, [_Fed(self._fed, packet)])], _COMMIT_BYTES, self._sources)
                self._fed += 1
            made += self._compute()
            left = packed.left or None
        return made

    def kept(self) -> Iterator[PeerEmbeddings]:
        """The peer embeddings that weights have made, of all rows that nodes keep."""
        return self._engine.kept_peer_embeddings(0)

    def _compute(self) -> list[PeerEmbeddings]:
        watermark = self._receiver.watermark(self._sources)
        made = []
        while True:
            computed = self._engine.compute({0: watermark}, self._limit)
            for peer_embeddings in computed.peer_embeddings:
                self._engine.fill(0, peer_embeddings)
            made += [peer_embeddings for peer_embeddings in computed.peer_embeddings if peer_embeddings.layer]
            if not computed.rows:
                break
        self._engine.save(0)
        return made


def is_interactions(source: Source) -> bool:
    """Whether it is a partition of `interactions`, and not one of `nodes`."""
    return source.topic is SourceTopic.INTERACTIONS
