"""What the service has seen go by, as JSON: alerts, histories, the map, releases, and what happens now."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from stream_tgat.query.answers import Answer
from stream_tgat.topology import Kind
from stream_tgat.wire import QualityReport


class Because(Answer):
    """A past interaction that an alert rests on."""

    interaction: str
    peer: str
    time: float = Field(description="Unix seconds.")
    weight: float = Field(description="Attention in the last layer, mean over heads.")


class RaisedAlert(Answer):
    """An alert, and whether it came true."""

    id: str
    user: str
    item: str = Field(description="That of the interaction at which it was raised.")
    interaction: str
    head: str
    probability: float
    threshold: float
    time: float = Field(description="That of the interaction, unix seconds.")
    model: int
    because: list[Because] = Field(description="The past interactions with the largest attention, largest first.")
    came_true: bool | None = Field(description="As labels say; null while none does.")
    known_at: float | None = Field(description="When that was known, unix seconds of event time.")


class Alerts(Answer):
    """Newest first."""

    alerts: list[RaisedAlert]
    raised: int = Field(description="Alerts read since the service started, older ones that it found included.")


class NodeRef(Answer):
    """A node by its name."""

    kind: Kind
    id: str


class Names(Answer):
    """In the order of ids."""

    nodes: list[NodeRef]


class Moment(Answer):
    """A node just before one of its interactions, as it was told on `embeddings`."""

    interaction: str
    peer: str
    time: float = Field(description="Unix seconds.")
    predictions: dict[str, float] = Field(description="By head; empty for items.")
    model: int
    late: bool
    x: float | None = Field(description="Its place on the map of `/v1/map`; null where that is of another model.")
    y: float | None
    moved: float | None = Field(
        description="By how much the embedding had changed since the moment before: 1 minus the cosine of the angle; "
        "null at the first, and where the model is another."
    )


class History(Answer):
    """Oldest first."""

    kind: Kind
    id: str
    moments: list[Moment]
    remembered_since: float | None = Field(description="Event time of the oldest moment of any node that is kept.")


class Place(Answer):
    """A node on the map."""

    kind: Kind
    id: str
    x: float
    y: float
    time: float = Field(description="Of the interaction that its embedding is of, unix seconds.")
    community: int = Field(description="Which cluster of the map's sample it is nearest to.")
    predictions: dict[str, float]


class Map(Answer):
    """Nodes on a plane, at their newest embedding not after `time`."""

    model: int | None = Field(description="Whose embeddings these are; null while there are too few.")
    time: float | None
    since: float | None = Field(description="Event time of the oldest embedding that is remembered.")
    until: float | None = Field(description="Event time of the newest.")
    nodes: int = Field(description="Nodes that are remembered; the map shows a sample of them.")
    fitted_on: int = Field(description="Nodes that the plane was fitted on.")
    share: float = Field(description="Share of the sample's variance that the plane shows.")
    heads: list[str]
    places: list[Place]


class Decision(Answer):
    """How a release was compared with the one that served when it was trained."""

    passed: bool
    reason: str
    serving: str | None
    interactions: int


class ReleaseInfo(Answer):
    """A release that was promoted."""

    version: int = Field(description="Offset of its promotion; the highest one serves.")
    release: str
    serves: bool
    created: str | None = Field(description="When it was made, ISO 8601; null where its card is not at hand.")
    parent: str | None = Field(description="The release that served when it was trained.")
    learnt_until: float | None
    metrics: dict[str, float | None]
    decision: Decision | None
    rules: str | None = Field(description="How it compares with rules that need no model, in a sentence.")
    problem: str | None = Field(description="Why its card is not at hand.")


class ReleaseList(Answer):
    """Newest first."""

    releases: list[ReleaseInfo]


class Quality(Answer):
    """How good predictions were on what became known lately."""

    report: QualityReport | None = Field(description="Null where nobody measures it: set a trigger under [retrain].")


class SourceState(Answer):
    """One partition that feeds the deployment."""

    name: str
    behind: int = Field(description="Records that are not yet in the state of all partitions.")
    watermark: float | None = Field(description="Event time up to which it has come, unix seconds.")
    blocks: bool = Field(description="Rows wait for it.")


class Pulse(Answer):
    """How the stream does, each second."""

    at: float
    interactions_per_s: float
    by_second: list[tuple[int, int]] = Field(description="Unix second and interactions embedded in it, oldest first.")
    latency_p50_ms: float | None = Field(description="From an interaction's record to its embedding's; a minute.")
    latency_p99_ms: float | None
    latencies: int
    alerts: int
    event_time: float | None = Field(description="Of the newest embedding, unix seconds.")
    model: int | None
    nodes: int
    unread: int = Field(description="Embeddings that the service itself has not read yet.")
    sources: list[SourceState]
    waiting: int = Field(description="Rows whose time has not come.")
    held: str | None = Field(description="What holds rows back, in a sentence.")
    unanswered: str | None = Field(description="Why some nodes have nobody who answers for them now.")
    readers: int


class Happened(Answer):
    """An interaction that was embedded."""

    user: str
    item: str
    time: float


class Happenings(Answer):
    """Since the last message, newest last; `left_out` more were too many to tell."""

    interactions: list[Happened]
    left_out: int


EventKind = Literal["pulse", "interactions", "alert", "quality", "lost"]
