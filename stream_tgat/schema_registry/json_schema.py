"""JSON values that hold to a registered JSON Schema."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import orjson

from stream_tgat.errors import WireError
from stream_tgat.schema_registry.client import SchemaText

#: Relative names need something to be relative to.
_NOWHERE: Final = "http://schema.invalid/"


def json_values(schema: SchemaText) -> Callable[[bytes], Any]:
    """What decodes and validates the values of a schema; WireError if the schema is none."""
    import jsonschema_rs

    def find(uri: str) -> Any:
        """A schema that this one names, relative to its own address or not. Nothing is fetched from elsewhere."""
        for name, text in schema.references:
            if uri == name or uri.endswith(f"/{name}"):
                return orjson.loads(text)
        raise ValueError("it is not among the references in the registry")

    try:
        validator = jsonschema_rs.validator_for(
            orjson.loads(schema.text), retriever=find, base_uri=_NOWHERE, validate_formats=True
        )
    except (ValueError, jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError) as problem:
        raise WireError(f"is no JSON Schema: {_in_words(problem)}") from None

    def decode(data: bytes) -> Any:
        try:
            content = orjson.loads(data)
        except orjson.JSONDecodeError as problem:
            raise WireError(f"not valid JSON: {problem}") from None
        try:
            validator.validate(content)
        except jsonschema_rs.ValidationError as problem:
            where = ".".join(map(str, problem.instance_path)) or "the record"
            raise WireError(f"not valid by this schema: {where}: {' '.join(problem.message.split())[:160]}") from None
        return content

    return decode


def _in_words(problem: Exception) -> str:
    return " ".join(str(problem).split())[:160]
