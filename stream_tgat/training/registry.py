"""The release store: one folder per release, written once, checked whenever it is read.

    runs/releases/20260101-120000-1f2e3d4c/
        model.safetensors    weights, calibration, thresholds
        card.json            what they are and where they come from

Nothing is unpickled, so a release from elsewhere cannot run code. A release appears under its name only when it is
complete (written beside, then renamed), and its hash covers both files. Which release serves is not written here but in
the log: see `promotion`.
"""

import hashlib
import math
import os
import secrets
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import orjson
from pydantic import BaseModel, ConfigDict, ValidationError
from safetensors import SafetensorError
from safetensors.torch import load as read_weights
from safetensors.torch import save as write_weights

from stream_tgat.errors import ModelError, ReleaseError
from stream_tgat.nn.model import Model, ModelConfig
from stream_tgat.topology import Topology
from stream_tgat.training.shape import differences

WEIGHTS_FILE = "model.safetensors"
CARD_FILE = "card.json"
FORMAT = 1


class ReleaseCard(BaseModel):
    """card.json: what a release is and where it comes from.

    model: `ModelConfig.to_dict()`   features, features_hash: definition of the edge vector
    manifest: {topic: {partition: [first offset, end offset]}}, the part of the log it was trained on
    metrics: {name: number}   parent: the release that served when this one was trained
    learnt_until: unix seconds, before which all lies that had a say in the weights, stopping and thresholds; None where
    nothing was learnt, or where it was not noted
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    format: int = FORMAT
    created: datetime
    topology: str
    topology_hash: str
    model: dict[str, Any]
    features: dict[str, Any]
    features_hash: str
    manifest: dict[str, dict[str, tuple[int, int]]] = {}
    metrics: dict[str, float | None] = {}
    parent: str | None = None
    seed: int | None = None
    learnt_until: float | None = None
    code_version: str
    hash: str = ""

    @property
    def config(self) -> ModelConfig:
        """The configuration of the model."""
        return ModelConfig.from_dict(self.model)


@dataclass(frozen=True)
class Release:
    """A release in a store. hash: SHA-256 over weights and card."""

    name: str
    store: Path
    card: ReleaseCard

    @property
    def hash(self) -> str:
        """SHA-256 over weights and card, in hex."""
        return self.card.hash

    @property
    def folder(self) -> Path:
        """Where its files are."""
        return self.store / self.name


def new_card(
    topology: Topology,
    config: ModelConfig,
    *,
    manifest: Mapping[str, Mapping[int, tuple[int, int]]] | None = None,
    metrics: Mapping[str, float | None] | None = None,
    parent: str | None = None,
    seed: int | None = None,
    learnt_until: float | None = None,
) -> ReleaseCard:
    """A card for a model of this deployment, made now; `ReleaseStore.save` adds the hash."""
    return ReleaseCard(
        created=datetime.now(UTC).replace(microsecond=0),
        topology=topology.name,
        topology_hash=topology_hash(topology),
        model=config.to_dict(),
        features=topology.encoder.definition(),
        features_hash=topology.encoder.hash,
        manifest={
            topic: {str(partition): offsets for partition, offsets in parts.items()}
            for topic, parts in (manifest or {}).items()
        },
        metrics={name: _json_number(value) for name, value in (metrics or {}).items()},
        parent=parent,
        seed=seed,
        learnt_until=learnt_until,
        code_version=code_version(),
    )


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


class ReleaseStore:
    """All releases in one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def names(self) -> list[str]:
        """Names of the releases, oldest first."""
        if not self.folder.is_dir():
            return []
        return sorted(entry.parent.name for entry in self.folder.glob(f"[!.]*/{CARD_FILE}"))

    def save(self, model: Model, card: ReleaseCard) -> Release:
        """Write a new release; it is there completely or not at all."""
        state = {name: tensor.detach().cpu().contiguous() for name, tensor in model.state_dict().items()}
        weights = write_weights(state)
        card = card.model_copy(update={"hash": content_hash(weights, card.model_dump(mode="json"))})
        name = f"{card.created:%Y%m%d-%H%M%S}-{card.hash[:8]}"
        self.folder.mkdir(parents=True, exist_ok=True)
        partial = self.folder / f".{name}.{secrets.token_hex(4)}"
        partial.mkdir()
        try:
            _write_durably(partial / WEIGHTS_FILE, weights)
            _write_durably(partial / CARD_FILE, orjson.dumps(card.model_dump(mode="json"), option=orjson.OPT_INDENT_2))
            if not (self.folder / name).exists():  # the same hash is the same content
                partial.rename(self.folder / name)
        finally:
            shutil.rmtree(partial, ignore_errors=True)
        return Release(name, self.folder, card)

    def find(self, name: str) -> Release:
        """A release by its name, or by a beginning or end that fits only one. Its hash is not checked yet."""
        names = self.names()
        fitting = [each for each in names if each == name] or [
            each for each in names if name and (each.startswith(name) or each.endswith(name))
        ]
        if len(fitting) != 1:
            what = "fits several releases" if fitting else "is not a release"
            raise ReleaseError(f"{name!r} {what} in {self.folder}; there are: {', '.join(names) or 'none'}")
        return Release(fitting[0], self.folder, _read_card(self.folder / fitting[0]))

    def load(self, name: str, expected_hash: str | None = None) -> tuple[Model, Release]:
        """The model of a release, after checking its hash (and that it is the expected one)."""
        release = self.find(name)
        card = release.card
        try:
            weights = (release.folder / WEIGHTS_FILE).read_bytes()
        except OSError as problem:
            raise ReleaseError(f"Release {release.folder} has no readable {WEIGHTS_FILE}: {problem.strerror}; "
                               f"{_REMEDY}") from problem  # fmt: skip
        found = content_hash(weights, card.model_dump(mode="json"))
        if found != card.hash:
            raise ReleaseError(
                f"Release {release.folder} was altered or is incomplete: its content has the hash {found[:12]}…, its "
                f"card says {card.hash[:12]}…; {_REMEDY}"
            )
        if expected_hash is not None and card.hash != expected_hash:
            raise ReleaseError(
                f"Release {release.folder} has the hash {card.hash[:12]}…, but {expected_hash[:12]}… was promoted; "
                f"another release has taken its name; {_REMEDY}"
            )
        try:
            model = Model(card.config)
            model.load_state_dict(read_weights(weights))
        except (ModelError, RuntimeError, SafetensorError, TypeError, ValueError) as problem:
            raise ReleaseError(
                f"Release {release.folder} cannot be used by version {code_version()} of this package (version "
                f"{card.code_version} wrote it): {problem}"
            ) from problem
        unusable = [key for key, tensor in model.state_dict().items() if not tensor.isfinite().all()]
        if unusable:
            raise ReleaseError(
                f"Release {release.folder} has weights that are not finite ({', '.join(unusable[:3])}"
                f"{', …' if len(unusable) > 3 else ''}): its training went astray, and all it says would be NaN; "
                "train another, or promote another: faust -A stream_tgat release list"
            )
        return model.eval(), release


_REMEDY = "restore it from a copy, or promote another: faust -A stream_tgat release list"


def content_hash(weights: bytes, card: Mapping[str, Any]) -> str:
    """SHA-256, in hex, of the weights and of all of the card except its hash.

    A `learnt_until` that was not noted is left out too, so that cards without that field keep their hash.
    """
    left_out = {"hash"} if card.get("learnt_until") is not None else {"hash", "learnt_until"}
    rest = {key: value for key, value in card.items() if key not in left_out}
    digest = hashlib.sha256(weights)
    digest.update(orjson.dumps(rest, option=orjson.OPT_SORT_KEYS))
    return digest.hexdigest()


def check_fits(release: Release, topology: Topology) -> None:
    """Refuse a release that was made for another deployment, and say in what they differ."""
    problems = differences(release.card.config, topology)
    if release.card.features_hash != topology.encoder.hash:
        problems.append("the [[features]] of the topology are not those that the release was trained on")
    if problems:
        raise ReleaseError(
            f"Release {release.name} does not fit the topology {topology.name!r}: {'; '.join(problems)}. "
            "Train a new one with: faust -A stream_tgat train (or set the topology back)"
        )


def _json_number(value: float | None) -> float | None:
    """JSON has no NaN: a metric that is undefined is null."""
    return None if value is None or not math.isfinite(value) else float(value)


def _read_card(folder: Path) -> ReleaseCard:
    try:
        return ReleaseCard.model_validate_json((folder / CARD_FILE).read_bytes())
    except OSError as problem:
        raise ReleaseError(f"Release {folder} has no readable {CARD_FILE}: {problem.strerror}; {_REMEDY}") from problem
    except ValidationError as problem:
        first = problem.errors()[0]
        where = ".".join(map(str, first["loc"])) or "content"
        raise ReleaseError(f"{folder / CARD_FILE}: {where}: {first['msg']}; {_REMEDY}") from None


def _write_durably(file: Path, content: bytes) -> None:
    with file.open("wb") as target:
        target.write(content)
        target.flush()
        os.fsync(target.fileno())
