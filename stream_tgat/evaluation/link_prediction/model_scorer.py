"""A trained model as a scorer of link prediction, so that it is asked what rules and baselines are asked."""

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from stream_tgat.nn.model import Model
from stream_tgat.training.epochs import Epoch
from stream_tgat.training.scoring import TemporalGraph, pair_logits

AT_ONCE = 4096
"""Nodes at times that are embedded together when scoring: two layers of 20 neighbours then need some 200 MB."""

DECIMALS = 5
"""To which scores are rounded, so that ties stay ties: two equal inputs differ by less, by their place in a batch."""


class ModelScorer:
    """Affinities by a trained model over a graph with the past of all interactions. epochs: of its training."""

    def __init__(self, model: Model, graph: TemporalGraph, epochs: Sequence[Epoch] = ()) -> None:
        self.model = model.eval()
        self.graph = graph
        self.epochs = tuple(epochs)

    def scores(
        self, sources: NDArray[np.int64], destinations: NDArray[np.int64], times: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Logits of each candidate, from interactions strictly before each time.

        sources: [B] int64   destinations: [B, C] int64, candidates   times: [B] float64
        Returns [B, C] float64.
        """
        result = np.zeros(destinations.shape)
        rows = max(AT_ONCE // (destinations.shape[1] + 1), 1)
        with torch.inference_mode():
            for start in range(0, len(sources), rows):
                part = slice(start, start + rows)
                asked = destinations[part]
                result[part] = pair_logits(self.model, self.graph, sources[part], asked, times[part]).cpu().numpy()
        return result.round(DECIMALS)
