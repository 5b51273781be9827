"""Embeddings on a plane: principal components fitted on a sample; whatever comes later is placed without refitting.

Fitted once for each model, and again when there are many more nodes than it was fitted on, so points keep their
places. Communities are the clusters of the same sample (k-means), and only tell areas of the map apart.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from stream_tgat.query.watching.moments import Remembered

SAMPLE: Final = 4_000
COMMUNITIES: Final = 8
FEWEST: Final = 3
"""Nodes without which there is no plane."""
_GROWN: Final = 4


@dataclass(frozen=True, eq=False)
class Projection:
    """mean: f4[D]   axes: f4[2, D]   centres: f4[C, D]   share: of the variance, that the plane shows
    model: whose vectors it is of   fitted_on: nodes
    """

    model: int
    mean: NDArray[np.float32]
    axes: NDArray[np.float32]
    centres: NDArray[np.float32]
    share: float
    fitted_on: int

    def place(self, vector: NDArray[np.float32]) -> NDArray[np.float32]:
        """vector: f4[N, D]. Returns f4[N, 2]."""
        return np.asarray((vector - self.mean) @ self.axes.T, np.float32)

    def community(self, vector: NDArray[np.float32]) -> NDArray[np.intp]:
        """The nearest centre of each of vector f4[N, D]: [N]."""
        distance = ((vector[:, None, :] - self.centres[None]) ** 2).sum(-1)
        nearest: NDArray[np.intp] = np.argmin(distance, axis=1)
        return nearest


class Projections:
    """The projection of the newest model."""

    def __init__(self, remembered: Remembered) -> None:
        self._remembered = remembered
        self._known: Projection | None = None
        self._lock = threading.Lock()

    @property
    def known(self) -> Projection | None:
        """The one that was fitted last."""
        return self._known

    def newest(self) -> Projection | None:
        """Fitted now if it must be, which takes a moment; None while there are too few nodes."""
        with self._lock:
            model = self._remembered.newest_model()
            known = self._known
            if model is None:
                return known
            grown = known is not None and known.fitted_on < SAMPLE and self._remembered.nodes > _GROWN * known.fitted_on
            if known is None or known.model != model or grown:
                self._known = fitted(self._remembered.as_of(np.inf, SAMPLE, model).vector, model) or known
            return self._known


def fitted(vector: NDArray[np.float32], model: int) -> Projection | None:
    """The projection of a sample f4[N, D]; None for fewer than three nodes, or where all are at one place."""
    from sklearn.cluster import KMeans
    from sklearn.decomposition import PCA

    if len(vector) < FEWEST or vector.shape[1] < 2 or np.ptp(vector, axis=0).max() == 0:
        return None
    distinct = len(np.unique(vector, axis=0))
    with threadpool_limits(1):  # beside a worker, which has better use for the other cores
        plane = PCA(2, svd_solver="covariance_eigh").fit(vector.astype(np.float64))
        clusters = KMeans(min(COMMUNITIES, distinct), n_init=1, random_state=0).fit(vector)
    return Projection(
        model=model,
        mean=plane.mean_.astype(np.float32),
        axes=plane.components_.astype(np.float32),
        centres=clusters.cluster_centers_.astype(np.float32),
        share=float(np.nan_to_num(plane.explained_variance_ratio_.sum())),
        fitted_on=len(vector),
    )
