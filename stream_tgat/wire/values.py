"""How the values and keys of one role's records are read, by the format that its section of the topology names."""

from collections.abc import Sequence
from typing import Any, Final

from stream_tgat.schema_registry import FORMATS, RegisteredValues, SchemaRegistry, require
from stream_tgat.topology import InputSection, Registry, registry_password
from stream_tgat.wire.cloudevents import read_cloudevent, require_sdk
from stream_tgat.wire.formats import CONTENT_TYPES, Headers, decode_object
from stream_tgat.wire.mapping import KafkaRecord, text_or_json

#: The first byte of what is in the wire format of a schema registry. No text begins with it.
_MAGIC: Final = b"\x00"


class RoleValues:
    """Reads the bytes of one role's records. SettingsError if what that needs is not installed."""

    def __init__(self, section: InputSection, registry: Registry, *, has_keys: bool) -> None:
        """has_keys: whether the keys are read too"""
        self._format, self._has_keys = section.format, has_keys
        self._values: RegisteredValues | None = None
        if section.format in FORMATS:
            require(section.format)
            asked = schema_registry(registry)
            self._values = RegisteredValues(asked, section.format)
            self._keys = RegisteredValues(asked)
        elif section.format == "cloudevents":
            require_sdk()

    def fields(self, value: bytes, headers: Headers | None) -> dict[str, Any]:
        """All fields of a value; WireError says why there are none."""
        if self._values is not None:
            return self._values.record(value)
        if self._format == "cloudevents":
            return read_cloudevent(value, headers)
        if self._format == "auto":
            return decode_object(value, headers)
        return decode_object(value, {"content-type": CONTENT_TYPES[self._format].encode()})

    def key(self, key: bytes | None) -> Any:
        """What a key holds; WireError says why there is nothing."""
        if self._values is not None and key is not None and key.startswith(_MAGIC):
            return self._keys.decode(key)
        return text_or_json(key)

    def lacks(self, records: Sequence[KafkaRecord]) -> bool:
        """Whether reading these would first ask a schema registry."""
        if self._values is None:
            return False
        return bool(
            self._values.lacks(record.value for record in records)
            or (self._has_keys and self._keys.lacks(record.key for record in records))
        )

    def fetch(self, records: Sequence[KafkaRecord]) -> None:
        """Ask the schema registry for all that these need.

        UnreachableRegistryError, AccessError or SettingsError if it cannot be asked
        """
        if self._values is not None:
            self._values.fetch(self._values.lacks(record.value for record in records))
            if self._has_keys:
                self._keys.fetch(self._keys.lacks(record.key for record in records))


def schema_registry(registry: Registry) -> SchemaRegistry:
    """The client for the registry of a topology."""
    return SchemaRegistry(registry.url, registry.username, registry_password(registry), registry.ssl_cafile)
