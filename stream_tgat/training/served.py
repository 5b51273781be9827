"""What a monitor asks of the releases that have served: the affinity of embeddings, and what they have learnt from."""

import logging
import math
from collections import OrderedDict
from dataclasses import dataclass
from time import monotonic

import numpy as np
import torch
from numpy.typing import NDArray

from stream_tgat.errors import StreamTgatError, UnreachableStoreError
from stream_tgat.nn.heads import Affinity
from stream_tgat.topology import Topology
from stream_tgat.training.promotion import load_promoted, promoted_card, promotions

_log = logging.getLogger(__name__)

KEPT = 8

TRY_AGAIN_S = 60.0
"""After which what could not be loaded is tried again: a store may answer again, a release may be put back."""


@dataclass(frozen=True, eq=False)
class _Served:
    """learnt_until: as of `ServedReleases`   again: monotonic seconds at which it is loaded anew

    refused: whether its release can be asked for, and cannot serve
    """

    affinity: Affinity | None
    learnt_until: float
    again: float = math.inf
    refused: bool = False


class ServedReleases:
    """Releases by the version as which they serve or served; loaded when they are first asked for.

    One that cannot be loaded is tried again after a while. Until then nothing is said about it.
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
        """Unix seconds before which all lies that it has learnt from; −inf where that is nothing, or was not noted.

        +inf where its card cannot be read now: what it has learnt from must not be counted.
        """
        return self._served(version).learnt_until

    def is_refused(self, version: int) -> bool:
        """Whether workers refuse it, as far as can be told now."""
        return self._served(version).refused

    def _served(self, version: int) -> _Served:
        found = self._found.get(version)
        if found is None or monotonic() >= found.again:
            found = self._found[version] = self._load(version)
            if len(self._found) > KEPT:
                self._found.popitem(last=False)
        return found

    def _load(self, version: int) -> _Served:
        again = monotonic() + TRY_AGAIN_S
        try:
            promotion = next((each for each in promotions(self._topology) if each.version == version), None)
            if promotion is None:  # compaction has taken the record away, or nobody ever promoted it
                return _Served(None, math.inf, again)
            card = promoted_card(self._topology, promotion)
        except (StreamTgatError, OSError) as problem:
            _log.warning("What model %d has learnt from is not known, nor its links: %s", version, problem)
            return _Served(None, math.inf, again, refused=_is_final(problem))
        learnt_until = -math.inf if card.learnt_until is None else card.learnt_until
        try:
            model, _ = load_promoted(self._topology, promotion)
        except (StreamTgatError, OSError) as problem:
            _log.warning("The links of model %d are not known: %s", version, problem)
            return _Served(None, learnt_until, again, refused=_is_final(problem))
        return _Served(None if model.config.pair_features else model.affinity, learnt_until)


def _is_final(problem: Exception) -> bool:
    """Whether workers refuse what fails so; they ask again while a store cannot be asked."""
    return not isinstance(problem, UnreachableStoreError)
