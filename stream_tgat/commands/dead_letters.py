"""`dead-letters`: what could not be used and why, and sending it again when that is mended."""

from __future__ import annotations

import base64
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import wraps
from typing import Any, cast

import click
import orjson

from stream_tgat.brokers import reach
from stream_tgat.commands.base import CommandGroup, console, step_bars, when
from stream_tgat.commands.resending import Resending
from stream_tgat.commands.verdicts import Tally
from stream_tgat.durations import seconds_of
from stream_tgat.errors import WireError
from stream_tgat.topology import Topology
from stream_tgat.training.kafka_log import read_topic
from stream_tgat.wire import InputTopic, Letter, parse_time, read_letter

_FEW = 10
_SHOWN_BYTES = 400


@dataclass(frozen=True)
class LetterFilter:
    """Which letters are asked for.

    reason: part of it, in any case   topic: that the record was refused on   since, until: unix seconds, when it was
    """

    reason: str | None = None
    topic: InputTopic | None = None
    since: float = float("-inf")
    until: float = float("inf")

    def takes(self, letter: Letter, refused: float, topology: Topology) -> bool:
        """Whether a letter is asked for. refused: unix seconds at which the letter was written"""
        if self.topic is not None and letter.topic not in topology.input_topics(self.topic):
            return False
        if self.reason is not None and self.reason.lower() not in letter.reason.lower():
            return False
        return self.since <= refused < self.until


@dataclass(frozen=True)
class FoundLetter:
    """A letter on the topic. refused: unix seconds at which it was written"""

    letter: Letter
    refused: float


@dataclass
class _Reading:
    """Letters of a topic that are asked for. count: of all letters that were read"""

    topology: Topology
    wanted: LetterFilter
    count: int = 0
    foreign: int = 0

    def __iter__(self) -> Iterator[FoundLetter]:
        topic = self.topology.topics.dead_letters
        with step_bars(disable=not console(stderr=True).is_terminal) as bars:
            task = bars.add_task(f"read {topic}", total=None)
            for record in read_topic(
                self.topology, topic, progress=lambda done, total: bars.update(task, completed=done, total=total)
            ):
                self.count += 1
                try:
                    letter = read_letter(record.key, record.value, list(record.headers or ()))
                except WireError:
                    # Somebody else's, or of an older version: counted, and told at the end.
                    self.foreign += 1
                    continue
                if self.wanted.takes(letter, record.timestamp / 1e3, self.topology):
                    yield FoundLetter(letter, record.timestamp / 1e3)

    def tell(self) -> None:
        """Say what was not shown, if there was something."""
        if self.foreign:
            console().print(f"{self.foreign:,} records are no letters of a worker, and were passed over.")


def dead_letters_command(topology: Topology) -> click.Group:
    """`dead-letters list | show | resend`."""

    @click.group(cls=CommandGroup)
    def dead_letters() -> None:
        """Look at records that could not be used, and send them again when what was wrong is mended.

        faust -A stream_tgat dead-letters list
        faust -A stream_tgat dead-letters show --reason "field 'price'" --limit 3
        faust -A stream_tgat dead-letters resend --since 2h
        """

    @dead_letters.command(name="list")
    @_filters
    def list_(wanted: LetterFilter) -> None:
        """Kinds of reasons, how many letters of each, and examples.

        faust -A stream_tgat dead-letters list
        faust -A stream_tgat dead-letters list --topic labels --since 2024-05-01
        """
        reach(topology.kafka)
        reading, tally = _Reading(topology, wanted), Tally()
        first, last = float("inf"), float("-inf")
        for found in reading:
            tally.add(f"{found.letter.place}", found.letter.reason)
            first, last = min(first, found.refused), max(last, found.refused)
        tally.show(console())
        reading.tell()
        if not tally.count:
            console().print(f"No dead letters{_of(reading)}.")
            return
        console().print(
            f"{tally.count:,} dead letters{_of(reading)}, refused from {when(first)} to {when(last)} (UTC). What is in "
            "them: faust -A stream_tgat dead-letters show"
        )

    @dead_letters.command()
    @_filters
    @click.option("--limit", type=click.IntRange(1), help="Show LIMIT letters (default: 10; with --json, all).")
    @click.option("--json", "as_json", is_flag=True, help="One JSON object a line, complete.")
    def show(wanted: LetterFilter, limit: int | None, as_json: bool) -> None:
        """Letters in full: where the record lay, why it was refused, its key, headers and value.

          faust -A stream_tgat dead-letters show --reason timestamp

        Values can be mended by hand, and sent as a file:

          faust -A stream_tgat dead-letters show --topic interactions --json | jq -r .value > events.jsonl
        """
        reach(topology.kafka)
        most = limit if limit or as_json else _FEW
        shown = 0
        reading = _Reading(topology, wanted)
        for found in reading:
            if most is not None and shown == most:
                console(stderr=True).print(f"There are more; --limit shows more than {most}.")
                return
            shown += 1
            if as_json:
                click.echo(orjson.dumps(as_object(found)))
            else:
                _print(found)
        if not as_json:
            reading.tell()
            if not shown:
                console().print(f"No dead letters{_of(reading)}.")

    @dead_letters.command()
    @_filters
    @click.option(
        "--check", is_flag=True, help="Say what would be sent, and what would be refused again; send nothing."
    )
    @click.option("--anyway", is_flag=True, help="Also send what this topology would refuse again.")
    def resend(wanted: LetterFilter, check: bool, anyway: bool) -> None:
        """Send refused records again, as they were, to where they lay: after the topology or the workers are mended.

        What this topology would refuse again is left out and counted, and so is what was too huge to be kept whole. An
        interaction keeps the id that it had, so that sending it twice changes nothing. Its time is the old one, so live
        workers mark it late. Features of a node replace those that came after them.

          faust -A stream_tgat dead-letters resend --check
          faust -A stream_tgat dead-letters resend --reason "ahead of the clock"
        """
        reach(topology.kafka)
        reading = _Reading(topology, wanted)
        with Resending(topology, check=check, anyway=anyway) as resending:
            for found in reading:
                resending.take(found.letter)
        resending.left_out.show(console())
        reading.tell()
        done = "would be sent again" if check else "sent again"
        console().print(
            f"{resending.sent:,} of {resending.taken:,} dead letters {done}, {resending.left_out.bad:,} left out."
        )

    return dead_letters


def as_object(found: FoundLetter) -> dict[str, Any]:
    """A letter as JSON: bytes as text where they are UTF-8, and else in base64 under another name."""
    letter = found.letter
    content: dict[str, Any] = {
        "reason": letter.reason,
        "topic": letter.topic,
        "partition": letter.partition,
        "offset": letter.offset,
        "refused": found.refused,
        "written": letter.written,
        **_text_or_base64("key", letter.key),
        **_text_or_base64("value", letter.value),
        "headers": [{"name": name, **_text_or_base64("value", value)} for name, value in letter.headers],
    }
    return content if letter.size is None else {**content, "truncated": letter.size}


def _text_or_base64(name: str, data: bytes | None) -> dict[str, str | None]:
    if data is None:
        return {name: None}
    try:
        return {name: data.decode()}
    except UnicodeDecodeError:
        return {f"{name}_base64": base64.b64encode(data).decode()}


def _print(found: FoundLetter) -> None:
    out, letter = console(), found.letter
    out.print(f"[bold]{letter.place}[/], refused {when(found.refused)}")
    lines = [("reason", letter.reason), ("key", _printable(letter.key))]
    lines += [("header", f"{name}: {_printable(value)}") for name, value in letter.headers]
    size = "" if letter.size is None else f" … ({letter.size:,} bytes, of which {len(letter.value or b''):,} were kept)"
    lines.append(("value", _printable(letter.value) + size))
    for name, text in lines:
        out.print(f"  {name:<8}{text}", markup=False)


def _printable(data: bytes | None) -> str:
    if data is None:
        return "none"
    text = data[:_SHOWN_BYTES].decode("utf-8", "backslashreplace")
    shown = "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)
    return shown if len(data) <= _SHOWN_BYTES else f"{shown}… ({len(data):,} bytes)"


def _of(reading: _Reading) -> str:
    return "" if reading.wanted == LetterFilter() else f" that fit, of {reading.count:,}"


class _Moment(click.ParamType):
    """A point of time, or how long ago."""

    name = "TIME"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Unix seconds."""
        try:
            return time.time() - seconds_of(value)
        except ValueError:
            pass
        try:
            return parse_time(value)
        except WireError as problem:
            self.fail(f'{problem}; or how long ago, such as "2h"', param, ctx)


def _filters(function: Callable[..., None]) -> Callable[..., None]:
    """The options that choose letters, which become the argument `wanted`."""

    @wraps(function)
    def chosen(reason: str | None, topic: str | None, since: float | None, until: float | None, **more: Any) -> None:
        wanted = LetterFilter(
            reason,
            cast("InputTopic | None", topic),
            float("-inf") if since is None else since,
            float("inf") if until is None else until,
        )
        function(wanted=wanted, **more)

    for option in (
        click.option("--until", type=_Moment(), help="Only those refused before TIME."),
        click.option("--since", type=_Moment(), help="Only those refused since TIME: 2024-05-01T08:30:00Z, or 2h ago."),
        click.option("--topic", type=click.Choice(["interactions", "labels", "nodes"]), help="Only of this topic."),
        click.option("--reason", help="Only those in whose reason this text is found."),
    ):
        chosen = option(chosen)
    return chosen
