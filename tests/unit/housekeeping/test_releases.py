"""Which of the promotions serves: the newest that can; what cannot is refused, and what serves goes on."""

from __future__ import annotations

import asyncio
import logging
import uuid
from pathlib import Path

import pytest
import torch
from fsspec.implementations.memory import MemoryFileSystem

from stream_tgat.agents.metrics import Metrics
from stream_tgat.errors import ReleaseError
from stream_tgat.housekeeping.releases import ModelWatch
from stream_tgat.message_passing.release import Ready, alert_policy, newest_that_can_serve
from stream_tgat.nn.model import Model
from stream_tgat.topology import Releases, Topology
from stream_tgat.training.promotion import Promotion
from stream_tgat.training.registry import WEIGHTS_FILE, Release, ReleaseStore, new_card
from stream_tgat.training.shape import model_config
from stream_tgat.wire import ModelRecord
from tests.unit.agents.fakes import FakeCluster, Message


def topology_in(folder: Path, **model: object) -> Topology:
    return Topology.model_validate(
        {
            "name": "t",
            "model": {"hidden": 4, "time_dim": 4, "neighbours": 2, "candidates": 3, **model},
            "heads": [{"name": "ban", "cooldown_s": 5.0}, {"name": "pet", "threshold": 0.9, "cooldown_s": 6.0}],
            "releases": {"store": str(folder)},
        }
    )


def release(topology: Topology, seed: int, *, broken: float | None = None) -> Release:
    torch.manual_seed(seed)
    model = Model(model_config(topology)).eval()
    model.thresholds.fill_(0.25)
    if broken is not None:
        with torch.no_grad():
            next(model.encoder.parameters())[..., 0] = broken
    return ReleaseStore(topology.releases.store).save(model, new_card(topology, model.config, seed=seed))


def promoted(version: int, release: Release) -> Promotion:
    return Promotion(version, ModelRecord(release=release.name, store=str(release.store), hash=release.hash))


def truncate(release: Release) -> Release:
    file = release.folder / WEIGHTS_FILE
    file.write_bytes(file.read_bytes()[:-7])
    return release


def remove(release: Release) -> Release:
    (release.folder / WEIGHTS_FILE).unlink()
    return release


def test_newest_promotion_serves_with_its_own_thresholds(tmp_path: Path) -> None:
    topology = topology_in(tmp_path)
    found = [promoted(version, release(topology, version)) for version in (3, 8)]
    ready, refusals = newest_that_can_serve(topology, found)
    assert ready is not None
    assert (ready.version, ready.name, refusals) == (8, found[1].record.release, [])
    # The topology's threshold where it has one, else the release's.
    assert ready.alerts.thresholds == (0.25, 0.9)
    assert ready.alerts.cooldowns_s == (5.0, 6.0)
    assert alert_policy(topology, ready.model) == ready.alerts


@pytest.mark.parametrize("kind", ["nan", "inf", "truncated", "missing", "gone", "other topology", "other content"])
def test_release_that_cannot_serve_is_refused_and_the_one_before_it_serves(
    kind: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    topology = topology_in(tmp_path)
    good = promoted(0, release(topology, 1))
    if kind in ("nan", "inf"):
        bad = promoted(1, release(topology, 2, broken=float(kind)))
    elif kind == "truncated":
        bad = promoted(1, truncate(release(topology, 2)))
    elif kind == "missing":
        bad = promoted(1, remove(release(topology, 2)))
    elif kind == "gone":
        record = good.record.model_copy(update={"release": "20260101-000000-00000000"})
        bad = Promotion(1, record)
    elif kind == "other topology":
        bad = promoted(1, release(topology_in(tmp_path, neighbours=3), 2))
    else:
        bad = Promotion(1, good.record.model_copy(update={"hash": "0" * 64}))
    with caplog.at_level(logging.ERROR):
        ready, refusals = newest_that_can_serve(topology, [good, bad])
    assert ready is not None
    assert ready.version == 0
    assert [type(refusal) for refusal in refusals] == [ReleaseError]
    (line,) = caplog.messages
    assert line.startswith("Model 1 is refused: ")
    assert "\n" not in line


def test_no_release_that_can_serve_says_why_of_each_once(tmp_path: Path) -> None:
    topology = topology_in(tmp_path)
    bad = [truncate(release(topology, seed)) for seed in (1, 2)]
    twice = [promoted(0, bad[0]), promoted(1, bad[1]), promoted(2, bad[0])]
    ready, refusals = newest_that_can_serve(topology, twice)
    assert ready is None
    assert [bad[0].name in str(refusals[0]), bad[1].name in str(refusals[1]), len(refusals)] == [True, True, 2]


class Partitions:
    """The worker's partitions: what their states name, and what was to serve them."""

    def __init__(self) -> None:
        self.named_model = 0
        self.renewed: list[int] = []

    def renew(self, ready: Ready) -> None:
        self.renewed.append(ready.version)


class Watched:
    """A watch over `models`, of which offset 0 serves."""

    def __init__(self, folder: Path) -> None:
        self.topology = topology_in(folder)
        self.cluster, self.partitions = FakeCluster({"models": [1]}), Partitions()
        self.metrics = Metrics(model=0)
        self.watch = ModelWatch(self.topology, 1, self.cluster, self.partitions, self.metrics)
        self.log = self.cluster.records.setdefault(("models", 0), [])

    def promote(self, release: Release) -> None:
        end = self.cluster.topics["models"][0]
        value = promoted(end, release).record.model_dump_json().encode()
        self.log.append(Message("models", 0, end, value))
        self.cluster.topics["models"] = [end + 1]

    def look(self) -> None:
        asyncio.run(self.watch.look())


def test_watch_offers_each_new_promotion_once(tmp_path: Path) -> None:
    watched = Watched(tmp_path)
    watched.look()
    assert watched.partitions.renewed == []
    watched.promote(release(watched.topology, 1))
    watched.look()
    watched.look()
    assert watched.partitions.renewed == [1]
    watched.promote(release(watched.topology, 2))
    watched.look()
    assert watched.partitions.renewed == [1, 2]


def test_watch_refuses_a_bad_release_counts_it_and_takes_the_next(tmp_path: Path) -> None:
    watched = Watched(tmp_path)
    watched.promote(truncate(release(watched.topology, 1)))
    watched.look()
    assert (watched.partitions.renewed, watched.metrics.refused_releases) == ([], 1)
    watched.promote(release(watched.topology, 2))
    watched.look()
    assert (watched.partitions.renewed, watched.metrics.refused_releases) == ([2], 1)


def test_of_promotions_between_two_looks_the_newest_that_can_serve_does(tmp_path: Path) -> None:
    """So that a worker that looked between them ends where one that did not look does."""
    watched = Watched(tmp_path)
    watched.promote(release(watched.topology, 1))
    watched.promote(release(watched.topology, 2))
    watched.promote(release(watched.topology, 3, broken=float("nan")))
    watched.look()
    assert (watched.partitions.renewed, watched.metrics.refused_releases) == ([2], 1)


def test_records_that_are_no_promotions_or_were_compacted_are_passed_over(tmp_path: Path) -> None:
    watched = Watched(tmp_path)
    watched.log.append(Message("models", 0, 1, b"not a promotion"))
    watched.cluster.topics["models"] = [5]
    watched.look()
    watched.promote(release(watched.topology, 1))
    watched.look()
    assert (watched.partitions.renewed, watched.metrics.refused_releases) == ([5], 0)


def test_partition_that_was_served_by_a_model_that_is_not_here_yet_waits_for_it(tmp_path: Path) -> None:
    watched = Watched(tmp_path)
    watched.promote(release(watched.topology, 1))
    watched.partitions.named_model = 1
    watched.look()
    assert watched.partitions.renewed == [1]


def test_partition_that_was_served_by_a_model_that_cannot_serve_here_stops_the_worker(tmp_path: Path) -> None:
    watched = Watched(tmp_path)
    watched.promote(truncate(release(watched.topology, 1)))
    watched.partitions.named_model = 1
    with pytest.raises(ReleaseError, match=r"Model 1 has served a partition.*release promote"):
        watched.look()
    # A newer one follows it, whoever could load it.
    watched.promote(release(watched.topology, 2))
    watched.look()
    assert watched.partitions.renewed == [2]


def test_promotion_whose_store_cannot_be_asked_is_looked_at_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    watched = Watched(tmp_path)
    url = f"memory://{uuid.uuid4().hex}"
    remote = topology_in(tmp_path).model_copy(update={"releases": Releases(store=url)})
    watched.promote(release(remote, 1))
    with monkeypatch.context() as down:
        down.setattr(MemoryFileSystem, "glob", lambda *_, **__: (_ for _ in ()).throw(ConnectionError("down")))
        watched.look()
    assert (watched.partitions.renewed, watched.metrics.refused_releases) == ([], 0)
    watched.look()
    assert watched.partitions.renewed == [1]
