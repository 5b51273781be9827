"""`replay`: sends a file of past events into the topics, at full speed, at a rate, or faster than life."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, Protocol, cast

import click
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from stream_tgat.commands.base import Command, console
from stream_tgat.commands.records import RecordFile, ReplayFormat, open_records
from stream_tgat.commands.replayer import open_replayer
from stream_tgat.commands.verdicts import RowVerdict, Tally, judged
from stream_tgat.datasets.stream import StreamRecord
from stream_tgat.errors import DataError
from stream_tgat.topology import Topology
from stream_tgat.wire import InputTopic

Bad = Literal["stop", "skip", "send"]

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
        "--format",
        "form",
        type=click.Choice(["jsonl", "csv", "table", "jodie"]),
        help="Default: what the file's content and name say.",
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
        "--up-to-now",
        is_flag=True,
        help='With clock = "event": say at the end that nothing before this moment will follow.',
    )
    @click.option("--check", is_flag=True, help="Check all rows, say what is wrong with them, and send nothing.")
    @click.option(
        "--bad",
        type=click.Choice(["stop", "skip", "send"]),
        default="stop",
        help="Rows that workers would refuse: send nothing at all (default), leave them out, or send them to become "
        "dead letters.",
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
        check: bool,
        bad: str,
    ) -> None:
        """Send the events of FILE to `interactions`, at full speed or at a pace.

        FILE is in the order of time: JSON lines, CSV with names in its first line (also with tabs), Parquet or Arrow,
        packed with gzip or not. Fields are named as on the topic. A JODIE file (--format jodie) also sends its labels.
        All rows are checked against the topology first, and nothing is sent while one of them would become a dead
        letter. With clock = "event" in the topology the replay also tells the workers how far it is, so that the
        embeddings are the same at any speed.

          faust -A stream_tgat replay purchases.csv --check
          faust -A stream_tgat replay purchases.jsonl --rate 1000
          faust -A stream_tgat replay purchases.csv.gz --speed 3600
          faust -A stream_tgat replay products.parquet --topic nodes
          STREAM_TGAT_TOPOLOGY=wikipedia_bans faust -A stream_tgat replay wikipedia.csv --format jodie

        One line of purchases.jsonl:

          {"user": "ann", "item": "tea", "timestamp": "2024-05-01T08:30:00Z", "quantity": 2}
        """
        if form == "jodie" and topic != "interactions":
            raise DataError("a JODIE file holds interactions and their labels; leave --topic out")
        wanted = _Wanted(file, cast("ReplayFormat | None", form), cast("InputTopic", topic), limit, allow_late)
        if check:
            tally = wanted.check(topology)
            console().print(f"{file.name}: {tally.count:,} rows, all good; nothing was sent (--check)")
            return
        if bad == "stop":
            if not file.is_file():
                raise DataError(
                    f"{file} is no regular file, so it cannot be read twice, to check it first; say --bad skip or send"
                )
            wanted.check(topology)
        job = _Job(topology, wanted, Pace(rate, speed), cast("Bad", bad), up_to_now)
        asyncio.run(job.run())

    return replay


@dataclass(frozen=True)
class _Wanted:
    """What is to be read, and how."""

    path: Path
    form: ReplayFormat | None
    topic: InputTopic
    limit: int | None
    allow_late: bool

    def open(self, topology: Topology) -> AbstractContextManager[RecordFile]:
        return open_records(self.path, topology, self.topic, self.form)

    def first(self, verdicts: Iterator[RowVerdict]) -> Iterator[RowVerdict]:
        """Up to `limit` rows of the first one's topic, with the others in between and after."""
        return verdicts if self.limit is None else _first(verdicts, self.limit)

    def check(self, topology: Topology) -> Tally:
        """What is wrong with the rows; DataError, after it has been shown, if something is."""
        tally = Tally()
        with self.open(topology) as file, _progress() as progress:
            task = progress.add_task(f"check {self.path.name}", total=1.0, sent="", rate="")
            for verdict in self.first(judged(file, topology, allow_late=self.allow_late)):
                tally.add(verdict.where, verdict.reason)
                if tally.count % _CHUNK == 0:
                    share = tally.count / self.limit if self.limit else file.done
                    progress.update(task, completed=share, sent=f"{tally.count:,} rows", rate=f"{tally.bad:,} bad")
        if tally.bad:
            tally.show(console())
            raise DataError(
                f"{self.path.name}: {tally.bad:,} of {tally.count:,} rows are bad, and nothing was sent; correct them, "
                "or leave them out with --bad skip"
            )
        return tally


@dataclass(frozen=True)
class _Job:
    topology: Topology
    wanted: _Wanted
    pace: Pace
    bad: Bad
    up_to_now: bool

    async def run(self) -> None:
        start = time.monotonic()
        sent = late = 0
        limit, left_out = self.wanted.limit, Tally()
        try:
            with self.wanted.open(self.topology) as file, _progress() as progress:
                task = progress.add_task(self.wanted.path.name, total=1.0, sent="", rate="")
                async with open_replayer(self.topology, allow_late=self.wanted.allow_late) as replayer:

                    def show(count: int) -> None:
                        nonlocal sent, late
                        sent, late = sent + count, replayer.late
                        speed = sent / max(time.monotonic() - start, 1e-9)
                        done = sent / limit if limit else file.done
                        progress.update(task, completed=done, sent=f"{sent:,} sent", rate=f"{speed:,.0f}/s")

                    await send_paced(replayer, self._records(file, left_out), self.pace, show)
                    if self.wanted.topic == "interactions":
                        await replayer.finish(time.time() if self.up_to_now else None)
                    await replayer.flush()
        finally:
            seconds = max(time.monotonic() - start, 1e-9)
            note = f", {late:,} of them late" if late else ""
            if left_out.bad:
                console().print(f"left out {left_out.bad:,} of {left_out.count:,} rows:")
                left_out.show(console())
            if sent:
                console().print(f"sent {sent:,} records{note} in {seconds:.1f} s ({sent / seconds:,.0f}/s)")

    def _records(self, file: RecordFile, left_out: Tally) -> Iterator[StreamRecord]:
        """What is sent of the rows; those that are not are counted."""
        if self.bad == "stop":
            verdicts: Iterator[RowVerdict] = (RowVerdict(file.where(each.number), each.record, None) for each in file)
        else:
            # One by one, since the file may be a pipe that somebody writes slowly.
            verdicts = judged(file, self.topology, allow_late=self.wanted.allow_late, together=1)
        newest = 0.0
        for verdict in self.wanted.first(verdicts):
            record, reason = verdict.record, verdict.reason
            if record is not None and reason is None:
                newest = max(newest, record.time)
                yield record
            elif record is not None and self.bad == "send":
                # Its own time may be what is wrong, and must not be what the workers are told of the progress.
                yield replace(record, time=newest)
                reason = None
            left_out.add(verdict.where, reason)


def _first(verdicts: Iterator[RowVerdict], limit: int) -> Iterator[RowVerdict]:
    count = 0
    topic: str | None = None
    for verdict in verdicts:
        found = None if verdict.record is None else verdict.record.topic
        topic = topic or found
        count += found in (topic, None)
        if count > limit:
            return
        yield verdict


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
