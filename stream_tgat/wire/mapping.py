"""What ``[input.*]`` makes of a foreign record: the fields of the contract, for the decoders to judge.

Compiled once from a topology's section. A mapping only finds things: what is right, `decode` says, for foreign records
as for all others. Nothing is made up where a record lacks what is asked of it.
"""

import re
from collections.abc import Collection, Mapping
from datetime import date, datetime
from datetime import time as time_of_day
from decimal import Decimal
from typing import Any, Final, NamedTuple, Protocol
from uuid import UUID
from zoneinfo import ZoneInfo

import orjson

from stream_tgat.errors import WireError
from stream_tgat.expressions import Expression, ExpressionError
from stream_tgat.topology import InputSection
from stream_tgat.wire.formats import Headers, header
from stream_tgat.wire.letters import FIRST_WRITTEN
from stream_tgat.wire.times import parse_time

_PER_SECOND: Final = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
_TIMES: Final = frozenset({"timestamp", "known_at"})
_FIELD: Final = re.compile(r"field '([^']+)'")

Scope = dict[str, Any]
"""What expressions are asked about: the fields of a record, and under names with $ what is beside them."""


class KafkaRecord(Protocol):
    """What is read of a record; clients' records have it."""

    @property
    def topic(self) -> str:
        """Its topic."""

    @property
    def partition(self) -> int:
        """Its partition."""

    @property
    def offset(self) -> int:
        """Its offset."""

    @property
    def key(self) -> bytes | None:
        """Its key."""

    @property
    def value(self) -> bytes | None:
        """Its value."""

    @property
    def headers(self) -> Headers | None:
        """Its headers."""


class Given(NamedTuple):
    """A record by its parts."""

    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: Headers | None


class ValueReader(Protocol):
    """Reads a record's bytes."""

    def fields(self, value: bytes, headers: Headers | None) -> dict[str, Any]:
        """All fields of a value; WireError says why there are none."""

    def key(self, key: bytes | None) -> Any:
        """What a key holds; WireError says why there is nothing."""


class RoleMapping:
    """The mapping of one role: a record in, and out of it the fields that the contract knows."""

    def __init__(
        self,
        section: InputSection,
        sources: Mapping[str, Any],
        values: ValueReader,
        max_bytes: int,
        optional: Collection[str] = (),
    ) -> None:
        """sources: of all fields that are wanted; an expression, a constant, or None for the field of that name

        values: reads values and keys   max_bytes: longer values are refused
        optional: fields that may be missing though the section says where they are
        """
        self._section, self._values, self._max_bytes, self._optional = section, values, max_bytes, frozenset(optional)
        self._zone = ZoneInfo(section.time_zone)
        self._per_second = _PER_SECOND[section.time_unit]
        self._constants = {name: each for name, each in sources.items() if not isinstance(each, str | None)}
        self._paths = {name: Expression(text) for name, text in sources.items() if isinstance(text, str)}
        self._own = [name for name, each in sources.items() if each is None]
        self._where = Expression(section.where) if section.where else None
        self._each = Expression(each) if (each := getattr(section, "each", "")) else None
        expressions = [*self._paths.values(), *(each for each in (self._where, self._each) if each is not None)]
        self._beside = frozenset[str]().union(*(each.names for each in expressions))

    def read(self, record: KafkaRecord, written: float) -> Scope | None:
        """What a record holds, or None if the topology passes it over. written: unix seconds, when it was"""
        value = record.value
        if value is None:
            if self._section.null_values == "skip":
                return None
            raise WireError(
                'null record: it has no value; if that says that something was deleted, set null_values = "skip" here'
            )
        if len(value) > self._max_bytes:
            raise WireError(
                f"the record has {len(value):,} bytes; at most {self._max_bytes:,} are allowed (kafka.max_record_bytes)"
            )
        scope = self._values.fields(value, record.headers)
        if self._beside:
            self._look_beside(scope, record, written)
        return scope if self._where is None or self._is_wanted(self._where, scope) else None

    def elements(self, scope: Scope, most: int) -> list[Any] | None:
        """What `each` makes interactions of; None where a record is one interaction."""
        if self._each is None:
            return None
        elements = _answer("each", self._each, scope)
        if not isinstance(elements, list):
            raise WireError(f"each: {self._each.text!r} is {_kind_of(elements)}, and must be a list of interactions")
        if len(elements) > most:
            raise WireError(
                f"each: {self._each.text!r} holds {len(elements)} interactions, but at most {most} are allowed (most)"
            )
        return elements

    def fields(self, scope: Scope) -> dict[str, Any]:
        """The fields of the contract; WireError where one that the topology says where to find is not there."""
        found = {name: value for name in self._own if (value := scope.get(name)) is not None}
        found |= self._constants
        for name, path in self._paths.items():
            value = _answer(name, path, scope)
            if value is not None:
                found[name] = value
            elif name not in self._optional:
                raise WireError(f"field {name!r} is missing")
        for name in _TIMES & found.keys():
            found[name] = self._seconds(name, found[name])
        return {name: _plain(value) for name, value in found.items()}

    def told(self, reason: str) -> str:
        """A reason of the decoders, with the place where the field was looked for."""
        about = _FIELD.match(reason)
        path = self._paths.get(about[1]) if about else None
        if about is None or path is None:
            return reason
        return f"{about[0]} ({path.text}){reason[about.end() :]}"

    def _is_wanted(self, where: Expression, scope: Scope) -> bool:
        answer = _answer("where", where, scope)
        if not isinstance(answer, bool):
            raise WireError(f"where: {where.text!r} is {_kind_of(answer)}, and must be true or false")
        return answer

    def _look_beside(self, scope: Scope, record: KafkaRecord, written: float) -> None:
        if "key" in self._beside:
            scope["$key"] = self._values.key(record.key)
        if "headers" in self._beside:
            pairs = record.headers.items() if isinstance(record.headers, Mapping) else record.headers or ()
            texts: dict[str, str] = {}
            for name, value in pairs:
                texts.setdefault(name, (value or b"").decode("utf-8", "backslashreplace"))
            scope["$headers"] = texts
        if "timestamp" in self._beside:
            scope["$timestamp"] = self._in_unit(record.headers, written)
        scope["$topic"], scope["$partition"], scope["$offset"] = record.topic, record.partition, record.offset

    def _in_unit(self, headers: Headers | None, written: float) -> float | int:
        """When a record was written, in the section's unit: Kafka keeps whole milliseconds.

        One that is sent again keeps the time at which it was written first.
        """
        first = header(headers, FIRST_WRITTEN)
        try:
            milliseconds = round(written * 1e3) if first is None else int(first)
        except ValueError:
            raise WireError(
                f"header {FIRST_WRITTEN!r} must be unix milliseconds, not {(first or b'')[:40]!r}"
            ) from None
        return milliseconds / 1e3 if self._per_second == 1 else milliseconds * (self._per_second // 1_000)

    def _seconds(self, name: str, value: Any) -> Any:
        """A time in the contract's unit; what is no time stays for the decoder to refuse."""
        if type(value) is datetime:
            return (value if value.tzinfo else value.replace(tzinfo=self._zone)).timestamp()
        if type(value) is str:
            try:
                return parse_time(value, self._zone)
            except WireError as problem:
                raise WireError(f"field {name!r} {problem}") from None
        if self._per_second == 1 or type(value) not in (int, float):
            return value
        try:
            return value / self._per_second
        except OverflowError:
            return value


def _answer(name: str, expression: Expression, scope: Scope) -> Any:
    try:
        return expression.of(scope)
    except ExpressionError as problem:
        key = name if name in ("where", "each") else f"field {name!r}"
        raise WireError(f"{key}: {problem}") from None


def text_or_json(key: bytes | None) -> Any:
    """A record's key: its fields where it is a JSON object, else its text."""
    if key is None:
        return None
    if key.startswith(b"{"):
        try:
            return orjson.loads(key)
        except orjson.JSONDecodeError:
            pass  # a text like any other that begins with this sign
    try:
        return key.decode()
    except UnicodeDecodeError:
        raise WireError("the record's key is neither text in UTF-8 nor JSON") from None


def _plain(value: Any) -> Any:
    """A value of a binary format as JSON would have it."""
    if isinstance(value, str | int | float | list | dict | None):
        return value
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, UUID):
        return str(value)
    if isinstance(value, datetime | date | time_of_day):
        return value.isoformat()
    return value


def _kind_of(value: object) -> str:
    if value is None:
        return "missing"
    return {list: "a list", dict: "an object", str: "a text", bool: "true or false"}.get(type(value), "a number")
