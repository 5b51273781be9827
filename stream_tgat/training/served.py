"""What a monitor asks of the releases that have served: the affinity of embeddings, and what they have learnt from."""

import logging
from collections import OrderedDict
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from stream_tgat.errors import StreamTgatError
from stream_tgat.nn.heads import Affinity
from stream_tgat.topology import Topology
from stream_tgat.training.promotion import load_promoted, promotions

_log = logging.getLogger(__name__)

KEPT = 8


class _Served(NamedTuple):
    affinity: Affinity | None
    learnt_until: float


class ServedReleases:
    """Releases by the version as which they serve or served; loaded when they are first asked for.

    One that cannot be loaded is not tried again, and answers as one of which nothing is known.
    """

    def __init__(self, topology: Topology) -> None:
        self._topology = topology
        self._found: OrderedDict[int, _Served] = OrderedDict()

    def affinities(
        self, version: int, users: NDArray[np.float32], items: NDArray[np.float32]
    ) -> NDArray[np.float64] | None:
        """Logits [B] of users [B, D] with items [B, D], embeddings that this version made.

        None where its affinity is not at hand, or reads pair features, which embeddings do not tell.
        """
        affinity = self._served(version).affinity
        if affinity is None:
            return None
        with torch.inference_mode():
            scores = affinity(torch.from_numpy(users), torch.from_numpy(items))
        return np.asarray(scores.double().numpy())

    def learnt_until(self, version: int) -> float:
        """Unix seconds before which all lies that it has learnt from; −inf where that is nothing, or not known."""
        return self._served(version).learnt_until

    def _served(self, version: int) -> _Served:
        if version not in self._found:
            self._found[version] = self._load(version)
            if len(self._found) > KEPT:
                self._found.popitem(last=False)
        return self._found[version]

    def _load(self, version: int) -> _Served:
        try:
            for promotion in promotions(self._topology):
                if promotion.version == version:
                    model, card = load_promoted(self._topology, promotion)
                    affinity = None if model.config.pair_features else model.affinity
                    return _Served(affinity, -np.inf if card.learnt_until is None else card.learnt_until)
        except (StreamTgatError, OSError) as problem:
            _log.warning("What model %d has learnt from is not known, nor its links: %s", version, problem)
        return _Served(None, -np.inf)
