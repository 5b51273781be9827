"""`plan`: how many workers, brokers and disks a rate takes, by what was measured."""

from __future__ import annotations

import click
import numpy as np
from rich.table import Table

from stream_tgat import capacity
from stream_tgat.commands.base import Command, console
from stream_tgat.topology import Topology
from stream_tgat.wire import EmbeddingEncoder, OutputSchemas, output_headers
from stream_tgat.wire.packets import PacketLayout

_RECORD_BYTES = 200
#: What Kafka adds to a record in a batch: lengths, offsets and times.
_RECORD_OVERHEAD = 12


def plan_command(topology: Topology) -> click.Command:
    """`plan`."""

    @click.command(cls=Command)
    @click.option("--rate", type=click.FloatRange(min=0, min_open=True), required=True, help="Interactions a second.")
    @click.option("--nodes", type=click.FloatRange(min=1), default=1e6, help="Users and items. Default: 1,000,000")
    @click.option(
        "--record-bytes", type=click.IntRange(1), default=_RECORD_BYTES,
        help=f"Of an interaction as it is sent. Default: {_RECORD_BYTES}",
    )  # fmt: skip
    @click.option("--broker-cores", type=click.FloatRange(0.5), default=4.0, help="Of each broker. Default: 4")
    @click.option("--share", type=click.FloatRange(0.05, 1), default=0.6, help="To be used at most. Default: 0.6")
    def plan(rate: float, nodes: float, record_bytes: int, broker_cores: float, share: float) -> None:
        """Say what this topology takes at a rate: workers, partitions, brokers, disk and network.

        By coefficients that were measured (docs/capacity.md); no broker is asked.

          faust -A stream_tgat plan --rate 5000
          faust -A stream_tgat plan --rate 1e5 --nodes 2e7
        """
        of, shape = capacity.Coefficients.measured_last(), capacity_shape(topology, record_bytes)
        load = capacity.Load(
            rate, nodes, topology.kafka.replication_factor, broker_cores=broker_cores, share=share
        )  # fmt: skip
        try:
            found = capacity.plan(shape, load, of)
        except ValueError as problem:
            raise click.ClickException(str(problem)) from None
        out = console()
        out.print(_table(found, load))
        for line in _assumptions(topology, shape, load, of):
            out.print(f"- {line}", markup=False, soft_wrap=False)
        told = f"{_count(found.workers, 'worker')} and {_count(found.brokers, 'broker')}"
        out.print(f"{told} take {rate:,.0f} interactions a second of {topology.name!r}.")

    return plan


def capacity_shape(topology: Topology, record_bytes: float) -> capacity.Shape:
    """What of a topology its costs depend on. record_bytes: of an interaction"""
    model = topology.model
    layout = PacketLayout(topology.id_bytes, topology.edge_width, topology.graph.node_features, (0, model.hidden))
    return capacity.Shape(
        edge=topology.edge_width,
        hidden=model.hidden,
        time=model.time_dim,
        neighbours=model.neighbours,
        candidates=model.candidates,
        layers=model.layers,
        interaction_bytes=record_bytes,
        embedding_bytes=_embedding_bytes(topology),
        half_edge_bytes=layout.half_edge.itemsize,
        peer_embedding_bytes=layout.peer_embedding[1].itemsize,
    )


def _embedding_bytes(topology: Topology) -> float:
    """Of a record of `embeddings`, as encoded: the mean of a user's and an item's."""
    encoder, vector = EmbeddingEncoder(topology, OutputSchemas(1, 2, 3)), np.random.default_rng(0)
    size = 0
    for side, (own, other) in enumerate((("user", "item"), ("item", "user"))):
        key, value = encoder.encode(
            interaction=b"interactions/3/000000000007",
            node=topology.node_key(own, f"{own}-123456"),  # type: ignore[arg-type]
            peer=topology.node_key(other, f"{other}-123456"),  # type: ignore[arg-type]
            side=side,
            timestamp=1714552200.123,
            embedding=vector.standard_normal(topology.model.hidden, np.float32),
            predictions=np.full(len(topology.heads), 0.1234567),
            model=12,
            late=False,
        )
        size += len(key) + len(value) + _RECORD_OVERHEAD
        size += sum(len(name) + len(each) + 2 for name, each in output_headers(topology, 12, "interactions", 3, 7))
    return size / 2


def _table(found: capacity.Plan, load: capacity.Load) -> Table:
    table = Table("", "in all", "each", box=None, pad_edge=False)
    workers, brokers = found.workers, found.brokers

    def of_brokers(each: float, unit: str = "") -> tuple[str, str]:
        return f"{_bytes(each)}{unit}", f"{_bytes(each / brokers)}{unit}"

    packets = found.packets_per_s
    rows = (
        ("workers", f"{workers:,}", f"{found.worker_cores / workers:.2f} cores"),
        ("… their CPU", f"{found.worker_cores:,.1f} cores", f"{found.worker_us:,.0f} µs an interaction"),
        ("… their disks", _bytes(found.worker_disk_bytes * workers), _bytes(found.worker_disk_bytes)),
        ("… packets between them", f"{packets:,.0f}/s", f"{packets / workers:,.0f}/s"),
        ("partitions of `propagation`", f"{found.partitions:,} at least", "one a worker"),
        ("brokers", f"{brokers:,}", f"{found.broker_cores / brokers:.2f} cores"),
        ("… their disks, a day kept", *of_brokers(found.log_bytes_per_day)),
        ("… and for the state", *of_brokers(found.state_bytes * load.replicas)),
        ("… network, with workers", *of_brokers(found.wire_bytes_per_s, "/s")),
        ("… network, copies", *of_brokers(found.replicated_bytes_per_s, "/s")),
    )
    for row in rows:
        table.add_row(*row)
    return table


def _assumptions(
    topology: Topology, shape: capacity.Shape, load: capacity.Load, of: capacity.Coefficients
) -> list[str]:
    model = f"E {shape.edge}, D {shape.hidden}, T {shape.time}, K {shape.neighbours}, L {shape.layers}"
    size = f"{shape.interaction_bytes:,.0f} bytes, an embedding {shape.embedding_bytes:,.0f}"
    used = f"A worker may use {load.worker_cores:g} cores, a broker has {load.broker_cores:g}; {load.share:.0%} of them"
    measured = f"Measured {of.measured} on {of.machine}, of which others used {of.beside_cores:g}"
    return [
        f"{model}; an interaction has {size} ({topology.kafka.output_format}).",
        f"{load.nodes:,.0f} nodes, each with its {shape.candidates} rows; {load.replicas} of each partition.",
        f"{used} are used, the rest is for catching up, and for when one is away.",
        f"{measured}; the engine's time is fitted within {of.engine_error:.0%}.",
        "Topics of others, questions, training and what is kept longer are not counted.",
    ]


def _count(number: int, name: str) -> str:
    return f"{number:,} {name}{'' if number == 1 else 's'}"


def _bytes(number: float) -> str:
    for unit in ("B", "kB", "MB", "GB"):
        if number < 1000:
            return f"{number:.3g} {unit}"
        number /= 1000
    return f"{number:,.3g} TB" if number < 1000 else f"{number:,.0f} TB"
