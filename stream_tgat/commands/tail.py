"""`tail`: shows embeddings, alerts or what nodes are now, as they appear."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import click
import orjson
from kafka import TopicPartition
from rich.markup import escape

from stream_tgat.brokers import consumer, reach
from stream_tgat.commands.base import CommandGroup, console, when
from stream_tgat.durations import in_words
from stream_tgat.errors import TopicError, WireError
from stream_tgat.topology import Topology
from stream_tgat.wire import OutputValues

_CONNECT_MS = 10_000
_POLL_MS = 200


def follow(
    topology: Topology, topic: str, *, from_start: bool = False, poll_ms: int = _POLL_MS
) -> Iterator[dict[str, Any] | None]:
    """The objects of a topic's records, as they come; None whenever there was nothing to read for a moment."""
    reach(topology.kafka)
    values = OutputValues(topology)
    client = consumer(topology.kafka, bootstrap_timeout_ms=_CONNECT_MS)
    try:
        partitions = client.partitions_for_topic(topic)
        if not partitions:
            raise TopicError(f"topic {topic} is missing; create it with: faust -A stream_tgat topics create")
        assigned = [TopicPartition(topic, partition) for partition in sorted(partitions)]
        client.assign(assigned)
        (client.seek_to_beginning if from_start else client.seek_to_end)(*assigned)
        for partition in assigned:
            client.position(partition)  # now, or "the end" would be where the first poll finds it
        while True:
            polled = client.poll(timeout_ms=poll_ms)
            for records in polled.values():
                for record in records:
                    yield _object(values, record)
            if not polled:
                yield None
    finally:
        client.close()


def tail_command(topology: Topology) -> click.Group:
    """`tail embeddings | alerts | latest`."""

    @click.group(cls=CommandGroup)
    def tail() -> None:
        """Show what the workers produce, as it appears; Ctrl-C ends it.

        faust -A stream_tgat tail alerts
        faust -A stream_tgat tail embeddings --node ann --json | jq .predictions
        """

    @tail.command()
    @_options
    def embeddings(as_json: bool, limit: int | None, from_start: bool, node: str | None) -> None:
        """Embeddings and predictions: when, which node, how probable, by which model.

        faust -A stream_tgat tail embeddings --from-start --limit 10
        """
        _show(topology, topology.topics.embeddings, embedding_row, as_json, limit, from_start, node)

    @tail.command()
    @_options
    def alerts(as_json: bool, limit: int | None, from_start: bool, node: str | None) -> None:
        """Alerts, each with the past interactions that the model looked at most.

        faust -A stream_tgat tail alerts --from-start
        """
        _show(topology, topology.topics.alerts, alert_row, as_json, limit, from_start, node)

    @tail.command()
    @_options
    def latest(as_json: bool, limit: int | None, from_start: bool, node: str | None) -> None:
        """Nodes just after their newest interaction, each time they change; needs serving.latest.

        faust -A stream_tgat tail latest --from-start --node user/ann
        """
        if not topology.serving.latest:
            raise click.ClickException(
                f"nothing is written to {topology.topics.latest}; to have it, set latest = true under [serving], "
                "run: faust -A stream_tgat topics create, and start the workers anew"
            )
        _show(topology, topology.topics.latest, latest_row, as_json, limit, from_start, node)

    return tail


def _options(function: Any) -> Any:
    for option in reversed(
        (
            click.option(
                "--json", "as_json", is_flag=True, help="One JSON object a line, complete, for other programs."
            ),
            click.option("--limit", type=click.IntRange(1), help="End after LIMIT records."),
            click.option("--from-start", is_flag=True, help="Begin with the oldest record instead of the next one."),
            click.option("--node", help="Only of this node: an id (ann), or kind/id (user/ann)."),
        )
    ):
        function = option(function)
    return function


def _show(
    topology: Topology,
    topic: str,
    row: Any,
    as_json: bool,
    limit: int | None,
    from_start: bool,
    node: str | None,
) -> None:
    shown = 0
    out = console()
    for content in follow(topology, topic, from_start=from_start):
        if content is None or (node is not None and node not in _names(content)):
            continue
        if as_json:
            click.echo(orjson.dumps(content))
        else:
            out.print(row(content))
        shown += 1
        if limit is not None and shown >= limit:
            return


def embedding_row(content: dict[str, Any]) -> str:
    """One embedding in one line, in rich's markup."""
    late = "  [yellow]late[/]" if content.get("late") else ""
    return f"{_node_then(content)}{late}"


def latest_row(content: dict[str, Any]) -> str:
    """One node just after its newest interaction in one line, in rich's markup."""
    passing = "" if content["complete"] else "  [yellow]incomplete[/]"
    return f"{_node_then(content)}  [dim]{content['interactions']:,} interactions[/]{passing}"


def alert_row(content: dict[str, Any]) -> str:
    """One alert and its reasons, a line each, in rich's markup."""
    probability = f"{_bar(content['probability'])} [dim](threshold {content['threshold']:.2f})[/]"
    at = f"[dim]{when(content['timestamp'])}[/]"
    lines = [f"{at}  [bold red]{escape(content['head'])}[/]  {_node(content)}  {probability}"]
    for because in content.get("because", ()):
        ago = in_words(content["timestamp"] - because["time"])
        lines.append(f"    [dim]{because['weight']:5.0%}[/]  {escape(because['peer'])}  [dim]{ago} before[/]")
    return "\n".join(lines)


def _node_then(content: dict[str, Any]) -> str:
    """When, which node, the first numbers of its embedding, what was predicted, and by which model."""
    vector = content.get("embedding", ())
    first = " ".join(f"{number:+.2f}" for number in vector[:4])
    predictions = "  ".join(f"{escape(head)} {_bar(p)}" for head, p in content.get("predictions", {}).items())
    return (
        f"[dim]{when(content['timestamp'])}[/]  {_node(content)}  [dim]{first} … ({len(vector)})[/]  {predictions}"
        f"  [dim]model {content['model']}[/]"
    )


def _object(values: OutputValues, record: Any) -> dict[str, Any]:
    where = f"{record.topic}/{record.partition}/{record.offset}"
    try:
        return values.fields(record.value, list(record.headers or ()))
    except WireError as error:
        raise TopicError(f"{where} was not written by a worker: {error}") from error


def _names(content: dict[str, Any]) -> tuple[str, str]:
    """What a node may be called: its id, and kind/id as in the record's key."""
    return content["node"], f"{content.get('kind', 'node')}/{content['node']}"


def _node(content: dict[str, Any]) -> str:
    kind = f"[dim]{escape(content['kind'])}[/] " if content.get("kind") else ""
    return f"{kind}[bold]{escape(content['node'])}[/]"


def _bar(probability: float) -> str:
    colour = "red" if probability >= 0.5 else "cyan"
    return f"[{colour}]{'▁▂▃▄▅▆▇█'[min(int(probability * 8), 7)]}[/] {probability:.3f}"
