"""Whom a new model is compared with: what serves, and the best release of the last months.

Where a release was refitted on all of the log, the model that was measured before that is compared: like the new one it
has not learnt from the newest part. Else what it has learnt would speak for it, or too little would be new to both.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from stream_tgat.errors import StreamTgatError, UnreachableStoreError
from stream_tgat.nn.model import Model
from stream_tgat.topology import Topology
from stream_tgat.training.promotion import Loaded, Promotion, newest_loadable
from stream_tgat.training.registry import Release, ReleaseStore, check_fits, now


@dataclass(frozen=True, eq=False)
class Measurable:
    """A model, and the release that it is of."""

    model: Model
    release: Release


@dataclass(frozen=True, eq=False)
class Opponents:
    """serving: what serves, as it is measured; None where nothing does   serving_name: of the release that serves

    best, best_name: likewise, of the best release; None where that is the one that serves
    newest_version: of the promotions that were looked at, −1 for none   notes: what a reader should know, in words
    """

    newest_version: int
    serving: Measurable | None
    serving_name: str | None
    best: Measurable | None
    best_name: str | None
    notes: tuple[str, ...]


def opponents(topology: Topology, found: Sequence[Promotion]) -> Opponents:
    """From the promotions so far, oldest first. Raises UnreachableStoreError where a store cannot be asked."""
    loaded, refused = newest_loadable(topology, found, any_heads=True)
    notes = [f"model {promotion.version} cannot serve: {problem}" for promotion, problem in refused]
    newest = found[-1].version if found else -1
    if loaded is None:
        return Opponents(newest, None, None, None, None, tuple(notes))
    serving = _measured(topology, Measurable(loaded.model, loaded.release), notes)
    notes += _of_other_heads(topology, loaded)
    name = loaded.release.card.best
    best = None if name is None else _best(topology, name, notes)
    return Opponents(newest, serving, loaded.release.name, best, None if best is None else name, tuple(notes))


def _best(topology: Topology, name: str, notes: list[str]) -> Measurable | None:
    """None where it is too old, or is no longer there."""
    try:
        found = _load(topology, name)
    except UnreachableStoreError:
        raise
    except StreamTgatError as problem:
        notes.append(f"not compared with {name}, the best release so far: {problem}")
        return None
    if (now() - found.release.card.created).total_seconds() > topology.retrain.best_of_s:
        return None
    return _measured(topology, found, notes)


def _measured(topology: Topology, served: Measurable, notes: list[str]) -> Measurable:
    """What stands for a release: the model that was measured before it was refitted, if it was."""
    measured = served.release.card.measured
    if measured is None:
        return served
    try:
        return _load(topology, measured)
    except UnreachableStoreError:
        raise
    except StreamTgatError as problem:
        notes.append(
            f"{served.release.name} was refitted, and {measured}, as which it was measured, is missing: {problem}"
        )
        return served


def _load(topology: Topology, name: str) -> Measurable:
    model, release = ReleaseStore(topology.releases.store).load(name)
    check_fits(release, topology, any_heads=True)
    return Measurable(model, release)


def _of_other_heads(topology: Topology, serving: Loaded) -> Iterator[str]:
    if serving.release.card.config.head_names != topology.head_names:
        theirs = ", ".join(serving.release.card.config.head_names) or "none"
        yield f"{serving.release.name} has other heads ({theirs}): compared on the links and on the heads of both"
