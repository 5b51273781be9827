"""DeepWalk, Node2vec and CTDNE: skip-gram with negative sampling over walks, then a score of two vectors."""

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from research.baselines.optional import word2vec
from research.baselines.static import PairScoring, StaticScorer
from research.baselines.visible import visible
from research.baselines.walks import ENDED, Adjacency, random_walks, temporal_walks
from stream_tgat.evaluation.link_prediction.task import LinkTask
from stream_tgat.graph.adjacency import TemporalAdjacency

SENTENCES_AT_ONCE = 10_000


@dataclass(frozen=True)
class SkipGram:
    """How vectors are made of walks. window: nodes on either side that count as context; negatives: per positive."""

    width: int = 100
    window: int = 10
    negatives: int = 5
    epochs: int = 1
    learning_rate: float = 0.025

    def vectors(self, walks: NDArray[np.int32], node_count: int, seed: int) -> NDArray[np.float32]:
        """A vector a node, zero for nodes in no walk: [N, width] float32.

        walks: [W, length] int32, padded with ENDED. One thread, since with more the same seed gives other vectors.
        """
        table = np.zeros((node_count, self.width), np.float32)
        met = np.bincount(walks[walks != ENDED], minlength=node_count)
        if not met.any():
            return table
        model = word2vec()(
            vector_size=self.width, window=self.window, negative=self.negatives, alpha=self.learning_rate, sg=1, hs=0,
            min_count=1, sample=0.0, workers=1, seed=seed,
        )  # fmt: skip
        present = np.flatnonzero(met)
        model.build_vocab_from_freq({str(node): int(met[node]) for node in present}, corpus_count=len(walks))
        order = np.random.default_rng(seed).permutation(len(walks))
        model.train(
            _Sentences(walks[order], node_count),
            total_examples=len(walks),
            total_words=int(met.sum()),
            epochs=self.epochs,
        )
        table[present] = model.wv[[str(node) for node in present]]
        return table


class _Sentences:
    """Walks as the lists of words that gensim reads, as often as it likes."""

    def __init__(self, walks: NDArray[np.int32], node_count: int) -> None:
        self._walks = walks
        self._lengths = (walks != ENDED).sum(1)
        self._words = np.array([str(node) for node in range(node_count)], object)

    def __iter__(self) -> Iterator[list[str]]:
        for start in range(0, len(self._walks), SENTENCES_AT_ONCE):
            part = slice(start, start + SENTENCES_AT_ONCE)
            words = self._words[self._walks[part]].tolist()
            for sentence, length in zip(words, self._lengths[part], strict=True):
                yield sentence[:length]


@dataclass(frozen=True)
class Node2vec:
    """Walks over the undirected graph, weighted by recurrence, for each p.

    The p and the operator that validate best are kept.
    """

    name: str = "Node2vec"
    p: tuple[float, ...] = (0.6, 0.8)
    q: float = 1.0
    weighted: bool = True
    walks_per_node: int = 80
    walk_length: int = 30
    skip_gram: SkipGram = field(default_factory=SkipGram)
    scoring: PairScoring = field(default_factory=PairScoring)

    def fit(self, task: LinkTask, seed: int) -> StaticScorer:
        """Vectors of the nodes of the training part, and a scorer by them."""
        seen, train, _ = visible(task)
        node_count = len(task.hidden)
        graph = Adjacency.of(seen.select(train), node_count, weighted=self.weighted)
        tables = []
        for p in self.p:
            random = np.random.default_rng(seed)
            walks = random_walks(graph, self.walks_per_node, self.walk_length, random, p, self.q)
            tables.append(self.skip_gram.vectors(walks, node_count, seed))
        return self.scoring.best(task, tables, seed)


@dataclass(frozen=True)
class DeepWalk(Node2vec):
    """Walks over the undirected graph without weights, each neighbour as likely as the other."""

    name: str = "DeepWalk"
    p: tuple[float, ...] = (1.0,)
    weighted: bool = False


@dataclass(frozen=True)
class CTDNE:
    """Walks over interactions, forward in time.

    walks_per_node: walks start at interactions; so many times the number of nodes are made in all
    """

    name: str = "CTDNE"
    walks_per_node: int = 80
    walk_length: int = 80
    skip_gram: SkipGram = field(default_factory=SkipGram)
    scoring: PairScoring = field(default_factory=PairScoring)

    def fit(self, task: LinkTask, seed: int) -> StaticScorer:
        """Vectors of the nodes of the training part, and a scorer by them."""
        seen, train, _ = visible(task)
        learnt = seen.select(train)
        count = self.walks_per_node * len(np.unique(np.concatenate([learnt.source, learnt.destination])))
        walks = temporal_walks(TemporalAdjacency(learnt), count, self.walk_length, np.random.default_rng(seed))
        table = self.skip_gram.vectors(walks, len(task.hidden), seed)
        return self.scoring.best(task, [table], seed)
