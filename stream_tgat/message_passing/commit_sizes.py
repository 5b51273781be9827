"""What has to fit into one commit of a partition: a record batch of the changelog, which is taken whole or not at all.

A cycle commits what it has received and what it has computed from it together, so each has a share. How many bytes of
state a packet or a micro-batch may turn into follows from widths, and above all from how many rows a node record lists.
It knows the formats, and neither Kafka nor the engine.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np

from stream_tgat.errors import TopologyError
from stream_tgat.storage.layout import Layout, level_bytes
from stream_tgat.topology import Topology
from stream_tgat.transport.changelog import RECORD_OVERHEAD_BYTES
from stream_tgat.wire.packets import MAX_PACKET_BYTES, PacketLayout

#: Part of a commit that is for what is received; the rest is for what is computed.
RECEIVED_SHARE: Final = 0.5

#: Rows that a node record may list beside the candidates: of the newest time, and peer embeddings that came before
#: their rows.
_ROWS_BESIDE: Final = 8


@dataclass(frozen=True)
class CommitSizes:
    """How many bytes of a commit one half-edge, and one computed row, make at most.

    half_edge: a received one: its row, the record of its node and the mark that it waits.
    computed: one row of a micro-batch: the peer embeddings that it sends if their receiver is in the same partition,
    record and mark of its node when its embedding leaves, and the deletion of the row that drops out for it.
    Node records are counted without entries of waiting rows, which are few.
    """

    half_edge: int
    computed: int

    @classmethod
    def of(
        cls, packets: PacketLayout, candidates: int, head_names: tuple[str, ...], decay_s: tuple[float, ...] = ()
    ) -> "CommitSizes":
        """The sizes in a deployment with packets of these widths, whose nodes look back `candidates` interactions.

        head_names: of the prediction heads   decay_s: of the decayed sums
        """
        layout = Layout(
            packets.id_bytes,
            packets.edge_width,
            packets.feature_width,
            packets.peer_embedding_widths,
            candidates,
            head_names,
            decay_s,
        )
        node_key = len(layout.node_key(b"h", b"")) + RECORD_OVERHEAD_BYTES
        row_key = layout.row_key_type.itemsize + RECORD_OVERHEAD_BYTES
        peer_embedding_key = layout.peer_embedding_key_type.itemsize + RECORD_OVERHEAD_BYTES
        listed = candidates + _ROWS_BESIDE
        entry = (2 if 2 * listed <= np.iinfo(np.uint16).max else 4) + level_bytes(len(head_names))
        record = node_key + layout.node_record.itemsize + entry * listed
        mark = node_key + 1
        sent = [
            peer_embedding
            for peer_embedding, width in zip(layout.peer_embedding, layout.state_widths, strict=True)
            if width
        ]
        peer_embeddings = sum(peer_embedding_key + peer_embedding.itemsize for peer_embedding in sent)
        dropped = row_key + peer_embedding_key * len(sent)
        return cls(
            half_edge=row_key + layout.row.itemsize + record + mark, computed=peer_embeddings + record + mark + dropped
        )


def changes_per_byte(
    packets: PacketLayout, candidates: int, head_names: tuple[str, ...], decay_s: tuple[float, ...] = ()
) -> float:
    """How many bytes of a commit one byte of packets makes, at most.

    Half-edges make the most. A peer embedding makes about what it has itself, since its row is there, but for the few
    that overtook it: those of the cycle that ingest is sending.
    """
    return max(1.0, CommitSizes.of(packets, candidates, head_names, decay_s).half_edge / packets.half_edge.itemsize)


def largest_packet(topology: Topology, packets: PacketLayout, max_commit_bytes: int) -> int:
    """Bytes of the largest packet that a partition can take in by one commit: packets are not split either."""
    per_byte = changes_per_byte(packets, topology.model.candidates, topology.head_names, topology.model.decay_s)
    return min(MAX_PACKET_BYTES, int(RECEIVED_SHARE * max_commit_bytes / per_byte))


def check_micro_batch(topology: Topology, packets: PacketLayout, max_commit_bytes: int) -> None:
    """Raise TopologyError if a micro-batch, all of it in one partition, may not fit into what a commit has for it.

    A micro-batch is computed only upon a partition that has no more to commit than may have been received.
    """
    each = CommitSizes.of(packets, topology.model.candidates, topology.head_names, topology.model.decay_s).computed
    most = int((1 - RECEIVED_SHARE) * max_commit_bytes) // each
    if topology.serving.micro_batch > most:
        raise TopologyError(
            f"serving.micro_batch: {topology.serving.micro_batch} rows may need {each} bytes each of half "
            f"a commit, which holds {max_commit_bytes} and cannot be split; use {most} or less, or make "
            "graph.max_id_bytes or model.candidates smaller"
        )
