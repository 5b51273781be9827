import doctest
import json
from typing import Any

import msgpack
import numpy as np
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

import stream_tgat.wire.times
from stream_tgat.errors import WireError
from stream_tgat.topology import Topology
from stream_tgat.wire import (
    Alert,
    AlertEncoder,
    DeadLetter,
    DeadLetterHeaders,
    DecodedInteraction,
    DecodedLabel,
    Embedding,
    EmbeddingEncoder,
    InteractionDecoder,
    LabelDecoder,
    NodeDecoder,
    OutputHeaders,
    Punctuation,
    decode_object,
    encode_object,
    interaction_name,
    kind_of_reason,
    letter_headers,
    output_headers,
    parse_time,
    punctuation_headers,
    read_letter,
)
from stream_tgat.wire.formats import header

NOW = 1_700_000_000.0
GOOD = {"user": "u1", "item": 42, "timestamp": 1_699_999_999.25, "quantity": 2}


def topology(**sections: Any) -> Topology:
    heads = [{"name": "ban"}, {"name": "churn"}]
    return Topology.model_validate({"name": "t", "graph": {"node_features": 2}, "heads": heads, **sections})


def decode(value: bytes | None, headers: Any = None) -> Any:
    return InteractionDecoder(topology()).decode(value, headers, "interactions", 3, 7, NOW)


def changed(**fields: Any) -> bytes:
    content = {**GOOD, **fields}
    return json.dumps({name: value for name, value in content.items() if value is not ...}).encode()


def test_good_interaction_comes_as_keys_seconds_and_fields() -> None:
    decoded = decode(changed())
    assert decoded == DecodedInteraction(b"interactions/3/000000000007", b"uu1", b"i42", 1_699_999_999.25, GOOD)
    assert decode(changed(id="order-9")).id == b"order-9"
    assert decode(changed(id=9)).id == b"9"


def test_users_and_items_share_ids_where_the_graph_is_not_bipartite() -> None:
    decoder = InteractionDecoder(topology(graph={"bipartite": False}))
    decoded = decoder.decode(changed(item="u1"), None, "interactions", 0, 0, NOW)
    assert isinstance(decoded, DecodedInteraction)
    assert decoded.user == decoded.item == b"nu1"


@pytest.mark.parametrize("name", ["application/msgpack", "Application/X-MsgPack; v=1", "application/vnd.msgpack"])
@pytest.mark.parametrize("as_mapping", [False, True])
def test_content_type_chooses_messagepack(name: str, as_mapping: bool) -> None:
    headers = [("trace", b"1"), ("Content-Type", name.encode())]
    assert decode(msgpack.packb(GOOD), dict(headers) if as_mapping else headers) == decode(changed())


def test_content_type_of_json_may_have_parameters() -> None:
    assert decode(changed(), [("content-type", b"application/json; charset=utf-8")]) == decode(changed())


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (b"", "the record is empty"),
        (b"  ", "the record is empty"),
        (b"{", "not valid JSON"),
        (b"\xff\xfe", "not valid UTF-8"),
        (b'{"user":"\\ud800"}', "not valid JSON"),
        (b"[1]", "must be an object with named fields, not a list"),
        (b"null", "must be an object with named fields, not null"),
        (changed(user=...), "field 'user' is missing"),
        (changed(item=None), "field 'item' is null"),
        (changed(user=True), "field 'user' must be a string or an integer, not true"),
        (changed(user=1.5), "field 'user' must be a string or an integer, not 1.5"),
        (changed(user=10**25), "field 'user' is an integer beyond 64 bits; send it as a string"),
        (changed(user=""), "field 'user' is empty"),
        (changed(item="a\tb"), "field 'item' holds a control character: 'a\\tb'"),
        (changed(item="x" * 40), "field 'item' is 40 bytes long; at most 39 are allowed (graph.max_id_bytes)"),
        (changed(id="x" * 41), "field 'id' is 41 bytes long; at most 40 are allowed"),
        (changed(timestamp=...), "field 'timestamp' is missing"),
        (changed(timestamp=None), "field 'timestamp' is null"),
        (changed(timestamp=float("nan")), "JSON, which has no NaN or Infinity"),
        (changed(timestamp=False), "field 'timestamp' must be unix seconds or an ISO 8601 string, not true or false"),
        (changed(timestamp="yesterday"), "such as 2024-01-31T12:00:00Z, not 'yesterday'"),
        (changed(timestamp="2023-02-30"), "is not a valid ISO 8601 time: '2023-02-30'"),
        (changed(timestamp=-0.5), "field 'timestamp' is before 1970"),
        (changed(timestamp="1969-12-31T23:59:59Z"), "field 'timestamp' is before 1970"),
        (changed(timestamp=NOW + 86_401), "field 'timestamp' is 1.0 days ahead of the clock"),
        (changed(timestamp=NOW * 1e3), "is it in milliseconds? Seconds are expected"),
        (changed(timestamp=NOW * 1e6), "is it in microseconds?"),
        (changed(timestamp=int(NOW * 1e9)), "is it in nanoseconds?"),
        (changed(note="x" * 131_072), "has 131,153 bytes; at most 131,072 are allowed (kafka.max_record_bytes)"),
        (None, "null record: it has neither a value nor the header 'watermark'"),
    ],
)
def test_bad_interaction_gets_a_reason_a_person_understands(value: bytes | None, reason: str) -> None:
    decoded = decode(value)
    assert isinstance(decoded, DeadLetter)
    assert reason in decoded.reason


@pytest.mark.parametrize(
    ("headers", "value", "reason"),
    [
        ([("content-type", b"text/csv")], changed(), "unknown content-type 'text/csv'; send application/json or"),
        ([("content-type", b"\xff")], changed(), "unknown content-type"),
        ([("content-type", b"application/msgpack")], b"\x81", "not valid MessagePack"),
        ([("content-type", b"application/msgpack")], b"\x80\x80", "not valid MessagePack"),
        ([("content-type", b"application/msgpack")], msgpack.packb({1: 2}), "not valid MessagePack"),
        ([("content-type", b"application/msgpack")], msgpack.packb({b"user": 2}), "field names must be strings"),
        (
            [("content-type", b"application/msgpack")],
            msgpack.packb({**GOOD, "timestamp": float("inf")}),
            "field 'timestamp' must be a finite number of seconds, not inf",
        ),
        ([("watermark", b"soon")], None, "header 'watermark' must be unix seconds as text"),
        ([("watermark", b"nan")], None, "header 'watermark' must be a finite number"),
        ([("watermark", b"1e12")], None, "header 'watermark' is 31,634.2 years ahead of the clock"),
    ],
)
def test_bad_headers_or_messagepack_get_a_reason(headers: Any, value: bytes | None, reason: str) -> None:
    decoded = decode(value, headers)
    assert isinstance(decoded, DeadLetter)
    assert reason in decoded.reason


def test_limits_are_inclusive() -> None:
    assert isinstance(decode(changed(user="x" * 39)), DecodedInteraction)
    assert isinstance(decode(changed(id="x" * 40)), DecodedInteraction)
    assert isinstance(decode(changed(timestamp=0)), DecodedInteraction)
    assert isinstance(decode(changed(timestamp=NOW + 300)), DecodedInteraction)
    assert isinstance(decode(changed(timestamp=int(NOW) + 300)), DecodedInteraction)
    assert isinstance(decode(None, punctuation_headers(NOW + 300)), Punctuation)


def test_punctuation_survives_its_header() -> None:
    watermark = 1_699_999_999.123456
    assert decode(None, punctuation_headers(watermark)) == Punctuation(watermark)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("2023-11-14T22:13:20Z", NOW),
        ("2023-11-14T23:13:20+01:00", NOW),
        ("2023-11-14 22:13:20.250000", NOW + 0.25),
        ("2023-11-14T22:13", NOW - 20),
        ("1970-01-02", 86_400.0),
        (5, 5.0),
    ],
)
def test_parse_time_gives_unix_seconds(text: object, seconds: float) -> None:
    assert parse_time(text) == seconds
    assert type(parse_time(text)) is float


def test_examples_in_docstrings_hold() -> None:
    assert doctest.testmod(stream_tgat.wire.times).failed == 0


@pytest.mark.parametrize("text", ["20240101", "1700000000", "2023-W01-1", "2023-1-1", "", "٢٠٢٣-٠١-٠١"])
def test_parse_time_refuses_what_could_be_a_quoted_number(text: str) -> None:
    with pytest.raises(WireError):
        parse_time(text)


def test_node_features_become_a_float32_vector() -> None:
    decoded = NodeDecoder(topology()).decode(b'{"node": 7, "features": [0.5, -1]}', None)
    assert not isinstance(decoded, DeadLetter)
    assert decoded.node == b"i7"
    assert decoded.features.dtype == np.float32
    assert decoded.features.tolist() == [0.5, -1.0]
    user = NodeDecoder(topology()).decode(b'{"node": 7, "features": [0.5, -1], "kind": "user"}', None)
    assert not isinstance(user, DeadLetter)
    assert user.node == b"u7"


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (None, "null record"),
        (b'{"features": [1, 2]}', "field 'node' is missing"),
        (b'{"node": "a", "features": [1]}', "must have 2 numbers (graph.node_features), but has 1"),
        (b'{"node": "a", "features": [1, "2"]}', "field 'features.1'"),
        (b'{"node": "a", "features": [1, true]}', "field 'features.1'"),
        (b'{"node": "a", "features": [1, 1e39]}', "too large for float32"),
        (b'{"node": "a", "features": [1, 2], "kind": "shop"}', "field 'kind'"),
        (json.dumps({"node": "x" * 40, "features": [1, 2]}).encode(), "field 'node' is 40 bytes long"),
    ],
)
def test_bad_node_features_get_a_reason(value: bytes | None, reason: str) -> None:
    decoded = NodeDecoder(topology()).decode(value, None)
    assert isinstance(decoded, DeadLetter)
    assert reason in decoded.reason


def test_infinite_node_features_of_messagepack_get_a_reason() -> None:
    value = msgpack.packb({"node": "a", "features": [1.0, float("inf")]})
    decoded = NodeDecoder(topology()).decode(value, [("content-type", b"application/msgpack")])
    assert isinstance(decoded, DeadLetter)
    assert "finite" in decoded.reason


@pytest.mark.parametrize(("value", "expected"), [("true", 1.0), ("1", 1.0), ("1.0", 1.0), ("false", 0.0), ("0", 0.0)])
def test_label_becomes_one_or_zero(value: str, expected: float) -> None:
    text = f'{{"node": "a", "label": "ban", "value": {value}, "timestamp": "1970-01-01T00:00:09Z"}}'
    assert LabelDecoder(topology()).decode(text.encode(), None, NOW) == DecodedLabel(b"ua", "ban", expected, 9.0, 9.0)


@pytest.mark.parametrize("text", ["1970-01-01T00:00:09Z", "1970-01-01t00:00:09z", "1970-01-01 01:00:09+01:00"])
def test_times_are_those_of_rfc_3339(text: str) -> None:
    assert parse_time(text) == 9.0


@pytest.mark.parametrize(("known_at", "expected"), [(None, 5.0), (5, 5.0), (6.5, 6.5), ("1970-01-01T00:01:00Z", 60.0)])
def test_label_says_when_it_became_known(known_at: Any, expected: float) -> None:
    content = {"node": "a", "label": "ban", "value": 1, "timestamp": 5, "known_at": known_at}
    decoded = LabelDecoder(topology()).decode(json.dumps(content).encode(), None, NOW)
    assert decoded == DecodedLabel(b"ua", "ban", 1.0, 5.0, expected)


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"value": 0.5}, "field 'value' must be true, false, 1 or 0"),
        ({"value": "1"}, "field 'value'"),
        ({"value": None}, "field 'value'"),
        ({"label": ""}, "field 'label'"),
        ({"timestamp": -1}, "field 'timestamp' is before 1970"),
        ({"timestamp": NOW * 1e3}, "milliseconds"),
        ({"known_at": "last week"}, "field 'known_at' must be unix seconds or an ISO 8601 string"),
        ({"known_at": True}, "field 'known_at' must be unix seconds"),
        ({"known_at": 4.9}, "field 'known_at' is before the label's 'timestamp'"),
        ({"known_at": NOW * 1e3}, "milliseconds"),
    ],
)
def test_bad_label_gets_a_reason(fields: dict[str, Any], reason: str) -> None:
    content = {"node": "a", "label": "ban", "value": 1, "timestamp": 5, **fields}
    decoded = LabelDecoder(topology()).decode(json.dumps(content).encode(), None, NOW)
    assert isinstance(decoded, DeadLetter)
    assert reason in decoded.reason


EMBEDDING = np.array([0.1, -2.5, 1e-20], np.float32)
PREDICTIONS = np.array([0.25, 0.123456789])


@pytest.mark.parametrize("output_format", ["json", "msgpack"])
@pytest.mark.parametrize("side", [0, 1])
@pytest.mark.parametrize("bipartite", [True, False])
@pytest.mark.parametrize("late", [True, False])
def test_embedding_survives_the_wire(output_format: str, side: int, bipartite: bool, late: bool) -> None:
    chosen = topology(kafka={"output_format": output_format}, graph={"bipartite": bipartite})
    kind, other = ("user", "item") if side == 0 else ("item", "user")
    key, value = EmbeddingEncoder(chosen).encode(
        interaction=b"interactions/3/000000000007",
        node=chosen.node_key(kind, "é"),  # type: ignore[arg-type]
        peer=chosen.node_key(other, "b/c"),  # type: ignore[arg-type]
        side=side,
        timestamp=1.5,
        embedding=EMBEDDING,
        predictions=PREDICTIONS,
        model=12,
        late=late,
    )
    headers = output_headers(chosen, 12, "interactions", 3, 7)
    content = decode_object(value, headers)
    assert key == f"{kind if bipartite else 'node'}/é".encode()
    assert ("late" in content) == late
    assert ("kind" in content) == bipartite
    record = Embedding.model_validate(content)
    ends = "b%2Fc/é" if side else "é/b%2Fc"
    assert record.id == f"interactions/3/000000000007/1.5/{ends}/{side}/12"
    assert (record.peer, record.node, record.timestamp, record.model, record.late) == ("b/c", "é", 1.5, 12, late)
    assert record.kind == (kind if bipartite else None)
    assert np.array_equal(np.array(record.embedding, np.float32), EMBEDDING)
    expected = {} if side else {"ban": 0.25, "churn": pytest.approx(0.123456789, abs=1e-7)}
    assert record.predictions == expected


PARTS = st.text(st.sampled_from("a/%25F0."), min_size=1, max_size=5)
INTERACTIONS = st.tuples(PARTS, st.sampled_from([0.0, 0.5, 1.0, 25.0]), PARTS, PARTS)


@given(INTERACTIONS, INTERACTIONS)
def test_interactions_have_one_name_only_if_they_agree_in_all(one: Any, other: Any) -> None:
    assert (interaction_name(*one) == interaction_name(*other)) == (one == other)
    assert interaction_name(*one).rsplit("/", 3)[0] == one[0]


@pytest.mark.parametrize("zero", [0, 0.0, -0.0, "1970-01-01T00:00:00Z"])
def test_time_zero_has_one_form(zero: Any) -> None:
    value = json.dumps({"user": "a", "item": "b", "timestamp": zero}).encode()
    decoded = InteractionDecoder(topology()).decode(value, None, "interactions", 0, 0, NOW)
    assert isinstance(decoded, DecodedInteraction)
    assert repr(decoded.timestamp) == "0.0"


def test_embedding_that_is_a_strided_view_is_written_right() -> None:
    encoder = EmbeddingEncoder(topology())
    strided = np.arange(6, dtype=np.float32)[::2]
    arguments: dict[str, Any] = {
        "interaction": b"x",
        "node": b"ia",
        "peer": b"ub",
        "side": 1,
        "timestamp": 0.0,
        "model": 1,
        "late": False,
    }
    _, value = encoder.encode(embedding=strided, predictions=np.array([np.nan, np.nan]), **arguments)
    assert json.loads(value)["embedding"] == [0.0, 2.0, 4.0]


@pytest.mark.parametrize("output_format", ["json", "msgpack"])
def test_alert_survives_the_wire(output_format: str) -> None:
    chosen = topology(kafka={"output_format": output_format})
    key, value = AlertEncoder(chosen).encode(
        interaction=b"x/0/1",
        node=b"uann",
        peer=b"i50%/50%",
        head="ban",
        probability=0.75,
        threshold=0.5,
        timestamp=9.0,
        model=12,
        because=[(b"ipage", b"x/0/0", 3.0, 0.625)],
    )
    record = Alert.model_validate(decode_object(value, output_headers(chosen, 12, "interactions", 3, 7)))
    assert key == b"user/ann"
    assert record.model_dump() == {
        "id": "x/0/1/9.0/ann/50%25%2F50%25/ban/12",
        "interaction": "x/0/1",
        "node": "ann",
        "kind": "user",
        "peer": "50%/50%",
        "head": "ban",
        "probability": 0.75,
        "threshold": 0.5,
        "timestamp": 9.0,
        "model": 12,
        "because": ({"interaction": "x/0/0", "peer": "page", "time": 3.0, "weight": 0.625},),
    }


@pytest.mark.parametrize("output_format", ["json", "msgpack"])
def test_object_survives_encoding(output_format: str) -> None:
    chosen = topology(kafka={"output_format": output_format})
    assert decode_object(encode_object(GOOD, output_format), output_headers(chosen, 1, "t", 0, 0)) == GOOD


def test_output_headers_are_what_their_model_says() -> None:
    headers = output_headers(topology(), 12, "interactions", 3, 7)
    record = OutputHeaders.model_validate({name: value.decode() for name, value in headers})
    assert (record.content_type, record.model) == ("application/json", 12)
    assert (record.source_topic, record.source_partition, record.source_offset) == ("interactions", 3, 7)


def test_dead_letter_headers_are_what_their_model_says() -> None:
    refused = [("content-type", b"application/msgpack"), ("trace", b"1")]
    headers = letter_headers("bad \ud800", refused, "interactions", 3, 7, written=1.5, size=9)
    record = DeadLetterHeaders.model_validate({name: value.decode() for name, value in headers})
    assert record.reason == "bad \\ud800"
    assert (record.source_topic, record.source_partition, record.source_offset) == ("interactions", 3, 7)
    assert (record.source_headers, record.source_timestamp, record.truncated) == (2, 1500, 9)
    assert header(headers, "content-type") == b"application/msgpack"
    assert header(letter_headers("bad", None, "t", 0, 0), "content-type") is None


@pytest.mark.parametrize(
    "own",
    [
        [],
        [("content-type", b"application/msgpack"), ("trace", b"1"), ("trace", b"2")],
        # Names of a letter's own headers: a record may come from dead letters, or from anywhere.
        [("reason", b"mine"), ("source-topic", b"other"), ("Source-Headers", b"7"), ("truncated", b"5"), ("x", b"")],
    ],
)
def test_record_comes_back_out_of_its_letter_as_it_was(own: list[tuple[str, bytes]]) -> None:
    written = letter_headers("why", own, "interactions", 3, 7, written=1_700_000_000.123)
    letter = read_letter(b"key", None, written)
    assert (letter.key, letter.value, list(letter.headers)) == (b"key", None, own)
    assert (letter.reason, letter.place, letter.written) == ("why", "interactions/3/7", 1_700_000_000.123)
    assert letter.size is None
    assert letter.first_place == b"interactions/3/000000000007"


def test_record_that_is_no_letter_is_told() -> None:
    for headers in ([], [("reason", b"x"), ("source-headers", b"many")], [("source-headers", b"0"), ("reason", b"x")]):
        with pytest.raises(WireError, match="no dead letter of a worker"):
            read_letter(b"", b"", headers)


def test_interaction_that_is_sent_again_keeps_the_id_of_its_first_place() -> None:
    def sent(fields: dict[str, Any], first: bytes, offset: int) -> Any:
        found = [("trace", b"1"), ("first-place", first)]
        return InteractionDecoder(topology()).decode(orjson.dumps(fields), found, "interactions", 5, offset, NOW)

    without = {key: value for key, value in GOOD.items() if key != "id"}
    assert {sent(without, b"interactions/3/000000000007", at).id for at in (9, 10)} == {b"interactions/3/000000000007"}
    assert sent({**without, "id": "mine"}, b"interactions/3/000000000007", 9).id == b"mine"
    for wrong in (b"", b"interactions/3", b"a b/3/000000000007", b"interactions/3/7"):
        assert sent(without, wrong, 9).reason.startswith("header 'first-place' must be topic/partition/offset")
    assert "bytes long; at most" in sent(without, b"x" * 200 + b"/3/000000000007", 9).reason


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("field 'price' must be a number, not 'x'", "field 'price' must be a number, not {'a': 1}"),
        ("field 'v' must have 2 numbers, but has 3", "field 'v' must have 2 numbers, but has 0"),
        ("the record has 131,073 bytes; at most 5 are allowed", "the record has 9 bytes; at most 5 are allowed"),
        ("field 't' is 53.2 years ahead of the clock", "field 't' is 2,000.0 years ahead of the clock"),
        ("field 'item' holds a control character: 'te\\na'", "field 'item' holds a control character: 'x'"),
        ("not valid JSON: line 1 column 12 (char 11)", "not valid JSON: line 1 column 2 (char 1)"),
    ],
)  # fmt: skip
def test_reasons_that_differ_in_the_value_only_are_of_one_kind(one: str, other: str) -> None:
    assert kind_of_reason(one) == kind_of_reason(other)
    assert kind_of_reason(one).split("…")[0] in one


def test_reasons_of_other_fields_and_mistakes_are_of_other_kinds() -> None:
    reasons = [
        "field 'price' must be a number, not 'x'", "field 'cost' must be a number, not 'x'", "field 'price' is missing",
        "field 'gift' must be true, false, 1 or 0, not 'x'", "the record is empty",
    ]  # fmt: skip
    assert len({kind_of_reason(reason) for reason in reasons}) == len(reasons)
