"""`topology init`: from records to a topology that reads them."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pytest
from click.testing import CliRunner

from stream_tgat.commands.drafting import draft
from stream_tgat.commands.topology import topology_command
from stream_tgat.errors import DataError
from stream_tgat.topology import Topology, load_topology
from stream_tgat.wire import DecodedInteraction, Given, InteractionReader, Several


def orders(count: int = 300) -> list[dict[str, Any]]:
    random = np.random.default_rng(2)
    found = []
    for n in range(count):
        lines = [
            {"sku": f"s-{random.integers(40)}", "unit-price": round(float(random.lognormal(2, 2)), 2)}
            for _ in range(int(random.integers(1, 4)))
        ]
        customer = {"id": int(random.integers(60)), "name": f"name {n}", "country": ["de", "fr", "it"][n % 3]}
        body = {"created": 1_714_552_200_123 + 60_000 * n, "customer": customer, "lines": lines, "gift": n % 5 == 0}
        found.append({"type": "order" if n % 9 else "refund", "order_id": f"o-{n}", "payload": body})
    return found


def test_nested_orders_become_a_topology_that_reads_them() -> None:
    made = draft(orders(), "shop", "shop.orders")
    section = made.topology.input.interactions
    assert (section.each, section.user, section.item) == ("payload.lines", "payload.customer.id", "$each.sku")
    assert (section.timestamp, section.time_unit) == ("payload.created", "ms")
    assert section.id == "join('-', [to_string(order_id), to_string($index)])"
    assert """# where = "type == 'order'\"""" in made.text
    features = {feature.name: feature for feature in made.topology.features}
    assert {name: feature.kind for name, feature in features.items()} == {
        "type": "category", "country": "category", "gift": "flag", "unit-price": "number",
    }  # fmt: skip
    assert features["unit-price"].log1p  # type: ignore[union-attr]
    assert set(features["country"].values) == {"de", "fr", "it"}  # type: ignore[union-attr,arg-type]
    read = InteractionReader(made.topology)
    for n, order in enumerate(orders(40)):
        found = read.read(Given("shop.orders", 0, n, None, orjson.dumps(order), None), 1.8e9)
        assert isinstance(found, Several)
        assert len(found.interactions) == len(order["payload"]["lines"])
        assert made.topology.encoder.encode([each.fields for each in found.interactions])[1] == [None] * len(
            found.interactions
        )


def test_what_could_be_chosen_otherwise_is_named() -> None:
    records = [
        {
            "meta": {"emitted_at": 1_714_552_200_500 + n, "trace": f"{n * 7919:08x}"},
            "booking": {"reference": f"B{n:05d}", "guest": f"g-{n % 30}", "hotel": f"H{n % 20}", "since": 2015 + n % 9},
            "ts": 1_714_552_200_000 + n,
        }
        for n in range(100)
    ]
    made = draft(records, "stays", "stays")
    assert "# Different in each record: meta.trace or booking.reference." in made.text
    assert re.search(r'^timestamp = "meta.emitted_at" .*; also a time: ts$', made.text, re.MULTILINE)
    (since,) = made.topology.features
    assert since.name == "since"
    assert not since.log1p, "a year is a large number of a narrow span"  # type: ignore[union-attr]


def test_records_of_the_contract_need_no_mapping() -> None:
    records = [
        {"user": f"u{n % 7}", "item": f"i{n % 5}", "timestamp": "2024-05-01T08:30:00Z", "price": n % 3, "id": n}
        for n in range(50)
    ]
    made = draft(records, "x", None)
    assert made.topology.input.interactions.is_contract
    assert [feature.name for feature in made.topology.features] == ["price"]


def test_field_that_some_records_lack_is_proposed_and_what_never_changes_is_left_out() -> None:
    """All records that it was made of are taken."""
    records = [
        {"user": n % 7, "item": n % 5, "timestamp": 1_714_552_200 + n, "shop": "web", "price": 1.5 * n}
        | ({"points": n % 4} if n % 3 else {})
        for n in range(90)
    ]
    made = draft(records, "x", None)
    assert [feature.name for feature in made.topology.features] == ["price"]
    assert made.topology.model.pair_features
    proposed = re.sub(r"^# (?=\[\[features|name = .points|kind|default)", "", made.text, flags=re.MULTILINE)
    with_points = Topology.model_validate(tomllib.loads(proposed))
    assert [feature.name for feature in with_points.features] == ["price", "points"]
    read = InteractionReader(made.topology)
    for n, record in enumerate(records):
        found = read.read(Given("interactions", 0, n, None, orjson.dumps(record), None), 1.8e9)
        assert isinstance(found, DecodedInteraction)
        assert made.topology.encoder.encode([found.fields])[1] == [None]


def test_names_that_say_nothing_are_guessed_and_said_to_be() -> None:
    records = [
        {
            "ride": f"r{n}",
            "rider": {"nr": n % 30},
            "dock": f"d{n * 7 % 11}",
            "town": f"t{n % 2}",
            "at": 1_714_552_200 + n,
        }
        for n in range(90)
    ]
    made = draft(records, "rides", "rides")
    section = made.topology.input.interactions
    assert (section.user, section.item, section.id) == ("rider.nr", "dock", "")
    assert made.text.count("a guess, as no name says it") == 2


def test_people_who_write_to_each_other_are_one_kind_of_node() -> None:
    records = [{"sender": n % 9, "receiver": (n * 4 + 1) % 9, "ts": 1_714_552_200 + n} for n in range(80)]
    made = draft(records, "mail", "mail")
    assert made.topology.graph.bipartite is False
    assert (made.topology.input.interactions.user, made.topology.input.interactions.item) == ("sender", "receiver")


@pytest.mark.parametrize(
    ("record", "reason"),
    [
        ({"sender": 1, "item": 2}, "no field of all records is plainly a time"),
        ({"x": 1, "item": 2, "ts": 1_714_552_200}, "no field says by its name who acted; what could be an id: x"),
        ({"user": 1, "x": "b", "ts": 1_714_552_200}, "no field says by its name on what"),
    ],
)
def test_what_cannot_be_told_is_said(record: dict[str, Any], reason: str) -> None:
    with pytest.raises(DataError, match=reason):
        draft([record] * 5, "x", None)


def test_file_becomes_a_topology_that_loads(tmp_path: Path) -> None:
    file, out = tmp_path / "clicks.csv", tmp_path / "clicks.toml"
    rows = "".join(f"{n % 7},p{n % 4},{1_714_552_200_000 + n},{n * 3.5}\n" for n in range(60))
    file.write_text("customer_id,product,created_ms,amount\n" + rows)
    arguments = ["init", str(file), "--out", str(out)]
    for expected in (0, 1):  # what is there is never overwritten
        result = CliRunner().invoke(topology_command(Topology(name="any")), arguments)
        assert result.exit_code == expected, result.output
    assert "is there already" in result.output
    section = load_topology(out).input.interactions
    assert (section.user, section.item, section.timestamp, section.time_unit) == (
        "customer_id", "product", "created_ms", "ms",
    )  # fmt: skip
    value = orjson.dumps({"customer_id": 5, "product": "p1", "created_ms": 1_714_552_200_500, "amount": 1.5})
    found = InteractionReader(load_topology(out)).read(Given("interactions", 0, 0, None, value, None), 1.8e9)
    assert isinstance(found, DecodedInteraction)
    assert found.timestamp == 1_714_552_200.5


def test_init_wants_a_topic_or_a_file() -> None:
    result = CliRunner().invoke(topology_command(Topology(name="any")), ["init"])
    assert result.exit_code == 2
    assert "name either a topic" in result.output
