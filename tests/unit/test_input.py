"""Records that others have designed, read by what `[input.*]` says of them."""

from __future__ import annotations

import re
import tomllib
from copy import deepcopy
from datetime import datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import msgpack
import orjson
import pytest
from pydantic import ValidationError

from stream_tgat.errors import SettingsError
from stream_tgat.topology import Topology
from stream_tgat.wire import (
    Candidate,
    DeadLetter,
    DecodedInteraction,
    DecodedLabel,
    DecodedNode,
    Given,
    InteractionReader,
    Judge,
    LabelReader,
    NodeReader,
    PassedOver,
    Punctuation,
    Several,
    cloudevents,
)

NOW = 1_800_000_000.0
AT = 1_714_552_200.123

ORDER = {
    "type": "order",
    "payload": {
        "order": "o-17",
        "at": 1_714_552_200_123,
        "customer": {"id": 5},
        "lines": [{"sku": "tea", "price": 3}, {"sku": "jam", "price": 4.5}],
    },
}
FLAT = {"user": "payload.customer.id", "item": "payload.lines[0].sku", "timestamp": "payload.at", "time_unit": "ms"}
BASKET = {
    "topics": ["shop.orders"], "where": "type == 'order'", "each": "payload.lines", "item": "$each.sku",
    "user": "payload.customer.id", "timestamp": "payload.at", "time_unit": "ms", "fields": {"price": "$each.price"},
}  # fmt: skip


def topology(interactions: dict[str, Any] | None = None, **sections: Any) -> Topology:
    given = {"interactions": interactions or {}, **{k: sections.pop(k) for k in ("labels", "nodes") if k in sections}}
    content = {"name": "x", "graph": {"max_id_bytes": 64}, "input": given, **sections}
    return Topology.model_validate(content)


def record(
    value: Any, *, topic: str = "shop.orders", offset: int = 7, key: bytes | None = None, **headers: str
) -> Given:
    data = value if isinstance(value, bytes | None) else orjson.dumps(value)
    pairs = [(name.replace("_", "-"), text.encode()) for name, text in headers.items()]
    return Given(topic, 1, offset, key, data, pairs)


def read(interactions: dict[str, Any], value: Any, written: float = NOW, **parts: Any) -> Any:
    features = [{"name": "price", "kind": "number"}] if "fields" in interactions else []
    return InteractionReader(topology(interactions, features=features)).read(record(value, **parts), written)


def changed(*path: str, to: Any = None) -> dict[str, Any]:
    """ORDER with another value at a path; without the field where there is none."""
    order: Any = deepcopy(ORDER)
    inner = order
    for key in path[:-1]:
        inner = inner[int(key) if isinstance(inner, list) else key]
    if to is None:
        del inner[path[-1]]
    else:
        inner[path[-1]] = to
    return order  # type: ignore[no-any-return]


def test_nested_record_is_an_interaction() -> None:
    found = read(FLAT, ORDER)
    assert found[:4] == (b"shop.orders/1/000000000007", b"u5", b"itea", AT)


def test_basket_is_several_interactions_with_names_of_their_own() -> None:
    found = read(BASKET, ORDER)
    assert isinstance(found, Several)
    assert [each[:4] for each in found.interactions] == [
        (b"shop.orders/1/000000000007/0", b"u5", b"itea", AT),
        (b"shop.orders/1/000000000007/1", b"u5", b"ijam", AT),
    ]
    assert [each.fields["price"] for each in found.interactions] == [3, 4.5]
    assert read(BASKET, changed("payload", "lines", to=[])) == Several(())


def test_basket_that_is_sent_again_keeps_the_names_of_its_first_place() -> None:
    again = read(BASKET, ORDER, offset=99, first_place="shop.orders/1/000000000007")
    assert [each.id for each in again.interactions] == [f"shop.orders/1/000000000007/{n}".encode() for n in (0, 1)]


def test_id_of_the_record_is_taken_and_may_name_the_line() -> None:
    named = {**BASKET, "id": "join('-', [payload.order, to_string($index)])"}
    assert [each.id for each in read(named, ORDER).interactions] == [b"o-17-0", b"o-17-1"]
    assert read(named, changed("payload", "order")).reason.startswith("field 'id'")


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (changed("type"), "where: 'type' is missing"),
        (changed("payload", "customer"), "field 'user' (payload.customer.id) is missing, in element 0 of `each`"),
        (changed("payload", "lines", "1", "price"), "field 'price' ($each.price) is missing, in element 1 of `each`"),
        (changed("payload", "lines", to={}), "each: 'payload.lines' is an object, and must be a list of interactions"),
        (changed("payload", "lines"), "each: 'payload.lines' is missing, and must be a list of interactions"),
        (changed("payload", "lines", to=[1] * 101), "each: 'payload.lines' holds 101 interactions, but at most 100"),
        (changed("payload", "at", to="soon"), "field 'timestamp' (payload.at) must be unix seconds or an ISO 8601"),
        (changed("payload", "at", to=1_714_552_200_123_000), "field 'timestamp' (payload.at) is over 50,000 years"),
        (None, "null record: it has no value"),
        (b"{", "not valid JSON"),
        (b" " * 200_000, "the record has 200,000 bytes"),
    ],
)
def test_what_is_not_where_the_topology_says_is_refused_with_the_place(value: Any, reason: str) -> None:
    found = read(BASKET, value)
    assert isinstance(found, DeadLetter)
    assert found.reason.startswith(reason.replace("over 50,000 years", "54,"))


def test_record_that_is_not_wanted_is_passed_over() -> None:
    assert read(BASKET, changed("type", to="refund")) == PassedOver()
    assert read({**BASKET, "null_values": "skip"}, None) == PassedOver()


def test_condition_must_be_true_or_false() -> None:
    assert read({**BASKET, "where": "type"}, ORDER).reason == "where: 'type' is a text, and must be true or false"


@pytest.mark.parametrize(
    ("unit", "number"),
    [("s", AT), ("ms", 1_714_552_200_123), ("us", 1_714_552_200_123_000), ("ns", 1_714_552_200_123_000_000)],
)
def test_unit_of_time_is_told(unit: str, number: float) -> None:
    assert read({**FLAT, "time_unit": unit}, changed("payload", "at", to=number)).timestamp == AT


@pytest.mark.parametrize(
    ("text", "zone", "moment"),
    [
        ("2024-05-01T08:30:00", "UTC", 1_714_552_200.0),
        ("2024-05-01T08:30:00Z", "Asia/Tokyo", 1_714_552_200.0),
        ("2024-05-01T10:30:00", "Europe/Berlin", 1_714_552_200.0),
        # The hour that is there twice: the first.
        ("2024-10-27T02:30:00", "Europe/Berlin", datetime(2024, 10, 27, 0, 30, tzinfo=ZoneInfo("UTC")).timestamp()),
    ],
)
def test_text_of_time_is_in_the_zone_that_is_told(text: str, zone: str, moment: float) -> None:
    assert read({**FLAT, "time_zone": zone}, changed("payload", "at", to=text)).timestamp == moment


def test_hour_that_the_clock_leaves_out_is_no_time() -> None:
    found = read({**FLAT, "time_zone": "Europe/Berlin"}, changed("payload", "at", to="2024-03-31T02:30:00"))
    assert found.reason.startswith("field 'timestamp' (payload.at) is no time in Europe/Berlin")


def test_key_headers_and_time_of_the_record_are_sources() -> None:
    mapped = {**FLAT, "user": "$key", "item": '$headers."item-code"', "timestamp": "$timestamp"}
    found = read(mapped, {"any": 1}, written=AT, key=b"anna", item_code="tea")
    assert found[1:4] == (b"uanna", b"itea", AT)
    assert read({**mapped, "user": "$key.id"}, {}, written=AT, key=b'{"id": 8}', item_code="x").user == b"u8"
    again = read(mapped, {}, written=AT + 500, key=b"a", item_code="x", first_written="1714552200123")
    assert again.timestamp == AT
    assert read(mapped, {}, written=AT, key=b"\xff", item_code="x").reason.startswith("the record's key is neither")
    assert read(mapped, {}, written=AT, item_code="x").reason == "field 'user' ($key) is missing"


def test_constants_and_literals_stand_for_themselves() -> None:
    mapped = {**BASKET, "user": "'house'", "fields": {"price": 1.5}}
    assert [(each.user, each.fields["price"]) for each in read(mapped, ORDER).interactions] == [(b"uhouse", 1.5)] * 2


def test_features_without_a_path_are_read_by_their_names_and_defaults_hold() -> None:
    features = [{"name": "price", "kind": "number"}, {"name": "type", "kind": "category", "values": ["order"]}]
    features[0]["default"] = 0.0  # type: ignore[assignment]
    of = InteractionReader(topology({**FLAT, "fields": {"price": "payload.total"}}, features=features))
    found = of.read(record(ORDER), NOW)
    assert isinstance(found, DecodedInteraction)
    assert "price" not in found.fields
    assert found.fields["type"] == "order"


def test_only_another_topic_leaves_the_contract_as_it_is() -> None:
    reader = InteractionReader(topology({"topics": ["clicks"]}))
    value = {"user": "a", "item": "b", "timestamp": AT}
    assert reader.contract is not None
    assert reader.read(record(value, topic="clicks"), NOW)[0] == b"clicks/1/000000000007"  # type: ignore[index]


def test_punctuation_is_read_beside_mapped_records() -> None:
    assert read(BASKET, None, watermark="5.5") == Punctuation(5.5)


def test_format_that_is_told_wins_over_the_header() -> None:
    packed = record(msgpack.packb(ORDER), content_type="application/vnd.shop")
    assert isinstance(InteractionReader(topology({**FLAT, "format": "msgpack"})).read(packed, NOW), DecodedInteraction)
    plain = record(ORDER, content_type="application/vnd.shop+json")
    assert isinstance(InteractionReader(topology({**FLAT, "format": "json"})).read(plain, NOW), DecodedInteraction)


def test_labels_and_nodes_are_mapped_too() -> None:
    mapped = {
        "labels": {"node": "who", "label": "'returns'", "value": "bad", "timestamp": "at", "time_unit": "ms"},
        "nodes": {"node": "sku", "features": "[weight, to_number(size)]"},
    }
    of = topology(**mapped, graph={"node_features": 2, "max_id_bytes": 64})
    label = LabelReader(of).read(record({"who": 5, "bad": True, "at": 9_500}), NOW)
    assert label == DecodedLabel(b"u5", "returns", 1.0, 9.5, 9.5)
    node = NodeReader(of).read(record({"sku": "tea", "weight": 0.5, "size": "3"}), NOW)
    assert isinstance(node, DecodedNode)
    assert (node.node, node.features.tolist()) == (b"itea", [0.5, 3.0])
    missing = LabelReader(topology(labels={**mapped["labels"], "known_at": "seen"})).read(
        record({"who": 5, "bad": True, "at": 9_500}), NOW
    )
    assert missing == DeadLetter("field 'known_at' (seen) is missing")


def test_judge_refuses_the_basket_in_which_one_line_is_wrong() -> None:
    judge = Judge(topology(BASKET, features=[{"name": "price", "kind": "number"}]))
    wrong = changed("payload", "lines", "1", "price", to="free")
    candidates = [Candidate(orjson.dumps(each)) for each in (ORDER, wrong)]
    assert judge.reasons("interactions", candidates, NOW) == [
        None, "field 'price' ($each.price) must be a number, not 'free'",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"interactions": {"usr": "a"}}, "usr"),
        ({"interactions": {"item": "$each.sku"}}, r"item: \$each is there only where `each`"),
        ({"interactions": {"fields": {"prcie": "a"}}}, "fields.prcie: no feature has this name.*did you mean 'price'"),
        ({"interactions": {"where": "a =="}}, "no JMESPath expression"),
        ({"labels": {"time_zone": "Europe/Berln"}}, "no time zone"),
        ({"labels": {"topics": ["a"]}, "nodes": {"topics": ["a"]}}, "a topic has one role"),
        ({"labels": {"topics": ["embeddings"]}}, "is a topic that workers write"),
        ({"interactions": {"topics": ["a", "a"]}}, "is there twice"),
        ({"interactions": {"topics": ["t" * 60]}}, r"needs 79 bytes.*or say where the id is"),
    ],
)
def test_section_that_is_wrong_is_refused_at_the_start(given: dict[str, Any], message: str) -> None:
    content = {"name": "x", "input": given, "features": [{"name": "price", "kind": "number"}]}
    with pytest.raises(ValidationError, match=f"(?s){message}"):
        Topology.model_validate(content)


EVENT = {
    "format": "cloudevents", "where": "type == 'viewed'", "id": "join('#', [source, id])", "user": "data.customer",
    "item": "subject", "timestamp": "time",
}  # fmt: skip
ATTRIBUTES = {
    "specversion": "1.0", "id": "a1", "source": "/shop", "type": "viewed", "subject": "tea",
    "time": "2024-05-01T10:30:00.123+02:00",
}  # fmt: skip


def binary(value: bytes = b'{"customer": 5}', **changed: str) -> Given:
    attributes = {f"ce_{name}": text for name, text in {**ATTRIBUTES, **changed}.items()}
    pairs = [(name, text.encode()) for name, text in attributes.items()]
    return Given("shop.events", 0, 7, None, value, [*pairs, ("content-type", b"application/json")])


def structured(**changed: Any) -> Given:
    value = orjson.dumps({**ATTRIBUTES, "data": {"customer": 5}, **changed})
    return Given("shop.events", 0, 7, None, value, [("content-type", b"application/cloudevents+json; charset=utf-8")])


@pytest.mark.parametrize("record", [binary(), structured()], ids=["binary", "structured"])
def test_event_is_the_same_interaction_in_both_modes(record: Given) -> None:
    found = InteractionReader(topology(EVENT)).read(record, NOW)
    assert isinstance(found, DecodedInteraction)
    assert found[:4] == (b"/shop#a1", b"u5", b"itea", AT)


@pytest.mark.parametrize(
    ("record", "reason"),
    [
        (Given("shop.events", 0, 7, None, b"{}", []), "not a CloudEvent: "),
        (structured(source=""), "not a CloudEvent: "),
        (binary(b"{"), "not valid JSON"),
        (binary(b"[1]"), "the record must be an object with named fields, not a list"),
        (structured(data={}), "field 'user' (data.customer) is missing"),
        (Given("shop.events", 0, 7, None, b"[]", [("content-type", b"application/cloudevents+json")]), "not a CloudEv"),
    ],
)
def test_what_is_no_event_is_refused(record: Given, reason: str) -> None:
    found = InteractionReader(topology(EVENT)).read(record, NOW)
    assert isinstance(found, DeadLetter)
    assert found.reason.startswith(reason), found.reason


def test_event_of_another_type_is_passed_over() -> None:
    reader = InteractionReader(topology(EVENT))
    assert [reader.read(each(type="sold"), NOW) for each in (binary, structured)] == [PassedOver()] * 2


def test_events_without_their_sdk_say_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cloudevents, "find_spec", lambda _: None)
    with pytest.raises(SettingsError, match=r"pip install 'stream-tgat\[cloudevents\]'"):
        InteractionReader(topology(EVENT))


PAGE = Path(__file__).resolve().parents[2] / "docs" / "input.md"


def test_topologies_of_the_page_are_right_and_its_order_is_read_as_it_says() -> None:
    text = PAGE.read_text()
    blocks = re.findall(r"^```(\w+)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    topologies = [Topology.model_validate(tomllib.loads(block)) for language, block in blocks if language == "toml"]
    (order,) = [block.encode() for language, block in blocks if language == "json"]
    found = InteractionReader(topologies[0]).read(Given("shop.orders", 3, 17, None, order, None), NOW)
    assert isinstance(found, Several)
    assert [each[:4] for each in found.interactions] == [
        (f"shop.orders/3/000000000017/{n}".encode(), b"uc-5", f"i{item}".encode(), 1714552200.123)
        for n, item in enumerate(("tea", "jam"))
    ]
    assert topologies[0].encoder.encode([each.fields for each in found.interactions])[1] == [None, None]
