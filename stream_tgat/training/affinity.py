"""Affinities of embeddings that were computed elsewhere, by the release that made them."""

import logging
from collections import OrderedDict

import numpy as np
import torch
from numpy.typing import NDArray

from stream_tgat.errors import StreamTgatError
from stream_tgat.nn.heads import Affinity
from stream_tgat.topology import Topology
from stream_tgat.training.promotion import load_promoted, promotions

_log = logging.getLogger(__name__)

KEPT = 2


class ReleaseAffinities:
    """Scores pairs of embeddings with the affinity of the model version that they are of.

    Releases are loaded when they are first asked for; one that cannot be loaded is not tried again.
    """

    def __init__(self, topology: Topology) -> None:
        self._topology = topology
        self._found: OrderedDict[int, Affinity | None] = OrderedDict()

    def __call__(
        self, version: int, users: NDArray[np.float32], items: NDArray[np.float32]
    ) -> NDArray[np.float64] | None:
        """Logits [B] of users [B, D] with items [B, D].

        None where that model is not at hand, or reads pair features, which embeddings do not tell.
        """
        if version not in self._found:
            self._found[version] = self._load(version)
            if len(self._found) > KEPT:
                self._found.popitem(last=False)
        affinity = self._found[version]
        if affinity is None:
            return None
        with torch.inference_mode():
            scores = affinity(torch.from_numpy(users), torch.from_numpy(items))
        return np.asarray(scores.double().numpy())

    def _load(self, version: int) -> Affinity | None:
        try:
            for promotion in promotions(self._topology):
                if promotion.version == version:
                    model, _ = load_promoted(self._topology, promotion)
                    return None if model.config.pair_features else model.affinity
        except (StreamTgatError, OSError) as problem:
            _log.warning("Links of model %d are not measured: %s", version, problem)
        return None
