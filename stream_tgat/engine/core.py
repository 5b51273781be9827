"""The engine: rows and memos in, embeddings and messages out, for all partitions of one worker."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from stream_tgat.engine.values import AlertPolicy, Bytes, Computed, Floats, HalfEdges, Memos, Neighbourhood, Times
from stream_tgat.storage.stores import Store

if TYPE_CHECKING:
    from stream_tgat.nn.model import Model


class Engine:
    """Computes what is ready over the partitions it has open, and says what must be stored.

    Per micro-batch: `append` and `fill` what came, `compute`, hand the results on, then per partition store `changes` and
    call `committed`. When any of that fails: `drop` the partition and `open` it again from what was stored.
    """

    def __init__(
        self,
        model: Model,
        version: int,
        *,
        id_bytes: int = 40,
        cache_bytes: int = 1 << 30,
        alerts: AlertPolicy | None = None,
        max_wait_s: float | None = None,
        device: str = "cpu",
    ) -> None:
        raise NotImplementedError

    def open(self, partition: int, store: Store) -> None:
        """Take over a partition whose state is in `store`; finds its pending rows."""
        raise NotImplementedError

    def drop(self, partition: int) -> None:
        """Forget all memory of a partition, committed or not; what was stored stays in its store."""
        raise NotImplementedError

    def append(self, partition: int, half_edges: HalfEdges, now: float | None = None) -> int:
        """Half-edges become rows. Repeats change nothing. Returns how many were new."""
        raise NotImplementedError

    def fill(self, partition: int, memos: Memos, now: float | None = None) -> int:
        """Memos enter their rows (or make stubs). Repeats and older versions change nothing. Returns how many counted."""
        raise NotImplementedError

    def set_features(self, partition: int, node: Bytes, vectors: Floats) -> None:
        """Own features of nodes, node S[n], vectors f4[n, F]; they hold from now on."""
        raise NotImplementedError

    def compute(
        self, watermarks: Mapping[int, float], limit: int, *, now: float | None = None, backlog: bool = False
    ) -> Computed:
        """One pass over layers 0..L of at most `limit` rows, oldest first.

        watermarks: smallest watermark of each open partition that may compute now.
        now: monotonic seconds (default: time.monotonic()); backlog: while there is one, max_wait does not run.
        """
        raise NotImplementedError

    def changes(self, partition: int) -> list[tuple[bytes, bytes | None]]:
        """What differs from the last `committed`: keys with values of fixed width, None for deleted."""
        raise NotImplementedError

    def changes_bytes(self, partition: int) -> int:
        """Upper estimate of the bytes of `changes`, without building them."""
        raise NotImplementedError

    def committed(self, partition: int) -> None:
        """The last `changes` are stored: what changes from here on is new."""
        raise NotImplementedError

    def pending(self, partition: int | None = None) -> int:
        """Rows whose own embedding has not left yet, of one partition or of all."""
        raise NotImplementedError

    def neighbourhood(self, partition: int, node: bytes) -> Neighbourhood:
        """The rows kept of `node`, in order."""
        raise NotImplementedError

    def embed(self, partition: int, nodes: Bytes, times: Times) -> Floats:
        """Embeddings [B, D] of nodes S[B] at times f8[B] from the rows and memos that are there now; changes nothing."""
        raise NotImplementedError


__all__ = ["Engine", "np"]
