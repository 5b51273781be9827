"""Protobuf values as JSON would have them.

The registry has the text of a `.proto` file, which protoc compiles here. Between the schema's id and the message stands
which of the file's messages it is: a list of places, of which the first is among the file's and each further one among
those nested in the message before.
"""

from __future__ import annotations

import base64
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from decimal import Decimal
from importlib.resources import files
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, Final

from stream_tgat.errors import WireError
from stream_tgat.schema_registry.client import SchemaText

if TYPE_CHECKING:
    from google.protobuf.descriptor import Descriptor, FieldDescriptor
    from google.protobuf.descriptor_pb2 import FileDescriptorSet
    from google.protobuf.message import Message

_MAIN: Final = "schema.proto"
_MOST_PLACES: Final = 32
_PATIENCE_S: Final = 60.0


def protobuf_values(schema: SchemaText) -> Callable[[bytes], Any]:
    """What decodes the messages of a schema; WireError if the schema is none."""
    from google.protobuf.descriptor_pool import DescriptorPool
    from google.protobuf.json_format import Error as NotJsonError
    from google.protobuf.message import DecodeError
    from google.protobuf.message_factory import GetMessageClass

    pool = DescriptorPool()
    try:
        for file in compiled(schema).file:
            pool.Add(file)
        main = pool.FindFileByName(_MAIN)
    except (TypeError, KeyError) as problem:
        raise WireError(f"is no Protobuf schema: {problem}") from None
    messages = list(main.message_types_by_name.values())
    classes: dict[tuple[int, ...], type[Message]] = {}

    def decode(data: bytes) -> Any:
        places, start = message_places(data)
        if places not in classes:
            classes[places] = GetMessageClass(_at(messages, places))
        message = classes[places]()
        try:
            message.ParseFromString(data[start:])
            return _fields(message)
        except (DecodeError, NotJsonError, ValueError, ArithmeticError) as problem:
            # The last three: times and numbers that neither JSON nor a calendar has.
            told = " ".join(str(problem).split())[:160] or type(problem).__name__
            raise WireError(f"not Protobuf of this schema: {told}") from None

    return decode


def message_places(data: bytes) -> tuple[tuple[int, ...], int]:
    """Which message of its file a value is, and where it begins.

    >>> message_places(bytes([0])), message_places(bytes([4, 2, 0, 9]))
    (((0,), 1), ((1, 0), 3))
    """
    count, at = _zigzag(data, 0)
    if count == 0:
        return (0,), at  # short for the file's first message
    if not 0 < count <= _MOST_PLACES:
        raise WireError(f"not Protobuf in the wire format of a schema registry: {count} indexes of a message")
    places = []
    for _ in range(count):
        place, at = _zigzag(data, at)
        places.append(place)
    return tuple(places), at


def _zigzag(data: bytes, at: int) -> tuple[int, int]:
    number = shift = 0
    for end in range(at, min(at + 10, len(data))):
        number |= (data[end] & 0x7F) << shift
        if data[end] < 0x80:
            return (number >> 1) ^ -(number & 1), end + 1
        shift += 7
    raise WireError("not Protobuf in the wire format of a schema registry: its message's indexes do not end")


def _at(messages: Sequence[Descriptor], places: tuple[int, ...]) -> Descriptor:
    for place in places[:-1]:
        messages = messages[place].nested_types if 0 <= place < len(messages) else []
    if not 0 <= places[-1] < len(messages):
        raise WireError(f"the schema has no message at {list(places)}")
    return messages[places[-1]]


def compiled(schema: SchemaText) -> FileDescriptorSet:
    """What protoc makes of a schema and all that it imports, each file after those that it imports."""
    from google.protobuf.descriptor_pb2 import FileDescriptorSet

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        texts, known, out = folder / "texts", folder / "known", folder / "set"
        for file, text in (*schema.references, (_MAIN, schema.text)):
            _write(texts, file, text)
        known.write_bytes(_confluent_types().SerializeToString())
        # A process of its own: protoc tells mistakes on its standard error, and what is wrong with it ends it alone.
        done = subprocess.run(  # noqa: S603  # of this interpreter, and what it is given are names that we made
            [
                sys.executable,
                "-m",
                "grpc_tools.protoc",
                f"--proto_path={texts}",
                f"--proto_path={files('grpc_tools') / '_proto'}",
                f"--descriptor_set_in={known}",
                f"--descriptor_set_out={out}",
                "--include_imports",
                _MAIN,
            ],
            capture_output=True,
            text=True,
            timeout=_PATIENCE_S,
            check=False,
        )
        if done.returncode:
            raise WireError(f"is no Protobuf schema: {' '.join(done.stderr.split())[:300]}")
        return FileDescriptorSet.FromString(out.read_bytes())


def _write(folder: Path, name: str, text: str) -> None:
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts:
        raise WireError(f"is no Protobuf schema: it names {name!r}")
    file = folder / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


def _confluent_types() -> FileDescriptorSet:
    """What every registry knows without having it registered: Confluent's own files, which Kafka Connect imports."""
    from confluent_kafka.schema_registry.confluent import meta_pb2
    from confluent_kafka.schema_registry.confluent.type import decimal_pb2
    from google.protobuf.descriptor_pb2 import DESCRIPTOR, FileDescriptorProto, FileDescriptorSet

    known = (DESCRIPTOR, meta_pb2.DESCRIPTOR, decimal_pb2.DESCRIPTOR)
    return FileDescriptorSet(file=[FileDescriptorProto.FromString(each.serialized_pb) for each in known])


def _fields(message: Message) -> Any:
    """A message's fields by their names.

    A field that knows whether it was sent is there only if it was; one that does not know has a value in any case.
    """
    special = _SPECIAL.get(message.DESCRIPTOR.full_name)
    if special is not None:
        return special(message)
    found: dict[str, Any] = {}
    for field in message.DESCRIPTOR.fields:
        if field.has_presence and not message.HasField(field.name):
            continue
        value = getattr(message, field.name)
        if not field.is_repeated:
            found[field.name] = _value(field, value)
        elif field.message_type is not None and field.message_type.GetOptions().map_entry:
            of_value = field.message_type.fields_by_name["value"]
            found[field.name] = {str(key): _value(of_value, value[key]) for key in value}
        else:
            found[field.name] = [_value(field, each) for each in value]
    return found


def _value(field: FieldDescriptor, value: Any) -> Any:
    if field.message_type is not None:
        return _fields(value)
    if field.enum_type is not None:
        named = field.enum_type.values_by_number.get(value)
        return value if named is None else named.name
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    return value


def _time(message: Any) -> str:
    return str(message.ToJsonString())


def _seconds(message: Any) -> float:
    return float(message.seconds + message.nanos / 1e9)


def _decimal(message: Any) -> float:
    unscaled = int.from_bytes(message.value, "big", signed=True)
    return float(Decimal(unscaled).scaleb(-message.scale))


def _as_json(message: Message) -> Any:
    from google.protobuf.json_format import MessageToDict

    return MessageToDict(message)


def _wrapped(message: Any) -> Any:
    return message.value


_SPECIAL: Final[dict[str, Callable[[Any], Any]]] = {
    "google.protobuf.Timestamp": _time,
    "google.protobuf.Duration": _seconds,
    "confluent.type.Decimal": _decimal,
    **{f"google.protobuf.{name}": _as_json for name in ("Struct", "Value", "ListValue")},
    **{
        f"google.protobuf.{name}Value": _wrapped
        for name in ("Double", "Float", "Int64", "UInt64", "Int32", "UInt32", "Bool", "String")
    },
}
"""Messages that stand for a plain value."""
