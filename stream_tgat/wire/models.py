"""The definition of every record on the public topics.

The decoders of the hot path repeat these checks by hand, for speed; a contract test holds both to the same verdicts.
Checks that depend on the deployment (longest id, plausible times) run where a `Checks` is given as validation context.
"""

from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
    ValidationInfo,
    WithJsonSchema,
    field_validator,
)

from stream_tgat.wire.times import check_plausible, parse_time

SCHEMA_VERSION = "1"
"""Of dead letters."""
OUTPUT_SCHEMA_VERSIONS = {"id": "1", "kind/id": "2"}
"""Of embeddings and alerts, by `kafka.output_key`: only their keys differ."""

# Control characters: C0, DEL and C1. They break consoles and logs, and NUL is what fixed-width ids are padded with.
ID_PATTERN = r"^[^\x00-\x1f\x7f-\x9f]+$"


@dataclass(frozen=True)
class Checks:
    """What a deployment and a record add to the models: byte limits of ids; unix seconds at which it was written."""

    max_node_bytes: int
    max_interaction_bytes: int
    written: float
    max_ahead_s: float


def _integer_as_text(value: Any) -> Any:
    return str(value) if type(value) is int else value


def _fits_node(value: str, info: ValidationInfo) -> str:
    checks: Checks | None = info.context
    return value if checks is None else _fits(value, checks.max_node_bytes)


def _fits_interaction(value: str, info: ValidationInfo) -> str:
    checks: Checks | None = info.context
    return value if checks is None else _fits(value, checks.max_interaction_bytes)


def _fits(value: str, limit: int) -> str:
    size = len(value.encode())
    if size > limit:
        raise ValueError(f"is {size} bytes long; at most {limit} are allowed (graph.max_id_bytes)")
    return value


def _is_plausible(value: float, info: ValidationInfo) -> float:
    checks: Checks | None = info.context
    return value if checks is None else check_plausible(value, checks.written, checks.max_ahead_s)


def _one_or_zero(value: Any) -> Any:
    return float(value) if type(value) in (bool, int, float) and value in (0, 1) else value


def _must_be_binary(value: float) -> float:
    if value not in (0.0, 1.0):
        raise ValueError("must be true, false, 1 or 0")
    return value


_ID_SCHEMA = {
    "anyOf": [{"type": "string", "minLength": 1, "pattern": r"^[^\u0000-\u001f\u007f-\u009f]+$"}, {"type": "integer"}],
    "description": "A string without control characters, or an integer of at most 64 bits, which is the same as its "
    "decimal string. At most graph.max_id_bytes bytes of UTF-8 (one less for nodes).",
}
_Id = Annotated[
    str,
    BeforeValidator(_integer_as_text),
    StringConstraints(strict=True, min_length=1, pattern=ID_PATTERN),
]
NodeId = Annotated[_Id, AfterValidator(_fits_node), WithJsonSchema(_ID_SCHEMA)]
InteractionId = Annotated[_Id, AfterValidator(_fits_interaction), WithJsonSchema(_ID_SCHEMA)]
Timestamp = Annotated[
    float,
    BeforeValidator(parse_time),
    AfterValidator(_is_plausible),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "number", "minimum": 0},
                {"type": "string", "pattern": r"^\d{4}-\d\d-\d\d([Tt ].+)?$"},
            ],
            "description": "Unix seconds, or ISO 8601 in its extended form (without an offset: UTC). From 1970 to at "
            "most time.max_ahead_s ahead of the clock at the time when the record was written.",
        }
    ),
]
_Finite = Annotated[float, Field(strict=True, allow_inf_nan=False)]
_Kind = Literal["user", "item"]


class _Input(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")


class _Output(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore", allow_inf_nan=False)


class Interaction(_Input):
    """Topic `interactions`: a user did something with an item. Further fields are the topology's features."""

    model_config = ConfigDict(frozen=True, extra="allow")

    user: NodeId
    item: NodeId
    timestamp: Timestamp
    id: InteractionId | None = Field(
        default=None,
        description="An interaction is its id, user, item and timestamp: what agrees in all four is a repeat and "
        "counts once, anything else is another interaction. Default: topic/partition/offset, the offset with 12 "
        "digits, so that nothing without an id is a repeat; of a record that is sent again, the place where it lay "
        "first (header first-place).",
    )


class NodeFeatures(_Input):
    """Topic `nodes` (compacted; use the node as the record's key): what is known of a node itself."""

    node: NodeId
    features: tuple[_Finite, ...] = Field(
        description="As many numbers as graph.node_features says. To take a node's features away, send zeros."
    )
    kind: _Kind = Field(default="item", description="Which of the two the node is; unused where bipartite = false.")


class Label(_Input):
    """Topic `labels`: what turned out about a node."""

    node: NodeId
    label: Annotated[str, StringConstraints(strict=True, pattern=r"^[A-Za-z0-9_-]{1,64}$")] = Field(
        description="Which question this answers; heads name the label that they learn."
    )
    value: Annotated[
        float,
        BeforeValidator(_one_or_zero),
        Field(strict=True, ge=0, le=1),
        WithJsonSchema({"anyOf": [{"type": "boolean"}, {"type": "number", "enum": [0, 1]}]}),
        AfterValidator(_must_be_binary),
    ] = Field(description="True (1) or false (0).")
    timestamp: Timestamp = Field(
        description="The time that the label speaks of, usually that of the node's interaction that it judges."
    )
    known_at: Timestamp | None = Field(
        default=None,
        description="When the answer became known, in event time and not before `timestamp`; nothing learns from it "
        "earlier. Default: `timestamp`.",
    )
    kind: _Kind = Field(
        default="user", description="Labels are about users: an item's is refused, but where bipartite = false."
    )

    @field_validator("known_at")
    @classmethod
    def _is_not_before_its_time(cls, value: float | None, info: ValidationInfo) -> float | None:
        if value is not None and value < info.data.get("timestamp", value):
            raise ValueError("is before the label's 'timestamp'")
        return value


class Embedding(_Output):
    """Topic `embeddings` (key: the node's kind and id, as in user/ann): a node just before one of its interactions.

    Where users and items share one id space (graph.bipartite = false), keys are as in node/ann.
    """

    id: str = Field(
        description="interaction/timestamp/user/item/side/model; side 0 is the user's, 1 the item's. In user and item, "
        "% is %25 and / is %2F. Two embeddings with the same id are one that was sent twice."
    )
    interaction: str = Field(description="The id of the interaction, or the one that it was given.")
    node: str
    kind: _Kind | None = Field(default=None, description="Absent where users and items share one id space.")
    peer: str = Field(description="The other end of the interaction.")
    timestamp: float = Field(description="That of the interaction, in unix seconds.")
    embedding: tuple[float, ...] = Field(description="From all that came strictly before the interaction.")
    predictions: dict[str, float] = Field(description="Probability by head; empty for items.")
    model: int = Field(description="Version of the model: the offset of its promotion on topic `models`.")
    late: bool = Field(
        default=False,
        description="Present and true if the interaction came after a later one of the node had been computed.",
    )


class Latest(_Output):
    """Topic `latest` (compacted; key: the node's kind and id, as in user/ann): a node after its newest interaction.

    Headers: content-type, schema-version and model, as in `output-headers`.
    """

    node: str
    kind: _Kind | None = Field(default=None, description="Absent where users and items share one id space.")
    timestamp: float = Field(description="Of the node's newest interaction, in unix seconds.")
    interactions: int = Field(ge=1, description="How many there were.")
    predictions: dict[str, float] = Field(
        description="Probability by head at the newest interaction that was embedded; empty for items."
    )
    complete: bool = Field(
        description="False while the state of a neighbour is still on its way; another record follows then."
    )
    model: int = Field(description="Version of the model: the offset of its promotion on topic `models`.")
    embedding: tuple[float, ...] = Field(description="From all of the node's interactions, the newest included.")


class Because(_Output):
    """A past interaction of the node, and how much the model looked at it."""

    interaction: str
    peer: str
    time: float = Field(description="Unix seconds.")
    weight: float = Field(ge=0, le=1.00001, description="Attention of the last layer, averaged over its heads.")


class Alert(_Output):
    """Topic `alerts` (key: the user's kind and id, as in user/ann): a prediction crossed its threshold upwards."""

    id: str = Field(
        description="interaction/timestamp/user/item/head/model. In user and item, % is %25 and / is %2F. Two alerts "
        "with the same id are one that was sent twice."
    )
    interaction: str = Field(description="The id of the interaction, or the one that it was given.")
    node: str
    kind: _Kind | None = Field(default=None, description="Absent where users and items share one id space.")
    peer: str = Field(description="The other end of the interaction.")
    head: str
    probability: float = Field(ge=0, le=1)
    threshold: float = Field(ge=0, le=1)
    timestamp: float = Field(description="That of the interaction, in unix seconds.")
    model: int = Field(description="Version of the model: the offset of its promotion on topic `models`.")
    because: tuple[Because, ...] = Field(description="The past interactions with the largest attention, largest first.")


class ModelRecord(BaseModel):
    """Topic `models` (compacted): a release was promoted; the offset of this record is the version of the model."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    release: str = Field(min_length=1, description="Name of the release.")
    store: str = Field(min_length=1, description="Folder or URL of the release store that holds it.")
    hash: str = Field(pattern=r"^[0-9a-f]{64}$", description="SHA-256 that the release must have.")
    action: Literal["promote"] = "promote"


class ReencodedRecord(BaseModel):
    """Topic `models` (compacted): the peer embeddings of a model were made anew from the log, and sent to all rows that
    are kept.

    From then on nothing rests on the weights of the models before it.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    action: Literal["reencode"] = "reencode"
    version: int = Field(ge=0, description="The model: the offset of its promotion.")
    interactions: int = Field(ge=0, description="How many were read for it.")
    peer_embeddings: int = Field(ge=0, description="How many peer embeddings were sent.")
    inexact: int = Field(
        ge=0, description="How many of them may differ from the model's own, as the log no longer begins at offset 0."
    )


class AnswerFigures(_Output):
    """How good a head's probabilities are, over questions whose label is known. Null where a figure is undefined."""

    count: int = Field(ge=0, description="Questions with a label and a prediction made at the time.")
    base_rate: float | None = Field(description="Share that came true.")
    auc: float | None = Field(description="Null where only one of the two answers occurs.")
    average_precision: float | None = Field(description="Null where only one of the two answers occurs.")
    brier: float | None = Field(description="Mean squared error of the probability.")
    calibration_error: float | None = Field(description="Mean distance of probabilities and what came true, by bins.")
    alerts: int = Field(ge=0, description="Of these questions, those at which an alert was raised.")
    alert_precision: float | None = Field(description="Share of these alerts that came true.")
    unmeasured: str = Field(default="", description="Why auc and average_precision are null, in words; else empty.")


class HeadQuality(_Output):
    """One head, over the answers that became known last."""

    head: str
    label: str
    overall: AnswerFigures = Field(description="Over all models that have an answer in the window: see by_model.")
    by_model: dict[int, AnswerFigures] = Field(description="The same window apart by the model that predicted.")
    since: float | None = Field(description="Time of the oldest question in the window, in unix seconds of event time.")
    until: float | None = Field(description="Time of the newest question in the window.")
    labels: int = Field(ge=0, description="Labels of this name that are remembered.")
    without_prediction: int = Field(ge=0, description="Of these, those that no prediction was found for.")
    without_prediction_of: tuple[str, ...] = Field(
        default=(), description="Some of the nodes that no prediction was found for."
    )
    too_old: int = Field(
        ge=0, description="Of these, those of a time before all predictions that are remembered, so not looked for."
    )
    learnt_from: int = Field(
        ge=0, description="Answers that are in no figure, since they are of a time that their model has learnt from."
    )
    immature: int = Field(
        default=0,
        ge=0,
        description="Answers that are in no figure yet, since their question is so new that perhaps only one kind of "
        "answer is known.",
    )
    answers_after: float = Field(
        default=0.0,
        ge=0,
        description="Seconds after a question by which answers of both kinds are known, as stated or as learnt.",
    )


class UnknownLabel(_Output):
    """Labels that no head of the topology learns."""

    label: str
    count: int = Field(ge=0, description="How many were read.")
    why: str = Field(description="In words, with the nearest name that a head learns.")


class LinkQuality(_Output):
    """Whether a model tells items that users met from items drawn at random; a figure to compare with itself only."""

    model: int
    pairs: int = Field(ge=0, description="Interactions, each compared with one item that the user did not meet.")
    average_precision: float | None = Field(description="0.5 is chance.")


class DriftNotice(_Output):
    """A distribution that is no longer what it was when the serving model began."""

    name: str = Field(description="score:HEAD, or feature:COLUMN of the edge vector.")
    since: float = Field(description="Event time at which it was noticed, in unix seconds.")
    reference: float = Field(description="Mean when the model began to serve.")
    present: float = Field(description="Mean now.")


class QualityReport(_Output):
    """Topic `quality` (compacted, key: serving): how good the serving model is on what became known lately."""

    created: float = Field(description="When this was found, in unix seconds by the clock.")
    release: str | None = Field(description="Name of the release that serves; null where none was promoted.")
    model: int | None = Field(description="Its version: the offset of its promotion on topic `models`.")
    serving_since: float | None = Field(description="When it was promoted, in unix seconds by the clock.")
    releases: dict[int, str] = Field(description="Names of the releases behind the versions in this report.")
    until: float | None = Field(description="Newest event time seen on `embeddings`, in unix seconds.")
    behind: int = Field(ge=0, description="Records that were on the topics, but not read yet.")
    predictions: int = Field(ge=0, description="Predictions that are remembered and may still be judged.")
    user_share: float = Field(gt=0, le=1, description="Share of the users that are looked at, to bound the memory.")
    window: int = Field(ge=1, description="Answers in the window of each head, at most.")
    heads: tuple[HeadQuality, ...]
    unknown_labels: tuple[UnknownLabel, ...] = Field(default=(), description="Labels that no head learns, by name.")
    links: tuple[LinkQuality, ...] = Field(description="By model, the newest first.")
    drift: tuple[DriftNotice, ...] = Field(description="What has drifted, out of the `watched`.")
    watched: int = Field(ge=0, description="Scores and columns of features that are watched for drift.")
    renewal: Literal["watching", "training", "re-encoding"] = Field(
        default="watching", description="What the process that renews the model was at when it sent this."
    )
    stale_rows: int | None = Field(
        default=None, description="Rows of the state that still rest on older models, where that is known."
    )


class OutputHeaders(_Output):
    """Headers of records on `embeddings` and `alerts`; all are strings on the wire."""

    model_config = ConfigDict(frozen=True, alias_generator=lambda name: name.replace("_", "-"), populate_by_name=True)

    content_type: Literal["application/json", "application/msgpack", "application/avro"] = Field(
        description="application/avro: in the wire format of a schema registry."
    )
    schema_version: Literal["1", "2"] = Field(
        description='"2"; "1" where kafka.output_key = "id", and in records from before: their key is the id alone.'
    )
    model: int
    source_topic: str
    source_partition: int
    source_offset: int
    traceparent: str | None = Field(
        default=None, description="The W3C trace context of the interaction's record, where it has one."
    )
    tracestate: str | None = Field(default=None, description="What tracing systems add to it, where the record has it.")


class DeadLetterHeaders(_Output):
    """Headers of records on `dead-letters`, whose value is the raw bytes of the record that was refused."""

    model_config = ConfigDict(frozen=True, alias_generator=lambda name: name.replace("_", "-"), populate_by_name=True)

    reason: str
    schema_version: Literal["1"]
    source_topic: str
    source_partition: int
    source_offset: int
    source_headers: int = Field(
        ge=0, description="How many headers the refused record had: they follow after these, as they were."
    )
    source_timestamp: int | None = Field(
        default=None, description="When the refused record was written, in milliseconds, as Kafka keeps it."
    )
    truncated: int | None = Field(
        default=None,
        description="The length in bytes of a record too huge to be kept; its beginning is the value, and its headers "
        "are left out if they are huge.",
    )


RECORDS: dict[str, type[BaseModel]] = {
    "interaction": Interaction,
    "node-features": NodeFeatures,
    "label": Label,
    "embedding": Embedding,
    "alert": Alert,
    "latest": Latest,
    "model-record": ModelRecord,
    "reencoded-record": ReencodedRecord,
    "quality-report": QualityReport,
    "output-headers": OutputHeaders,
    "dead-letter-headers": DeadLetterHeaders,
}
