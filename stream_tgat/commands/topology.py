"""`topology check | init | asyncapi`: what becomes of records, a first topology of them, a document for others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import click
import orjson
from rich.markup import escape

from stream_tgat.brokers import reach, written_at
from stream_tgat.commands.asyncapi import asyncapi
from stream_tgat.commands.base import CommandGroup, console, when
from stream_tgat.commands.drafting import RecordFormat, draft
from stream_tgat.commands.verdicts import shortened
from stream_tgat.errors import DataError, MissingTopicError, WireError
from stream_tgat.features import Feature
from stream_tgat.files import BadRow, number, open_rows
from stream_tgat.schema_registry import RegisteredValues
from stream_tgat.topology import ROLES, Role, Topology, split_node_key
from stream_tgat.training.kafka_log import read_topic, topic_range
from stream_tgat.wire import (
    DeadLetter,
    DecodedInteraction,
    DecodedLabel,
    DecodedNode,
    InteractionReader,
    LabelReader,
    NodeReader,
    PassedOver,
    Several,
    decode_object,
)
from stream_tgat.wire.cloudevents import is_cloudevent, read_cloudevent, require_sdk
from stream_tgat.wire.formats import Headers
from stream_tgat.wire.values import schema_registry

_SHOWN_LINES = 3
_SHOWN_TAKEN = 5


def topology_command(topology: Topology) -> click.Group:
    """`topology check | init | asyncapi`."""

    @click.group(name="topology", cls=CommandGroup)
    def group() -> None:
        """See what a topology makes of real records, or have a first one written.

        faust -A stream_tgat topology check --sample 100
        faust -A stream_tgat topology init --topic shop.orders
        """

    @group.command()
    @click.option(
        "--sample", type=click.IntRange(1), default=100, help="The newest so many of each topic (default: 100)."
    )
    @click.option("--each", is_flag=True, help="Show each record, also those that are like others.")
    def check(sample: int, each: bool) -> None:
        """Read the newest records of each topic that is read, and show what becomes of them.

        Of what is taken it shows some, and of what would be a dead letter one for each reason. Nothing is sent. Ends
        with exit code 1 if one of them would be a dead letter.

          faust -A stream_tgat topology check --sample 100
        """
        reach(topology.kafka)
        counts: Counter[str] = Counter()
        for role in ROLES:
            for topic in topology.input_topics(role):
                counts += _check(topology, role, topic, sample, each=each)
        refused = counts["refused"]
        told = f"{counts['taken']:,} of {counts.total():,} records are taken, {counts['passed over']:,} passed over"
        console().print(f"{told}, {refused:,} would be dead letters.")
        if refused:
            raise click.exceptions.Exit(1)

    @group.command()
    @click.option("--topic", help="Look at the newest records of this topic.")
    @click.option("--sample", type=click.IntRange(1), default=1000, help="Look at so many records (default: 1000).")
    @click.option("--name", help="What to call the deployment (default: by the topic or the file).")
    @click.option("--out", type=click.Path(dir_okay=False, path_type=Path), help="Write it here, not on the terminal.")
    @click.argument("file", required=False, type=click.Path(exists=True, dir_okay=False, path_type=Path))
    def init(topic: str | None, sample: int, name: str | None, out: Path | None, file: Path | None) -> None:
        """Look at records, and write a topology for them that only has to be corrected.

        Says of each choice what it rests on. It needs no topology: KAFKA_BOOTSTRAP_SERVERS names the brokers, and
        SCHEMA_REGISTRY_URL the schema registry if there is one.

          faust -A stream_tgat topology init --topic shop.orders --out orders.toml
          faust -A stream_tgat topology init purchases.csv --out purchases.toml
        """
        if (topic is None) == (file is None):
            raise click.UsageError("name either a topic (--topic) or a file")
        if file is not None:
            form, records, base = None, list(_rows(file, sample)), file.name.split(".")[0]
        else:
            reach(topology.kafka)
            try:
                form, records = _values(topology, str(topic), sample)
            except MissingTopicError:
                servers = topology.kafka.bootstrap_servers
                raise MissingTopicError(f"There is no topic {topic!r} at {servers}; name one that is there") from None
            base = str(topic)
        made = draft(records, name or "".join(c if c.isalnum() else "_" for c in base)[:64], topic, form)
        if out is None:
            click.echo(made.text, nl=False)
            return
        try:
            with out.open("x") as created:
                created.write(made.text)
        except FileExistsError:
            raise DataError(f"{out} is there already; name another file, or remove it") from None
        console().print(f"{out}: correct it, and see: STREAM_TGAT_TOPOLOGY={out} faust -A stream_tgat topology check")

    @group.command("asyncapi")
    @click.option("--out", type=click.Path(dir_okay=False, path_type=Path), help="Write it here, not on the terminal.")
    def document(out: Path | None) -> None:
        """The topics of this deployment as an AsyncAPI 3 document, in JSON: for those who send to it and read from it.

        faust -A stream_tgat topology asyncapi --out asyncapi.json
        """
        content = orjson.dumps(asyncapi(topology), option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)
        if out is None:
            click.echo(content, nl=False)
            return
        out.write_bytes(content)
        console().print(f"{out}: the topics of {topology.name}")

    return group


def _newest(topology: Topology, topic: str, count: int) -> Iterator[Any]:
    """The newest records of a topic, evenly over its partitions."""
    present = topic_range(topology, topic)
    each = -(-count // len(present))
    part = {partition: (max(first, end - each), end) for partition, (first, end) in present.items()}
    yield from islice(read_topic(topology, topic, part), count)


def _check(topology: Topology, role: Role, topic: str, sample: int, *, each: bool) -> Counter[str]:
    """How many records are taken, passed over and refused. each: show all of them"""
    readers: dict[Role, Any] = {"interactions": InteractionReader, "labels": LabelReader, "nodes": NodeReader}
    reader, out, counts = readers[role](topology), console(), Counter[str]()
    out.print(f"[bold]{escape(topic)}[/] ({role})" if topic != role else f"[bold]{escape(topic)}[/]")
    alike = Counter[str]()
    try:
        newest = list(_newest(topology, topic, sample))
    except MissingTopicError:
        if topology.is_foreign(topic):
            raise
        out.print("  there is no such topic yet; create it: faust -A stream_tgat topics create")
        return counts
    for record in newest:
        found = reader.read(record, written_at(record))
        interactions = _interactions(found)
        if interactions:
            errors = [error for error in topology.encoder.encode([each.fields for each in interactions])[1] if error]
            found = DeadLetter(reader.told(errors[0])) if errors else found
        place = f"{record.partition}/{record.offset}"
        if isinstance(found, DeadLetter):
            counts["refused"] += 1
            alike[found.reason] += 1
            if each or alike[found.reason] == 1:
                out.print(f"  {place}  [red]dead letter[/]: {escape(shortened(found.reason))}")
        elif isinstance(found, PassedOver):
            counts["passed over"] += 1
            if each or counts["passed over"] == 1:
                out.print(f"  {place}  [dim]passed over[/]")
        else:
            counts["taken"] += 1
            if each or counts["taken"] <= _SHOWN_TAKEN:
                out.print(f"  {place}  {_summary(topology, found, interactions)}")
    if not each:
        for line in _not_shown(counts, alike):
            out.print(f"  [dim]{escape(line)}[/]")
    if not counts:
        out.print("  no records")
    return counts


def _not_shown(counts: Counter[str], alike: Counter[str]) -> Iterator[str]:
    """What there was beside what was shown. alike: how many dead letters have each reason"""
    if counts["taken"] > _SHOWN_TAKEN:
        yield f"and {counts['taken'] - _SHOWN_TAKEN:,} more that are taken"
    if counts["passed over"] > 1:
        yield f"and {counts['passed over'] - 1:,} more that are passed over"
    for reason, count in alike.most_common():
        if count > 1:
            yield f"and {count - 1:,} more dead letters: {shortened(reason)}"


def _interactions(found: Any) -> list[DecodedInteraction]:
    if isinstance(found, Several):
        return list(found.interactions)
    return [found] if isinstance(found, DecodedInteraction) else []


def _summary(topology: Topology, found: Any, interactions: list[DecodedInteraction]) -> str:
    if interactions:
        lines = [_interaction(topology, each) for each in interactions[:_SHOWN_LINES]]
        more = len(interactions) - len(lines)
        return "\n         ".join([*lines, *([f"[dim]and {more} more[/]"] if more else [])])
    if isinstance(found, DecodedLabel):
        name = escape(split_node_key(found.node)[1])
        return f"{name}: {found.label} is {found.value:g}, of {when(found.timestamp)}, known {when(found.known)}"
    if isinstance(found, DecodedNode):
        return f"{escape(split_node_key(found.node)[1])}: {len(found.features)} features"
    return "no interactions" if isinstance(found, Several) else "punctuation"


def _interaction(topology: Topology, each: DecodedInteraction) -> str:
    user, item = split_node_key(each.user)[1], split_node_key(each.item)[1]
    features = ", ".join(f"{f.name} {_value(f, each.fields.get(f.name))}" for f in topology.features)
    told = f"{user} – {item} at {when(each.timestamp)}, id {each.id.decode()}"
    return escape(f"{told}\n         {features}" if features else told)


def _value(feature: Feature, value: Any) -> str:
    if value is None:
        return f"{getattr(feature, 'default', None)} (default)"
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _values(topology: Topology, topic: str, count: int) -> tuple[RecordFormat | None, list[dict[str, Any]]]:
    """The fields of a topic's newest records, without those that have none; and what they are in."""
    newest = list(_newest(topology, topic, count))
    form, read = _form(topology, newest)
    found, reasons = [], Counter[str]()
    for record in newest:
        try:
            found.append(read(record.value or b"", list(record.headers or ())))
        except WireError as problem:
            reasons[str(problem)] += 1
    if reasons:
        (reason, _), *_ = reasons.most_common(1)
        told = f"{reasons.total():,} records of {topic} could not be read and are left out: {reason}"
        console(stderr=True).print(escape(told))
    return form, found


def _form(
    topology: Topology, records: list[Any]
) -> tuple[RecordFormat | None, Callable[[bytes, Headers], dict[str, Any]]]:
    """What records are in, None where each says so itself, and what reads one.

    Those that all begin as a schema registry's do are read by it, if it is known where that is.
    """
    values = [record.value for record in records if record.value]
    url = topology.schema_registry.url
    if values and url and all(value.startswith(b"\0") for value in values):
        registered = RegisteredValues(schema_registry(topology.schema_registry))
        name = registered.form(values)
        return None if name is None else RecordFormat(name, url), lambda value, _: registered.record(value)
    if values and all(is_cloudevent(record.headers) for record in records if record.value):
        require_sdk()
        return RecordFormat("cloudevents"), read_cloudevent
    return None, decode_object


def _rows(file: Path, count: int) -> Iterator[dict[str, Any]]:
    with open_rows(file) as rows:
        for row in islice(rows, count):
            if isinstance(row, BadRow):
                raise DataError(f"{file.name}, {rows.unit} {row.number}: {row.reason}")
            yield {name: number(cell) for name, cell in row.fields.items()} if rows.is_text else row.fields
