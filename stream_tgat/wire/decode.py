"""What users produce: bytes and headers in, a value or a dead letter with its reason out.

Nothing here raises for bad input. `InteractionDecoder` is on the hot path and checks by hand what `models.Interaction`
defines; nodes and labels are rare and go through their models.
"""

import math
import re
from typing import Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, ValidationError

from stream_tgat.errors import WireError, shown
from stream_tgat.topology import Topology, node_key
from stream_tgat.wire.formats import Headers, decode_object, header
from stream_tgat.wire.letters import first_place_of, place_of
from stream_tgat.wire.models import Checks, Label, NodeFeatures
from stream_tgat.wire.times import check_plausible, parse_time

Contract = TypeVar("Contract", bound=BaseModel)

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_MEANING = {"user": "who acted", "item": "on what", "timestamp": "when, in unix seconds or ISO 8601"}


class DecodedInteraction(NamedTuple):
    """One good interaction: ids as the bytes used inside, time in unix seconds, and all fields, for the features."""

    id: bytes
    user: bytes
    item: bytes
    timestamp: float
    fields: dict[str, Any]


class Punctuation(NamedTuple):
    """A producer's promise that nothing before `watermark` (unix seconds) will follow in this partition."""

    watermark: float


class DeadLetter(NamedTuple):
    """A record that cannot be used, and why, in words."""

    reason: str


class DecodedNode(NamedTuple):
    """A node's own features: key, and float32 [F]."""

    node: bytes
    features: npt.NDArray[np.float32]


class DecodedLabel(NamedTuple):
    """What turned out about a node: key, name of the label, 1.0 or 0.0; when it speaks of and became known, unix s."""

    node: bytes
    label: str
    value: float
    timestamp: float
    known: float


def default_interaction_id(topic: str, partition: int, offset: int) -> bytes:
    """The id of an interaction that brings none."""
    return place_of(topic, partition, offset)


class InteractionDecoder:
    """Reads topic `interactions` of one deployment."""

    def __init__(self, topology: Topology) -> None:
        self._user_prefix = node_key("user", "", bipartite=topology.graph.bipartite)
        self._item_prefix = node_key("item", "", bipartite=topology.graph.bipartite)
        self._interaction_bytes = topology.id_bytes
        self._node_bytes = topology.id_bytes - 1
        self._max_ahead_s = topology.time.max_ahead_s
        self._max_record_bytes = topology.kafka.max_record_bytes

    def decode(
        self, value: bytes | None, headers: Headers | None, topic: str, partition: int, offset: int, written: float
    ) -> DecodedInteraction | Punctuation | DeadLetter:
        """One record. written: unix seconds at which Kafka has it that it was; bounds how far ahead its time may lie.

        That stands in the log, so whoever reads the record again comes to the same verdict.
        """
        try:
            if value is None:
                return self._punctuation(headers, written)
            fields = _object(value, headers, self._max_record_bytes)
        except WireError as problem:
            return DeadLetter(str(problem))
        return self.of_fields(fields, headers, topic, partition, offset, written)

    def of_fields(
        self, fields: dict[str, Any], headers: Headers | None, topic: str, partition: int, offset: int, written: float
    ) -> DecodedInteraction | DeadLetter:
        """One record whose value holds these fields. The others are as for `decode`."""
        try:
            user = self._user_prefix + _id(fields, "user", self._node_bytes)
            item = self._item_prefix + _id(fields, "item", self._node_bytes)
            timestamp = fields.get("timestamp")
            if type(timestamp) is not float or not 0.0 < timestamp <= written + self._max_ahead_s:
                timestamp = _time(fields, written, self._max_ahead_s)
            if fields.get("id") is None:
                # Sent again it keeps the name that it had where it lay first, so that it stays the same interaction.
                first = first_place_of(headers, self._interaction_bytes) if headers else None
                interaction = first or default_interaction_id(topic, partition, offset)
            else:
                interaction = _id(fields, "id", self._interaction_bytes)
        except WireError as problem:
            return DeadLetter(str(problem))
        return DecodedInteraction(interaction, user, item, timestamp, fields)

    def mapped(self, fields: dict[str, Any], place: bytes, written: float) -> DecodedInteraction:
        """The interaction that these fields are; WireError says what is wrong. place: its id if it brings none"""
        user = self._user_prefix + _id(fields, "user", self._node_bytes)
        item = self._item_prefix + _id(fields, "item", self._node_bytes)
        timestamp = _time(fields, written, self._max_ahead_s)
        interaction = place if fields.get("id") is None else _id(fields, "id", self._interaction_bytes)
        return DecodedInteraction(interaction, user, item, timestamp, fields)

    def _punctuation(self, headers: Headers | None, written: float) -> Punctuation:
        text = header(headers, "watermark")
        if text is None:
            raise WireError("null record: it has neither a value nor the header 'watermark' of a punctuation")
        try:
            watermark = float(text.decode("ascii"))
        except ValueError:
            raise WireError(f"header 'watermark' must be unix seconds as text, not {text[:40]!r}") from None
        if not math.isfinite(watermark):
            raise WireError(f"header 'watermark' must be a finite number, not {watermark}")
        if watermark > written + self._max_ahead_s:
            # Taken at its word, it would turn all that follows into late events.
            try:
                check_plausible(watermark, written, self._max_ahead_s)
            except WireError as problem:
                raise WireError(f"header 'watermark' {problem}") from None
        return Punctuation(watermark)


class NodeDecoder:
    """Reads topic `nodes` of one deployment."""

    def __init__(self, topology: Topology) -> None:
        self._topology = topology

    def decode(self, value: bytes | None, headers: Headers | None) -> DecodedNode | DeadLetter:
        """One record. A null is refused: to take a node's features away, its producer sends zeros."""
        try:
            return self.of_fields(_content(value, headers, self._topology))
        except WireError as problem:
            return DeadLetter(str(problem))

    def of_fields(self, fields: dict[str, Any]) -> DecodedNode:
        """The node that these fields describe; WireError says what is wrong."""
        size = self._topology.graph.node_features
        record = _validated(NodeFeatures, fields, self._topology, written=math.inf)
        if len(record.features) != size:
            raise WireError(
                f"field 'features' must have {size} numbers (graph.node_features), but has {len(record.features)}"
            )
        features = np.array(record.features, np.float64)
        if not (np.abs(features) <= np.finfo(np.float32).max).all():
            raise WireError("field 'features' holds a number too large for float32")
        return DecodedNode(self._topology.node_key(record.kind, record.node), features.astype(np.float32))


class LabelDecoder:
    """Reads topic `labels` of one deployment."""

    def __init__(self, topology: Topology) -> None:
        self._topology = topology

    def decode(self, value: bytes | None, headers: Headers | None, written: float) -> DecodedLabel | DeadLetter:
        """One record. written: unix seconds at which Kafka has it that it was"""
        try:
            return self.of_fields(_content(value, headers, self._topology), written)
        except WireError as problem:
            return DeadLetter(str(problem))

    def of_fields(self, fields: dict[str, Any], written: float) -> DecodedLabel:
        """The label that these fields are; WireError says what is wrong."""
        record = _validated(Label, fields, self._topology, written)
        if self._topology.graph.bipartite and record.kind == "item":
            raise WireError("field 'kind' is 'item', and labels are about users: no head says anything about an item")
        node = self._topology.node_key(record.kind, record.node)
        known = record.timestamp if record.known_at is None else record.known_at
        return DecodedLabel(node, record.label, record.value, record.timestamp, known)


def _object(value: bytes, headers: Headers | None, max_bytes: int) -> dict[str, Any]:
    if len(value) > max_bytes:
        raise WireError(
            f"the record has {len(value):,} bytes; at most {max_bytes:,} are allowed (kafka.max_record_bytes)"
        )
    return decode_object(value, headers)


def _id(fields: dict[str, Any], name: str, limit: int) -> bytes:
    """UTF-8 of the id in field `name`."""
    value = fields.get(name)
    if type(value) is str:
        text = value
    elif type(value) is int:
        text = str(value)
    else:
        raise WireError(_not_an_id(fields, name))
    try:
        data = text.encode()
    except UnicodeEncodeError:
        raise WireError(f"field {name!r} is not valid Unicode; it holds a lone surrogate") from None
    if not data:
        raise WireError(f"field {name!r} is empty")
    if len(data) > limit:
        raise WireError(f"field {name!r} is {len(data)} bytes long; at most {limit} are allowed (graph.max_id_bytes)")
    if not text.isprintable() and _CONTROL.search(text):
        raise WireError(f"field {name!r} holds a control character: {text!r}")
    return data


def _not_an_id(fields: dict[str, Any], name: str) -> str:
    if name not in fields:
        return f"field {name!r} is missing ({_MEANING[name]})"
    value = fields[name]
    if value is None:
        return f"field {name!r} is null ({_MEANING[name]})"
    if type(value) is float and value.is_integer() and abs(value) >= 2**63:
        return f"field {name!r} is an integer beyond 64 bits; send it as a string"
    return f"field {name!r} must be a string or an integer, not {shown(value)}"


def _time(fields: dict[str, Any], written: float, max_ahead_s: float) -> float:
    value = fields.get("timestamp")
    if value is None:
        state = "null" if "timestamp" in fields else "missing"
        raise WireError(f"field 'timestamp' is {state} ({_MEANING['timestamp']})")
    try:
        return check_plausible(parse_time(value), written, max_ahead_s)
    except WireError as problem:
        raise WireError(f"field 'timestamp' {problem}") from None


def _content(value: bytes | None, headers: Headers | None, topology: Topology) -> dict[str, Any]:
    if value is None:
        raise WireError("null record: this topic takes only objects")
    return _object(value, headers, topology.kafka.max_record_bytes)


def _validated(model: type[Contract], content: dict[str, Any], topology: Topology, written: float) -> Contract:
    checks = Checks(
        max_node_bytes=topology.id_bytes - 1,
        max_interaction_bytes=topology.id_bytes,
        written=written,
        max_ahead_s=topology.time.max_ahead_s,
    )
    try:
        return model.model_validate(content, context=checks)
    except ValidationError as problem:
        error = problem.errors()[0]
        field = ".".join(str(part) for part in error["loc"])
        message = error["msg"].removeprefix("Value error, ")
        if error["type"] == "missing":
            raise WireError(f"field {field!r} is missing") from None
        if error["type"] == "value_error":
            raise WireError(f"field {field!r} {message}") from None
        raise WireError(f"field {field!r}: {message}, not {shown(error['input'])}") from None
