"""Avro, Protobuf and JSON Schema, by a real registry and what Confluent's own serializers write and read."""

from __future__ import annotations

import json
import socket
import threading
from datetime import UTC, datetime
from decimal import Decimal
from http.server import BaseHTTPRequestHandler, HTTPServer
from types import SimpleNamespace
from typing import Any

import numpy as np
import orjson
import pytest
from confluent_kafka.schema_registry import Schema, SchemaReference
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from stream_tgat.client import RegisteredValues, read_alerts, read_embeddings, read_latest
from stream_tgat.errors import AccessError, SettingsError, TopologyError, UnreachableRegistryError, WireError
from stream_tgat.schema_registry import SchemaRegistry
from stream_tgat.topology import Topology, load_topology
from stream_tgat.wire import (
    AlertEncoder,
    DeadLetter,
    DecodedInteraction,
    EmbeddingEncoder,
    Given,
    InteractionReader,
    LatestEncoder,
    OutputDecoder,
    register_output_schemas,
)
from tests.registry import RunningRegistry

NOW = 1_800_000_000.0
AT = 1_714_552_200.123
VIEW = {
    "type": "record",
    "name": "View",
    "fields": [
        {"name": "who", "type": {"type": "record", "name": "Who", "fields": [{"name": "id", "type": "long"}]}},
        {"name": "sku", "type": "string"},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
    ],
}
INPUT = {"user": "who.id", "item": "sku", "timestamp": "at", "time_unit": "ms", "fields": {"price": "price"}}


def reader(registry: RunningRegistry, topic: str, form: str, **changed: Any) -> InteractionReader:
    given = {"topics": [topic], "format": form, **INPUT, **changed}
    return InteractionReader(
        Topology.model_validate(
            {
                "name": "x",
                "schema_registry": {"url": registry.url},
                "input": {"interactions": given},
                "features": [{"name": "price", "kind": "number"}],
            }
        )
    )


def lying(topic: str, value: bytes, key: bytes | None = None) -> Given:
    return Given(topic, 0, 0, key, value, ())


def avro(registry: RunningRegistry, topic: str, schema: Any, content: Any, field: Any = MessageField.VALUE) -> bytes:
    """As a producer of Confluent's library writes it, which registers the schema."""
    serializer = AvroSerializer(registry.client, json.dumps(schema))
    written: bytes = serializer(content, SerializationContext(topic, field))
    return written


def view(**changed: Any) -> dict[str, Any]:
    return {"who": {"id": 5}, "sku": "tea", "at": datetime.fromtimestamp(AT, UTC), "price": 2.5, **changed}


def test_avro_of_confluents_producer_is_read(registry: RunningRegistry, topic_prefix: str) -> None:
    topic = f"{topic_prefix}views"
    value = avro(registry, topic, VIEW, view(price=Decimal("2.50")))
    found = reader(registry, topic, "avro").read(lying(topic, value), NOW)
    assert isinstance(found, DecodedInteraction)
    assert (found.user, found.item, found.timestamp, found.fields["price"]) == (b"u5", b"itea", AT, 2.5)


def test_avro_keys_are_read(registry: RunningRegistry, topic_prefix: str) -> None:
    topic = f"{topic_prefix}views"
    schema = {"type": "record", "name": "Key", "fields": [{"name": "customer", "type": "string"}]}
    plain = {**VIEW, "fields": [*VIEW["fields"][:3], {"name": "price", "type": "double"}]}
    value = avro(registry, topic, plain, view())
    reads = reader(registry, topic, "avro", user="$key.customer")
    key = avro(registry, topic, schema, {"customer": "ann"}, MessageField.KEY)
    record = lying(topic, value, key)
    assert reads.lacks([record])
    reads.fetch([record])
    assert not reads.lacks([record])
    assert reads.read(record, NOW)[1] == b"uann"
    as_text = reader(registry, topic, "avro", user="$key").read(lying(topic, value, b"bob"), NOW)
    assert as_text[1] == b"ubob"


def test_json_schema_is_read(registry: RunningRegistry, topic_prefix: str) -> None:
    topic = f"{topic_prefix}views"
    schema = {"title": "View", "type": "object", "properties": {"sku": {"type": "string"}}}
    number = registry.client.register_schema(f"{topic}-value", Schema(json.dumps(schema), "JSON"))
    head, content = b"\0" + number.to_bytes(4, "big"), {"who": {"id": 5}, "at": round(AT * 1000), "price": 2.5}
    reads = reader(registry, topic, "json_schema")
    found = reads.read(lying(topic, head + json.dumps({**content, "sku": "tea"}).encode()), NOW)
    assert found[1:4] == (b"u5", b"itea", AT)
    wrong = reads.read(lying(topic, head + json.dumps({**content, "sku": 7}).encode()), NOW)
    assert wrong.reason.startswith("not valid by this schema: sku: 7 is not of type")


def test_protobuf_with_a_registered_import_is_read(registry: RunningRegistry, topic_prefix: str) -> None:
    from google.protobuf.descriptor_pool import DescriptorPool
    from google.protobuf.message_factory import GetMessageClass

    from stream_tgat.schema_registry.protobuf import compiled

    topic = f"{topic_prefix}views"
    who = f'syntax = "proto3"; package {topic_prefix[:-1]}; message Who {{ int64 id = 1; }}'
    text = (
        f'syntax = "proto3"; package {topic_prefix[:-1]}; import "who.proto"; '
        'import "google/protobuf/timestamp.proto"; message Other {} '
        "message View { Who who = 1; string sku = 2; google.protobuf.Timestamp at = 3; optional float price = 4; }"
    )
    client = registry.client
    client.register_schema(f"{topic_prefix}who", Schema(who, "PROTOBUF"))
    reference = SchemaReference("who.proto", f"{topic_prefix}who", 1)
    number = client.register_schema(f"{topic}-value", Schema(text, "PROTOBUF", [reference]))
    pool = DescriptorPool()
    for file in compiled(SchemaRegistry(registry.url).schema(number)).file:
        pool.Add(file)
    message = GetMessageClass(pool.FindMessageTypeByName(f"{topic_prefix[:-1]}.View"))(sku="tea")
    message.who.id = 5
    message.at.FromNanoseconds(round(AT * 1e3) * 1_000_000)
    head = b"\0" + number.to_bytes(4, "big") + bytes([2, 2])
    reads = reader(registry, topic, "protobuf")
    without = reads.read(lying(topic, head + message.SerializeToString()), NOW)
    assert without.reason == "field 'price' (price) is missing"
    message.price = 0.0
    found = reads.read(lying(topic, head + message.SerializeToString()), NOW)
    assert (*found[1:4], found.fields["price"]) == (b"u5", b"itea", AT, 0.0)


def test_schema_that_changes_upstream_works_or_is_told_and_nothing_is_made_up(
    registry: RunningRegistry, topic_prefix: str
) -> None:
    """A field more is as good as none; one that has gone, or has another name, is missing, whatever its default was."""
    topic, client = f"{topic_prefix}views", registry.client
    fields = [*VIEW["fields"][:3], {"name": "price", "type": "double", "default": 0.0}]
    first = {**VIEW, "fields": fields}
    added = {**VIEW, "fields": [*fields, {"name": "shop", "type": "string", "default": "web"}]}
    removed = {**VIEW, "fields": fields[:3]}
    renamed = {**VIEW, "fields": [*fields[:3], {"name": "amount", "type": "double", "aliases": ["price"]}]}
    reads = reader(registry, topic, "avro")

    def read(schema: Any, **content: Any) -> Any:
        client.set_compatibility(f"{topic}-value", "NONE")
        return reads.read(lying(topic, avro(registry, topic, schema, content)), NOW)

    base = {"who": {"id": 5}, "sku": "tea", "at": datetime.fromtimestamp(AT, UTC)}
    avro(registry, topic, first, {**base, "price": 2.5})
    assert read(first, **base, price=2.5).fields["price"] == 2.5
    assert read(added, **base, price=2.5, shop="app").fields["price"] == 2.5
    assert read(removed, **base).reason == "field 'price' (price) is missing"
    assert read(renamed, **base, amount=2.5).reason == "field 'price' (price) is missing"
    assert read(first, **base, price=3.5).fields["price"] == 3.5


def test_what_is_wrong_with_a_value_is_a_dead_letter(registry: RunningRegistry, topic_prefix: str) -> None:
    topic = f"{topic_prefix}views"
    reads = reader(registry, topic, "avro")
    number = registry.client.register_schema(
        f"{topic}-value", Schema('{"$schema": "http://json-schema.org/draft-07/schema#", "type": "object"}', "JSON")
    )
    for value, reason in (
        (b'{"user": 5}', "not in the wire format of a schema registry"),
        (b"\0\x7f\xff\xff\xff\0", "schema 2147483647: the schema registry does not know it"),
        (b"\0" + number.to_bytes(4, "big") + b"{}", f"schema {number}: is JSON, but format says AVRO"),
    ):
        found = reads.read(lying(topic, value), NOW)
        assert isinstance(found, DeadLetter)
        assert found.reason.startswith(reason)


def test_registry_that_is_away_is_no_dead_letter(registry: RunningRegistry, topic_prefix: str) -> None:
    topic = f"{topic_prefix}views"
    value = avro(registry, topic, {**VIEW, "fields": VIEW["fields"][:3]}, view())
    reads = reader(registry, topic, "avro")
    with registry.hanging(), pytest.raises(UnreachableRegistryError, match=r"does not answer \(timed out\)"):
        reads.read(lying(topic, value), NOW)
    assert reads.read(lying(topic, value), NOW).reason == "field 'price' (price) is missing"
    with registry.hanging():
        assert reads.read(lying(topic, value), NOW).reason == "field 'price' (price) is missing"
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{nobody.getsockname()[1]}"
        with pytest.raises(UnreachableRegistryError, match=rf"{url} does not answer \(.*refused"):
            SchemaRegistry(url).schema(1)


def test_address_that_is_none_of_a_registry_is_told(registry: RunningRegistry) -> None:
    with pytest.raises(
        SettingsError, match=r"answers HTTP 404, as no schema registry does; look at schema_registry\.url"
    ):
        SchemaRegistry(registry.url.removesuffix("/v7")).schema(1)
    with pytest.raises(WireError, match="does not know it"):
        SchemaRegistry(registry.url).schema(2**31 - 1)


@pytest.mark.parametrize(
    ("status", "body", "error", "told"),
    [
        (401, b"{}", AccessError, "does not let this client in"),
        (503, b"busy", UnreachableRegistryError, "HTTP 503"),
        (429, b"", UnreachableRegistryError, "HTTP 429"),
        (200, b"<html>", SettingsError, "no schema registry"),
        (200, b"[]", SettingsError, "no schema registry"),
    ],
)
def test_other_answers(status: int, body: bytes, error: type[Exception], told: str) -> None:
    """By a small server: a registry of our own cannot be made to say all this."""
    logins: list[str | None] = []

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            logins.append(self.headers["Authorization"])
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Answer) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        with pytest.raises(error, match=told) as raised:
            SchemaRegistry(f"http://127.0.0.1:{server.server_port}", "ann", "horse:battery").schema(1)
        server.shutdown()
    assert logins == ["Basic YW5uOmhvcnNlOmJhdHRlcnk="]
    assert "battery" not in str(raised.value)


def test_topology_needs_a_registry_and_its_secret(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "x.toml"
    file.write_text('name = "x"\n[input.labels]\ntopics = ["a"]\nformat = "avro"\n')
    with pytest.raises(TopologyError, match=r"schema_registry\.url: is missing, and input\.labels\.format needs it"):
        load_topology(file)
    monkeypatch.setenv("SCHEMA_REGISTRY_URL", "http://registry:8081")
    assert load_topology(file).schema_registry.url == "http://registry:8081"
    monkeypatch.setenv("SCHEMA_REGISTRY_USERNAME", "ann")
    with pytest.raises(TopologyError, match="set the environment variable SCHEMA_REGISTRY_PASSWORD"):
        load_topology(file)
    monkeypatch.setenv("SCHEMA_REGISTRY_URL", "http://ann:x@registry:8081")
    with pytest.raises(TopologyError, match="a login never stands in it"):
        load_topology(file)


def with_outputs(registry: RunningRegistry, prefix: str, form: str) -> Topology:
    return Topology.model_validate(
        {
            "name": "x",
            "kafka": {"output_format": form, "topic_prefix": prefix},
            "serving": {"latest": True},
            "schema_registry": {"url": registry.url},
            "heads": [{"name": "returns"}, {"name": "churns"}],
        }
    )


def written(topology: Topology) -> dict[str, bytes]:
    """One record of each kind, by the topic's suffix; the item's embedding is as "item"."""
    schemas = register_output_schemas(topology)
    both = {"interaction": "tee/é".encode(), "timestamp": AT, "model": 12}
    ends = both | {"node": b"uann", "peer": b"itea"}
    embeddings = EmbeddingEncoder(topology, schemas)
    probabilities, vector = np.array([0.25, 0.123456789], np.float32), np.arange(300, dtype=np.float32)[::2] / 7
    other = {"node": b"itea", "peer": b"uann", "side": 1, "embedding": np.zeros(0, np.float32), "late": True}
    alert = AlertEncoder(topology, schemas).encode(
        **ends, head="returns", probability=0.75, threshold=0.5, because=[(b"ijam", b"p0", 1.5, 0.125)]
    )
    user = embeddings.encode(**ends, side=0, embedding=vector, predictions=probabilities, late=False)
    latest = LatestEncoder(topology, schemas).encode(
        node=b"uann", timestamp=AT, interactions=300, probability=np.array([0.5, np.nan]), is_complete=True,
        model=12, embedding=vector,
    )  # fmt: skip
    return {
        "embeddings": user[1],
        "item": embeddings.encode(**both, **other, predictions=probabilities)[1],
        "alerts": alert[1],
        "latest": latest[1],
    }


def test_outputs_in_avro_hold_what_they_hold_in_json(registry: RunningRegistry, topic_prefix: str) -> None:
    topology = with_outputs(registry, topic_prefix, "avro")
    avro, plain = written(topology), written(with_outputs(registry, topic_prefix, "json"))
    read = AvroDeserializer(registry.client)
    for name, value in avro.items():
        topic = f"{topic_prefix}{'embeddings' if name == 'item' else name}"
        found: Any = read(value, SerializationContext(topic, MessageField.VALUE))
        expected = {"late": False} if topic.endswith("embeddings") else {}
        expected |= orjson.loads(plain[name])
        vector, other = (np.array(each.pop("embedding", []), np.float32) for each in (found, expected))
        np.testing.assert_array_equal(vector, other)
        assert found == expected
    subjects = [each for each in registry.client.get_subjects() if each.startswith(topic_prefix)]
    assert sorted(subjects) == [f"{topic_prefix}{name}-value" for name in ("alerts", "embeddings", "latest")]


def test_outputs_in_avro_are_read_by_the_client_and_by_ourselves(registry: RunningRegistry, topic_prefix: str) -> None:
    topology = with_outputs(registry, topic_prefix, "avro")
    avro, plain = written(topology), written(with_outputs(registry, topic_prefix, "json"))
    schemas = RegisteredValues(SchemaRegistry(registry.url))
    for read, name in (
        (read_embeddings, "embeddings"),
        (read_embeddings, "item"),
        (read_alerts, "alerts"),
        (read_latest, "latest"),
    ):
        (found,), (expected,) = (read([SimpleNamespace(value=each[name])], schemas) for each in (avro, plain))
        assert repr(found) == repr(expected)
    with pytest.raises(SettingsError, match="this record is Avro: say where its schemas are"):
        next(read_alerts([SimpleNamespace(value=avro["alerts"])]))
    decoder, before = OutputDecoder(topology), OutputDecoder(with_outputs(registry, topic_prefix, "json"))
    assert decoder.embedding(avro["embeddings"], None) == before.embedding(plain["embeddings"], None)
    assert decoder.alert(avro["alerts"], None) == before.alert(plain["alerts"], None)
    np.testing.assert_array_equal(decoder.vector(avro["latest"], None), before.vector(plain["latest"], None))
    with pytest.raises(WireError, match="not Avro of this schema"):
        decoder.embedding(avro["embeddings"][:-9], None)
    with pytest.raises(WireError, match=r"the topology has no \[schema_registry\]"):
        OutputDecoder(Topology(name="x")).embedding(avro["embeddings"], None)


def test_schema_that_is_there_is_not_registered_again(registry: RunningRegistry, topic_prefix: str) -> None:
    """So a worker needs no right to register where somebody else has done it."""
    topology = with_outputs(registry, topic_prefix, "avro")
    first = register_output_schemas(topology)
    assert register_output_schemas(topology) == first
    assert registry.client.get_versions(f"{topic_prefix}embeddings-value") == [1]
    assert register_output_schemas(with_outputs(registry, topic_prefix, "json")) is None
