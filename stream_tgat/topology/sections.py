"""The sections of a topology's file, as pydantic models: keys, types, defaults and bounds of each by itself.

What keys say of one another is in `agreement`; what follows from all of them, in `deployment`.
"""

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
    model_validator,
)

from stream_tgat.durations import seconds_of

PresetName = Literal["paper", "reference", "dyglib"]
SecurityProtocol = Literal["plaintext", "ssl", "sasl_plaintext", "sasl_ssl"]
GateMetric = Literal["links.average_precision", "heads.auc", "heads.average_precision", "heads.brier"]

_DAY_S = 86_400.0
# Most events are at their broker by then with a linger of up to 20 ms, also on a busy machine; measured by
# tests/benchmarks/bench_delay.py.
LIVE_LATENESS_S = 0.05
SESSION_S = 10.0
STATIC_SESSION_S = 45.0


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


class Section(BaseModel):
    """A table of the file: exact types, and no key that is not known."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


class Kafka(Section):
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
    output_format: Literal["json", "msgpack", "avro"] = "json"
    output_key: Literal["kind/id", "id"] = "kind/id"
    wait_for_brokers_s: float = Field(default=-1.0, ge=-1)
    # Not strict: the environment has nothing but text.
    static_membership: bool = Field(default=False, strict=False)
    session_timeout_s: float = Field(default=SESSION_S, ge=2, le=90, strict=False)

    @model_validator(mode="before")
    @classmethod
    def _time_to_come_back(cls, given: Any) -> Any:
        """Who keeps its partitions over a restart must be given the time for one."""
        if isinstance(given, dict) and str(given.get("static_membership")).lower() in ("true", "1"):
            return {"session_timeout_s": STATIC_SESSION_S, **given}
        return given

    @property
    def has_tls(self) -> bool:
        """Whether connections are encrypted, and the brokers show certificates."""
        return self.security_protocol in ("ssl", "sasl_ssl")

    @property
    def has_login(self) -> bool:
        """Whether clients log in by SASL."""
        return self.security_protocol in ("sasl_plaintext", "sasl_ssl")


class Registry(Section):
    """Where the schemas of Avro, Protobuf and JSON Schema are; the password comes from the environment."""

    url: Annotated[str, StringConstraints(pattern=r"^(https?://\S+)?$")] = ""
    username: str = ""
    ssl_cafile: str = ""


class Graph(Section):
    """Which nodes there are and how they are named."""

    bipartite: bool = True
    node_features: int = Field(default=0, ge=0)
    max_id_bytes: int = Field(default=40, ge=16, le=1024)


class Time(Section):
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


class ModelShape(Section):
    """The raw numbers of the model; ``nn`` gives them their meaning."""

    preset: PresetName = "paper"
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


class Head(Section):
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


class Serving(Section):
    """How a worker spends memory and time."""

    device: Annotated[str, StringConstraints(pattern=r"^(auto|cpu|cuda(:\d+)?)$")] = "auto"
    cache_bytes: int = Field(default=1 << 30, ge=1 << 20)
    max_wait_s: float = Field(default=60.0, ge=0)
    micro_batch: int = Field(default=512, ge=1)
    max_pending: int = Field(default=50_000, ge=1)
    window_bytes: int = Field(default=8 << 20, ge=1)
    linger_ms: float = Field(default=40.0, ge=0, le=1000)
    data_dir: Annotated[Path, Field(strict=False)] = Path("runs/data")
    ready_within_s: float = Field(default=30.0, gt=0)
    standby_replicas: int = Field(default=0, ge=0)
    latest: bool = False


class Query(Section):
    """Where questions are answered: by the service to those who ask, by each worker to the service."""

    host: str = Field(default="127.0.0.1", min_length=1)
    port: int = Field(default=6080, ge=0, le=65_535)
    worker_host: str = Field(default="127.0.0.1", min_length=1)
    worker_port: int = Field(default=0, ge=0, le=65_535)


class Releases(Section):
    """Where trained models are kept: a folder, or a URL of any file system that fsspec knows."""

    store: str = Field(default="runs/releases", min_length=1)


class Log(Section):
    """How a worker writes its log: lines for people, or an object a line for machines."""

    format: Literal["text", "json"] = "text"


class Retention(Section):
    """How long the topics keep their records, in days; -1 keeps them for ever."""

    interactions_days: float = Field(default=-1.0, ge=-1)
    labels_days: float = Field(default=-1.0, ge=-1)
    embeddings_days: float = Field(default=7.0, ge=-1)
    alerts_days: float = Field(default=30.0, ge=-1)
    dead_letters_days: float = Field(default=30.0, ge=-1)


class Monitoring(Section):
    """How live quality is measured, and how much memory that takes."""

    window: int = Field(default=5000, ge=10)
    horizon_days: float = Field(default=60.0, gt=0)
    predictions: int = Field(default=200_000, ge=100)
    links_every: int = Field(default=10, ge=0)


class Training(Section):
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


class Retrain(Section):
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
    reencoding_rate: int = Field(default=20_000, ge=1)
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
