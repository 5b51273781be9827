"""Avro schemas of what workers write, made of the same models as the JSON Schemas, and their ids in a registry.

Of each topic there is one schema, whatever the topology: predictions are a map by head, and a vector has any length. So
a model with other heads, or of another width, needs no new version.
"""

import inspect
import types
from dataclasses import dataclass
from typing import Any, Final, Literal, Union, get_args, get_origin

import orjson
from pydantic import BaseModel

from stream_tgat.schema_registry import require
from stream_tgat.topology import Topology
from stream_tgat.wire import models
from stream_tgat.wire.values import schema_registry

VECTOR: Final = "embedding"
"""The field that holds a vector, the last one of its schema: see `schema_registry.AvroWriter`."""

AVRO_RECORDS: Final[dict[str, type[BaseModel]]] = {
    "embedding": models.Embedding,
    "alert": models.Alert,
    "latest": models.Latest,
}
"""What may be written as Avro, by its name."""

_NAMESPACE: Final = "stream_tgat"
_SCALARS: Final = {str: "string", int: "long", float: "double", bool: "boolean"}


def avro_schema(model: type[BaseModel]) -> dict[str, Any]:
    """The Avro schema of a record's model."""
    names = sorted(model.model_fields, key=lambda name: name == VECTOR)  # the vector is the last
    return {
        "type": "record",
        "name": model.__name__,
        "namespace": _NAMESPACE,
        "doc": " ".join(inspect.getdoc(model).split()),  # type: ignore[union-attr]
        "fields": [_field(name, model.model_fields[name]) for name in names],
    }


@dataclass(frozen=True)
class OutputSchemas:
    """The registry's ids of the schemas of what is written to the topics; 0 for a topic that is not written."""

    embeddings: int
    alerts: int
    latest: int


def register_output_schemas(topology: Topology) -> OutputSchemas | None:
    """The ids of the schemas of a deployment's outputs, which are registered where they are not yet; None if not Avro.

    A topic's schema has the subject that Confluent's serializers give it: its name and "-value".
    UnreachableRegistryError, AccessError or SettingsError, which says what is wrong, if the registry has no id for one.
    """
    if topology.kafka.output_format != "avro":
        return None
    require("avro")
    registry, topics = schema_registry(topology.schema_registry), topology.topics

    def registered(topic: str, name: str) -> int:
        return registry.register(f"{topic}-value", orjson.dumps(avro_schema(AVRO_RECORDS[name])).decode())

    return OutputSchemas(
        embeddings=registered(topics.embeddings, "embedding"),
        alerts=registered(topics.alerts, "alert"),
        latest=registered(topics.latest, "latest") if topology.serving.latest else 0,
    )


def _field(name: str, field: Any) -> dict[str, Any]:
    made = {"name": name, "type": _type(name, field.annotation)}
    if not field.is_required():
        made["default"] = field.default
    if field.description:
        made["doc"] = field.description
    return made


def _type(name: str, hint: Any) -> Any:
    """The Avro type of a field. Raises where a model has got a type that is not known here."""
    if hint in _SCALARS:
        return _SCALARS[hint]
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        # Null comes first, as it is the default.
        (one,) = (each for each in arguments if each is not type(None))
        return ["null", _type(name, one)]
    if origin is Literal:
        return "string"
    if origin is dict:
        return {"type": "map", "values": _type(name, arguments[1])}
    if origin is tuple and name == VECTOR:
        return {"type": "array", "items": "float"}
    if origin is tuple:
        return {"type": "array", "items": avro_schema(arguments[0])}
    raise TypeError(f"{name}: {hint} has no Avro type")
