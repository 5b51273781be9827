"""The paper's table of link prediction, row by row."""

from dataclasses import replace

from research.baselines.autoencoder import GraphAutoencoder
from research.baselines.skipgram import CTDNE, DeepWalk, Node2vec, SkipGram
from research.baselines.static import PairScoring
from research.baselines.temporal import TemporalMethod, temporal_methods

Method = TemporalMethod | GraphAutoencoder | Node2vec | CTDNE


def paper_rows(like: TemporalMethod) -> tuple[Method, ...]:
    """All of them: transductive ones, then those over the past; width, activity and kinds of negatives are `like`'s."""
    return (*static_methods(like), *temporal_methods(like), other_affinity(like))


def other_affinity(like: TemporalMethod) -> TemporalMethod:
    """What the affinity does for TGAT: the paper's inner product, or with activity, all of a past, pair recurrence."""
    tgat = replace(like, aggregation=None, reads_time=True)
    if like.activity:
        return replace(tgat, name="TGAT + pair recurrence", pair_features=True)
    return replace(tgat, name="TGAT (inner product)", affinity="inner")


def static_methods(like: TemporalMethod) -> tuple[Method, ...]:
    """The rows that know no time; the paper's sizes but for the width, which is that of the others."""
    scoring = PairScoring(activity=like.activity, historical_share=like.settings.historical_share)
    autoencoder = GraphAutoencoder(width=like.width, scoring=scoring)
    skip_gram = SkipGram(width=like.width)
    return (
        autoencoder,
        replace(autoencoder, name="VGAE", variational=True),
        DeepWalk(skip_gram=skip_gram, scoring=scoring),
        Node2vec(skip_gram=skip_gram, scoring=scoring),
        CTDNE(skip_gram=skip_gram, scoring=scoring),
    )
