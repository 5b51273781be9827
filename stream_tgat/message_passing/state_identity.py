"""What the state of a partition rests on: the meaning of its bytes, and the very topics whose offsets it holds.

It is written once, beside the partition's progress and in the same commit, and compared whenever the partition is
opened. It knows neither Kafka nor the engine.
"""

import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, Final
from uuid import UUID

import orjson

from stream_tgat.errors import LostDataError
from stream_tgat.topology import Role, Topology

#: Beside the reserved key; no graph key begins with this byte either.
IDENTITY_KEY: Final = b"\x00identity"

_FORMAT: Final = 1
_SHOWN: Final = 60

TopicIds = Mapping[str, UUID]
"""The id that Kafka gave to each topic when it was created, by the topic's name; none where brokers give none."""


def meaning_of(topology: Topology) -> dict[str, Any]:
    """All that gives keys and bytes of the state their meaning, by the topology's own names, as plain JSON values.

    What is not here may change with a restart, or with a release: weights, heads, everything about the operation.
    """
    graph, model = topology.graph, topology.model
    meaning: dict[str, Any] = {
        "graph.bipartite": graph.bipartite,
        "graph.node_features": graph.node_features,
        "graph.max_id_bytes": graph.max_id_bytes,
        "model.layers": model.layers,
        "model.activity": model.activity,
        # Rows beyond these are gone, so more would not be found.
        "model.candidates": model.candidates,
        "model.decay_days": list(model.decay_days),
        "features": [feature.name for feature in topology.features],
        "features (encoding)": topology.encoder.definition()["version"],
    }
    if model.layers > 1:
        # The width of the peer embeddings; with one layer there are none of this width.
        meaning["model.hidden"] = model.hidden
    for feature in topology.features:
        for key, value in feature.model_dump(mode="json", exclude={"name"}, exclude_none=True).items():
            meaning[f"features.{feature.name}.{key}"] = value
    return meaning


def meaning_hash(topology: Topology) -> int:
    """CRC-32 of the meaning: what each packet on `propagation` carries of it."""
    return zlib.crc32(_json(meaning_of(topology)))


@dataclass(frozen=True)
class Identity:
    """What the state of a partition rests on.

    meaning: see `meaning_of`   topics: ids of the topics whose offsets are in the state
    way_on: what to do where a topic is another one; not kept
    sources: names of the topics that feed it, of each role, in the order of their numbers
    """

    meaning: Mapping[str, Any]
    topics: TopicIds
    way_on: str = field(default="", compare=False)
    sources: Mapping[str, Sequence[str]] = field(default_factory=dict)

    @classmethod
    def of(cls, topology: Topology, ids: TopicIds) -> "Identity":
        """What the state of this deployment rests on now. ids: of all topics there are"""
        found = {name: ids[name] for name in state_topics(topology) if name in ids}
        return cls(meaning_of(topology), found, begin_again(topology), _sources(topology))

    def encode(self) -> bytes:
        """The value of the key."""
        topics = {name: str(each) for name, each in self.topics.items()}
        return _json({"format": _FORMAT, "meaning": self.meaning, "topics": topics, "sources": self.sources})

    @classmethod
    def decode(cls, value: bytes) -> "Identity":
        """The inverse of `encode`. Raises LostDataError for bytes that no worker writes."""
        try:
            content = orjson.loads(value)
            ids = {name: UUID(each) for name, each in content["topics"].items()}
            return cls(dict(content["meaning"]), ids, sources=dict(content.get("sources", {})))
        except (ValueError, KeyError, TypeError, AttributeError) as problem:
            raise LostDataError(
                f"The state holds an identity that no worker writes ({problem!r}): somebody else writes into its "
                "changelog. Use another kafka.topic_prefix and replay the log."
            ) from None

    def check(self, stored: "Identity", where: str) -> None:
        """Raise LostDataError, with every difference, if a state that rests on `stored` must not be gone on with."""
        differences = list(_differences(stored.meaning, self.meaning))
        for role, were in stored.sources.items():
            now = self.sources.get(role, ())
            # Each offset in the state is of a topic by its number: others may join them at the end.
            if list(now[: len(were)]) != list(were):
                differences.append(f"the topics of {role} were {', '.join(were)}, are {', '.join(now) or 'none'}")
        if differences:
            raise LostDataError(
                f"{where}: the topology gives the state of this partition another meaning: {'; '.join(differences)}. "
                "Set the topology back, or use another kafka.topic_prefix and replay the log."
            )
        for name, known in stored.topics.items():
            if self.topics.get(name, known) != known:
                raise made_anew(name, f"which the state of {where} has been made from", self.way_on)


def state_topics(topology: Topology) -> tuple[str, ...]:
    """The topics whose offsets mean something to the state: its sources, its messages, and the versions of models."""
    topics = topology.topics
    return (*chain.from_iterable(_sources(topology).values()), topics.propagation, topics.models)


def _sources(topology: Topology) -> dict[str, tuple[str, ...]]:
    roles: tuple[Role, ...] = ("interactions", "nodes") if topology.graph.node_features else ("interactions",)
    return {role: topology.input_topics(role) for role in roles}


def commit_note(topology: Topology, topic: str, ids: TopicIds) -> str:
    """What is stored beside the group's offsets of a topic: which topic they are of; empty where that is not known.

    Offsets of a source also say what was sent on, so they are of one `propagation` only.
    """
    topics = topology.topics
    read = (topic, topics.propagation) if topic in state_topics(topology) else (topic,)
    return " ".join(str(ids[name]) for name in read) if all(name in ids for name in read) else ""


def is_of_another(note: str | None, expected: str) -> bool:
    """Whether a note says that the offset beside it is of another topic; one without a note may be anybody's."""
    return bool(note and expected and note != expected)


def begin_again(topology: Topology) -> str:
    """What to do where the state can no longer be gone on with, by all the names that matter."""
    app_id = topology.app_id
    return (
        "Use another kafka.topic_prefix and replay the log; or start over under this one: stop all workers, delete the "
        f"topics {topology.topics.propagation!r} and {topology.changelog!r}, the consumer group {app_id!r} and the "
        f"folder {app_id!r} of each worker, and run: faust -A stream_tgat topics create"
    )


def made_anew(topic: str, known_as: str, way_on: str) -> LostDataError:
    """What to say where a topic has another id than the one that is known.

    known_as: a clause about the known one   way_on: from `begin_again`
    """
    return LostDataError(
        f"The topic {topic!r} was deleted and created again: it is not the one {known_as}, and its offsets mean other "
        f"records. {way_on}"
    )


def _differences(was: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[str]:
    """Each key that differs, in words; of a feature that came or went only that it did."""
    for key in sorted(was.keys() | now.keys()):
        if was.get(key) == now.get(key):
            continue
        _, of_feature, rest = key.partition("features.")
        if of_feature and (rest.partition(".")[0] in was["features"]) != (rest.partition(".")[0] in now["features"]):
            continue
        yield f"{key} was {_value_in_words(was, key)}, is {_value_in_words(now, key)}"


def _value_in_words(meaning: Mapping[str, Any], key: str) -> str:
    text = orjson.dumps(meaning[key]).decode() if key in meaning else "absent"
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 3]}..."


def _json(content: Mapping[str, Any]) -> bytes:
    return orjson.dumps(content, option=orjson.OPT_SORT_KEYS)
