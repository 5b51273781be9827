"""What a monitor asks of the releases that have served; answered elsewhere, since it takes torch."""

from typing import Protocol

import numpy as np
import numpy.typing as npt

EmbeddingRows = npt.NDArray[np.float32]


class ReleasesByVersion(Protocol):
    """Releases by version: see `training.served.ServedReleases`."""

    def affinities(self, version: int, users: EmbeddingRows, items: EmbeddingRows) -> npt.NDArray[np.float64] | None:
        """Logits [B] of users [B, D] with items [B, D]; None where they cannot be told."""
        ...

    def learnt_until(self, version: int) -> float:
        """Unix seconds of event time before which all lies that a model has learnt from.

        −inf where that is nothing, or was not noted; +inf where it cannot be told now, so that no answer counts.
        """
        ...

    def is_refused(self, version: int) -> bool:
        """Whether workers refuse it: its release can be asked for, and cannot serve."""
        ...


class UnknownReleases:
    """Releases of which nothing is known: links are not measured, and all answers count."""

    def affinities(self, version: int, users: EmbeddingRows, items: EmbeddingRows) -> None:  # noqa: ARG002
        """None."""
        return

    def learnt_until(self, version: int) -> float:  # noqa: ARG002
        """−inf."""
        return float("-inf")

    def is_refused(self, version: int) -> bool:  # noqa: ARG002
        """False."""
        return False
