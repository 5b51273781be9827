"""One layer of the model for many targets, read from the arena: gather on the host, compute on the device."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray

from stream_tgat.engine.values import Floats, Integers, Times
from stream_tgat.nn.inference import FrozenHeads, InferenceEncoder, NeighbourPlaces
from stream_tgat.storage.arena import Arena

if TYPE_CHECKING:
    from stream_tgat.nn.model import Model

#: Targets at a time: what they gather stays in the cache of a core. A GPU takes them all.
CHUNK = 128


class Forward:
    """A copy of the model on its device, fed with rows of an arena.

    fused: by compiled loops that read rows where they lie; by default on a CPU.
    """

    def __init__(self, model: Model, arena: Arena, device: str, *, fused: bool | None = None) -> None:
        self.model = copy.deepcopy(model).eval().to(device)
        self.arena = arena
        self.device = torch.device(device)
        fused = self.device.type == "cpu" if fused is None else fused
        self._chunk = CHUNK if self.device.type == "cpu" else 1 << 16
        self._fused = InferenceEncoder(self.model.encoder) if fused else None
        self._heads = FrozenHeads(self.model.heads, self.model.calibration) if fused else None

    def layer(
        self, layer: int, own: Sequence[Floats], slots: NDArray[np.int32], spans: Times, counts: NDArray[np.int32]
    ) -> tuple[Floats, Floats]:
        """h^(layer) [R, D] and attention [R, H, K] of R targets.

        own: h^(0 … layer-1), each [R, w]   slots: i4[R, K], the rows they see, of each the first `counts` [R]
        spans: f8[R, K], t − t_i
        """
        if len(slots) <= self._chunk:
            return self._layer(layer, own, slots, spans, counts)
        parts = []
        for at in range(0, len(slots), self._chunk):
            cut = slice(at, at + self._chunk)
            parts.append(self._layer(layer, [h[cut] for h in own], slots[cut], spans[cut], counts[cut]))
        return np.concatenate([h for h, _ in parts]), np.concatenate([weights for _, weights in parts])

    def _layer(
        self, layer: int, own: Sequence[Floats], slots: NDArray[np.int32], spans: Times, counts: NDArray[np.int32]
    ) -> tuple[Floats, Floats]:
        if self._fused is not None:
            rows = NeighbourPlaces(
                self.arena.t.payload, self.arena.layout.peer_embedding_offsets[layer - 1], slots, counts, spans
            )
            return self._fused.layer(layer, own, rows)
        return self._layer_gathered(layer, own, slots, spans, counts)

    @torch.inference_mode()
    def _layer_gathered(
        self, layer: int, own: Sequence[Floats], slots: NDArray[np.int32], spans: Times, counts: NDArray[np.int32]
    ) -> tuple[Floats, Floats]:
        layout = self.arena.layout
        gathered = self._to(self.arena.t.payload[slots])  # [R, K, E + Σw]
        offset, width = layout.peer_embedding_offsets[layer - 1], layout.state_widths[layer - 1]
        mask = np.arange(slots.shape[1]) < counts[:, None]
        h, weights = self.model.layer(
            layer,
            [self._to(state) for state in own],
            gathered[..., offset : offset + width],
            gathered[..., : layout.edge_width],
            self._to(spans),
            self._to(mask),
        )
        return self._back(h), self._back(weights)

    def predict(self, embedding: Floats, event: Floats) -> Floats:
        """Calibrated probabilities [R, heads] from embeddings [R, D] and what is known of the events [R, E + S]."""
        if self._heads is not None:
            return self._heads.predict(embedding, event)
        with torch.inference_mode():
            return self._back(self.model.predict(self._to(embedding), self._to(event)))

    def _to(self, array: Floats | Times | Integers | NDArray[np.bool_]) -> torch.Tensor:
        tensor = torch.from_numpy(array)
        if self.device.type == "cpu":
            return tensor
        # Pinned memory lets the copy run beside the host's next gather.
        return tensor.pin_memory().to(self.device, non_blocking=True)

    def _back(self, tensor: torch.Tensor) -> Floats:
        result: Floats = tensor.float().cpu().numpy()
        return result
