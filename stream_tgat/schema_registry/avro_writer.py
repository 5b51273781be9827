"""Avro values in the wire format of a schema registry."""

from __future__ import annotations

import io
from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import numpy.typing as npt

#: What a value in the wire format of a registry begins with; no JSON does, nor a MessagePack map.
MAGIC: Final = b"\0"


class AvroWriter:
    """Writes records of one schema.

    vector: the name of the schema's last field, an array of float, whose bytes are those of a numpy array; empty if it
    has none
    """

    def __init__(self, schema: Mapping[str, Any], schema_id: int, vector: str = "") -> None:
        # Imported here: without Avro nothing of it need be installed.
        from fastavro import parse_schema, schemaless_writer

        fields = schema["fields"]
        if vector and fields[-1]["name"] != vector:
            raise ValueError(f"the last field is {fields[-1]['name']}, not {vector}")
        self._write = schemaless_writer
        self._schema = parse_schema({**schema, "fields": fields[:-1] if vector else fields})
        self._head = MAGIC + schema_id.to_bytes(4, "big")

    def write(self, content: Mapping[str, Any], vector: npt.NDArray[np.float32] | None = None) -> bytes:
        """The value of a record. vector: float32 [D], of the last field, where the schema has one"""
        stream = io.BytesIO()
        stream.write(self._head)
        self._write(stream, self._schema, content)
        if vector is not None and len(vector):
            # An array is one block of so many numbers, and no more blocks.
            stream.write(_long(len(vector)))
            stream.write(np.ascontiguousarray(vector, "<f4").tobytes())
        if vector is not None:
            stream.write(b"\0")
        return stream.getvalue()


def _long(number: int) -> bytes:
    r"""A number that is not negative, as Avro writes a long.

    >>> _long(1), _long(64), _long(8192)
    (b'\x02', b'\x80\x01', b'\x80\x80\x01')
    """
    left, written = number << 1, bytearray()
    while left > 0x7F:
        written.append(left & 0x7F | 0x80)
        left >>= 7
    written.append(left)
    return bytes(written)
