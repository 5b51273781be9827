"""JSON and MessagePack, chosen by the header ``content-type``; JSON where there is none."""

from collections.abc import Iterable, Mapping
from typing import Any

import msgpack
import orjson

from stream_tgat.errors import WireError

Headers = Iterable[tuple[str, bytes]] | Mapping[str, bytes]
HeaderList = list[tuple[str, bytes]]

JSON = "application/json"
MSGPACK = "application/msgpack"
_MSGPACK_NAMES = frozenset({MSGPACK, "application/x-msgpack", "application/vnd.msgpack"})
_JSON_NAMES = frozenset({JSON, "text/json"})
AVRO = "application/avro"
"""Behind the five bytes of a schema registry's wire format; such values are read by `schema_registry`."""
CONTENT_TYPES = {"json": JSON, "msgpack": MSGPACK, "avro": AVRO}


def header(headers: Headers | None, name: str) -> bytes | None:
    """The value of the first header called `name`, whatever its case; None if there is none."""
    if not headers:
        return None
    pairs = headers.items() if isinstance(headers, Mapping) else headers
    for key, value in pairs:
        if key.lower() == name:
            return value
    return None


def decode_object(value: bytes, headers: Headers | None) -> dict[str, Any]:
    """The object that a record's value holds. WireError says why there is none."""
    content_type = header(headers, "content-type")
    if content_type is None or content_type == b"application/json" or not _is_msgpack(content_type):
        try:
            content = orjson.loads(value)
        except orjson.JSONDecodeError as problem:
            raise WireError(_json_reason(value, problem)) from None
    else:
        content = _unpack(value)
        if type(content) is dict and not {str}.issuperset(map(type, content)):
            raise WireError("field names must be strings")
    if type(content) is not dict:
        raise WireError(f"the record must be an object with named fields, not {_kind_of(content)}")
    return content


def encode_object(content: Mapping[str, Any], output_format: str = "json") -> bytes:
    """Bytes of an object, in "json" or "msgpack". Only finite numbers: JSON has no others."""
    if output_format == "msgpack":
        return msgpack.packb(dict(content))  # type: ignore[no-any-return]
    return orjson.dumps(content)


def is_msgpack(headers: Headers | None) -> bool:
    """Whether a record is MessagePack rather than JSON. WireError where it says to be something else."""
    content_type = header(headers, "content-type")
    return content_type is not None and _is_msgpack(content_type)


def _is_msgpack(content_type: bytes) -> bool:
    name = content_type.split(b";", 1)[0].strip().lower().decode("ascii", "replace")
    if name in _MSGPACK_NAMES:
        return True
    if name in _JSON_NAMES:
        return False
    raise WireError(f"unknown content-type {name[:60]!r}; send {JSON} or {MSGPACK}")


def _unpack(value: bytes) -> Any:
    try:
        return msgpack.unpackb(value)
    except RecursionError:
        raise WireError("not valid MessagePack: nested too deeply") from None
    except (ValueError, TypeError, OverflowError, msgpack.UnpackException) as problem:
        # ValueError covers most of msgpack's errors: cut off, left-over bytes, bad UTF-8, keys that are numbers.
        raise WireError(f"not valid MessagePack: {str(problem)[:120] or type(problem).__name__}") from None


def _json_reason(value: bytes, problem: orjson.JSONDecodeError) -> str:
    if not value.strip():
        return "the record is empty"
    if b"NaN" in value or b"Infinity" in value:
        return f"not valid JSON, which has no NaN or Infinity: {problem}"
    return f"not valid JSON: {problem}"


def _kind_of(content: object) -> str:
    if content is None:
        return "null"
    return {list: "a list", str: "a string", bool: "true or false", int: "a number", float: "a number"}.get(
        type(content), f"a {type(content).__name__}"
    )
