"""Reads files of interactions, node features or labels as the records that `replay` sends."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import msgpack
import orjson

from stream_tgat.datasets.jodie import jodie_rows
from stream_tgat.datasets.stream import StreamRecord, record
from stream_tgat.errors import DataError, WireError
from stream_tgat.features import VectorFeature
from stream_tgat.files import BadRow, OpenFile, Row, RowFile, open_file, place
from stream_tgat.files.row_files import form_of
from stream_tgat.topology import Topology
from stream_tgat.wire import (
    DecodedInteraction,
    DecodedLabel,
    DecodedNode,
    Given,
    InputTopic,
    InteractionReader,
    LabelReader,
    NodeReader,
    Several,
    cells_of,
    parse_time,
    read_cells,
)
from stream_tgat.wire.formats import MSGPACK

ReplayFormat = Literal["jsonl", "csv", "table", "jodie"]

SentHeaders = tuple[tuple[str, bytes], ...]

_KEYS: Mapping[InputTopic, str] = {"interactions": "user", "labels": "node", "nodes": "node"}


@dataclass(frozen=True, slots=True)
class Read:
    """A row of a file. number: of its line or row   record: None where it could not be read, for `reason`"""

    number: int
    record: StreamRecord | None
    reason: str = ""


class RecordFile:
    """A file of records that is being read."""

    def __init__(self, file: OpenFile, form: ReplayFormat | None, topology: Topology, topic: InputTopic) -> None:
        self.name = file.name
        self._topology, self._topic = topology, topic
        self._file = file
        self._rows = None if form == "jodie" else RowFile(file, form or form_of(file))
        self._unit = "line" if self._rows is None else self._rows.unit
        self._cells = cells_of(topology, topic)
        self._mapped = None if getattr(topology.input, topic).is_contract else _Mapped(topology, topic)
        self._last = 0.0
        if self._rows is not None and self._rows.columns is not None and self._mapped is None:
            self._require(self._rows.columns)

    def __iter__(self) -> Iterator[Read]:
        """The rows, one by one; of a JODIE line two, an interaction and its label."""
        if self._rows is None:
            yield from _jodie(self._file, self._topology)
            return
        for row in self._rows:
            yield Read(row.number, None, row.reason) if isinstance(row, BadRow) else self._read(row)

    def where(self, number: int) -> str:
        """A row's place, as messages begin."""
        return place(self.name, self._unit, number)

    @property
    def done(self) -> float:
        """The share that has been read, from 0 to 1."""
        return self._file.position / max(self._file.size, 1) if self._rows is None else self._rows.done

    def _require(self, columns: list[str]) -> None:
        for field in (_KEYS[self._topic], *(() if self._topic == "nodes" else ("timestamp",))):
            if field not in columns:
                told = f"only {', '.join(map(repr, columns[:20]))}" if columns else "nor any other"
                hint = "; a file of JODIE is sent with --format jodie" if "user_id" in columns else ""
                raise DataError(
                    f"{self.name}: no column {field!r}, {told}; the first line names the columns as the fields of "
                    f"topic {self._topic} are called{hint}"
                )

    def _read(self, row: Row) -> Read:
        content: dict[str, Any] = row.fields
        value: bytes | None = row.raw
        headers: SentHeaders = ()
        if value is None:
            content = read_cells(content, self._cells) if self._rows and self._rows.is_text else content
            value, headers = _encoded(content)
        if self._mapped is not None:
            key, self._last = self._mapped.place(value, headers) or (b"", self._last)
            return Read(row.number, StreamRecord(self._topic, key, value, self._last, headers))
        name = content.get(_KEYS[self._topic])
        self._last = due = self._time(content)
        # Without a key the record is wrong, which whoever judges it will say; it still needs a place to be sent to.
        key = b"" if name is None else str(name).encode("utf-8", "replace")
        return Read(row.number, StreamRecord(self._topic, key, value, due, headers))

    def _time(self, content: dict[str, Any]) -> float:
        """When a record is due; that of the one before where it does not say."""
        if self._topic == "nodes":
            return 0.0
        # A label is sent when it became known, which may be later than the time that it speaks of.
        when = "known_at" if self._topic == "labels" and content.get("known_at") is not None else "timestamp"
        try:
            return parse_time(content.get(when))
        except WireError:
            return self._last


@contextmanager
def open_records(
    path: Path, topology: Topology, topic: InputTopic = "interactions", form: ReplayFormat | None = None
) -> Iterator[RecordFile]:
    """The records of a file, in its order. form: None to tell it by content and name; DataError says what is wrong."""
    with open_file(path) as file:
        yield RecordFile(file, form, topology, topic)


class _Mapped:
    """Key and time of foreign records, as the topology's mapping finds them."""

    def __init__(self, topology: Topology, topic: InputTopic) -> None:
        self._name = getattr(topology.topics, topic)
        self._now = time.time()
        readers: dict[InputTopic, Callable[[Topology], Any]] = {
            "interactions": InteractionReader, "labels": LabelReader, "nodes": NodeReader,
        }  # fmt: skip
        self._read = readers[topic](topology).read

    def place(self, value: bytes, headers: SentHeaders) -> tuple[bytes, float] | None:
        """Key of a record and the time at which it is due; None where it is wrong, or not wanted."""
        found = self._read(Given(self._name, 0, 0, None, value, headers), self._now)
        if isinstance(found, Several):
            found = found.interactions[0] if found.interactions else None
        if isinstance(found, DecodedInteraction):
            return found.user[1:], found.timestamp
        if isinstance(found, DecodedLabel):
            return found.node[1:], found.known
        return (found.node[1:], 0.0) if isinstance(found, DecodedNode) else None


def _encoded(content: Mapping[str, Any]) -> tuple[bytes, SentHeaders]:
    """A row as JSON; with NaN or infinity, which a table may hold and JSON has not, as MessagePack, to be refused."""
    if all(map(_is_finite, content.values())):
        return orjson.dumps(content, default=str), ()
    return msgpack.packb(content, default=str), (("content-type", MSGPACK.encode()),)


def _is_finite(value: object) -> bool:
    if isinstance(value, list):
        return all(map(_is_finite, value))
    return not isinstance(value, float) or math.isfinite(value)


def _jodie(file: OpenFile, topology: Topology) -> Iterator[Read]:
    """Interactions with their features, each followed by the state that the file gives the user at it."""
    name = file.name
    vectors = [feature for feature in topology.features if isinstance(feature, VectorFeature)]
    labels = sorted({head.label_name for head in topology.heads})
    if len(labels) > 1:
        raise DataError(f"{name}: a JODIE file has one label, but the topology's heads learn {', '.join(labels)}")
    if len(vectors) != 1 or len(topology.features) != 1:
        raise DataError(
            f"{name}: a JODIE file has one vector of features; the topology must name it in one [[features]] of kind "
            '"vector", as topologies/wikipedia_bans.toml does'
        )
    (vector,) = vectors
    for number, row in enumerate(jodie_rows(file.content, name), start=2):
        if len(row.features) != vector.size:
            raise DataError(
                f"{name}: {len(row.features)} features a line, but feature {vector.name!r} of the topology has "
                f"size = {vector.size}"
            )
        content = {"user": row.user, "item": row.item, "timestamp": row.time, vector.name: row.features}
        yield Read(number, record("interactions", row.user, content, row.time))
        for label in labels:
            content = {"node": row.user, "label": label, "value": row.changed, "timestamp": row.time}
            yield Read(number, record("labels", row.user, content, row.time))
