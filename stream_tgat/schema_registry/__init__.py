"""Values in the wire format of Confluent's schema registry: Avro, Protobuf and JSON Schema, read by what wrote them.

A value begins with a zero byte and the four bytes of its schema's id. It is decoded by that schema and no other, so a
field is there if its producer wrote it, and nothing takes its place if not. Knows neither Kafka nor a topology.
"""

from stream_tgat.schema_registry.avro_writer import MAGIC, AvroWriter
from stream_tgat.schema_registry.client import SchemaRegistry, SchemaText
from stream_tgat.schema_registry.registered_values import FORMATS, RegisteredFormat, RegisteredValues, require

__all__ = [
    "FORMATS",
    "MAGIC",
    "AvroWriter",
    "RegisteredFormat",
    "RegisteredValues",
    "SchemaRegistry",
    "SchemaText",
    "require",
]
