"""What the service takes and gives, as JSON: the pydantic models behind its OpenAPI document."""

from __future__ import annotations

from contextlib import suppress
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema

from stream_tgat.topology import Kind
from stream_tgat.wire.times import parse_time

#: Most nodes or pairs of one request.
MOST_ASKED = 1000
_FIRST_S, _LAST_S = -62_135_596_800, 253_402_300_800


def _time(value: object) -> object:
    """Unix seconds of what a client sends; text with a number in it comes from a query string."""
    if isinstance(value, str):
        with suppress(ValueError):
            value = float(value)
    return parse_time(value)


TimeParameter = Annotated[
    float,
    BeforeValidator(_time),
    Field(ge=_FIRST_S, le=_LAST_S),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "number", "minimum": _FIRST_S, "maximum": _LAST_S},
                {"type": "string", "format": "date-time"},
            ]
        }
    ),
]
"""Unix seconds, or ISO 8601; in the years 1 to 9999."""
Id = Annotated[str, Field(min_length=1, max_length=4096, pattern=r"^[^\x00]+$")]


class Answer(BaseModel):
    """What is answered: a value, without infinities."""

    model_config = ConfigDict(frozen=True, allow_inf_nan=False)


class _Request(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Problem(Answer):
    """Why there is no answer."""

    detail: str = Field(description="What was wrong, and what to do, in a sentence.")


class Readiness(Answer):
    """Whether questions are answered now."""

    ready: bool
    reason: str | None = Field(default=None, description="Why not.")


class NodeName(_Request):
    """A node; where users and items share one id space, either kind means the same node."""

    kind: Kind
    id: Id


class NodeAt(NodeName):
    """A node at a time."""

    time: TimeParameter | None = Field(default=None, description="Default: now, the newest interaction included.")


class HeadState(Answer):
    """What a prediction head said of a user at their newest interaction."""

    probability: float | None = Field(description="Null before the first interaction.")
    at: float | None = Field(description="When that interaction was, unix seconds.")
    threshold: float | None = Field(description="From which on it alerts; null: never.")
    alerted_at: float | None = Field(description="The interaction of the newest alert, unix seconds.")


class NodeEmbedding(Answer):
    """A node at a time, from all interactions strictly earlier."""

    kind: Kind
    id: str
    known: bool = Field(description="False: no interaction before this time; the embedding is that of any newcomer.")
    time: float = Field(description="The time that the embedding is of, unix seconds.")
    embedding: list[float]
    interactions: int = Field(description="How many there were before this time, those no longer kept included.")
    last_seen: float | None = Field(description="The newest of them, unix seconds.")
    model: int = Field(description="Version of the weights; embeddings of different models must not be compared.")
    received_until: float | None = Field(
        description="Everything that happened before is in it, unix seconds of event time; null at the very start."
    )
    complete: bool = Field(description="Whether all that it should rest on is there.")
    note: str | None = Field(default=None, description="What is missing, or what being unknown means, in words.")


class Node(NodeEmbedding):
    """A node and what was said about it."""

    predictions: dict[str, HeadState] = Field(description="By head; empty for items, as predictions are about users.")


class Neighbour(Answer):
    """A past interaction of the node."""

    interaction: str
    kind: Kind = Field(description="Of the peer.")
    peer: str
    time: float
    weight: float = Field(description="Attention in the last layer, mean over heads; 0: it was not looked at.")
    late: bool = Field(description="It came after a later interaction of the node had been embedded.")
    features: dict[str, Any] = Field(description="The fields of the interaction, as its edge vector still tells them.")


class Neighbours(Answer):
    """Past interactions of a node, newest first."""

    kind: Kind
    id: str
    known: bool
    time: float
    model: int
    neighbours: list[Neighbour]
    older: int = Field(description="Earlier interactions that are only counted, or that `limit` left out.")
    received_until: float | None


class EmbeddingsRequest(_Request):
    """Many nodes at their times."""

    nodes: list[NodeAt] = Field(min_length=1, max_length=MOST_ASKED)


class Embeddings(Answer):
    """In the order of the request."""

    embeddings: list[NodeEmbedding]


class PairAt(_Request):
    """A user and an item that may meet."""

    user: Id
    item: Id
    time: TimeParameter | None = Field(default=None, description="Default: now, for all pairs the same.")
    features: dict[str, Any] | None = Field(
        default=None, description="The fields of the interaction, as on `interactions`: heads then say what they would."
    )


class ScoreRequest(_Request):
    """Many pairs at their times."""

    pairs: list[PairAt] = Field(min_length=1, max_length=MOST_ASKED)


class Score(Answer):
    """How likely the two meet."""

    user: str
    item: str
    time: float
    probability: float = Field(
        description="By the release's affinity: that the user meets this item, and not one drawn at random."
    )
    known_user: bool = Field(description="False: no interaction before this time.")
    known_item: bool
    predictions: dict[str, float] | None = Field(
        description="By head, were the interaction to happen with these features; null where none were given."
    )
    complete: bool = Field(description="Whether all that both embeddings should rest on is there.")


class Scores(Answer):
    """In the order of the request."""

    model: int
    scores: list[Score]


CandidateSource = Literal["met before", "popular", "recent", "near what was met"]


class Recommendation(Answer):
    """An item that the user may meet next."""

    item: str
    probability: float = Field(description="As of `/v1/score`.")
    known: bool = Field(description="False: the item has had no interaction before this time.")
    met_at: float | None = Field(description="The user's newest kept interaction with it; null: none is kept.")
    why: list[CandidateSource] = Field(description="What made it a candidate; empty where `allow` named it.")


class Recommendations(Answer):
    """Most likely first."""

    user: str
    known: bool
    time: float
    model: int
    considered: int = Field(description="Candidates that were scored.")
    items: list[Recommendation]


class SimilarNode(Answer):
    """A node of the same kind."""

    id: str
    similarity: float = Field(description="Cosine of the angle between both embeddings at this time.")
    last_seen: float | None
    interactions: int


class Similar(Answer):
    """Nearest first."""

    kind: Kind
    id: str
    known: bool
    time: float
    model: int
    searched: int = Field(description="Nodes of this kind that are known by a vector of this model.")
    nodes: list[SimilarNode]


class HeadInfo(Answer):
    """A prediction head of the model."""

    name: str
    threshold: float | None


class ModelInfo(Answer):
    """What serves."""

    version: int = Field(description="Offset of its promotion; versions only go up.")
    release: str
    created: str = Field(description="When it was made, ISO 8601.")
    hidden: int = Field(description="Length of an embedding.")
    layers: int
    neighbours: int
    affinity: Literal["mlp", "inner"]
    pair_features: bool
    heads: list[HeadInfo]
    metrics: dict[str, float | None] = Field(description="From the release's card.")
