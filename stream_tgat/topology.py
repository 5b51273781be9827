"""What a deployment looks like: the pydantic models of ``topologies/*.toml``, read once, at the edge.

A `Topology` is a frozen value that is passed down. It knows names, sizes and limits, and what follows from them (topic
names, node keys, the width of the edge vector); it knows neither Kafka nor torch.
"""

import difflib
import os
import tomllib
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
    ValidationError,
    model_validator,
)

from stream_tgat.durations import seconds_of
from stream_tgat.errors import TopologyError
from stream_tgat.features import Feature, FeatureEncoder

Preset = Literal["paper", "reference", "dyglib"]
Kind = Literal["user", "item"]
SecurityProtocol = Literal["plaintext", "ssl", "sasl_plaintext", "sasl_ssl"]
GateMetric = Literal["links.average_precision", "heads.auc", "heads.average_precision", "heads.brier"]

STATE_TABLE = "graph"
LOGIN_VARIABLE = "KAFKA_SASL_PASSWORD"
"""Environment variable of the login's password, which never stands in a file."""
KEY_VARIABLE = "KAFKA_SSL_KEY_PASSWORD"
"""Environment variable of the password of the client's private key."""
_FILES = ("ssl_cafile", "ssl_certfile", "ssl_keyfile")
_ACCESS = ("bootstrap_servers", "security_protocol", "sasl_mechanism", "sasl_username", *_FILES)
RESERVED_FIELDS = frozenset({"id", "user", "item", "timestamp"})
# The activity features look back to a node's fifth-last interaction (graph/activity.py).
_ACTIVITY_LOOKBACK = 5
_DAY_S = 86_400.0
# Most events are at their broker by then with a linger of up to 20 ms, also on a busy machine; measured by
# tests/benchmarks/bench_delay.py.
LIVE_LATENESS_S = 0.05
# A default interaction id is topic/partition/offset; these many characters follow the topic's name.
_DEFAULT_ID_TAIL = len("/99999/") + 12


def _duration(text: str) -> str:
    """The text, if it is empty or a length of time."""
    if text:
        seconds_of(text)
    return text


def _lower(text: Any) -> Any:
    """Clients write these in capitals."""
    return text.lower() if isinstance(text, str) else text


Duration = Annotated[str, AfterValidator(_duration)]
"""A length of time such as "24h"; empty for none."""


class _Section(BaseModel):
    """A table of the file: exact types, and no key that is not known."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


class Kafka(_Section):
    """Where the log lives and how its topics are cut."""

    bootstrap_servers: str = Field(default="localhost:9092", min_length=1)
    security_protocol: Annotated[SecurityProtocol, BeforeValidator(_lower)] = "plaintext"
    sasl_mechanism: Literal["", "PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"] = ""
    sasl_username: str = ""
    ssl_cafile: str = ""
    ssl_certfile: str = ""
    ssl_keyfile: str = ""
    partitions: int = Field(default=8, ge=1, le=10_000)
    replication_factor: int = Field(default=1, ge=1)
    topic_prefix: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9._-]*$")] = ""
    max_record_bytes: int = Field(default=131_072, ge=1024, le=900_000)
    output_format: Literal["json", "msgpack"] = "json"
    wait_for_brokers_s: float = Field(default=-1.0, ge=-1)

    @property
    def has_tls(self) -> bool:
        """Whether connections are encrypted, and the brokers show certificates."""
        return self.security_protocol in ("ssl", "sasl_ssl")

    @property
    def has_login(self) -> bool:
        """Whether clients log in by SASL."""
        return self.security_protocol in ("sasl_plaintext", "sasl_ssl")


class Graph(_Section):
    """Which nodes there are and how they are named."""

    bipartite: bool = True
    node_features: int = Field(default=0, ge=0)
    max_id_bytes: int = Field(default=40, ge=16, le=1024)


class Time(_Section):
    """What the stream takes as its clock."""

    clock: Literal["wall", "event"] = "wall"
    allowed_lateness_s: float = LIVE_LATENESS_S
    max_ahead_s: float = Field(default=300.0, gt=0)
    idle_after_s: float = Field(default=0.0, ge=0)

    @model_validator(mode="before")
    @classmethod
    def _lateness_of_a_log(cls, given: Any) -> Any:
        """A log that is replayed is on its way no more."""
        if isinstance(given, dict) and given.get("clock") == "event":
            return {"allowed_lateness_s": 0.0, **given}
        return given


class ModelShape(_Section):
    """The raw numbers of the model; ``nn`` gives them their meaning."""

    preset: Preset = "paper"
    layers: int = Field(default=2, ge=1, le=3)
    attention_heads: int = Field(default=2, ge=1)
    neighbours: int = Field(default=20, ge=1)
    candidates: int = Field(default=20, ge=1)
    hidden: int = Field(default=64, ge=1)
    time_dim: int = Field(default=64, ge=1)
    activity: bool = False
    decay_days: Annotated[tuple[Annotated[float, Field(gt=0)], ...], Field(strict=False)] = ()
    head_members: int = Field(default=1, ge=1)
    affinity: Literal["mlp", "inner"] = "mlp"
    pair_features: bool = False
    sampling: Literal["recent", "uniform"] = "recent"

    @property
    def decay_s(self) -> tuple[float, ...]:
        """Time constants of the decayed sums, in seconds."""
        return tuple(_DAY_S * days for days in self.decay_days)


class Head(_Section):
    """One prediction about the user."""

    name: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_-]{1,64}$")]
    label: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_-]{1,64}$")] | None = None
    answers_after: Duration = ""
    threshold: float | None = Field(default=None, gt=0, lt=1)
    cooldown_s: float = Field(default=86_400.0, ge=0)

    @property
    def label_name(self) -> str:
        """The label on topic `labels` that this head learns: `label`, or the head's own name."""
        return self.label or self.name


class Serving(_Section):
    """How a worker spends memory and time."""

    device: Annotated[str, StringConstraints(pattern=r"^(auto|cpu|cuda(:\d+)?)$")] = "auto"
    cache_bytes: int = Field(default=1 << 30, ge=1 << 20)
    max_wait_s: float = Field(default=60.0, ge=0)
    micro_batch: int = Field(default=512, ge=1)
    max_pending: int = Field(default=50_000, ge=1)
    window: int = Field(default=400, ge=1)
    data_dir: Annotated[Path, Field(strict=False)] = Path("runs/data")


class Releases(_Section):
    """Where trained models are kept: a folder, or a URL of any file system that fsspec knows."""

    store: str = Field(default="runs/releases", min_length=1)


class Retention(_Section):
    """How long the topics keep their records, in days; -1 keeps them for ever."""

    interactions_days: float = Field(default=-1.0, ge=-1)
    labels_days: float = Field(default=-1.0, ge=-1)
    embeddings_days: float = Field(default=7.0, ge=-1)
    alerts_days: float = Field(default=30.0, ge=-1)
    dead_letters_days: float = Field(default=30.0, ge=-1)


class Monitoring(_Section):
    """How live quality is measured, and how much memory that takes."""

    window: int = Field(default=5000, ge=10)
    horizon_days: float = Field(default=60.0, gt=0)
    predictions: int = Field(default=200_000, ge=100)
    links_every: int = Field(default=10, ge=0)


class Training(_Section):
    """How a release is trained from the log."""

    epochs: int = Field(default=5, ge=1)
    batch_size: int = Field(default=200, ge=1)
    negatives: int = Field(default=1, ge=1)
    historical_share: float = Field(default=0.0, ge=0, le=1)
    learning_rate: float = Field(default=1e-4, gt=0)
    averaging: float = Field(default=0.0, ge=0, lt=1)
    dropout: float = Field(default=0.1, ge=0, lt=1)
    neighbour_dropout: float = Field(default=0.0, ge=0, lt=1)
    sampling: Literal["auto", "recent", "uniform", "inverse_timespan"] = "auto"
    patience: int = Field(default=3, ge=1)
    epoch_interactions: int = Field(default=0, ge=0)
    fine_tuning_epochs: int = Field(default=0, ge=0)
    head_epochs: int = Field(default=60, ge=1)
    head_learning_rate: float = Field(default=5e-3, gt=0)
    head_penalty: (
        Annotated[tuple[Annotated[float, Field(ge=0)], ...], Field(strict=False, min_length=1)] | Literal["auto"]
    ) = "auto"
    head_dropout: float = Field(default=0.5, ge=0, lt=1)
    head_validation_share: float = Field(default=0.2, gt=0, lt=0.5)
    alert_budget: float = Field(default=0.05, gt=0, lt=1)
    precision: float = Field(default=0.0, ge=0, le=1)
    validation_share: float = Field(default=0.15, gt=0, lt=0.5)
    test_share: float = Field(default=0.15, ge=0, lt=0.5)
    seed: int = Field(default=0, ge=0)


class Retrain(_Section):
    """When a model is trained anew, on which part of the log, and what it must reach to serve."""

    every: Duration = ""
    after_interactions: int = Field(default=0, ge=0)
    auc_drop: float = Field(default=0.0, ge=0, lt=1)
    rest: Duration = "10m"
    window: Duration = ""
    window_interactions: int = Field(default=0, ge=0)
    held_out: float = Field(default=0.15, gt=0, lt=0.5)
    metrics: Annotated[tuple[GateMetric, ...], Field(strict=False, min_length=1)] = (
        "links.average_precision",
        "heads.auc",
    )
    margin: float = Field(default=0.02, gt=0, lt=1)
    confidence: float = Field(default=0.95, ge=0.5, lt=1)
    when_unsure: Literal["keep", "promote"] = "keep"
    when_worse_than_rules: Literal["keep", "promote"] = "keep"
    best_of: Duration = "180d"
    refit: bool = True
    fewest_answers: int = Field(default=20, ge=1)
    memo_rate: int = Field(default=20_000, ge=1)
    nice: int = Field(default=10, ge=0, le=19)
    threads: int = Field(default=1, ge=1)

    @property
    def has_trigger(self) -> bool:
        """Whether anything but a command starts a retraining."""
        return bool(self.every or self.after_interactions or self.auc_drop)

    @property
    def every_s(self) -> float | None:
        """Seconds between two retrainings; None without a schedule."""
        return seconds_of(self.every) if self.every else None

    @property
    def rest_s(self) -> float:
        """Seconds that pass in any case before the next one begins by itself."""
        return seconds_of(self.rest) if self.rest else 0.0

    @property
    def best_of_s(self) -> float:
        """Seconds after which a release is no longer the best that new ones must hold out against."""
        return seconds_of(self.best_of) if self.best_of else 0.0

    @property
    def window_s(self) -> float | None:
        """Seconds of event time to learn from; None for all of the log."""
        return seconds_of(self.window) if self.window else None


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

    @classmethod
    def with_prefix(cls, prefix: str) -> "Topics":
        """The topics of the deployment whose topics start with `prefix`."""
        names = ("interactions", "nodes", "labels", "propagation", "embeddings", "alerts", "dead-letters")
        return cls(*(prefix + name for name in (*names, "models", "quality")))


class Topology(_Section):
    """One deployment. Every section has defaults, so ``Topology(name="x")`` is complete."""

    name: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_-]{1,64}$")]
    kafka: Kafka = Kafka()
    graph: Graph = Graph()
    time: Time = Time()
    model: ModelShape = ModelShape()
    features: Annotated[tuple[Feature, ...], Field(strict=False)] = ()
    heads: Annotated[tuple[Head, ...], Field(strict=False)] = ()
    serving: Serving = Serving()
    releases: Releases = Releases()
    retention: Retention = Retention()
    monitoring: Monitoring = Monitoring()
    training: Training = Training()
    retrain: Retrain = Retrain()

    @model_validator(mode="after")
    def _agrees_with_itself(self) -> "Topology":
        problems = [
            *_access_problems(self.kafka),
            *_model_problems(self),
            *_graph_problems(self),
            *_time_problems(self.time),
            *_name_problems(self),
        ]
        if problems:
            raise ValueError("\n".join(problems))
        return self

    @cached_property
    def topics(self) -> Topics:
        """Full topic names."""
        return Topics.with_prefix(self.kafka.topic_prefix)

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


def node_key(kind: Kind, node_id: str, *, bipartite: bool) -> bytes:
    """b"u" or b"i" and the id where users and items are apart, b"n" and the id where they share one id space."""
    prefix = (b"u" if kind == "user" else b"i") if bipartite else b"n"
    return prefix + node_id.encode()


def split_node_key(key: bytes) -> tuple[Kind | None, str]:
    """Kind (None where users and items share one id space) and id of a node's key."""
    kinds: dict[bytes, Kind | None] = {b"u": "user", b"i": "item", b"n": None}
    return kinds[key[:1]], key[1:].decode()


def load_topology(path: Path | str | None = None) -> Topology:
    """Read the topology at `path`, else the one in STREAM_TGAT_TOPOLOGY: a path, or a name found in topologies/.

    Environment variables win over what the file says of the way to the brokers: KAFKA_BOOTSTRAP_SERVERS over
    ``kafka.bootstrap_servers``, KAFKA_SECURITY_PROTOCOL over ``kafka.security_protocol``, and so on.
    """
    file = _find(path)
    try:
        content = tomllib.loads(file.read_text(encoding="utf-8-sig"))  # some editors begin a file with a mark
    except UnicodeDecodeError as problem:
        raise TopologyError(f"{file}: byte {problem.start} is not UTF-8, as TOML must be; save it as UTF-8") from None
    except tomllib.TOMLDecodeError as problem:
        raise TopologyError(f"{file}: not a TOML file: {problem}") from problem
    except OSError as problem:
        raise TopologyError(f"{file}: cannot be read: {problem.strerror}; check its path and permissions") from problem
    given = {key: value for key in _ACCESS if (value := os.environ.get(f"KAFKA_{key.upper()}"))}
    if given and isinstance(content.setdefault("kafka", {}), dict):
        content["kafka"] |= given
    try:
        topology = Topology.model_validate(content)
    except ValidationError as problem:
        raise TopologyError(_explain(file, problem)) from None
    absent = _absent(topology.kafka)
    if absent:
        raise TopologyError("\n".join(f"{file}: {line}" for line in absent))
    return topology


def _access_problems(kafka: Kafka) -> list[str]:
    """Keys that `kafka.security_protocol` has no use for, or needs and lacks."""
    protocol = kafka.security_protocol
    problems = []
    for key in ("sasl_mechanism", "sasl_username"):
        if kafka.has_login and not getattr(kafka, key):
            problems.append(f"kafka.{key}: is missing, and kafka.security_protocol = {protocol} needs it")
        elif getattr(kafka, key) and not kafka.has_login:
            problems.append(
                f"kafka.{key}: with kafka.security_protocol = {protocol} nobody logs in; set that to sasl_ssl (or to "
                f"sasl_plaintext where there is no TLS), or leave {key} out"
            )
    problems += [
        f"kafka.{key}: with kafka.security_protocol = {protocol} there is no TLS; set that to "
        f"{'sasl_ssl' if kafka.has_login else 'ssl'}, or leave {key} out"
        for key in _FILES
        if getattr(kafka, key) and not kafka.has_tls
    ]
    if kafka.ssl_keyfile and not kafka.ssl_certfile:
        problems.append("kafka.ssl_keyfile: a key is of no use without its certificate; set kafka.ssl_certfile too")
    return problems


def _absent(kafka: Kafka) -> list[str]:
    """Files and secrets that `kafka` needs and that are not there."""
    problems = [
        f"kafka.{key}: there is no file {path} (seen from {Path.cwd()}); give the path of a PEM file"
        for key in _FILES
        if (path := getattr(kafka, key)) and not Path(path).is_file()
    ]
    if kafka.has_login and not os.environ.get(LOGIN_VARIABLE):
        problems.append(
            f"kafka.sasl_username: the password of {kafka.sasl_username!r} is missing; set the environment variable "
            f"{LOGIN_VARIABLE} (it never stands in this file)"
        )
    return problems


def _model_problems(topology: Topology) -> list[str]:
    model = topology.model
    problems = []
    if model.candidates < model.neighbours:
        problems.append(
            f"model.candidates: {model.candidates} rows cannot offer model.neighbours = {model.neighbours}; "
            "raise candidates to at least neighbours"
        )
    if model.activity and model.candidates < _ACTIVITY_LOOKBACK:
        problems.append(
            f"model.candidates: activity features look back {_ACTIVITY_LOOKBACK} interactions; "
            f"set candidates to {_ACTIVITY_LOOKBACK} or more, or activity to false"
        )
    if model.pair_features and model.affinity == "inner":
        problems.append(
            "model.pair_features: an inner product has no place for them; set affinity to mlp or pair_features to false"
        )
    if model.preset == "paper" and model.hidden % model.attention_heads:
        problems.append(
            f"model.hidden: {model.hidden} cannot be shared by model.attention_heads = {model.attention_heads}; "
            "make it a multiple"
        )
    if model.preset == "paper" and model.time_dim % 2:
        problems.append(
            f"model.time_dim: {model.time_dim} is odd, but the time encoding has a cosine and a sine per frequency; "
            "make it even"
        )
    return problems


def _graph_problems(topology: Topology) -> list[str]:
    problems = []
    size = topology.graph.max_id_bytes
    if size % 8:
        problems.append(f"graph.max_id_bytes: {size} is not a multiple of 8; use {size + 8 - size % 8}")
    needed = len(topology.topics.interactions) + _DEFAULT_ID_TAIL
    if size < needed:
        problems.append(
            f"graph.max_id_bytes: the default interaction id, topic/partition/offset, needs {needed} bytes with the "
            f"topic name {topology.topics.interactions!r}; use {-(-needed // 8) * 8}, or a shorter kafka.topic_prefix"
        )
    return problems


def _time_problems(time: Time) -> list[str]:
    if time.idle_after_s and time.clock == "wall":
        problem = (
            'time.idle_after_s: with time.clock = "wall" a partition without events follows the clock and holds nobody '
            'back; leave idle_after_s out, or set clock = "event"'
        )
        return [problem]
    return []


def _name_problems(topology: Topology) -> list[str]:
    problems = []
    for key, names in (
        ("features", [feature.name for feature in topology.features]),
        ("heads", [head.name for head in topology.heads]),
    ):
        twice = sorted({name for name in names if names.count(name) > 1})
        problems += [f"{key}: the name {name!r} is used twice; each needs its own" for name in twice]
    for label in sorted({head.label_name for head in topology.heads}):
        if len({head.answers_after for head in topology.heads if head.label_name == label}) > 1:
            problems.append(f"heads: those that learn the label {label!r} must state the same answers_after")
    reserved = sorted({feature.name for feature in topology.features} & RESERVED_FIELDS)
    problems += [
        f"features: {name!r} is a field of every interaction and cannot be a feature; send the value under another name"
        for name in reserved
    ]
    return problems


def _find(path: Path | str | None) -> Path:
    named = os.environ.get("STREAM_TGAT_TOPOLOGY", "") if path is None else str(path)
    folders = _folders()
    if not named:
        raise TopologyError(
            f"No topology chosen. Set STREAM_TGAT_TOPOLOGY to a file or to one of these names: {_known(folders)}; "
            f"{_template()} explains every key."
        )
    if Path(named).is_file():
        return Path(named)
    if not Path(named).suffix and "/" not in named:
        for folder in folders:
            if (folder / f"{named}.toml").is_file():
                return folder / f"{named}.toml"
    origin = "STREAM_TGAT_TOPOLOGY names" if path is None else "Asked for"
    raise TopologyError(
        f"{origin} the topology {named!r}, but there is no such file; give a path or one of: {_known(folders)}"
    )


def _folders() -> list[Path]:
    """Where topologies are looked for by name: here, beside the package, and in it, where an installation has them."""
    package = Path(__file__).resolve().parent
    return [Path("topologies"), package.parent / "topologies", package / "topologies"]


def _template() -> Path:
    """The file that explains every key."""
    files = [folder / "template.toml" for folder in _folders()]
    return next((file for file in files if file.is_file()), files[0])


def _known(folders: list[Path]) -> str:
    names = {file.stem for folder in folders for file in folder.glob("*.toml")} - {"template"}
    return ", ".join(sorted(names)) or "(no topologies/ folder found here)"


def _explain(file: Path, problem: ValidationError) -> str:
    """One line for each problem: file, key, what is wrong, what to do."""
    lines = []
    for error in problem.errors():
        # pydantic puts the kind of a feature into its location, which is not a part of the file.
        parts = [str(part) for part in error["loc"]]
        if len(parts) > 2 and parts[0] == "features":
            del parts[2]
        key = ".".join(parts)
        message = error["msg"].removeprefix("Value error, ")
        if error["type"] == "extra_forbidden":
            message = f"unknown key{_suggestion(parts)}; {_template()} explains every key"
            if "password" in parts[-1]:
                message = (
                    "a password never stands in a topology; give that of the login in the environment variable "
                    f"{LOGIN_VARIABLE}, that of a key in {KEY_VARIABLE}"
                )
        elif error["type"] == "missing":
            message = f"is missing; {_template()} explains every key"
        elif key:
            message = f"{message} (got {error['input']!r})"
        lines += [f"{file}: {key}: {message}"] if key else [f"{file}: {line}" for line in message.split("\n")]
    return "\n".join(lines)


def _suggestion(parts: list[str]) -> str:
    section: Any = Topology
    for part in parts[:-1]:
        if part.isdigit():
            continue
        field = section.model_fields.get(part)
        if field is None:
            return ""
        section = field.annotation
        if not (isinstance(section, type) and issubclass(section, BaseModel)):
            section = Head if part == "heads" else None
        if section is None:
            return ""
    close = difflib.get_close_matches(parts[-1], section.model_fields, n=1)
    return f" (did you mean {close[0]!r}?)" if close else ""
