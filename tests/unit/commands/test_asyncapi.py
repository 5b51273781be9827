"""The AsyncAPI document, held to AsyncAPI's own schema of version 3.0.0."""

from __future__ import annotations

import hashlib
import io
import json
import shutil
import subprocess
import tarfile
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
from broker import CACHE
from click.testing import CliRunner

from stream_tgat.commands.topology import topology_command
from stream_tgat.topology import Topology, load_topology

#: The schema comes with AsyncAPI's own npm package, and is fetched once.
PACKAGE = "@asyncapi/specs@6.11.1"
SHA256 = "01af8744dc33c0c7eb2e908f6a955319ee58b70ecadc9387d1aeb16c0cd28928"
ORDERS = {
    "topics": ["shop.orders", "app.orders"],
    "format": "avro",
    "user": "customer.id",
    "fields": {"price": "$each.price"},
    "each": "lines",
}


@pytest.fixture(scope="module")
def validator() -> Any:
    packed = CACHE.parent / "asyncapi" / "asyncapi-specs-6.11.1.tgz"
    if not packed.is_file():
        if shutil.which("npm") is None:
            pytest.skip("AsyncAPI's schema comes with its npm package, and `npm` is missing")
        packed.parent.mkdir(parents=True, exist_ok=True)
        subprocess.run(["npm", "pack", "--silent", PACKAGE], cwd=packed.parent, check=True, timeout=120)
    content = packed.read_bytes()
    assert hashlib.sha256(content).hexdigest() == SHA256
    with tarfile.open(fileobj=io.BytesIO(content)) as archive:
        schema = archive.extractfile("package/schemas/3.0.0.json")
        assert schema is not None
        return jsonschema_rs.validator_for(json.load(schema))


def document(topology: Topology) -> Any:
    made = CliRunner().invoke(topology_command(topology), ["asyncapi"])
    assert made.exit_code == 0, made.output
    return json.loads(made.stdout)


def resolve(whole: Any, part: Any) -> None:
    """Every reference leads somewhere."""
    if isinstance(part, dict):
        if "$ref" in part:
            at = whole
            for step in part["$ref"].removeprefix("#/").split("/"):
                at = at[step]
        for inner in part.values():
            resolve(whole, inner)
    elif isinstance(part, list):
        for inner in part:
            resolve(whole, inner)


@pytest.mark.parametrize(
    "changed",
    [
        {},
        {"input": {"interactions": ORDERS}, "schema_registry": {"url": "http://registry"}},
        {"kafka": {"output_format": "msgpack", "topic_prefix": "x.", "bootstrap_servers": "a:1,b:2"}},
        {"serving": {"latest": True}},
        {
            "kafka": {"output_format": "avro"},
            "serving": {"latest": True},
            "schema_registry": {"url": "http://registry"},
        },
        {"kafka": {"security_protocol": "sasl_ssl", "sasl_mechanism": "SCRAM-SHA-512", "sasl_username": "ann"}},
    ],
)
def test_document_is_valid(validator: Any, changed: dict[str, Any]) -> None:
    features = [
        {"name": "price", "kind": "number", "default": 0.0},
        {"name": "channel", "kind": "category", "values": ["web"]},
        {"name": "first", "kind": "flag"},
        {"name": "text", "kind": "vector", "size": 3},
    ]
    found = document(Topology.model_validate({"name": "shop", "features": features, **changed}))
    errors = [f"{each.instance_path}: {each.message}" for each in validator.iter_errors(found)]
    assert not errors
    resolve(found, found)


def test_document_without_a_server_is_not_valid(validator: Any) -> None:
    """The validator does see what is wrong."""
    found = document(Topology(name="shop"))
    found["servers"]["broker1"].pop("host")
    assert not validator.is_valid(found)


@pytest.mark.parametrize("name", sorted(path.stem for path in Path("topologies").glob("*.toml")))
def test_document_of_each_topology_is_valid(validator: Any, name: str) -> None:
    assert validator.is_valid(document(load_topology(name)))


def test_document_says_what_is_sent_and_received() -> None:
    found = document(Topology.model_validate({"name": "x", "features": [{"name": "price", "kind": "number"}]}))
    actions = {name: each["action"] for name, each in found["operations"].items()}
    assert actions == {
        "send_interactions": "send", "send_nodes": "send", "send_labels": "send", "receive_embeddings": "receive",
        "receive_alerts": "receive", "receive_dead-letters": "receive", "receive_models": "receive",
        "receive_quality": "receive",
    }  # fmt: skip
    interaction = found["components"]["schemas"]["Interaction"]
    assert interaction["properties"]["price"] == {"type": "number"}
    assert "price" in interaction["required"]
    assert found["channels"]["embeddings"]["bindings"]["kafka"]["partitions"] == 8


def test_topics_of_others_are_there_with_what_is_taken_of_them() -> None:
    features = [{"name": "price", "kind": "number"}]
    content = {
        "name": "x",
        "input": {"interactions": ORDERS},
        "schema_registry": {"url": "http://r"},
        "features": features,
    }
    found = document(Topology.model_validate(content))
    assert {"shop_orders", "app_orders"} <= set(found["channels"])
    assert found["channels"]["shop_orders"]["bindings"]["kafka"] == {"topic": "shop.orders"}
    message = found["components"]["messages"]["interaction"]
    assert "avro" in message["description"]
    assert "customer.id" in message["description"]
    assert "payload" not in message
