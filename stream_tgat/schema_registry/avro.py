"""Avro values as JSON would have them."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any
from uuid import UUID

from stream_tgat.errors import WireError
from stream_tgat.schema_registry.client import SchemaText

_WRONG = (ValueError, TypeError, KeyError, IndexError, EOFError, OverflowError, ArithmeticError, AttributeError)


def avro_values(schema: SchemaText) -> Callable[[bytes], Any]:
    """What decodes the values of a schema; WireError if the schema is none."""
    import fastavro
    from fastavro.schema import SchemaParseException, UnknownType

    named: dict[str, Any] = {}
    try:
        for _, text in schema.references:
            fastavro.parse_schema(json.loads(text), named)
        parsed = fastavro.parse_schema(json.loads(schema.text), named)
    except (*_WRONG, SchemaParseException, UnknownType, RecursionError) as problem:
        raise WireError(f"is no Avro schema: {_in_words(problem)}") from None
    if _may_be_endless(parsed, named, set()):
        raise WireError("has lists of what takes no bytes, which may be endless")
    has_logical = "logicalType" in schema.text or any("logicalType" in text for _, text in schema.references)

    def decode(data: bytes) -> Any:
        stream = io.BytesIO(data)
        try:
            content = fastavro.schemaless_reader(stream, parsed, None)
        except (*_WRONG, MemoryError, RecursionError) as problem:
            raise WireError(f"not Avro of this schema: {_in_words(problem)}") from None
        left = len(data) - stream.tell()
        if left:
            raise WireError(f"not Avro of this schema: {left} bytes are left over")
        return _plain(content) if has_logical else content

    return decode


def _plain(value: Any) -> Any:
    """Logical types as JSON has them: numbers for decimals, ISO 8601 for times, texts for UUIDs.

    >>> _plain({"price": Decimal("2.50"), "on": [date(2024, 5, 1)]})
    {'price': 2.5, 'on': ['2024-05-01']}
    """
    if isinstance(value, dict):
        return {name: _plain(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_plain(inner) for inner in value]
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, UUID):
        return str(value)
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    return value


def _may_be_endless(schema: Any, named: dict[str, Any], above: set[str]) -> bool:
    """Whether a schema has lists of elements without bytes: a few bytes would then say that there are 2^60 of them."""
    if isinstance(schema, str):
        if schema not in named or schema in above:
            return False
        return _may_be_endless(named[schema], named, above | {schema})
    if isinstance(schema, list):
        return any(_may_be_endless(each, named, above) for each in schema)
    kind = schema.get("type")
    above = above | {schema["name"]} if "name" in schema else above
    if kind == "array":
        items = schema["items"]
        return _takes_no_bytes(items, named) or _may_be_endless(items, named, above)
    if kind == "map":
        return _may_be_endless(schema["values"], named, above)
    return any(_may_be_endless(field["type"], named, above) for field in schema.get("fields", ()))


def _takes_no_bytes(schema: Any, named: dict[str, Any]) -> bool:
    if isinstance(schema, str):
        return schema == "null" or (schema in named and _takes_no_bytes(named[schema], named))
    if isinstance(schema, list):
        return False
    if schema.get("type") in ("record", "error"):
        return all(_takes_no_bytes(field["type"], named) for field in schema["fields"])
    return bool(schema.get("type") == "null" or (schema.get("type") == "fixed" and schema.get("size") == 0))


def _in_words(problem: BaseException) -> str:
    return " ".join(str(problem).split())[:160] or type(problem).__name__
