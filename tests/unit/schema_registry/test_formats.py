"""Values by their schemas. What they hold comes from the writers of their libraries, never from ours."""

from __future__ import annotations

import io
import json
from contextlib import suppress
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

import fastavro
import orjson
import pytest
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass
from hypothesis import given, settings
from hypothesis import strategies as st

from stream_tgat.errors import SettingsError, WireError
from stream_tgat.schema_registry import RegisteredValues, SchemaText, registered_values
from stream_tgat.schema_registry.avro import avro_values
from stream_tgat.schema_registry.json_schema import json_values
from stream_tgat.schema_registry.protobuf import compiled, message_places, protobuf_values

PROTO = """
syntax = "proto3";
package shop;
import "google/protobuf/timestamp.proto";
import "google/protobuf/wrappers.proto";
import "google/protobuf/struct.proto";
import "confluent/type/decimal.proto";
message Other { int32 x = 1; }
message Outer {
  enum Kind { UNKNOWN = 0; ORDER = 1; }
  message Line { string sku = 1; double price = 2; }
  message Order {
    Kind kind = 1;
    int64 at = 2;
    optional string customer = 3;
    repeated Line lines = 4;
    map<string, int32> counts = 5;
    google.protobuf.Timestamp created = 6;
    google.protobuf.Int64Value note = 7;
    confluent.type.Decimal total = 8;
    bytes raw = 9;
    google.protobuf.Struct more = 10;
    oneof pay { string card = 11; string cash = 12; }
    uint64 large = 13;
  }
}
"""


def avro(schema: Any, value: Any, *references: tuple[str, Any]) -> Any:
    """What our reader has of a value that fastavro has written."""
    named: dict[str, Any] = {}
    for _, each in references:
        fastavro.parse_schema(each, named)
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, fastavro.parse_schema(schema, named), value)
    texts = tuple((name, json.dumps(each)) for name, each in references)
    return avro_values(SchemaText(1, "AVRO", json.dumps(schema), texts))(stream.getvalue())


def record(**types: Any) -> dict[str, Any]:
    return {"type": "record", "name": "R", "fields": [{"name": name, "type": of} for name, of in types.items()]}


def test_avro_record_is_an_object() -> None:
    schema = record(
        user="long",
        lines={"type": "array", "items": {**record(sku="string", price=["null", "double"]), "name": "Line"}},
        tags={"type": "map", "values": "string"},
        kind={"type": "enum", "name": "Kind", "symbols": ["order", "refund"]},
    )
    value = {
        "user": 2**60, "lines": [{"sku": "tea", "price": 3.5}, {"sku": "jam", "price": None}],
        "tags": {"a": "b"}, "kind": "refund",
    }  # fmt: skip
    assert avro(schema, value) == value


def test_avro_logical_types_are_as_json_has_them() -> None:
    at = datetime(2024, 5, 1, 8, 30, 0, 123456, UTC)
    logical = {
        "millis": ("long", "timestamp-millis", at.replace(microsecond=123000), "2024-05-01T08:30:00.123000+00:00"),
        "micros": ("long", "timestamp-micros", at, "2024-05-01T08:30:00.123456+00:00"),
        "local": ("long", "local-timestamp-millis", datetime(2024, 5, 1, 8), "2024-05-01T08:00:00"),  # noqa: DTZ001
        "day": ("int", "date", date(2024, 5, 1), "2024-05-01"),
        "uuid": ("string", "uuid", UUID(int=7), "00000000-0000-0000-0000-000000000007"),
    }
    types: dict[str, Any] = {name: {"type": of, "logicalType": kind} for name, (of, kind, *_) in logical.items()}
    types["price"] = {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}
    types["nested"] = {"type": "array", "items": types["millis"]}
    value = {name: given for name, (_, _, given, _) in logical.items()}
    value |= {"price": Decimal("-12.50"), "nested": [value["millis"]]}
    expected = {name: shown for name, (*_, shown) in logical.items()}
    assert avro(record(**types), value) == {**expected, "price": -12.5, "nested": [expected["millis"]]}


def test_avro_schema_may_rest_on_others() -> None:
    line = {**record(sku="string"), "name": "Line"}
    assert avro(record(line="Line"), {"line": {"sku": "tea"}}, ("line.avsc", line)) == {"line": {"sku": "tea"}}


@pytest.mark.parametrize("schema", ["", "{", "7", '{"type":"record"}', '{"type":"nope"}', '"Line"'])
def test_avro_schema_that_is_none_is_refused(schema: str) -> None:
    with pytest.raises(WireError, match="is no Avro schema"):
        avro_values(SchemaText(1, "AVRO", schema))


@pytest.mark.parametrize("items", ["null", {"type": "record", "name": "E", "fields": []}])
def test_avro_list_that_a_few_bytes_make_endless_is_refused(items: Any) -> None:
    with pytest.raises(WireError, match="may be endless"):
        avro_values(SchemaText(1, "AVRO", json.dumps(record(a={"type": "array", "items": items}))))


def test_avro_schema_of_itself_is_taken() -> None:
    tree = record(name="string", below={"type": "array", "items": "R"})
    assert avro(tree, {"name": "a", "below": [{"name": "b", "below": []}]})["below"][0]["name"] == "b"


SIMPLE = record(a="long", b="string", c={"type": "array", "items": "double"}, d=["null", "boolean"])
SIMPLE_VALUES = st.fixed_dictionaries(
    {
        "a": st.integers(-(2**63), 2**63 - 1),
        "b": st.text(),
        "c": st.lists(st.floats(allow_nan=False)),
        "d": st.none() | st.booleans(),
    }
)


@given(SIMPLE_VALUES)
def test_any_avro_value_comes_back(value: Any) -> None:
    assert avro(SIMPLE, value) == value


@given(SIMPLE_VALUES, st.data())
def test_avro_that_is_cut_or_longer_is_refused(value: Any, data: Any) -> None:
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, SIMPLE, value)
    decode, whole = avro_values(SchemaText(1, "AVRO", json.dumps(SIMPLE))), stream.getvalue()
    with pytest.raises(WireError):
        decode(whole[: data.draw(st.integers(0, len(whole) - 1))])
    with pytest.raises(WireError, match="left over"):
        decode(whole + data.draw(st.binary(min_size=1)))


@given(st.binary())
def test_any_bytes_are_avro_or_refused(data: bytes) -> None:
    with suppress(WireError):
        avro_values(SchemaText(1, "AVRO", json.dumps(SIMPLE)))(data)


@pytest.fixture(scope="module")
def messages() -> Any:
    """The classes of PROTO's messages, made by the Protobuf library."""
    pool = DescriptorPool()
    for file in compiled(SchemaText(1, "PROTOBUF", PROTO)).file:
        pool.Add(file)

    def make(name: str, **fields: Any) -> Any:
        return GetMessageClass(pool.FindMessageTypeByName(f"shop.{name}"))(**fields)

    return make


@pytest.fixture(scope="module")
def protobuf() -> Any:
    return protobuf_values(SchemaText(1, "PROTOBUF", PROTO))


#: Two places in zigzag, 1 and 1: the second message in the second message of the file.
ORDER = bytes([4, 2, 2])


def test_protobuf_message_is_an_object(messages: Any, protobuf: Any) -> None:
    order = messages("Outer.Order", kind=1, at=2**53 + 1, customer="", raw=b"\0\1", card="visa", large=2**64 - 1)
    order.lines.add(sku="tea", price=3.5)
    order.counts["a"] = 2
    order.created.FromJsonString("2024-05-01T08:30:00.123Z")
    order.note.value = 0
    order.total.value, order.total.scale = (-1250).to_bytes(2, "big", signed=True), 2
    order.more.update({"x": [1, None]})
    assert protobuf(ORDER + order.SerializeToString()) == {
        "kind": "ORDER", "at": 2**53 + 1, "customer": "", "lines": [{"sku": "tea", "price": 3.5}], "counts": {"a": 2},
        "created": "2024-05-01T08:30:00.123Z", "note": 0, "total": -12.5, "raw": "AAE=", "more": {"x": [1.0, None]},
        "card": "visa", "large": 2**64 - 1,
    }  # fmt: skip


def test_protobuf_field_that_knows_that_it_was_not_sent_is_missing(protobuf: Any) -> None:
    found = protobuf(ORDER)
    assert not {"customer", "created", "note", "total", "more", "card", "cash"} & set(found)
    assert (found["kind"], found["at"], found["lines"], found["counts"]) == ("UNKNOWN", 0, [], {})


@pytest.mark.parametrize(
    "fields",
    [{"created": {"seconds": 10**15}}, {"total": {"value": b"\1", "scale": 2**31 - 1}}, {"more": {"x": 1e400}}],
)
def test_protobuf_values_that_nothing_stands_for_are_refused(fields: Any, messages: Any, protobuf: Any) -> None:
    with pytest.raises(WireError, match="not Protobuf of this schema"):
        protobuf(ORDER + messages("Outer.Order", **fields).SerializeToString())


def test_protobuf_message_is_found_by_its_places(messages: Any, protobuf: Any) -> None:
    assert protobuf(bytes([0]) + messages("Other", x=-3).SerializeToString()) == {"x": -3}
    assert protobuf(bytes([2, 0]) + messages("Other", x=-3).SerializeToString()) == {"x": -3}
    for wrong in (b"", bytes([1]), bytes([2]), bytes([2, 4]), bytes([6, 2, 2, 2]), bytes([200, 200, 1])):
        with pytest.raises(WireError):
            protobuf(wrong)


@given(st.lists(st.integers(0, 2**31), min_size=1, max_size=32), st.binary())
def test_places_of_a_message_come_back(places: list[int], rest: bytes) -> None:
    written = b"".join(_zigzag(number) for number in (len(places), *places))
    assert message_places(written + rest) == (tuple(places), len(written))


def _zigzag(number: int) -> bytes:
    """As the Protobuf library writes a sint64: the first field of a message, without its tag."""
    from google.protobuf.internal.encoder import SInt64Encoder  # type: ignore[import-untyped]

    written: list[bytes] = []
    SInt64Encoder(1, False, False)(written.append, number, False)
    return b"".join(written)[1:]


@settings(deadline=None)
@given(data=st.binary())
def test_any_bytes_are_protobuf_or_refused(protobuf: Any, data: bytes) -> None:
    with suppress(WireError):
        orjson.dumps(protobuf(data))


@pytest.mark.parametrize(
    ("text", "references"),
    [("message {", ()), ('import "line.proto";', ()), ("", (("../line.proto", ""),)), ('import "/etc/passwd";', ())],
)
def test_protobuf_schema_that_is_none_is_refused(text: str, references: Any) -> None:
    with pytest.raises(WireError, match="is no Protobuf schema"):
        protobuf_values(SchemaText(1, "PROTOBUF", f'syntax = "proto3"; {text}', references))


def test_protobuf_schema_may_rest_on_others() -> None:
    line = 'syntax = "proto3"; message Line { string sku = 1; }'
    text = 'syntax = "proto3"; import "shop/line.proto"; message Order { Line line = 1; }'
    decode = protobuf_values(SchemaText(1, "PROTOBUF", text, (("shop/line.proto", line),)))
    assert decode(bytes([0, 10, 5, 10, 3]) + b"tea") == {"line": {"sku": "tea"}}


def test_json_value_must_be_valid_by_its_schema() -> None:
    schema = {"type": "object", "properties": {"user": {"type": "string"}}, "required": ["user"]}
    decode = json_values(SchemaText(1, "JSON", json.dumps(schema)))
    assert decode(b'{"user": "ann"}') == {"user": "ann"}
    for wrong, reason in ((b"{", "not valid JSON"), (b"{}", "user"), (b'{"user": 5}', "user: 5 is not of type")):
        with pytest.raises(WireError, match=reason):
            decode(wrong)


def test_json_schema_may_rest_on_others_and_is_fetched_from_nowhere_else() -> None:
    line = '{"type": "object", "required": ["sku"]}'
    decode = json_values(
        SchemaText(1, "JSON", '{"properties": {"line": {"$ref": "line.json"}}}', (("line.json", line),))
    )
    with pytest.raises(WireError, match="sku"):
        decode(b'{"line": {}}')
    for schema in ('{"$ref": "http://127.0.0.1:9/x.json"}', "7", '{"type": "nope"}'):
        with pytest.raises(WireError, match="is no JSON Schema"):
            json_values(SchemaText(1, "JSON", schema))


class Given:
    """A registry with some schemas that counts how often it is asked."""

    def __init__(self, **schemas: SchemaText) -> None:
        self.schemas, self.asked = {int(key[1:]): schema for key, schema in schemas.items()}, 0

    def schema(self, schema_id: int) -> SchemaText:
        self.asked += 1
        if schema_id not in self.schemas:
            raise WireError("the schema registry does not know it")
        return self.schemas[schema_id]


def of_avro(number: int, schema: Any, value: Any) -> bytes:
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, schema, value)
    return b"\0" + number.to_bytes(4, "big") + stream.getvalue()


def test_value_is_read_by_the_schema_that_it_names() -> None:
    old, new = record(a="long"), record(a="string", b="long")
    registry = Given(
        _7=SchemaText(7, "AVRO", json.dumps(old)), _8=SchemaText(8, "AVRO", json.dumps(new)),
        _9=SchemaText(9, "AVRO", '"string"'), _10=SchemaText(10, "JSON", "{}"), _11=SchemaText(11, "XML", ""),
    )  # fmt: skip
    values = RegisteredValues(registry, "avro")  # type: ignore[arg-type]
    assert values.record(of_avro(7, old, {"a": 1})) == {"a": 1}
    assert values.record(of_avro(8, new, {"a": "x", "b": 2})) == {"a": "x", "b": 2}
    assert values.decode(of_avro(9, "string", "ann")) == "ann"
    for value, reason in (
        (b"", "it has 0 bytes"),
        (b"\0\0\0", "it has 3 bytes"),
        (b'{"a": 1}', "its first byte is 0x7b"),
        (of_avro(12, old, {"a": 1}), "schema 12: the schema registry does not know it"),
        (of_avro(10, old, {"a": 1}), "schema 10: is JSON, but format says AVRO"),
        (of_avro(9, "string", "ann"), "the record must be an object with named fields, not a str"),
        (of_avro(8, old, {"a": 1}), r"not Avro of this schema: .* \(schema 8\)"),
    ):
        with pytest.raises(WireError, match=reason):
            values.record(value)


def test_schema_is_asked_for_once_and_one_that_is_unknown_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    schema = record(a="long")
    registry = Given(_7=SchemaText(7, "AVRO", json.dumps(schema)))
    values = RegisteredValues(registry, "avro")  # type: ignore[arg-type]
    records = [of_avro(number, schema, {"a": 1}) for number in (7, 8, 7, 8)]
    assert values.lacks([*records, None, b"{}"]) == {7, 8}
    values.fetch({7, 8})
    assert not values.lacks(records)
    for each in records:
        with suppress(WireError):
            values.record(each)
    assert registry.asked == 2
    registry.schemas[8] = registry.schemas[7]
    monkeypatch.setattr(registered_values, "_UNKNOWN_S", 0.0)
    values = RegisteredValues(registry, "avro")  # type: ignore[arg-type]
    assert values.record(records[1]) == {"a": 1}


@pytest.mark.parametrize(
    ("form", "extra"), [("avro", "avro"), ("protobuf", "protobuf"), ("json_schema", "json-schema")]
)
def test_what_is_not_installed_is_told_with_its_extra(form: Any, extra: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registered_values, "_is_there", lambda name: name != "confluent_kafka")
    with pytest.raises(SettingsError, match=rf"confluent_kafka\): pip install 'stream-tgat\[{extra}\]'"):
        registered_values.require(form)
