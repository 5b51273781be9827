"""The hand-written decoder of interactions and the pydantic model that defines them come to the same verdict."""

import json
import re
from typing import Any

import msgpack
import orjson
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, ValidationError

from stream_tgat.topology import Topology
from stream_tgat.wire import (
    DeadLetter,
    DecodedInteraction,
    Interaction,
    InteractionDecoder,
    Label,
    NodeFeatures,
    default_interaction_id,
)
from stream_tgat.wire.models import Checks

NOW = 1_700_000_000.0
TOPOLOGY = Topology.model_validate({"name": "t", "graph": {"max_id_bytes": 32}, "time": {"max_ahead_s": 100.0}})
DECODER = InteractionDecoder(TOPOLOGY)
CHECKS = Checks(max_node_bytes=31, max_interaction_bytes=32, written=NOW, max_ahead_s=100.0)

MSGPACK_HEADERS = [("content-type", b"application/msgpack")]

ids = st.one_of(
    st.sampled_from(
        ["u1", "é" * 15, "é" * 16, "x" * 31, "x" * 32, "x" * 33, "", " ", "a\x00", "a\n", "\x7f", "\x85", "\u2028"]
    ),
    st.text(max_size=20),
    st.integers(-(2**63), 2**64 - 1),
)
times = st.one_of(
    st.sampled_from(
        [
            0,
            -0.0,
            -1e-9,
            NOW,
            NOW + 100.0,
            NOW + 101.0,
            int(NOW) + 101,
            NOW * 1e3,
            float("nan"),
            float("inf"),
            2**63,
            "2023-11-14T22:13:20Z",
            "2023-11-14T22:15:00.5+00:00",
            "2023-11-14T22:15:00.5+00:01",
            "1969-12-31T23:59:59",
            "1970-01-01",
            "20231114",
            "2023-13-01",
            "2023-11-14T",
            "1700000000",
            "now",
        ]
    ),
    st.floats(),
    st.integers(-(2**63), 2**64 - 1),
    st.datetimes().map(lambda moment: moment.isoformat()),
)
others = st.one_of(
    st.none(), st.booleans(), st.floats(), st.lists(st.integers(0, 3), max_size=2), st.just({}), st.text(max_size=3)
)
fields = st.fixed_dictionaries(
    {},
    optional={
        "user": st.one_of(ids, ids, ids, others),
        "item": st.one_of(ids, ids, ids, others),
        "timestamp": st.one_of(times, times, times, others),
        "id": st.one_of(ids, ids, others),
        "quantity": others,
    },
)
good = st.fixed_dictionaries(
    {"user": ids, "item": ids, "timestamp": st.floats(0, NOW)}, optional={"id": ids, "quantity": others}
)


def verdict_of_model(parsed: Any) -> tuple[str, str, float, str | None] | None:
    try:
        record = Interaction.model_validate(parsed, context=CHECKS)
    except ValidationError:
        return None
    return record.user, record.item, record.timestamp, record.id


def check_same_verdict(value: bytes, headers: list[tuple[str, bytes]], parsed: Any) -> None:
    decoded = DECODER.decode(value, headers, "interactions", 3, 7, NOW)
    expected = verdict_of_model(parsed)
    if expected is None:
        assert isinstance(decoded, DeadLetter), parsed
        assert re.search(r"'(user|item|timestamp|id)'|object|field names", decoded.reason)
        return
    assert isinstance(decoded, DecodedInteraction), (decoded, parsed)
    user, item, timestamp, name = expected
    assert decoded.user == b"u" + user.encode()
    assert decoded.item == b"i" + item.encode()
    assert decoded.timestamp == timestamp
    assert decoded.id == (default_interaction_id("interactions", 3, 7) if name is None else name.encode())
    assert repr(decoded.fields) == repr(parsed)  # nan != nan


@settings(max_examples=600, deadline=None)
@given(st.one_of(fields, good))
@example({"user": "u", "item": "i", "timestamp": 1, "id": None})
@example({"user": "u", "item": "i", "timestamp": True})
@example({"user": True, "item": "i", "timestamp": 1})
@example({"user": 1.0, "item": "i", "timestamp": 1})
@example({"user": "\ud800", "item": "i", "timestamp": 1})
@example({"user": 10**30, "item": "i", "timestamp": 1})
def test_json_record_gets_the_verdict_of_its_model(content: dict[str, Any]) -> None:
    value = json.dumps(content).encode()
    try:
        parsed = orjson.loads(value)
    except orjson.JSONDecodeError:
        assert isinstance(DECODER.decode(value, None, "interactions", 3, 7, NOW), DeadLetter)
        return
    check_same_verdict(value, [], parsed)


@settings(max_examples=400, deadline=None)
@given(st.one_of(fields, good))
@example({"user": b"u", "item": "i", "timestamp": 1})
@example({"user": "u", "item": "i", "timestamp": 1, b"x": 1})
@example({"user": "\ud800", "item": "i", "timestamp": 1})
@example({"user": "u", "item": "i", "timestamp": msgpack.Timestamp(5, 0)})
def test_msgpack_record_gets_the_verdict_of_its_model(content: dict[Any, Any]) -> None:
    value = msgpack.packb(content, unicode_errors="surrogatepass")
    try:
        parsed = msgpack.unpackb(value)
    except UnicodeDecodeError:
        assert isinstance(DECODER.decode(value, MSGPACK_HEADERS, "interactions", 3, 7, NOW), DeadLetter)
        return
    check_same_verdict(value, MSGPACK_HEADERS, parsed)


@pytest.mark.parametrize("headers", [[], MSGPACK_HEADERS], ids=["json", "msgpack"])
@settings(max_examples=200, deadline=None)
@given(value=st.one_of(st.binary(max_size=60), others.map(msgpack.packb), fields.map(json.dumps).map(str.encode)))
@example(value=b"\x91" * 5000)
@example(value=b"[" * 5000)
def test_any_bytes_give_a_value_or_a_reason(headers: list[tuple[str, bytes]], value: bytes) -> None:
    decoded = DECODER.decode(value, headers, "interactions", 3, 7, NOW)
    assert isinstance(decoded, DeadLetter | DecodedInteraction)
    if isinstance(decoded, DeadLetter):
        assert decoded.reason
        decoded.reason.encode()


def matches(pattern: str, value: str) -> bool:
    """As JSON Schema means it: $ is the end, where Python's also stands before a last newline."""
    return re.search(re.sub(r"\$$", r"\\Z", pattern), value) is not None


def accepts(schema: dict[str, Any], value: Any) -> bool:
    """The few words of JSON Schema that the input records use."""
    if "anyOf" in schema:
        return any(accepts(choice, value) for choice in schema["anyOf"])
    if "enum" in schema and value not in schema["enum"]:
        return False
    kinds: dict[str, Any] = {"string": str, "null": type(None), "object": dict, "array": list, "boolean": bool}
    match schema.get("type"):
        case "integer":
            return isinstance(value, int) and not isinstance(value, bool)
        case "number":
            numeric = isinstance(value, int | float) and not isinstance(value, bool)
            return numeric and value >= schema.get("minimum", value)
        case str(kind) if not isinstance(value, kinds[kind]):
            return False
    if isinstance(value, str):
        return len(value) >= schema.get("minLength", 0) and matches(schema.get("pattern", ""), value)
    if isinstance(value, list):
        return all(accepts(schema["items"], element) for element in value)
    if isinstance(value, dict):
        properties = schema["properties"]
        return all(name in value for name in schema["required"]) and all(
            accepts(properties[name], element) for name, element in value.items() if name in properties
        )
    return True


node_records = st.fixed_dictionaries(
    {"node": st.one_of(ids, others), "features": st.one_of(st.lists(st.floats()), others)}, optional={"kind": others}
)
label_records = st.fixed_dictionaries(
    {
        "node": ids,
        "label": st.one_of(st.sampled_from(["ban", "a b", ""]), others),
        "value": st.one_of(st.sampled_from([0, 1, True, False, 1.0, 0.5, 2, "1"]), others),
        "timestamp": times,
    },
    optional={"kind": st.sampled_from(["user", "item", "thing", None])},
)


@settings(max_examples=500, deadline=None)
@given(
    st.one_of(
        st.tuples(st.just(Interaction), st.one_of(fields, good)),
        st.tuples(st.just(NodeFeatures), node_records),
        st.tuples(st.just(Label), label_records),
    )
)
def test_what_a_model_accepts_its_schema_accepts(case: tuple[type[BaseModel], dict[str, Any]]) -> None:
    model, content = case
    try:
        model.model_validate(content, context=CHECKS)
    except ValidationError:
        return
    assert accepts(model.model_json_schema(), content)


@pytest.mark.parametrize(
    "content",
    [
        {"user": "", "item": "i", "timestamp": 1},
        {"user": "a\n", "item": "i", "timestamp": 1},
        {"user": True, "item": "i", "timestamp": 1},
        {"user": "u", "item": None, "timestamp": 1},
        {"user": "u", "item": "i", "timestamp": -1},
        {"user": "u", "item": "i", "timestamp": "20240101"},
        {"user": "u", "timestamp": 1},
    ],
)
def test_schema_refuses_what_needs_no_deployment_to_refuse(content: dict[str, Any]) -> None:
    assert not accepts(Interaction.model_json_schema(), content)
