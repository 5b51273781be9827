"""What is said of releases that have served: nothing that is not known, and what fails is tried again."""

from __future__ import annotations

import math
import uuid

import pytest
from fsspec.implementations.memory import MemoryFileSystem

from stream_tgat.topology import Topology
from stream_tgat.training import served
from stream_tgat.training.pipeline import untrained
from stream_tgat.training.promotion import Promotion
from stream_tgat.training.registry import Release, ReleaseStore, new_card
from stream_tgat.training.served import TRY_AGAIN_S, ServedReleases
from stream_tgat.wire import ModelRecord

VERSION = 7


@pytest.fixture
def topology() -> Topology:
    return Topology.model_validate(
        {
            "name": "t",
            "model": {"hidden": 8, "time_dim": 4, "neighbours": 4, "candidates": 5},
            "releases": {"store": f"memory://{uuid.uuid4().hex}"},
        }
    )


@pytest.fixture
def release(topology: Topology) -> Release:
    model = untrained(topology, 1)
    return ReleaseStore(topology.releases.store).save(model, new_card(topology, model.config, learnt_until=5.0))


@pytest.fixture
def clock(topology: Topology, release: Release, monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Monotonic seconds, to be moved on; and the release is promoted."""
    now = [0.0]
    record = ModelRecord(release=release.name, store=release.store, hash=release.hash)
    monkeypatch.setattr(served, "promotions", lambda _: [Promotion(VERSION, record)])
    monkeypatch.setattr(served, "monotonic", lambda: now[0])
    return now


def file_of(release: Release, name: str) -> str:
    return f"{release.store.removeprefix('memory:/')}/{release.name}/{name}"


def test_store_that_does_not_answer_says_nothing_and_is_asked_again(
    topology: Topology, clock: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    releases = ServedReleases(topology)
    with monkeypatch.context() as down:
        down.setattr(MemoryFileSystem, "cat_file", lambda *_, **__: (_ for _ in ()).throw(ConnectionError("down")))
        assert (releases.learnt_until(VERSION), releases.is_refused(VERSION)) == (math.inf, False)
    assert releases.learnt_until(VERSION) == math.inf, "it is not asked at every turn"
    clock[0] += TRY_AGAIN_S
    assert (releases.learnt_until(VERSION), releases.is_refused(VERSION)) == (5.0, False)


def test_release_that_is_damaged_is_refused_and_what_it_has_learnt_is_known_from_its_card(
    topology: Topology, release: Release, clock: list[float]
) -> None:
    system, path = MemoryFileSystem(), file_of(release, "model.safetensors")
    sound = system.cat_file(path)
    system.pipe_file(path, sound[:-5])
    releases = ServedReleases(topology)
    assert (releases.learnt_until(VERSION), releases.is_refused(VERSION)) == (5.0, True)
    system.pipe_file(path, sound)  # put back from a copy
    clock[0] += TRY_AGAIN_S
    assert not releases.is_refused(VERSION)


@pytest.mark.usefixtures("clock")
def test_of_what_nobody_promoted_nothing_is_known(topology: Topology) -> None:
    releases = ServedReleases(topology)
    assert (releases.learnt_until(VERSION + 1), releases.is_refused(VERSION + 1)) == (math.inf, False)
