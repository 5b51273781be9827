"""Reads files of interactions, node features or labels as the records that `replay` sends."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, Literal

import orjson

from stream_tgat.errors import DataError, WireError
from stream_tgat.evaluation.datasets.jodie import jodie_rows
from stream_tgat.evaluation.datasets.stream import StreamRecord, record
from stream_tgat.features import VectorFeature
from stream_tgat.topology import Topology
from stream_tgat.wire import parse_time

Format = Literal["jsonl", "csv", "jodie"]
TopicName = Literal["interactions", "labels", "nodes"]

_KEYS: dict[TopicName, str] = {"interactions": "user", "labels": "node", "nodes": "node"}
_YES = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}


def format_of(path: Path) -> Format:
    """The format that a file's name tells."""
    endings: dict[str, Format] = {".jsonl": "jsonl", ".ndjson": "jsonl", ".json": "jsonl", ".csv": "csv"}
    try:
        return endings[path.suffix.lower()]
    except KeyError:
        raise DataError(f"{path}: name the format of this file with --format jsonl, csv or jodie") from None


def read_records(
    file: BinaryIO, name: str, form: Format, topology: Topology, topic: TopicName = "interactions"
) -> Iterator[StreamRecord]:
    """The records of an open file, in its order; `name` is for messages. DataError says which line is wrong."""
    if form == "jodie":
        return _jodie(file, name, topology)
    return (_jsonl if form == "jsonl" else _csv)(file, name, topology, topic)


def _jsonl(file: BinaryIO, name: str, topology: Topology, topic: TopicName) -> Iterator[StreamRecord]:
    """Values are sent as they stand in the file: the workers judge them, not we."""
    del topology
    for number, line in enumerate(file, start=1):
        value = line.strip()
        if not value:
            continue
        try:
            content = orjson.loads(value)
        except orjson.JSONDecodeError as problem:
            raise DataError(f"{name}, line {number}: not valid JSON: {problem}") from None
        if not isinstance(content, dict):
            raise DataError(f"{name}, line {number}: a line must be a JSON object with named fields")
        yield StreamRecord(topic, *_key_and_value(content, value, topic, name, number))


def _key_and_value(
    content: dict[str, Any], value: bytes, topic: TopicName, name: str, number: int
) -> tuple[bytes, bytes, float]:
    """Key, value and time (0 where a topic has none) of one record."""
    field = _KEYS[topic]
    key = content.get(field)
    if not isinstance(key, str | int) or isinstance(key, bool) or key == "":
        raise DataError(f"{name}, line {number}: field {field!r} is missing, or neither a text nor an integer")
    if topic == "nodes":
        return str(key).encode(), value, 0.0
    # A label is sent when it became known, which may be later than the time that it speaks of.
    when = "known_at" if topic == "labels" and content.get("known_at") is not None else "timestamp"
    try:
        return str(key).encode(), value, parse_time(content.get(when))
    except WireError as problem:
        raise DataError(f"{name}, line {number}: field {when!r} {problem}") from None


def _csv(file: BinaryIO, name: str, topology: Topology, topic: TopicName) -> Iterator[StreamRecord]:
    """A header names the columns; the topology's features say what is a number and what is a text."""
    converters = _converters(topology, topic)
    text = io.TextIOWrapper(file, encoding="utf-8-sig", newline="")
    try:
        rows = csv.DictReader(text)
        for field in (_KEYS[topic], *(() if topic == "nodes" else ("timestamp",))):
            if field not in (rows.fieldnames or ()):
                raise DataError(f"{name}: no column {field!r}; the first line must name the columns")
        for row in rows:
            content: dict[str, Any] = {}
            for column, cell in row.items():
                if column is None or cell is None:
                    raise DataError(f"{name}, line {rows.line_num}: not as many cells as the first line has columns")
                if cell:  # an empty cell is a missing field
                    try:
                        content[column] = converters.get(column, str)(cell)
                    except ValueError as problem:
                        raise DataError(f"{name}, line {rows.line_num}, column {column!r}: {problem}") from None
            yield StreamRecord(topic, *_key_and_value(content, orjson.dumps(content), topic, name, rows.line_num))
    finally:
        text.detach()  # the file belongs to the caller


def _converters(topology: Topology, topic: TopicName) -> dict[str, Callable[[str], Any]]:
    converters: dict[str, Callable[[str], Any]] = {"timestamp": _seconds}
    if topic == "nodes":
        return {"features": _vector}
    if topic == "labels":
        return converters | {"value": _flag, "known_at": _seconds}
    by_kind: dict[str, Callable[[str], Any]] = {"number": float, "category": str, "flag": _flag, "vector": _vector}
    for feature in topology.features:
        converters[feature.name] = by_kind[feature.kind]
    return converters


def _seconds(cell: str) -> float | str:
    try:
        return float(cell)
    except ValueError:
        return cell  # ISO 8601


def _flag(cell: str) -> bool:
    try:
        return _YES[cell.strip().lower()]
    except KeyError:
        raise ValueError(f"{cell!r} is neither true nor false") from None


def _vector(cell: str) -> list[float]:
    return [float(number) for number in cell.strip("[] ").replace(",", " ").replace(";", " ").split()]


def _jodie(file: BinaryIO, name: str, topology: Topology) -> Iterator[StreamRecord]:
    """Interactions with their features, each followed by the state that the file gives the user at it."""
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
    for row in jodie_rows(file, name):
        if len(row.features) != vector.size:
            raise DataError(
                f"{name}: {len(row.features)} features a line, but feature {vector.name!r} of the topology has "
                f"size = {vector.size}"
            )
        content = {"user": row.user, "item": row.item, "timestamp": row.time, vector.name: row.features}
        yield record("interactions", row.user, content, row.time)
        for label in labels:
            content = {"node": row.user, "label": label, "value": row.changed, "timestamp": row.time}
            yield record("labels", row.user, content, row.time)
