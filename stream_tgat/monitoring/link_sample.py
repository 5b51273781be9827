"""Link prediction on the stream: does the model tell the item that a user met from one drawn at random?

Both embeddings of a sampled interaction are taken from `embeddings`, and the user's is also scored with another item.
That item's embedding at this very time is nobody's to know, so its newest so far stands in, of the same model.

Limits. The item drawn is seen as it was when it was last met by anybody (in the sample), so it looks active and its
embedding is a little old: a figure from here is comparable with itself over time and between models, and not with the
one in a release's card, for which items are embedded anew. Where the release's affinity reads pair features, which are
not on the wire, nothing is scored.
"""

from collections import OrderedDict, deque
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple, TypeVar

import numpy as np

from stream_tgat.monitoring.memory import interaction_hash
from stream_tgat.monitoring.releases import EmbeddingRows, ReleasesByVersion
from stream_tgat.training.metrics import binary_metrics
from stream_tgat.wire import DecodedEmbedding, LinkQuality

Key = TypeVar("Key")

_HALVES: Final = 4096
_ITEMS: Final = 1024
_AT_ONCE: Final = 256
_DRAWS: Final = 8


class _Half(NamedTuple):
    """One end of a sampled interaction."""

    side: int
    node: bytes
    model: int
    vector: EmbeddingRows


class _SampledPair(NamedTuple):
    """A user with the item met and with another."""

    model: int
    user: EmbeddingRows
    met: EmbeddingRows
    other: EmbeddingRows


class _Scored(NamedTuple):
    model: int
    met: float
    other: float


class LinkSample:
    """Average precision over the newest sampled interactions."""

    def __init__(self, every: int, window: int, releases: ReleasesByVersion) -> None:
        """every: one interaction in so many is taken; 0: none   window: pairs that the figures are over"""
        self._every = every
        self._releases = releases
        self._halves: OrderedDict[int, _Half] = OrderedDict()
        self._items: OrderedDict[bytes, _Half] = OrderedDict()
        self._waiting: list[_SampledPair] = []
        self._scored: deque[_Scored] = deque(maxlen=window)

    def takes(self, embedding: DecodedEmbedding) -> bool:
        """Whether the embedding belongs to a sampled interaction, so that its vector is needed."""
        return self._every > 0 and _interaction(embedding) % self._every == 0

    def add(self, embedding: DecodedEmbedding, vector: EmbeddingRows) -> None:
        """One end of a sampled interaction. vector: [D]"""
        interaction = _interaction(embedding)
        mine = _Half(embedding.side, embedding.node, embedding.model, vector)
        theirs = self._halves.pop(interaction, None)
        if theirs is None or theirs.side == mine.side:
            _put(self._halves, interaction, mine, _HALVES)
        elif theirs.model == mine.model:
            # Around a switch the ends may be of different models, and embeddings of these are never compared.
            user, item = (mine, theirs) if mine.side == 0 else (theirs, mine)
            self._pair(interaction, user, item)
        if mine.side == 1:
            _put(self._items, mine.node, mine, _ITEMS)

    def quality(self) -> tuple[LinkQuality, ...]:
        """Figures of each model in the window, the newest model first."""
        self._score()
        result = []
        for model in sorted({each.model for each in self._scored}, reverse=True):
            met, other = zip(*((each.met, each.other) for each in self._scored if each.model == model), strict=True)
            found = binary_metrics([1.0] * len(met) + [0.0] * len(other), [*met, *other])
            result.append(LinkQuality(model=model, pairs=len(met), average_precision=found.average_precision))
        return tuple(result)

    @property
    def size(self) -> int:
        """Vectors and scores that are remembered."""
        return len(self._halves) + len(self._items) + 3 * len(self._waiting) + len(self._scored)

    def _pair(self, interaction: int, user: _Half, item: _Half) -> None:
        other = self._another(interaction, item)
        if other is None:
            return
        self._waiting.append(_SampledPair(user.model, user.vector, item.vector, other.vector))
        if len(self._waiting) >= _AT_ONCE:
            self._score()

    def _another(self, interaction: int, item: _Half) -> _Half | None:
        """An item drawn at random by the interaction; None where a few draws find none of the same model."""
        items = list(self._items)
        if not items:
            return None
        for at in np.random.default_rng(interaction).integers(len(items), size=_DRAWS).tolist():
            drawn = self._items[items[at]]
            if drawn.node != item.node and drawn.model == item.model:
                return drawn
        return None

    def _score(self) -> None:
        for model, pairs in _by_model(self._waiting):
            users, met, other = (np.stack([pair[at] for pair in pairs]) for at in (1, 2, 3))
            logits = self._releases.affinities(model, np.concatenate([users, users]), np.concatenate([met, other]))
            if logits is not None:
                found = logits.reshape(2, -1).T.tolist()
                self._scored.extend(_Scored(model, *each) for each in found)
        self._waiting.clear()


def _interaction(of: DecodedEmbedding) -> int:
    """What stands for the interaction that an embedding is one end of."""
    user, item = (of.node, of.peer) if of.side == 0 else (of.peer, of.node)
    return interaction_hash(of.interaction, of.timestamp, user, item)


def _put(into: OrderedDict[Key, _Half], key: Key, half: _Half, most: int) -> None:
    into[key] = half
    into.move_to_end(key)
    if len(into) > most:
        into.popitem(last=False)


def _by_model(pairs: Iterable[_SampledPair]) -> Iterator[tuple[int, list[_SampledPair]]]:
    found: dict[int, list[_SampledPair]] = {}
    for pair in pairs:
        found.setdefault(pair.model, []).append(pair)
    yield from found.items()
