"""One deployment: all sections of its file together, and what follows from them."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Annotated, Final, Literal

from pydantic import Field, StringConstraints, model_validator

from stream_tgat.durations import seconds_of
from stream_tgat.features import Feature, FeatureEncoder
from stream_tgat.topology import agreement
from stream_tgat.topology.inputs import ROLES, Input, InputSection, Role
from stream_tgat.topology.sections import (
    Graph,
    Head,
    Kafka,
    Log,
    ModelShape,
    Monitoring,
    Query,
    Registry,
    Releases,
    Retention,
    Retrain,
    Section,
    Serving,
    Time,
    Training,
)

Kind = Literal["user", "item"]

STATE_TABLE = "graph"


@dataclass(frozen=True)
class Topics:
    """Full names of the topics, prefix included."""

    interactions: str
    nodes: str
    labels: str
    propagation: str
    embeddings: str
    alerts: str
    dead_letters: str
    models: str
    quality: str
    latest: str

    @classmethod
    def with_prefix(cls, prefix: str) -> "Topics":
        """The topics of the deployment whose topics start with `prefix`."""
        names = ("interactions", "nodes", "labels", "propagation", "embeddings", "alerts", "dead-letters")
        return cls(*(prefix + name for name in (*names, "models", "quality", "latest")))


class Topology(Section):
    """One deployment. Every section has defaults, so ``Topology(name="x")`` is complete."""

    name: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_-]{1,64}$")]
    kafka: Kafka = Kafka()
    schema_registry: Registry = Registry()
    input: Input = Input()
    graph: Graph = Graph()
    time: Time = Time()
    model: ModelShape = ModelShape()
    features: Annotated[tuple[Feature, ...], Field(strict=False)] = ()
    heads: Annotated[tuple[Head, ...], Field(strict=False)] = ()
    serving: Serving = Serving()
    log: Log = Log()
    query: Query = Query()
    releases: Releases = Releases()
    retention: Retention = Retention()
    monitoring: Monitoring = Monitoring()
    training: Training = Training()
    retrain: Retrain = Retrain()

    @model_validator(mode="after")
    def _agrees_with_itself(self) -> "Topology":
        given, interactions = self.input, self.input_topics("interactions")
        written = [topic for name, topic in vars(self.topics).items() if name not in ROLES]
        problems = [
            *agreement.access_problems(self.kafka),
            *agreement.model_problems(self.model),
            *agreement.graph_problems(self.graph, given.interactions, interactions),
            *agreement.time_problems(self.time),
            *agreement.name_problems(self.features, self.heads),
            *agreement.input_problems(given, [feature.name for feature in self.features], written),
            *agreement.registry_problems(self.schema_registry, given, self.kafka),
        ]
        if problems:
            raise ValueError("\n".join(problems))
        return self

    @cached_property
    def topics(self) -> Topics:
        """Full topic names; of a role that is read from several topics, the first."""
        ours = Topics.with_prefix(self.kafka.topic_prefix)
        return replace(ours, **{role: names[0] for role in ROLES if (names := self._input(role).topics)})

    def input_topics(self, role: Role) -> tuple[str, ...]:
        """Full names of the topics that a role is read from; their order is that of the sources' numbers."""
        return self._input(role).topics or (getattr(self.topics, role),)

    def of_rows(self) -> "Topology":
        """The same for rows of files, which have fields already, whatever the format of the topics is."""
        sections: dict[str, InputSection] = {
            role: self._input(role).model_copy(update={"format": "auto"}) for role in ROLES
        }
        return self.model_copy(update={"input": self.input.model_copy(update=sections)})

    def is_foreign(self, topic: str) -> bool:
        """Whether a topic is somebody else's: named under [input.*], read, and neither created nor changed."""
        return any(topic in self._input(role).topics for role in ROLES)

    def _input(self, role: Role) -> InputSection:
        section: InputSection = getattr(self.input, role)
        return section

    @cached_property
    def encoder(self) -> FeatureEncoder:
        """Makes edge vectors from the fields of interactions."""
        return FeatureEncoder(self.features)

    @property
    def edge_width(self) -> int:
        """E, the length of an edge vector."""
        return self.encoder.width

    @property
    def app_id(self) -> str:
        """Consumer group and prefix of changelogs. Another topic prefix is another application, with its own state."""
        return f"{self.kafka.topic_prefix}stream-tgat-{self.name}"

    @property
    def changelog(self) -> str:
        """The topic that holds the state of all partitions; a commit ends with the partition's progress."""
        return f"{self.app_id}-{STATE_TABLE}-changelog"

    @property
    def id_bytes(self) -> int:
        """Bytes of an interaction id in a row; a node key has as many, one of them for the kind."""
        return self.graph.max_id_bytes

    @property
    def head_names(self) -> tuple[str, ...]:
        """Names of the prediction heads, in the order of their columns."""
        return tuple(head.name for head in self.heads)

    def answers_after_s(self, label: str) -> float | None:
        """Seconds after which answers of a label are complete; None where the topology leaves it to the log."""
        stated = (head.answers_after for head in self.heads if head.label_name == label and head.answers_after)
        return next((seconds_of(text) for text in stated), None)

    def node_key(self, kind: Kind, node_id: str) -> bytes:
        """The key of a node inside: one byte for its kind, then its id in UTF-8."""
        return node_key(kind, node_id, bipartite=self.graph.bipartite)


#: By the first byte of a node's key.
_KINDS: Final[Mapping[bytes, Kind | None]] = {b"u": "user", b"i": "item", b"n": None}


def node_key(kind: Kind, node_id: str, *, bipartite: bool) -> bytes:
    """b"u" or b"i" and the id where users and items are apart, b"n" and the id where they share one id space."""
    prefix = (b"u" if kind == "user" else b"i") if bipartite else b"n"
    return prefix + node_id.encode()


def split_node_key(key: bytes) -> tuple[Kind | None, str]:
    """Kind (None where users and items share one id space) and id of a node's key."""
    return _KINDS[key[:1]], key[1:].decode()
