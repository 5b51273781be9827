"""The release store: one folder per release, written once, checked whenever it is read.

    runs/releases/20260101-120000-1f2e3d4c/
        model.safetensors    weights, calibration, thresholds
        card.json            what they are and where they come from

Nothing is unpickled, so a release from elsewhere cannot run code. A release appears under its name only when it is
complete (see `folders`), and its hash covers both files. Which release serves is not written here but in the log: see
`promotion`.
"""

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import orjson
from pydantic import ValidationError
from safetensors import SafetensorError

from stream_tgat.errors import ModelError, ReleaseError
from stream_tgat.topology import Topology
from stream_tgat.training.card import (
    GateNote,
    ReleaseCard,
    RuleFigure,
    RulesNote,
    code_version,
    content_hash,
    new_card,
    now,
    topology_hash,
)
from stream_tgat.training.folders import open_folder

if TYPE_CHECKING:
    from stream_tgat.nn.model import Model

__all__ = [
    "CARD_FILE",
    "WEIGHTS_FILE",
    "GateNote",
    "Release",
    "ReleaseCard",
    "ReleaseStore",
    "RuleFigure",
    "RulesNote",
    "check_fits",
    "code_version",
    "content_hash",
    "new_card",
    "now",
    "topology_hash",
]

WEIGHTS_FILE = "model.safetensors"
CARD_FILE = "card.json"


@dataclass(frozen=True)
class Release:
    """A release in a store. store: its folder or URL, without user and password"""

    name: str
    store: str
    card: ReleaseCard

    @property
    def hash(self) -> str:
        """SHA-256 over weights and card, in hex."""
        return self.card.hash

    @property
    def folder(self) -> Path:
        """Where its files are, if its store is a folder of this machine."""
        return Path(self.store) / self.name


class ReleaseStore:
    """All releases in one folder, or under one URL."""

    def __init__(self, address: str | Path) -> None:
        self._folder = open_folder(address, CARD_FILE)

    @property
    def address(self) -> str:
        """The folder or URL, without user and password."""
        return self._folder.address

    def names(self) -> list[str]:
        """Names of the releases, oldest first."""
        return self._folder.names()

    def save(self, model: "Model", card: ReleaseCard) -> Release:
        """Write a new release; it is there completely or not at all."""
        from safetensors.torch import save as write_weights

        state = {name: tensor.detach().cpu().contiguous() for name, tensor in model.state_dict().items()}
        weights = write_weights(state)
        card = card.model_copy(update={"hash": content_hash(weights, card.model_dump(mode="json"))})
        name = f"{card.created:%Y%m%d-%H%M%S}-{card.hash[:8]}"
        content = orjson.dumps(card.model_dump(mode="json"), option=orjson.OPT_INDENT_2)
        # One that is there under this name has the same hash and so the same content.
        self._folder.write(name, {WEIGHTS_FILE: weights, CARD_FILE: content})
        return Release(name, self.address, card)

    def find(self, name: str) -> Release:
        """A release by its name, or by a beginning or end that fits only one. Its hash is not checked yet."""
        names = self.names()
        fitting = [each for each in names if each == name] or [
            each for each in names if name and (each.startswith(name) or each.endswith(name))
        ]
        if len(fitting) != 1:
            what = "fits several releases" if fitting else "is not a release"
            raise ReleaseError(f"{name!r} {what} in {self.address}; there are: {', '.join(names) or 'none'}")
        return Release(fitting[0], self.address, self._read_card(fitting[0]))

    def load(self, name: str, expected_hash: str | None = None) -> "tuple[Model, Release]":
        """The model of a release, after checking its hash (and that it is the expected one)."""
        # Whoever only looks at cards needs no torch, which takes seconds to load.
        from safetensors.torch import load as read_weights

        from stream_tgat.nn.model import Model

        release = self.find(name)
        card, place = release.card, f"{self.address}/{release.name}"
        weights = self._read(release.name, WEIGHTS_FILE)
        found = content_hash(weights, card.model_dump(mode="json"))
        if found != card.hash:
            raise ReleaseError(
                f"Release {place} was altered or is incomplete: its content has the hash {found[:12]}…, its "
                f"card says {card.hash[:12]}…; {_REMEDY}"
            )
        if expected_hash is not None and card.hash != expected_hash:
            raise ReleaseError(
                f"Release {place} has the hash {card.hash[:12]}…, but {expected_hash[:12]}… was promoted; "
                f"another release has taken its name; {_REMEDY}"
            )
        try:
            model = Model(card.config)
            model.load_state_dict(read_weights(weights))
        except (ModelError, RuntimeError, SafetensorError, TypeError, ValueError) as problem:
            raise ReleaseError(
                f"Release {place} cannot be used by version {code_version()} of this package (version "
                f"{card.code_version} wrote it): {problem}"
            ) from problem
        unusable = [key for key, tensor in model.state_dict().items() if not tensor.isfinite().all()]
        if unusable:
            raise ReleaseError(
                f"Release {place} has weights that are not finite ({', '.join(unusable[:3])}"
                f"{', …' if len(unusable) > 3 else ''}): its training went astray, and all it says would be NaN; "
                "train another, or promote another: faust -A stream_tgat release list"
            )
        return model.eval(), release

    def _read(self, name: str, file: str) -> bytes:
        try:
            return self._folder.read(name, file)
        except OSError as problem:
            raise ReleaseError(
                f"Release {self.address}/{name} has no readable {file}: {problem.strerror or problem}; {_REMEDY}"
            ) from problem

    def _read_card(self, name: str) -> ReleaseCard:
        content, place = self._read(name, CARD_FILE), f"{self.address}/{name}"
        try:
            return ReleaseCard.model_validate_json(content)
        except ValidationError as problem:
            wrote = _version_in(content)
            first = problem.errors()[0]
            where = ".".join(map(str, first["loc"])) or "content"
            if first["type"] == "extra_forbidden" or (where == "format" and first["type"] == "literal_error"):
                raise ReleaseError(
                    f"Release {place} was written by another version of stream-tgat ({wrote}), in a format that "
                    f"version {code_version()} does not read ({where}): run that version, or promote another release: "
                    "faust -A stream_tgat release list"
                ) from None
            raise ReleaseError(f"{place}/{CARD_FILE}: {where}: {first['msg']}; {_REMEDY}") from None


def _version_in(card: bytes) -> str:
    """The version of the package that wrote a card, as far as it says so."""
    with suppress(ValueError, AttributeError):
        return str(orjson.loads(card).get("code_version", "unknown"))
    return "unknown"


_REMEDY = "restore it from a copy, or promote another: faust -A stream_tgat release list"


def check_fits(release: Release, topology: Topology, any_heads: bool = False) -> None:
    """Refuse a release that was made for another deployment, and say in what they differ.

    any_heads: whatever its heads are, as for one that is measured and does not serve
    """
    from stream_tgat.training.shape import differences

    problems = differences(release.card.config, topology, any_heads)
    if release.card.features_hash != topology.encoder.hash:
        problems.append("the [[features]] of the topology are not those that the release was trained on")
    if problems:
        raise ReleaseError(
            f"Release {release.name} does not fit the topology {topology.name!r}: {'; '.join(problems)}. "
            "Train a new one with: faust -A stream_tgat train (or set the topology back)"
        )
