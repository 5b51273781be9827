"""The topics of a deployment: what each must look like, and the commands that create and check them.

A worker on topics that do not fit would lose data quietly (a `propagation` that forgets, a key that moved to another
partition), so they are checked before one starts, and a mismatch is refused with its reason.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import UUID

import click
from kafka.admin import ConfigResource, ConfigResourceType, KafkaAdminClient
from kafka.errors import KafkaError, TopicAlreadyExistsError
from rich.table import Table

from stream_tgat.brokers import admin_client, describe_topics, reach
from stream_tgat.commands.base import CommandGroup, console
from stream_tgat.errors import TopicError
from stream_tgat.expressions import did_you_mean
from stream_tgat.topology import Role, Topology
from stream_tgat.transport.table import BATCH_HEADROOM_BYTES, CHANGELOG_TOPIC, MAX_COMMIT_BYTES

# A commit's changelog batch, or a packet, may be this large; Kafka's own limit of 1 MB would stop the stream.
LARGE_RECORD_BYTES = 8 * 2**20
# A batch of outputs and its frame; a little less than Kafka's own limit.
OUTPUT_BATCH_BYTES = 2**20
_CONNECT_MS = 10_000
_DAY_MS = 86_400_000
#: Columns of a terminal that all but the name of a topic takes.
_BESIDE_NAME = 60


@dataclass(frozen=True)
class TopicSpec:
    """What one topic must look like.

    partitions: how many it is created with.
    fixed: the reason why no other number will do, empty where any number does.
    required: settings that hold on an existing topic too; numbers are lower bounds except for retention.
    initial: settings that it is only created with; an operator may change them.
    is_foreign: it is somebody else's, and only read: neither created nor changed.
    """

    name: str
    purpose: str
    partitions: int
    fixed: str = ""
    required: Mapping[str, str] = field(default_factory=dict)
    initial: Mapping[str, str] = field(default_factory=dict)
    is_foreign: bool = False


@dataclass(frozen=True)
class TopicState:
    """What one topic looks like in the cluster. id: of this very topic; None where the brokers do not tell"""

    partitions: int
    settings: Mapping[str, str]
    id: UUID | None = None


@dataclass(frozen=True)
class Ensured:
    """What `ensure_topics` did: names of topics created, and of settings changed as `topic: key=value`."""

    created: tuple[str, ...]
    changed: tuple[str, ...]


def topic_specs(topology: Topology) -> list[TopicSpec]:
    """The topics of this deployment, in the order in which data flows through them."""
    names, kafka, keep = topology.topics, topology.kafka, topology.retention
    many = kafka.partitions
    large = {"max.message.bytes": str(LARGE_RECORD_BYTES)}
    batched = {"max.message.bytes": str(OUTPUT_BATCH_BYTES)}
    compacted = {"cleanup.policy": "compact"}
    node_is_there = (
        "a node's state lives in the partition that its key is hashed to, so another number would separate nodes from "
        "their past; change kafka.partitions in the topology to this number, or use another kafka.topic_prefix and "
        "replay the log"
    )
    # How far ahead a time may lie is judged by when its record was written, and producers' clocks are judged with it.
    by_our_clock = {"message.timestamp.type": "LogAppendTime"}
    specs = [
        *_inputs(topology, "interactions", "what happened", initial=_retention(keep.interactions_days) | by_our_clock),
        *_inputs(topology, "nodes", "features of nodes", required=compacted),
        *_inputs(topology, "labels", "what became known later", initial=_retention(keep.labels_days) | by_our_clock),
        TopicSpec(
            names.propagation,
            "messages between nodes (internal)",
            many,
            node_is_there,
            # Workers delete what they have applied; the clock must not delete what they have not.
            {"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "-1", **large},
            {"segment.bytes": str(64 * 2**20)},
        ),
        TopicSpec(names.embeddings, "two per interaction", many, "", batched, _retention(keep.embeddings_days)),
        TopicSpec(names.alerts, "thresholds crossed", many, "", batched, _retention(keep.alerts_days)),
        TopicSpec(
            names.dead_letters, "what could not be read, and why", many, "", large, _retention(keep.dead_letters_days)
        ),
        TopicSpec(
            names.models,
            "which release serves",
            1,
            "the version of a model is the offset of its promotion, so there must be one order of promotions; delete "
            "the topic and promote again",
            compacted,
        ),
        TopicSpec(names.quality, "how good it is now", 1, required=compacted),
        TopicSpec(
            topology.changelog,
            "state of all partitions (internal)",
            many,
            required={**compacted, "max.message.bytes": str(MAX_COMMIT_BYTES + BATCH_HEADROOM_BYTES)},
            initial=CHANGELOG_TOPIC,
        ),
    ]
    if topology.serving.latest:
        specs.append(
            TopicSpec(
                names.latest,
                "each node as it is now",
                many,
                "a node whose key moved to another partition would leave an old record behind; delete the topic and "
                "create it again: workers write all nodes anew when they start",
                {**compacted, **batched},
                # What is old is read in vain, by whoever starts: small segments, compacted early.
                {"segment.bytes": str(64 * 2**20), "min.cleanable.dirty.ratio": "0.1"},
            )
        )
    if kafka.replication_factor > 1:
        safe = {"min.insync.replicas": str(kafka.replication_factor - 1)}
        specs = [replace(spec, initial={**spec.initial, **safe}) for spec in specs]
    return specs


def ensure_topics(topology: Topology) -> Ensured:
    """Create what is missing and set what must hold; raises TopicError where partition counts do not fit."""
    specs = topic_specs(topology)
    with _admin(topology) as admin:
        states = _states(admin)
        _refuse(_count_problems(specs, states) + _changelog_problems(topology, states))
        _refuse(_foreign_problems(specs, states))
        missing = [spec for spec in specs if spec.name not in states]
        created = _create(admin, missing, topology.kafka.replication_factor)
        if len(created) < len(missing):
            states = _states(admin)
            _refuse(_count_problems(specs, states))
        changes = {
            spec.name: different
            for spec in specs
            if spec.name in states and (different := _different(spec, states[spec.name]))
        }
        _alter(admin, changes)
    changed = (f"{name}: {key}={value}" for name, settings in changes.items() for key, value in settings.items())
    return Ensured(tuple(spec.name for spec in created), tuple(changed))


def check_topics(topology: Topology) -> dict[str, TopicState]:
    """All topics as they are; raises TopicError, with every reason, if a worker must not start on them."""
    with _admin(topology) as admin:
        states = _states(admin)
    _refuse(topic_problems(topology, states))
    return states


def topic_problems(topology: Topology, states: Mapping[str, TopicState]) -> list[str]:
    """Everything that is wrong with the topics, one sentence each with what to do; empty if they fit."""
    specs = topic_specs(topology)
    create = "create it with: faust -A stream_tgat topics create"
    problems = [
        f"topic {spec.name} is missing; {create}" for spec in specs if spec.name not in states and not spec.is_foreign
    ]
    problems += _foreign_problems(specs, states)
    problems += _count_problems(specs, states)
    problems += _changelog_problems(topology, states)
    for spec in specs:
        if spec.name in states:
            problems += [
                f"topic {spec.name} has {key}={states[spec.name].settings.get(key)} and needs {value}; "
                "correct it with: faust -A stream_tgat topics create"
                for key, value in _different(spec, states[spec.name]).items()
            ]
    return problems


def topics_command(topology: Topology) -> click.Group:
    """`topics create | check`."""

    @click.group(cls=CommandGroup)
    def topics() -> None:
        """Create the topics of this deployment, or check that they fit.

        Run `create` once before the first worker; run it again at any time, it changes nothing that is right.

          faust -A stream_tgat topics create
          faust -A stream_tgat topics check
        """

    @topics.command()
    def create() -> None:
        """Create what is missing and correct what does not fit.

        Partition counts come from kafka.partitions in the topology (8 by default); `interactions` may be given more
        later, `propagation` never. Topics that exist keep their retention.

          KAFKA_BOOTSTRAP_SERVERS=localhost:9092 faust -A stream_tgat topics create
        """
        done = ensure_topics(topology)
        _show(topology, dict.fromkeys(done.created, "[green]created[/]"))
        for change in done.changed:
            console().print(f"changed {change}")

    @topics.command()
    def check() -> None:
        """Check that every topic is there and fits.

        Ends with exit code 1 and the reasons if not. The same check runs whenever a worker starts.

          faust -A stream_tgat topics check
        """
        check_topics(topology)
        _show(topology, {})

    return topics


def _inputs(topology: Topology, role: Role, purpose: str, **settings: Any) -> list[TopicSpec]:
    """The topics of a role: the contract's, which is ours to make, or those that the topology names."""
    many = topology.kafka.partitions
    return [
        TopicSpec(name, purpose, many, is_foreign=True)
        if topology.is_foreign(name)
        else TopicSpec(name, purpose, many, "", **settings)
        for name in topology.input_topics(role)
    ]


def _foreign_problems(specs: list[TopicSpec], states: Mapping[str, TopicState]) -> list[str]:
    theirs = [name for name in states if not name.startswith("__")]
    return [
        f"topic {spec.name} ({spec.purpose}) is named under [input], but there is none at this broker"
        f"{did_you_mean(spec.name, theirs)}"
        for spec in specs
        if spec.is_foreign and spec.name not in states
    ]


def _show(topology: Topology, notes: Mapping[str, str]) -> None:
    with _admin(topology) as admin:
        states = _states(admin)
    table = Table("topic", "partitions", "keeps", "for", "", box=None, header_style="bold", pad_edge=False)
    specs = topic_specs(topology)
    for spec in specs:
        state = states[spec.name]
        note = notes.get(spec.name, "[dim]not ours, only read[/]" if spec.is_foreign else "[dim]fits[/]")
        table.add_row(spec.name, str(state.partitions), _keeps(state), spec.purpose, note)
    out = console()
    # A name is to be copied, so it is whole, however long that makes the lines.
    longest = table.columns[0].min_width = max(len(spec.name) for spec in specs)
    table.width = max(out.width, longest + _BESIDE_NAME)
    out.print(table)


def _keeps(state: TopicState) -> str:
    if "compact" in state.settings.get("cleanup.policy", ""):
        return "newest per key"
    milliseconds = int(state.settings.get("retention.ms", -1))
    return "everything" if milliseconds < 0 else f"{milliseconds / _DAY_MS:g} days"


def _retention(days: float) -> dict[str, str]:
    return {"cleanup.policy": "delete", "retention.ms": str(-1 if days < 0 else round(days * _DAY_MS))}


def _refuse(problems: list[str]) -> None:
    if problems:
        raise TopicError("\n".join(problems))


def _count_problems(specs: list[TopicSpec], states: Mapping[str, TopicState]) -> list[str]:
    return [
        f"topic {spec.name} has {states[spec.name].partitions} partitions instead of {spec.partitions}: {spec.fixed}"
        for spec in specs
        if spec.fixed and spec.name in states and states[spec.name].partitions != spec.partitions
    ]


def _changelog_problems(topology: Topology, states: Mapping[str, TopicState]) -> list[str]:
    """Faust creates changelogs itself; one from another partition count holds the state of other partitions."""
    changelog = re.compile(re.escape(topology.app_id) + r"-.+-changelog")
    return [
        f"changelog {name} has {state.partitions} partitions, but {topology.topics.propagation} is to have "
        f"{topology.kafka.partitions}: they must be equal, since a partition's changelog is its state; restore "
        "kafka.partitions, or use another name or kafka.topic_prefix in the topology and replay the log"
        for name, state in sorted(states.items())
        if changelog.fullmatch(name) and state.partitions != topology.kafka.partitions
    ]


def _different(spec: TopicSpec, state: TopicState) -> dict[str, str]:
    def holds(key: str, wanted: str) -> bool:
        found = state.settings.get(key)
        if key == "max.message.bytes" and found is not None:
            return int(found) >= int(wanted)
        return found == wanted

    return {key: value for key, value in spec.required.items() if not holds(key, value)}


@contextmanager
def _admin(topology: Topology) -> Iterator[KafkaAdminClient]:
    reach(topology.kafka)
    try:
        admin = admin_client(topology.kafka, bootstrap_timeout_ms=_CONNECT_MS)
        try:
            yield admin
        finally:
            admin.close()
    except KafkaError as error:
        # Some of them quote whole requests.
        raise TopicError(f"the broker at {topology.kafka.bootstrap_servers} refused: {str(error)[:300]}") from error


def _states(admin: KafkaAdminClient) -> dict[str, TopicState]:
    topics = describe_topics(admin)
    resources = [ConfigResource(ConfigResourceType.TOPIC, name) for name in topics if not name.startswith("__")]
    described = admin.describe_configs(resources, config_filter="all")["topic"] if resources else {}
    return {
        name: TopicState(
            topics[name].partitions,
            {key: str(entry["value"]) for key, entry in settings.items()},
            topics[name].id,
        )
        for name, settings in described.items()
    }


def _create(admin: KafkaAdminClient, specs: list[TopicSpec], replication_factor: int) -> list[TopicSpec]:
    """Create topics; returns those that are new, since another worker may be doing the same."""
    if not specs:
        return []
    wanted = {
        spec.name: {
            "num_partitions": spec.partitions,
            "replication_factor": replication_factor,
            "configs": {**spec.initial, **spec.required},
        }
        for spec in specs
    }
    answers = admin.create_topics(wanted, raise_errors=False)["topics"]
    refused = [f"topic {each['name']}: {each['error_message']}" for each in answers if each["error_code"]]
    raced = [each["name"] for each in answers if each["error_code"] == TopicAlreadyExistsError.errno]
    if len(refused) > len(raced):
        raise TopicError("the broker did not create\n" + "\n".join(refused))
    admin.wait_for_topics([spec.name for spec in specs])
    return [spec for spec in specs if spec.name not in raced]


def _alter(admin: KafkaAdminClient, changes: Mapping[str, Mapping[str, str]]) -> None:
    if changes:
        admin.alter_configs(
            [ConfigResource(ConfigResourceType.TOPIC, name, dict(new)) for name, new in changes.items()]
        )
