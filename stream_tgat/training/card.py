"""The card of a release, card.json: what it is, where it comes from, what it reached, and what the gate said of it."""

import hashlib
import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any, Final, Literal
from uuid import UUID

import orjson
from pydantic import BaseModel, ConfigDict

from stream_tgat.topology import Topology

if TYPE_CHECKING:
    from stream_tgat.nn.model import ModelConfig

#: Of a card and the weights beside it. A field that says nothing by default may be added without raising it: put it
#: into `ADDED_LATER`.
RELEASE_FORMAT: Final = 1

ADDED_LATER: dict[str, object] = {
    "topic_ids": {},
    "learnt_until": None,
    "log_since": None,
    "serving_metrics": {},
    "gate": None,
    "measured": None,
    "best": None,
    "rules": None,
}
"""Fields that older cards lack, with what they are where they say nothing."""


PARTS = ("newest", "test", "validation")
"""Parts of the log that metrics speak of: newer than all that was learnt from, held out by training, stopped by."""


class GateNote(BaseModel):
    """How a release was compared with the one that served when it was trained.

    passed: whether it was to serve   reason: why, or why not   serving: the other's name, None where none served
    begin, end: unix seconds, of the first and the last interaction that both were measured on   interactions: how many
    note: how these were chosen
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    passed: bool
    reason: str
    serving: str | None
    begin: float
    end: float
    interactions: int
    note: str


RulesVerdict = Literal["better", "worse", "unknown", "unmeasured"]


@dataclass(frozen=True)
class RuleFigure:
    """A figure of a model, such as "heads.churn.auc", beside that of the best simple rule. None where it is undefined.

    gain: by how much the model is better   low, high: its 95 % interval   no_say: why it does not count, in words; then
    it has no interval
    """

    figure: str
    answers: int
    model: float | None
    best_rule: str
    rule: float | None
    gain: float | None
    low: float | None
    high: float | None
    no_say: str


@dataclass(frozen=True)
class RulesNote:
    """How a release compares with the best simple rules, on what it has not learnt from.

    gain: mean over the figures that count, None where there is none   low, high: its 95 % interval
    """

    verdict: RulesVerdict
    sentence: str
    gain: float | None = None
    low: float | None = None
    high: float | None = None
    figures: tuple[RuleFigure, ...] = ()

    @property
    def better(self) -> tuple[str, ...]:
        """Figures in which the release is better for certain."""
        return tuple(each.figure for each in self.figures if each.low is not None and each.low > 0)

    @property
    def worse(self) -> tuple[str, ...]:
        """Figures in which it is worse for certain."""
        return tuple(each.figure for each in self.figures if each.high is not None and each.high < 0)


class ReleaseCard(BaseModel):
    """card.json: what a release is and where it comes from.

    model: `ModelConfig.to_dict()`   features, features_hash: definition of the edge vector
    manifest: {topic: {partition: [first offset, end offset]}}, the part of the log it was trained on
    topic_ids: {topic: the id of the very topic that these offsets are of}, as far as the brokers told
    metrics: {name: number}   parent: the release that served when this one was trained
    learnt_until: unix seconds, before which all lies that had a say in the weights, stopping and thresholds; None where
    nothing was learnt, or where it was not noted
    log_since: unix seconds, interactions of the manifest that are older were left out; None where none was
    serving_metrics: of the release that served, on the same interactions as its namesakes in `metrics`
    gate: what became of the comparison; None where there was none
    measured: the release that metrics and gate speak of, where this one was refitted after it on all of the log; None
    where they speak of this one
    best: the best release of the last months when this one was made, which new ones are held against; None for itself
    rules: how it compares with the best simple rules; None where that was not asked
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    format: Literal[1] = RELEASE_FORMAT
    created: datetime
    topology: str
    topology_hash: str
    model: dict[str, Any]
    features: dict[str, Any]
    features_hash: str
    manifest: dict[str, dict[str, tuple[int, int]]] = {}
    topic_ids: dict[str, UUID] = {}
    metrics: dict[str, float | None] = {}
    parent: str | None = None
    seed: int | None = None
    learnt_until: float | None = None
    log_since: float | None = None
    serving_metrics: dict[str, float | None] = {}
    gate: GateNote | None = None
    measured: str | None = None
    best: str | None = None
    rules: RulesNote | None = None
    code_version: str
    hash: str = ""

    @property
    def config(self) -> "ModelConfig":
        """The configuration of the model."""
        # Whoever only reads a card needs no torch, which takes seconds to load.
        from stream_tgat.nn.model import ModelConfig

        return ModelConfig.from_dict(self.model)

    def newest(self, of: str, figure: str) -> float | None:
        """A metric on the newest part of the log that it was measured on, such as of "heads.churn" the "auc"."""
        found = (self.metrics.get(f"{of}.{part}.{figure}") for part in PARTS)
        return next((each for each in found if each is not None), None)

    @property
    def is_untrained(self) -> bool:
        """Whether it has learnt nothing."""
        return self.learnt_until is None and not self.manifest and not self.metrics


def new_card(
    topology: Topology,
    config: "ModelConfig",
    *,
    manifest: Mapping[str, Mapping[int, tuple[int, int]]] | None = None,
    topic_ids: Mapping[str, UUID] | None = None,
    metrics: Mapping[str, float | None] | None = None,
    parent: str | None = None,
    seed: int | None = None,
    learnt_until: float | None = None,
    log_since: float | None = None,
    serving_metrics: Mapping[str, float | None] | None = None,
    gate: GateNote | None = None,
    measured: str | None = None,
    best: str | None = None,
    rules: RulesNote | None = None,
) -> ReleaseCard:
    """A card for a model of this deployment, made now; `ReleaseStore.save` adds the hash."""
    return ReleaseCard(
        created=now(),
        topology=topology.name,
        topology_hash=topology_hash(topology),
        model=config.to_dict(),
        features=topology.encoder.definition(),
        features_hash=topology.encoder.hash,
        manifest={
            topic: {str(partition): offsets for partition, offsets in parts.items()}
            for topic, parts in (manifest or {}).items()
        },
        topic_ids=dict(topic_ids or {}),
        metrics=_json_numbers(metrics),
        parent=parent,
        seed=seed,
        learnt_until=learnt_until,
        log_since=log_since,
        serving_metrics=_json_numbers(serving_metrics),
        gate=gate,
        measured=measured,
        best=best,
        rules=rules,
        code_version=code_version(),
    )


def now() -> datetime:
    """As a card says when its release was made."""
    return datetime.now(UTC).replace(microsecond=0)


def topology_hash(topology: Topology) -> str:
    """SHA-256 of what a topology says about the graph, the features, the heads and the model."""
    content = topology.model_dump(mode="json", include={"graph", "features", "heads", "model"})
    return hashlib.sha256(orjson.dumps(content, option=orjson.OPT_SORT_KEYS)).hexdigest()


def code_version() -> str:
    """Version of this package as installed."""
    try:
        return version("stream-tgat")
    except PackageNotFoundError:
        return "unknown"


def content_hash(weights: bytes, card: Mapping[str, Any]) -> str:
    """SHA-256, in hex, of the weights and of all of the card except its hash.

    A field that cards did not always have is left out too while it says nothing, so that older cards keep their hash.
    """
    left_out = {"hash", *(name for name, nothing in ADDED_LATER.items() if card.get(name, nothing) == nothing)}
    rest = {key: value for key, value in card.items() if key not in left_out}
    digest = hashlib.sha256(weights)
    digest.update(orjson.dumps(rest, option=orjson.OPT_SORT_KEYS))
    return digest.hexdigest()


def _json_numbers(values: Mapping[str, float | None] | None) -> dict[str, float | None]:
    """JSON has no NaN: a metric that is undefined is null."""
    return {
        name: None if value is None or not math.isfinite(value) else float(value)
        for name, value in (values or {}).items()
    }
