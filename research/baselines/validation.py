"""How well a scorer tells what happens in validation from random negatives: to stop by, and to choose by."""

import numpy as np
from sklearn.metrics import average_precision_score

from stream_tgat.evaluation.link_prediction.methods import LinkScorer
from stream_tgat.graph.interactions import Interactions
from stream_tgat.training.links import spread
from stream_tgat.training.negatives import AnyDestination

VALIDATION_EVENTS = 2000
"""Enough to tell when vectors stop getting better."""


class Validation:
    """A part of some interactions, at most so many of them (None: all), evenly spread, with the negatives of a seed."""

    def __init__(self, seen: Interactions, part: slice, at_most: int | None, seed: int) -> None:
        events = spread(part, at_most)
        self._source = seen.source[events]
        drawn = AnyDestination(seen, seed).draw(seen.time[events], 1, (1,)) if len(events) else np.zeros((0, 1), int)
        self._candidates = np.column_stack([seen.destination[events], drawn])
        self._time = seen.time[events]

    def average_precision(self, scorer: LinkScorer) -> float:
        """Pooled, with one negative each; one half where there is nothing to validate on."""
        if len(self._source) == 0:
            return 0.5
        score = scorer.scores(self._source, self._candidates, self._time)
        return float(average_precision_score(np.tile([1, 0], len(score)), score.ravel()))
