"""Where the stream's input lies and what its records mean: ``[input.*]``.

Each key of a role names a field of the contract, and its value says where to find it in records that others have
designed. Without a section, and for each key that is left out, the contract holds.
"""

from functools import cached_property
from typing import Annotated, Any, ClassVar, Literal
from zoneinfo import ZoneInfo

from pydantic import AfterValidator, Field, StringConstraints, model_validator

from stream_tgat.expressions import Expression, ExpressionError
from stream_tgat.topology.sections import Section

Role = Literal["interactions", "labels", "nodes"]
ROLES: tuple[Role, ...] = ("interactions", "labels", "nodes")
TimeUnit = Literal["s", "ms", "us", "ns"]
InputFormat = Literal["auto", "json", "msgpack", "cloudevents", "avro", "protobuf", "json_schema"]
"""auto: JSON, or MessagePack where the header ``content-type`` says so. The last three: with a schema registry."""

REGISTERED = frozenset({"avro", "protobuf", "json_schema"})
"""Formats whose schemas are in a registry."""

BESIDE = ("key", "headers", "timestamp", "topic", "partition", "offset")
"""What is beside a record's value, each behind a $ in expressions."""
IN_EACH = ("each", "index")
"""What there is more where `each` makes several interactions of a record."""

_TopicName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9._-]{1,249}$")]


def _zone(name: str) -> str:
    try:
        ZoneInfo(name)
    except (ValueError, OSError, KeyError):  # the last where the name is well-formed
        raise ValueError(f"there is no time zone {name!r}; write it as in Europe/Berlin") from None
    return name


def _compiles(text: Any) -> Any:
    if isinstance(text, str) and text:
        try:
            Expression(text, (*BESIDE, *IN_EACH))
        except ExpressionError as problem:
            raise ValueError(str(problem)) from None
    return text


FieldSource = Annotated[str | bool | int | float, AfterValidator(_compiles)]
"""Where a field comes from: an expression, or a number, true or false, which stands for itself; empty: its own name."""
Condition = Annotated[str, AfterValidator(_compiles)]


def _refuse_each(name: str, text: object) -> None:
    if isinstance(text, str) and text:
        used = Expression(text).names & set(IN_EACH)
        if used:
            raise ValueError(f"{name}: ${min(used)} is there only where `each` makes several interactions of a record")


class InputSection(Section):
    """What all roles have."""

    FIELDS: ClassVar[tuple[str, ...]]

    topics: Annotated[tuple[_TopicName, ...], Field(strict=False, max_length=32)] = ()
    format: InputFormat = "auto"
    where: Condition = ""
    null_values: Literal["refuse", "skip"] = "refuse"
    time_unit: TimeUnit = "s"
    time_zone: Annotated[str, AfterValidator(_zone)] = "UTC"

    @property
    def sources(self) -> dict[str, str | bool | int | float]:
        """The fields of the contract that come from elsewhere than their own name."""
        return {name: value for name in self.FIELDS if (value := getattr(self, name)) != ""}

    @cached_property
    def is_contract(self) -> bool:
        """Whether records are taken as the contract has them, under whatever topic's name."""
        return self == type(self)(topics=self.topics)

    @model_validator(mode="after")
    def _fits(self) -> "InputSection":
        twice = sorted({each for each in self.topics if self.topics.count(each) > 1})
        if twice:
            raise ValueError(f"topics: {twice[0]!r} is there twice; name each topic once")
        self._check_names()
        return self

    def _check_names(self) -> None:
        for name, text in (("where", self.where), *self.sources.items()):
            _refuse_each(name, text)


class InteractionInput(InputSection):
    """Topics of interactions."""

    FIELDS = ("id", "user", "item", "timestamp")

    each: Condition = ""
    most: int = Field(default=100, ge=1, le=10_000)
    id: FieldSource = ""
    user: FieldSource = ""
    item: FieldSource = ""
    timestamp: FieldSource = ""
    fields: dict[str, FieldSource] = Field(default_factory=dict)

    def _check_names(self) -> None:
        _refuse_each("where", self.where)
        _refuse_each("each", self.each)
        if not self.each:
            for name, text in (*self.sources.items(), *self.fields.items()):
                _refuse_each(name, text)


class LabelInput(InputSection):
    """Topics of labels."""

    FIELDS = ("node", "kind", "label", "value", "timestamp", "known_at")

    node: FieldSource = ""
    kind: FieldSource = ""
    label: FieldSource = ""
    value: FieldSource = ""
    timestamp: FieldSource = ""
    known_at: FieldSource = ""


class NodeInput(InputSection):
    """Topics of node features."""

    FIELDS = ("node", "kind", "features")

    node: FieldSource = ""
    kind: FieldSource = ""
    features: FieldSource = ""


class Input(Section):
    """What is read, by its role."""

    interactions: InteractionInput = InteractionInput()
    labels: LabelInput = LabelInput()
    nodes: NodeInput = NodeInput()
