"""`inspect NODE`: what a worker knows about a node, read from its disk while it runs."""

from __future__ import annotations

import tempfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol, cast

import click
import numpy as np
import orjson
from numpy.typing import NDArray
from rich.markup import escape
from rich.table import Table
from rocksdict import AccessType, Options, Rdict

from stream_tgat.commands.base import Command, console, when
from stream_tgat.errors import DataError
from stream_tgat.storage.layout import LATE, PLACEHOLDER, Layout
from stream_tgat.topology import STATE_TABLE, Kind, Topology, split_node_key

# Faust's name for how far a local table has come in its changelog.
_OFFSET_KEY = b"__faust\0offset__"


class Reader(Protocol):
    """What is needed of a store."""

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """The value of each key, None where there is none."""


@dataclass(frozen=True)
class InspectedRow:
    """One past interaction of a node.

    side: "user" or "item", the node's own part in it   edge: float32 [E]
    peer_embeddings: by layer, the version of the peer's state or None   done: its embedding has left
    """

    interaction: str
    peer: str
    time: float
    side: Kind
    late: bool
    done: bool
    peer_embeddings: tuple[int | None, ...]
    edge: NDArray[np.float32]


@dataclass(frozen=True)
class StoredNode:
    """What is stored of a node; `rows` oldest first, `evicted` older ones are only counted.

    alerts: by head, (probability at the newest interaction, time of the last alert), None where there was none yet
    """

    node: bytes
    partition: int
    evicted: int
    rows: tuple[InspectedRow, ...]
    alerts: dict[str, tuple[float | None, float | None]]


def state_layout(topology: Topology) -> Layout:
    """The layout of a worker's state as far as it is needed: the widths of peer embeddings are the model's."""
    model, graph = topology.model, topology.graph
    widths = (1,) * model.layers
    return Layout(
        topology.id_bytes,
        topology.edge_width,
        graph.node_features,
        widths,
        model.candidates,
        topology.head_names,
        model.decay_s,
    )


def read_neighbourhood(reader: Reader, topology: Topology, node: bytes) -> StoredNode | None:
    """The stored past of the node with this key; None if it has none."""
    layout = state_layout(topology)
    (record_bytes,) = reader.get_many([layout.node_key(b"h", node)])
    if record_bytes is None:
        return None
    record = layout.read_node(record_bytes)
    numbers = (record.entries >> 1).tolist()
    stored = reader.get_many([layout.row_key(node, number) for number in numbers])
    layers = range(len(layout.state_widths))
    peer_embeddings = reader.get_many(
        [layout.peer_embedding_key(node, number, layer) for number in numbers for layer in layers]
    )
    rows = []
    for at, value in enumerate(stored):
        if value is None:
            raise DataError(f"the state of {node!r} has no row {numbers[at]}, although its record lists it")
        row = np.frombuffer(value, layout.row, 1)[0]
        if not row["flags"] & PLACEHOLDER:  # invisible until its half-edge comes
            mine = peer_embeddings[at * len(layers) : (at + 1) * len(layers)]
            versions = tuple(_version(peer_embedding, layout, int(row["seq"])) for peer_embedding in mine)
            rows.append(_row(row, versions, done=bool(record.entries[at] & 1)))
    states = {int(alert["head"]): (_known(alert["probability"]), _known(alert["alerted"])) for alert in record.alerts}
    ids = layout.head_ids.tolist()
    alerts = {name: states.get(known, (None, None)) for name, known in zip(topology.head_names, ids, strict=True)}
    partition = zlib.crc32(node) % topology.kafka.partitions
    return StoredNode(node, partition, record.evicted, tuple(rows), alerts)


@contextmanager
def open_state(data: Path, partition: int) -> Iterator[Reader]:
    """The state of a partition below a data folder, as its worker last wrote it; the worker may be running.

    Of several copies (a standby, a worker that had the partition before) the one that has come furthest is read.
    """
    paths = sorted(data.glob(f"**/tables/{STATE_TABLE}-{partition}.db"))
    if not paths:
        raise DataError(
            f"no state of partition {partition} below {data}: name the folder that the worker was given as --datadir "
            "with --data-dir, or look on the machine of the worker that has this partition"
        )
    with tempfile.TemporaryDirectory() as scratch:
        databases = []
        try:
            for number, path in enumerate(paths):
                options = Options(raw_mode=True)
                options.set_max_open_files(-1)  # files that the worker has merged away must stay readable
                databases.append(Rdict(str(path), options, access_type=AccessType.secondary(f"{scratch}/{number}")))
            yield _RocksReader(max(databases, key=lambda database: int(database.get(_OFFSET_KEY) or -1)))
        finally:
            for database in databases:
                database.close()


def inspect_command(topology: Topology) -> click.Command:
    """`inspect NODE`."""

    @click.command(cls=Command)
    @click.argument("node")
    @click.option(
        "--kind", type=click.Choice(["user", "item"]), help="Default: a user, or an item if there is no such user."
    )
    @click.option(
        "--data-dir",
        type=click.Path(exists=True, file_okay=False, path_type=Path),
        help="Folder of the worker's state; those of several workers may lie below it (default: serving.data_dir).",
    )
    @click.option("--limit", type=click.IntRange(1), default=20, show_default=True, help="Newest rows to show.")
    @click.option("--json", "as_json", is_flag=True, help="One JSON object with all rows and edge features.")
    def inspect(node: str, kind: str | None, data_dir: Path | None, limit: int, as_json: bool) -> None:
        """Show the neighbourhood of NODE: its past interactions that queries still see, as its worker keeps them.

        Run it on the machine of the worker that has the node's partition. It reads the worker's files beside the
        running worker and sees what was last committed.

          faust -A stream_tgat inspect ann
          faust -A stream_tgat inspect tea --kind item --json
        """
        folder = data_dir or topology.serving.data_dir
        found = _find(topology, folder, node, cast("Literal['user', 'item'] | None", kind))
        if as_json:
            click.echo(orjson.dumps(_as_json(found), option=orjson.OPT_SERIALIZE_NUMPY))
        else:
            _show(found, limit)

    return inspect


def _find(topology: Topology, folder: Path, node: str, kind: Kind | None) -> StoredNode:
    kinds: tuple[Kind, ...] = (kind,) if kind else ("user", "item")
    for key in dict.fromkeys(topology.node_key(each, node) for each in kinds):
        if len(key) > topology.id_bytes:
            raise DataError(f"{node!r} is longer than any node's name: graph.max_id_bytes is {topology.id_bytes}")
        with open_state(folder, zlib.crc32(key) % topology.kafka.partitions) as reader:
            found = read_neighbourhood(reader, topology, key)
        if found is not None:
            return found
    what = f"{kind} " if kind else ""
    raise DataError(f"{what}{node!r} has no past in the state below {folder}: no interaction with it was committed yet")


class _RocksReader:
    def __init__(self, database: Rdict) -> None:
        self._database = database

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """The value of each key, None where there is none."""
        return list(self._database.get(list(keys))) if keys else []


def _row(row: np.void, peer_embeddings: tuple[int | None, ...], *, done: bool) -> InspectedRow:
    return InspectedRow(
        interaction=row["interaction"].decode(),
        peer=split_node_key(row["peer"])[1],
        time=float(row["time"]),
        side="item" if row["side"] else "user",
        late=bool(row["flags"] & LATE),
        done=done,
        peer_embeddings=peer_embeddings,
        edge=row["edge"].copy(),
    )


def _version(peer_embedding: bytes | None, layout: Layout, seq: int) -> int | None:
    """The version of a stored peer embedding; None if there is none, or only one of an earlier row with this number."""
    if peer_embedding is None:
        return None
    fields = np.dtype([(name, layout.peer_embedding[0].fields[name][0]) for name in ("seq", "version")])  # type: ignore[index]
    (start,) = np.frombuffer(peer_embedding, fields, 1)
    return int(start["version"]) if int(start["seq"]) == seq else None


def _known(number: float) -> float | None:
    return float(number) if np.isfinite(number) else None


def _as_json(found: StoredNode) -> dict[str, Any]:
    kind, name = split_node_key(found.node)
    return {
        "node": name,
        "kind": kind,
        "partition": found.partition,
        "interactions": found.evicted + len(found.rows),
        "alerts": {head: {"probability": p, "alerted": at} for head, (p, at) in found.alerts.items()},
        "rows": [vars(row) | {"peer_embeddings": list(row.peer_embeddings)} for row in found.rows],
    }


def _show(found: StoredNode, limit: int) -> None:
    kind, name = split_node_key(found.node)
    out = console()
    waiting = sum(not row.done for row in found.rows)
    out.print(
        f"{kind or 'node'} [bold]{escape(name)}[/], partition {found.partition}: {found.evicted + len(found.rows):,} "
        f"interactions, {len(found.rows)} kept"
        + (f", [yellow]{waiting} waiting for their embedding[/]" if waiting else "")
    )
    for head, (probability, at) in found.alerts.items():
        if probability is not None:
            alerted = f", last alert {when(at)}" if at is not None else ""
            out.print(f"  {escape(head)}: {probability:.3f}{alerted}")
    layers = sorted(
        {
            layer
            for row in found.rows
            for layer, peer_embedding in enumerate(row.peer_embeddings)
            if peer_embedding is not None
        }
    )
    table = Table("time", "peer", "interaction", *(f"h{layer}" for layer in layers), "", box=None, header_style="bold")
    for row in reversed(found.rows[-limit:]):
        peer_embeddings = (
            "·" if row.peer_embeddings[layer] is None else f"v{row.peer_embeddings[layer]}" for layer in layers
        )
        notes = ", ".join(word for word, holds in (("late", row.late), ("waiting", not row.done)) if holds)
        table.add_row(when(row.time), escape(row.peer), f"[dim]{escape(row.interaction)}[/]", *peer_embeddings, notes)
    out.print(table)
