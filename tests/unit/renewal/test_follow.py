"""What is tried again by the process that renews the model, and what is left as it is."""

from __future__ import annotations

import time
from typing import Any
from uuid import UUID, uuid4

import pytest

from stream_tgat.errors import ReleaseError, UnreachableStoreError
from stream_tgat.renewal import follow
from stream_tgat.renewal.reencoding import Owed
from stream_tgat.topology import Topology
from stream_tgat.training.pipeline import untrained
from stream_tgat.training.registry import ReleaseStore, new_card
from stream_tgat.wire import ReencodedRecord


class Lease:
    """Had by whoever asks."""

    def __init__(self, topology: Topology) -> None:
        pass

    def __enter__(self) -> Lease:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def check(self) -> None:
        pass


READY: Any = object()
NOTHING = Owed(None, serves=True)


class World:
    """What `models` and the store would say."""

    def __init__(self) -> None:
        self.end = 5
        self.says: list[Owed | Exception] = []
        self.asked = 0
        self.reencoded: list[object] = []

    def look(self, _: Topology) -> Owed:
        self.asked += 1
        found = self.says[0] if len(self.says) == 1 else self.says.pop(0)
        if isinstance(found, Exception):
            raise found
        return found

    def reencode(self, _: Topology, ready: object, told: object) -> ReencodedRecord:
        self.reencoded.append(ready)
        self.says = [NOTHING]
        return ReencodedRecord(version=3, interactions=1, peer_embeddings=1, inexact=0)


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    made = World()
    monkeypatch.setattr(follow, "topic_range", lambda *_: {0: (0, made.end)})
    monkeypatch.setattr(follow, "look", made.look)
    monkeypatch.setattr(follow, "reencode", made.reencode)
    monkeypatch.setattr(follow, "Lease", Lease)
    return made


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [time.time()]
    monkeypatch.setattr(follow.time, "time", lambda: now[0])
    return now


@pytest.fixture
def topology() -> Topology:
    store = f"memory://{uuid4().hex}"  # in the memory of the process, so each test has one of its own
    return Topology.model_validate({"name": "t", "retrain": {"rest": "60s"}, "releases": {"store": store}})


@pytest.mark.parametrize(
    "hiccup",
    [
        UnreachableStoreError("down"),
        Owed(None, serves=True, refused=(ReleaseError("no readable card.json"),)),
        Owed(None, serves=False, refused=(ReleaseError("no readable card.json"),)),
    ],
)
def test_reencoding_is_tried_again_after_a_hiccup_of_the_store(
    world: World, clock: list[float], topology: Topology, hiccup: Owed | Exception
) -> None:
    following = follow._Following(topology)
    world.says = [hiccup, Owed(READY, serves=True)]
    following._try(following._reencode)
    following._try(following._reencode)
    assert world.reencoded == []
    assert world.asked == 1, "not at every turn"
    clock[0] += 61.0
    following._try(following._reencode)
    assert world.reencoded == [READY]


def test_nothing_is_asked_again_where_no_peer_embeddings_are_owed_until_there_is_a_promotion(
    world: World, clock: list[float], topology: Topology
) -> None:
    following = follow._Following(topology)
    world.says = [NOTHING]
    for _ in range(3):
        following._try(following._reencode)
        clock[0] += 1e6
    assert world.asked == 1
    world.end, world.says = 6, [Owed(READY, serves=True)]
    following._try(following._reencode)
    assert world.reencoded == [READY]


def test_new_promotion_is_looked_at_at_once_after_one_that_was_refused(world: World, topology: Topology) -> None:
    following = follow._Following(topology)
    world.says = [Owed(None, serves=True, refused=(ReleaseError("damaged"),))]
    following._try(following._reencode)
    world.end, world.says = 6, [Owed(READY, serves=True)]
    following._try(following._reencode)
    assert world.reencoded == [READY]


def test_card_that_cannot_be_read_now_is_not_passed_over_for_an_older_one(
    topology: Topology, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, model = ReleaseStore(topology.releases.store), untrained(topology, 1)
    manifest = {topology.topics.interactions: {0: (0, 9)}}
    newest = store.save(model, new_card(topology, model.config, manifest=manifest))
    trainings = follow._Trainings(topology)
    with monkeypatch.context() as down:
        down.setattr(ReleaseStore, "find", lambda *_: (_ for _ in ()).throw(UnreachableStoreError("down")))
        with pytest.raises(UnreachableStoreError):
            trainings.newest()
    found = trainings.newest()
    assert found is not None
    assert (found.release, found.ends) == (newest.name, {(topology.topics.interactions, 0): 9})


def test_training_on_a_topic_that_was_created_again_is_not_where_the_new_one_goes_on(topology: Topology) -> None:
    store, model, topic = ReleaseStore(topology.releases.store), untrained(topology, 1), topology.topics.interactions
    card = new_card(topology, model.config, manifest={topic: {0: (0, 9)}}, topic_ids={topic: UUID(int=1)})
    store.save(model, card)
    trainings = follow._Trainings(topology)
    here = {(topic, 0): 9}
    for now, ends in ((None, here), ({topic: UUID(int=1)}, here), ({topic: UUID(int=2)}, {})):
        found = trainings.newest(now)
        assert found is not None
        assert found.ends == ends
