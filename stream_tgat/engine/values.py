"""What goes into the engine and what comes out of it: parallel arrays, one entry a half-edge, peer embedding or
embedding.

Strings are NumPy byte strings ('S'): a node key is one kind byte and the id, an interaction id is plain utf-8. The
letters of the shapes: `n` entries, `B` embeddings, `E` edge features, `D` model, `L` layers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

Bytes = NDArray[np.bytes_]
Floats = NDArray[np.float32]
Times = NDArray[np.float64]
Integers = NDArray[np.int64]


@dataclass(frozen=True)
class _Parallel:
    """Arrays of equal length that are cut and joined together."""

    def __len__(self) -> int:
        # Asked many times a batch, and `fields` takes as long as a small product.
        first: NDArray[Any] = getattr(self, next(iter(self.__dataclass_fields__)))
        return len(first)

    def take(self, index: NDArray[Any] | slice) -> Self:
        """The entries at `index` (integers, booleans or a slice), in that order."""
        arrays = {f.name: getattr(self, f.name) for f in fields(self)}
        return type(self)(**{k: v[index] if isinstance(v, np.ndarray) else v for k, v in arrays.items()})

    @classmethod
    def concatenate(cls, parts: Sequence[Self]) -> Self:
        """All entries of `parts` (at least one), in order."""
        if len(parts) == 1:
            return parts[0]
        joined = {}
        for f in fields(cls):
            values = [getattr(part, f.name) for part in parts]
            joined[f.name] = np.concatenate(values) if isinstance(values[0], np.ndarray) else values[0]
        return cls(**joined)


@dataclass(frozen=True)
class HalfEdges(_Parallel):
    """`node` met `peer` in `interaction` at `time`; the half that belongs to `node`."""

    node: Bytes  # S[n], the owner's key
    peer: Bytes  # S[n]
    interaction: Bytes  # S[n]
    side: NDArray[np.uint8]  # [n], 0: the owner is the user (source), 1: the item (destination)
    time: Times  # [n], seconds
    edge: Floats  # [n, E]
    # [n], where a half-edge came from, in numbers of whoever appends it; its embedding and alerts carry it; -1: nowhere
    origin: Integers = None  # type: ignore[assignment]  # becomes -1s
    # [n], the watermark when it came: rows up to that time may have been computed, here or before a crash
    passed: Times = None  # type: ignore[assignment]  # becomes minus infinity

    def __post_init__(self) -> None:
        if self.origin is None:
            object.__setattr__(self, "origin", np.full(len(self), -1))
        if self.passed is None:
            object.__setattr__(self, "passed", np.full(len(self), -np.inf))


@dataclass(frozen=True)
class Appended:
    """What became of half-edges, one entry each.

    new: it is a row now; False for a repeat of one that is there
    differs: a repeat whose edge features are not those of the first; the first ones stay
    behind: new, but a later row of its node has been computed without it, or may have been; that is not revised
    """

    new: NDArray[np.bool_]  # [n]
    behind: NDArray[np.bool_]  # [n]
    differs: NDArray[np.bool_]  # [n]


@dataclass(frozen=True)
class PeerEmbeddings(_Parallel):
    """The peer's state h^(layer) at the time of an interaction, for the owner of a row; one layer for all entries."""

    node: Bytes  # S[n], the recipient, owner of the row
    peer: Bytes  # S[n], whose state it is
    interaction: Bytes  # S[n]
    side: NDArray[np.uint8]  # [n], of the recipient's row
    time: Times  # [n], of the interaction: with it a peer embedding finds its row's place before the half-edge has come
    version: Integers  # [n], the lowest version of the weights and inputs that made it
    vectors: Floats  # [n, w_layer]
    layer: int  # 0 … L-1


@dataclass(frozen=True)
class FinalEmbeddings(_Parallel):
    """Final embeddings; those of one node are in the order of its rows."""

    partition: NDArray[np.int32]  # [B]
    node: Bytes  # S[B]
    peer: Bytes  # S[B]
    interaction: Bytes  # S[B]
    side: NDArray[np.uint8]  # [B]
    time: Times  # [B]
    late: NDArray[np.bool_]  # [B], its half-edge came behind, see `Appended`
    embedding: Floats  # [B, D]
    predictions: Floats  # [B, heads], NaN on side 1: predictions are about the user
    version: Integers  # [B]
    origin: Integers  # [B], of the half-edge


@dataclass(frozen=True)
class LatestNodes(_Parallel):
    """Nodes just after their newest rows, each once."""

    node: Bytes  # S[B]
    time: Times  # [B], of the newest row
    degree: Integers  # [B]
    embedding: Floats  # [B, D]
    probability: Times  # [B, heads], what heads said at the newest row that was embedded; NaN where nothing
    is_complete: NDArray[np.bool_]  # [B], False where a neighbour's peer embedding is still on its way
    version: Integers  # [B]


@dataclass(frozen=True)
class AttendedRow:
    """A past interaction that an alert rests on, with its attention weight (mean over heads, last layer)."""

    peer: bytes
    interaction: bytes
    time: float
    weight: float


@dataclass(frozen=True)
class ThresholdCrossing:
    """The probability of `head` crossed its threshold upwards."""

    node: bytes
    peer: bytes
    interaction: bytes
    head: str
    probability: float
    threshold: float
    time: float
    because: tuple[AttendedRow, ...]  # the largest weights, largest first
    partition: int = 0
    version: int = 0
    origin: int = -1  # of the half-edge


@dataclass(frozen=True)
class AlertPolicy:
    """When a head alerts: its threshold, and how long (event time) it stays silent afterwards. One entry a head."""

    thresholds: tuple[float, ...] = ()
    cooldowns_s: tuple[float, ...] = ()


@dataclass(frozen=True)
class Computed:
    """What one `Engine.compute` produced; empty when nothing was ready."""

    peer_embeddings: list[PeerEmbeddings]
    embeddings: FinalEmbeddings
    alerts: list[ThresholdCrossing] = field(default_factory=list)
    forced: int = 0  # rows that went on without all peer embeddings because they had waited max_wait_s
    stale: int = 0  # rows that rest on peer embeddings or own lower layers of older weights, once for each layer
    rows: int = 0  # rows that went up a layer, counted once for each
    is_cut: bool = False  # in some layer more rows were ready than the limit, or may be

    @classmethod
    def concatenate(cls, parts: Sequence[Self]) -> Self:
        """What several passes (at least one) produced, in their order."""
        return cls(
            peer_embeddings=[peer_embeddings for part in parts for peer_embeddings in part.peer_embeddings],
            embeddings=FinalEmbeddings.concatenate([part.embeddings for part in parts]),
            alerts=[alert for part in parts for alert in part.alerts],
            forced=sum(part.forced for part in parts),
            stale=sum(part.stale for part in parts),
            rows=sum(part.rows for part in parts),
            is_cut=parts[-1].is_cut,
        )
