"""`replay`: sends a file of past events into the topics, at full speed, at a rate, or faster than life."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Protocol, cast

import click
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from stream_tgat.commands.base import Command, console
from stream_tgat.commands.records import Format, TopicName, format_of, read_records
from stream_tgat.commands.replayer import open_replayer
from stream_tgat.errors import DataError
from stream_tgat.evaluation.datasets.stream import StreamRecord
from stream_tgat.topology import Topology

_CHUNK = 2000
# Waking for every event of a fast stream would cost more than the events.
_TICK_S = 0.005


@dataclass(frozen=True)
class Pace:
    """When each record is due.

    rate: records a second, None for no such limit.   speed: event seconds that pass in one second, None for no limit.
    """

    rate: float | None = None
    speed: float | None = None

    def due_s(self, index: int, since_first_s: float) -> float:
        """Seconds from the start at which record `index` is to leave; it happened `since_first_s` after the first."""
        by_rate = index / self.rate if self.rate else 0.0
        return max(by_rate, since_first_s / self.speed if self.speed else 0.0)


class Sender(Protocol):
    """What paced records go to: a `Replayer`, or something that looks at them first."""

    async def send(self, records: Iterable[StreamRecord]) -> None:
        """Take records in the order given."""


async def send_paced(
    sender: Sender, records: Iterator[StreamRecord], pace: Pace, on_sent: Callable[[int], None] = lambda _: None
) -> None:
    """Send everything at its pace; `on_sent` hears the number of records of each chunk.

    The pace is that of the topic of the first record; labels between interactions go along.
    """
    start = time.monotonic()
    first = next(records, None)
    if first is None:
        return
    chunk: list[StreamRecord] = []
    index = 0

    async def send() -> None:
        await sender.send(chunk)
        on_sent(len(chunk))
        chunk.clear()
        # The producer works in this thread too: without a pause it would only hear of the batches at the end.
        await asyncio.sleep(0)

    for record in itertools.chain((first,), records):
        early = start + pace.due_s(index, record.time - first.time) - time.monotonic()
        if chunk and (early > 0 or len(chunk) >= _CHUNK):
            await send()
        if early > 0:
            await asyncio.sleep(max(early, _TICK_S))
        chunk.append(record)
        index += record.topic == first.topic
    await send()


def replay_command(topology: Topology) -> click.Command:
    """`replay FILE`."""

    @click.command(cls=Command)
    @click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
    @click.option("--rate", type=click.FloatRange(0, min_open=True), help="Events a second.")
    @click.option(
        "--speed", type=click.FloatRange(0, min_open=True), help="Times as fast as it happened; 1 = real time."
    )
    @click.option("--limit", type=click.IntRange(1), help="Send only the first LIMIT events.")
    @click.option(
        "--format", "form", type=click.Choice(["jsonl", "csv", "jodie"]), help="Default: from the name of the file."
    )
    @click.option(
        "--topic",
        type=click.Choice(["interactions", "labels", "nodes"]),
        default="interactions",
        help="What the records are (default: interactions).",
    )
    @click.option(
        "--allow-late", is_flag=True, help="Send events that are out of order, to be marked late, instead of stopping."
    )
    @click.option(
        "--up-to-now", is_flag=True, help="Say at the end that nothing before this moment will follow; for live clocks."
    )
    def replay(
        file: Path,
        rate: float | None,
        speed: float | None,
        limit: int | None,
        form: str | None,
        topic: str,
        allow_late: bool,
        up_to_now: bool,
    ) -> None:
        """Send the events of FILE to `interactions`, at full speed or at a pace.

        FILE is in the order of time. JSON lines carry the fields of the topic as they are; a CSV file names them in its
        first line; a JODIE file (--format jodie) also sends its labels. The replay tells the workers how far it is, so
        that with clock = "event" in the topology the embeddings are the same at any speed.

          faust -A stream_tgat replay purchases.jsonl --rate 1000
          faust -A stream_tgat replay purchases.csv --speed 3600
          faust -A stream_tgat replay products.jsonl --topic nodes
          STREAM_TGAT_TOPOLOGY=wikipedia_bans faust -A stream_tgat replay wikipedia.csv --format jodie

        One line of purchases.jsonl:

          {"user": "ann", "item": "tea", "timestamp": "2024-05-01T08:30:00Z", "quantity": 2}
        """
        kind = cast("Format", form) if form else format_of(file)
        if kind == "jodie" and topic != "interactions":
            raise DataError("a JODIE file holds interactions and their labels; leave --topic out")
        job = _Job(topology, file, kind, cast("TopicName", topic), Pace(rate, speed), limit, allow_late, up_to_now)
        asyncio.run(job.run())

    return replay


@dataclass(frozen=True)
class _Job:
    topology: Topology
    path: Path
    form: Format
    topic: TopicName
    pace: Pace
    limit: int | None
    allow_late: bool
    up_to_now: bool

    async def run(self) -> None:
        start = time.monotonic()
        sent = late = 0
        try:
            with self.path.open("rb") as file, _progress() as progress:
                task = progress.add_task(self.path.name, total=self.limit or self.path.stat().st_size, sent="", rate="")
                async with open_replayer(self.topology, allow_late=self.allow_late) as replayer:

                    def show(count: int) -> None:
                        nonlocal sent, late
                        sent, late = sent + count, replayer.late
                        speed = sent / max(time.monotonic() - start, 1e-9)
                        done = sent if self.limit else file.tell()
                        progress.update(task, completed=done, sent=f"{sent:,} sent", rate=f"{speed:,.0f}/s")

                    await send_paced(replayer, self._records(file), self.pace, show)
                    if self.topic == "interactions":
                        await replayer.finish(time.time() if self.up_to_now else None)
                    await replayer.flush()
        finally:
            seconds = max(time.monotonic() - start, 1e-9)
            note = f", {late:,} of them late" if late else ""
            if sent:
                console().print(f"sent {sent:,} records{note} in {seconds:.1f} s ({sent / seconds:,.0f}/s)")

    def _records(self, file: BinaryIO) -> Iterator[StreamRecord]:
        records = read_records(file, self.path.name, self.form, self.topology, self.topic)
        return records if self.limit is None else _first(records, self.limit)


def _first(records: Iterator[StreamRecord], limit: int) -> Iterator[StreamRecord]:
    """Up to `limit` records of the first one's topic, with the others in between and after."""
    count = 0
    topic: str | None = None
    for record in records:
        topic = topic or record.topic
        count += record.topic == topic
        if count > limit:
            return
        yield record


def _progress() -> Progress:
    out = console(stderr=True)
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TextColumn("{task.fields[sent]}  {task.fields[rate]}"),
        TimeRemainingColumn(),
        console=out,
        transient=True,
        disable=not out.is_terminal,
    )
