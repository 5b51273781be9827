"""From the bytes of a value to what it holds, by the schema whose id it begins with."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from importlib.util import find_spec
from typing import Any, Final, Literal

from stream_tgat.errors import SettingsError, WireError
from stream_tgat.schema_registry.avro import avro_values
from stream_tgat.schema_registry.avro_writer import MAGIC
from stream_tgat.schema_registry.client import SchemaRegistry, SchemaText
from stream_tgat.schema_registry.json_schema import json_values
from stream_tgat.schema_registry.protobuf import protobuf_values

RegisteredFormat = Literal["avro", "protobuf", "json_schema"]

FORMATS: Final[dict[RegisteredFormat, str]] = {"avro": "AVRO", "protobuf": "PROTOBUF", "json_schema": "JSON"}
"""How the registry calls the kinds of schemas."""

_EXTRAS: Final = {"avro": "avro", "protobuf": "protobuf", "json_schema": "json-schema"}
_NEEDED: Final = {
    "avro": ("confluent_kafka", "httpx2", "fastavro"),
    "protobuf": ("confluent_kafka", "httpx2", "google.protobuf", "grpc_tools"),
    "json_schema": ("confluent_kafka", "httpx2", "jsonschema_rs"),
}
_MAKE: Final[dict[str, Callable[[SchemaText], Callable[[bytes], Any]]]] = {
    "AVRO": avro_values,
    "PROTOBUF": protobuf_values,
    "JSON": json_values,
}
_FORMS: Final[dict[str, RegisteredFormat]] = {kind: form for form, kind in FORMATS.items()}
_HEAD_BYTES: Final = 5
#: An id that is not known may be made known: it is asked for again after this long.
_UNKNOWN_S: Final = 30.0
_MOST_UNKNOWN: Final = 10_000


def require(form: RegisteredFormat) -> None:
    """SettingsError if what reads a format is not installed; it names the extra."""
    for name in _NEEDED[form]:
        if not _is_there(name):
            raise SettingsError(
                f'"{form}" is read with a package that is not installed ({name}): '
                f"pip install 'stream-tgat[{_EXTRAS[form]}]'"
            )


def schema_id(value: bytes) -> int:
    """The id that a value begins with; WireError if it begins otherwise."""
    is_marked = value.startswith(MAGIC)
    if len(value) < _HEAD_BYTES or not is_marked:
        first = f"it has {len(value)} bytes" if is_marked or not value else f"its first byte is 0x{value[0]:02x}"
        raise WireError(
            f"not in the wire format of a schema registry, which is a zero byte and the four of a schema's id: {first}"
        )
    return int.from_bytes(value[1:_HEAD_BYTES], "big")


class RegisteredValues:
    """Decodes values whose schemas are in a registry, each asked for once."""

    def __init__(self, registry: SchemaRegistry, form: RegisteredFormat | None = None) -> None:
        """form: what the schemas must be; None takes all that are known"""
        self._registry, self._kind = registry, None if form is None else FORMATS[form]
        self._known: dict[int, Callable[[bytes], Any]] = {}
        self._unknown: dict[int, tuple[float, str]] = {}

    def lacks(self, values: Iterable[bytes | None]) -> set[int]:
        """The ids of schemas that these values name and that the registry must be asked for."""
        return {
            number
            for value in values
            if value is not None and len(value) >= _HEAD_BYTES and value.startswith(MAGIC)
            for number in (int.from_bytes(value[1:_HEAD_BYTES], "big"),)
            if number not in self._known and self._reason(number) is None
        }

    def fetch(self, schema_ids: Iterable[int]) -> None:
        """Ask the registry for schemas, so that values need not wait for them.

        UnreachableRegistryError, AccessError or SettingsError if it cannot be asked
        """
        for number in schema_ids:
            self._fetch(number)

    def decode(self, value: bytes) -> Any:
        """What a value holds; asks the registry if it must, and raises as `fetch` does.

        WireError says why a value holds nothing.
        """
        number = schema_id(value)
        decode = self._known.get(number)
        if decode is None:
            if (reason := self._reason(number)) is None:
                self._fetch(number)
                reason = self._reason(number)
            decode = self._known.get(number)
            if decode is None:
                raise WireError(reason or f"schema {number} is not known")
        try:
            return decode(value[_HEAD_BYTES:])
        except WireError as problem:
            raise WireError(f"{problem} (schema {number})") from None

    def record(self, value: bytes) -> dict[str, Any]:
        """The fields of a value; WireError also if it has none."""
        content = self.decode(value)
        if type(content) is not dict:
            raise WireError(f"the record must be an object with named fields, not a {type(content).__name__}")
        return content

    def form(self, values: Iterable[bytes]) -> RegisteredFormat | None:
        """What most of these values are; asks the registry as `fetch` does. None where it knows none of them."""
        ids: Counter[int] = Counter()
        for value in values:
            with suppress(WireError):
                ids[schema_id(value)] += 1
        for number, _ in ids.most_common():
            with suppress(WireError):
                return _FORMS.get(self._registry.schema(number).kind)
        return None

    def _fetch(self, number: int) -> None:
        try:
            schema = self._registry.schema(number)
            if self._kind not in (None, schema.kind):
                raise WireError(f"is {schema.kind}, but format says {self._kind}")
            if schema.kind not in _MAKE:
                raise WireError(f"is of the kind {schema.kind}, which is not known")
            require(_FORMS[schema.kind])
            self._known[number] = _MAKE[schema.kind](schema)
        except WireError as problem:
            if len(self._unknown) >= _MOST_UNKNOWN:
                self._unknown.clear()
            self._unknown[number] = time.monotonic() + _UNKNOWN_S, f"schema {number}: {problem}"

    def _reason(self, number: int) -> str | None:
        """Why a schema is of no use, as was found not long ago."""
        until, reason = self._unknown.get(number, (0.0, ""))
        return reason if until > time.monotonic() else None


def _is_there(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except ModuleNotFoundError:  # of the package that it is in
        return False
