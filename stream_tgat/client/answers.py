"""What the query service answers, as dataclasses, and what it takes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from stream_tgat.client.making import Kind, Vector
from stream_tgat.client.outputs import Because


@dataclass(frozen=True)
class HeadState:
    """What a prediction head said of a user at their newest interaction."""

    probability: float | None
    at: float | None
    threshold: float | None
    alerted_at: float | None


@dataclass(frozen=True)
class NodeEmbedding:
    """A node at a time. known: it has interacted before   complete: what it should rest on is there, else see note"""

    kind: Kind
    id: str
    known: bool
    time: float
    embedding: Vector
    interactions: int
    last_seen: float | None
    model: int
    received_until: float | None
    complete: bool
    note: str | None


@dataclass(frozen=True)
class Node(NodeEmbedding):
    """With what was predicted; by head, empty for items."""

    predictions: dict[str, HeadState] = field(default_factory=dict)


@dataclass(frozen=True)
class Neighbour:
    """A past interaction, with its attention weight and its fields."""

    interaction: str
    kind: Kind
    peer: str
    time: float
    weight: float
    late: bool
    features: dict[str, Any]


@dataclass(frozen=True)
class Neighbours:
    """Past interactions, newest first; `older` more are only counted."""

    kind: Kind
    id: str
    known: bool
    time: float
    model: int
    neighbours: tuple[Neighbour, ...]
    older: int
    received_until: float | None


@dataclass(frozen=True)
class Score:
    """How likely a user meets an item. predictions: by head, None where no features were given"""

    user: str
    item: str
    time: float
    probability: float
    known_user: bool
    known_item: bool
    predictions: dict[str, float] | None
    complete: bool


@dataclass(frozen=True)
class Recommendation:
    """An item that a user may meet next. why: what made it a candidate   met_at: None if not met lately"""

    item: str
    probability: float
    known: bool
    met_at: float | None
    why: tuple[str, ...]


@dataclass(frozen=True)
class Recommendations:
    """Items, most likely first. considered: candidates that were scored"""

    user: str
    known: bool
    time: float
    model: int
    considered: int
    items: tuple[Recommendation, ...]


@dataclass(frozen=True)
class SimilarNode:
    """A node whose embedding points the same way."""

    id: str
    similarity: float
    last_seen: float | None
    interactions: int


@dataclass(frozen=True)
class Similar:
    """Nodes of one kind, nearest first. searched: how many are known"""

    kind: Kind
    id: str
    known: bool
    time: float
    model: int
    searched: int
    nodes: tuple[SimilarNode, ...]


@dataclass(frozen=True)
class Head:
    """A prediction head; without a threshold it never alerts."""

    name: str
    threshold: float | None


@dataclass(frozen=True)
class ModelInfo:
    """The release that serves."""

    version: int
    release: str
    created: str
    hidden: int
    layers: int
    neighbours: int
    affinity: str
    pair_features: bool
    heads: tuple[Head, ...]
    metrics: dict[str, float | None]


@dataclass(frozen=True)
class RaisedAlert:
    """An alert. came_true: as labels say, None while none does   known_at: when that was known, unix seconds"""

    id: str
    user: str
    item: str
    interaction: str
    head: str
    probability: float
    threshold: float
    time: float
    model: int
    because: tuple[Because, ...]
    came_true: bool | None
    known_at: float | None


@dataclass(frozen=True)
class Moment:
    """A node just before one of its interactions. predictions: by head, empty for items

    x, y: its place on the map, None where that is of another model   moved: 1 minus the cosine to the moment before
    """

    interaction: str
    peer: str
    time: float
    predictions: dict[str, float]
    model: int
    late: bool
    x: float | None
    y: float | None
    moved: float | None


@dataclass(frozen=True)
class History:
    """Moments of a node, oldest first, as far as the service remembers."""

    kind: Kind
    id: str
    moments: tuple[Moment, ...]
    remembered_since: float | None


Met = Literal["all", "new", "known"]
"""Items that the user has met lately, others, or all."""
NodeAt = tuple[Kind, str] | tuple[Kind, str, float | str]
"""Kind and id, and a time in unix seconds or ISO 8601 if not now."""
Pair = tuple[str, str] | tuple[str, str, Mapping[str, Any]]
"""User and item, and the fields of the interaction if heads are to say something of it."""
