"""The topics of a deployment as an AsyncAPI 3 document, made from its topology and the models of `wire`."""

from __future__ import annotations

from typing import Any, Final

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from stream_tgat.brokers import addresses
from stream_tgat.commands.topics import topic_specs
from stream_tgat.features import CategoryFeature, Feature, FlagFeature, NumberFeature
from stream_tgat.topology import Topology
from stream_tgat.wire import models
from stream_tgat.wire.formats import CONTENT_TYPES
from stream_tgat.wire.output_schemas import AVRO_RECORDS, avro_schema

_REFERENCES: Final = "#/components/schemas/{model}"
_KEY: Final = {
    "type": "string",
    "description": "The node: its kind and id, as in user/ann; its id alone where the topology's output_key says so.",
}

#: By the role of a topic: the message, the model of its value, that of its headers, and what a client does with it.
_MESSAGES: Final[dict[str, tuple[str, type[BaseModel] | None, type[BaseModel] | None, str]]] = {
    "interactions": ("interaction", models.Interaction, None, "send"),
    "nodes": ("nodeFeatures", models.NodeFeatures, None, "send"),
    "labels": ("label", models.Label, None, "send"),
    "embeddings": ("embedding", models.Embedding, models.OutputHeaders, "receive"),
    "alerts": ("alert", models.Alert, models.OutputHeaders, "receive"),
    "latest": ("latest", models.Latest, None, "receive"),
    "dead_letters": ("deadLetter", None, models.DeadLetterHeaders, "receive"),
    "models": ("promotion", models.ModelRecord, None, "receive"),
    "quality": ("qualityReport", models.QualityReport, None, "receive"),
}
#: What may be Avro, and the name of its schema.
_AVRO: Final = {"embeddings": "embedding", "alerts": "alert", "latest": "latest"}
_AVRO_FORMAT: Final = "application/vnd.apache.avro;version=1.9.0"
_REGISTERED: Final = {
    "schemaIdLocation": "payload",
    "schemaIdPayloadEncoding": "confluent",
    "schemaLookupStrategy": "TopicNameStrategy",
}
_KEYED: Final = frozenset({"embeddings", "alerts", "latest"})


def asyncapi(topology: Topology) -> dict[str, Any]:
    """The document, of a client's side: it sends what workers read, and receives what they write.

    Internal topics are left out. A topic of others is there with what the topology takes of it.
    """
    specs = {spec.name: spec for spec in topic_specs(topology)}
    channels, operations, messages = {}, {}, {}
    for role, (name, value, headers, action) in _MESSAGES.items():
        topics = topology.input_topics(role) if action == "send" else (getattr(topology.topics, role),)  # type: ignore[arg-type]
        if topics[0] not in specs:
            continue  # this topology does without
        messages[name] = _message(topology, role, value, headers)
        for topic in topics:
            spec, channel = specs[topic], topic.replace(".", "_")
            channels[channel] = {
                "address": topic,
                "description": spec.purpose[:1].upper() + spec.purpose[1:],
                "messages": {name: {"$ref": f"#/components/messages/{name}"}},
                "bindings": {"kafka": {"topic": topic, **({} if spec.is_foreign else {"partitions": spec.partitions})}},
            }
            operations[f"{action}_{channel}"] = {
                "action": action,
                "channel": {"$ref": f"#/channels/{channel}"},
                "messages": [{"$ref": f"#/channels/{channel}/messages/{name}"}],
            }
    return {
        "asyncapi": "3.0.0",
        "info": {
            "title": f"Streaming TGAT: {topology.name}",
            "version": models.SCHEMA_VERSION,
            "description": "Interactions in; embeddings, predictions and alerts of users and items out.",
        },
        "defaultContentType": CONTENT_TYPES["json"],
        "servers": _servers(topology),
        "channels": channels,
        "operations": operations,
        "components": {"messages": messages, "schemas": _schemas(topology)},
    }


def _servers(topology: Topology) -> dict[str, Any]:
    kafka = topology.kafka
    server: dict[str, Any] = {"protocol": "kafka-secure" if kafka.has_tls else "kafka"}
    if kafka.has_login:
        kind = {"PLAIN": "plain", "SCRAM-SHA-256": "scramSha256", "SCRAM-SHA-512": "scramSha512"}
        server["security"] = [{"type": kind[kafka.sasl_mechanism]}]
    return {f"broker{number}": {"host": host, **server} for number, host in enumerate(addresses(kafka), 1)}


def _message(
    topology: Topology, role: str, value: type[BaseModel] | None, headers: type[BaseModel] | None
) -> dict[str, Any]:
    message: dict[str, Any] = {"summary": _MESSAGES[role][0]}
    section = getattr(topology.input, role, None)
    if section is not None and not section.is_contract:
        taken = section.sources | getattr(section, "fields", {})
        where = "; ".join(f"{name}: {source}" for name, source in taken.items())
        message["description"] = (
            f"Of others, in the format {section.format}. The topology takes {where or 'all of it'}."
        )
        return message
    if role == "dead_letters":
        message["description"] = "The record that was refused, byte by byte; its reason and place are in the headers."
        message["contentType"] = "application/octet-stream"
    elif role in _KEYED:
        message["contentType"] = CONTENT_TYPES[topology.kafka.output_format]
    is_avro = role in _AVRO and topology.kafka.output_format == "avro"
    if is_avro:
        message["payload"] = {"schemaFormat": _AVRO_FORMAT, "schema": avro_schema(AVRO_RECORDS[_AVRO[role]])}
    elif value is not None:
        message["payload"] = {"$ref": _REFERENCES.format(model=value.__name__)}
    if headers is not None:
        message["headers"] = {"$ref": _REFERENCES.format(model=headers.__name__)}
    if role in _KEYED:
        message["bindings"] = {"kafka": {"key": _KEY, **(_REGISTERED if is_avro else {})}}
    return message


def _schemas(topology: Topology) -> dict[str, Any]:
    """The models by their names, and the topology's features among the fields of interactions."""
    wanted = {model for _, value, headers, _ in _MESSAGES.values() for model in (value, headers) if model is not None}
    given = [(model, "validation") for model in sorted(wanted, key=lambda model: model.__name__)]
    _, made = models_json_schema(given, ref_template=_REFERENCES)  # type: ignore[arg-type]
    found: dict[str, Any] = made["$defs"]
    interaction = found["Interaction"]
    for feature in topology.features:
        interaction["properties"][feature.name] = _feature(feature)
        if getattr(feature, "default", None) is None:
            interaction["required"].append(feature.name)
    return found


def _feature(feature: Feature) -> dict[str, Any]:
    default = getattr(feature, "default", None)
    said = {} if default is None else {"default": default}
    if isinstance(feature, NumberFeature):
        return {"type": "number", **said}
    if isinstance(feature, FlagFeature):
        return {"type": ["boolean", "integer"], "enum": [True, False, 1, 0], **said}
    if isinstance(feature, CategoryFeature):
        known = {"examples": list(feature.values)} if feature.values else {}
        return {"type": ["string", "integer"], **known, **said}
    return {"type": "array", "items": {"type": "number"}, "minItems": feature.size, "maxItems": feature.size}
