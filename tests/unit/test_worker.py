"""What the worker checks before it starts, and what it does by the clock, whether the brokers answer or not."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka.errors import KafkaConnectionError

from stream_tgat.errors import LostDataError, TopologyError
from stream_tgat.topology import Topology
from stream_tgat.wire.packets import PacketLayout
from stream_tgat.worker import StreamTgat
from tests.unit.agents.fakes import FakeCluster


class Owner:
    """What the worker asks of its propagate agent."""

    def __init__(self, committed_offsets: dict[int, int]) -> None:
        self.committed_offsets = committed_offsets
        self.problem: Exception | None = None
        self.looks = 0

    async def look_at_sources(self) -> None:
        self.looks += 1
        if self.problem is not None:
            raise self.problem


class StoppedError(Exception):
    """The worker ends here."""


class Rig:
    """A worker whose timers run `turns` times without anybody waiting for them."""

    def __init__(self, committed_offsets: dict[int, int] | None = None) -> None:
        self.app = StreamTgat(Topology.model_validate({"name": "t", "kafka": {"topic_prefix": "p-"}}))
        self.owner, self.cluster = Owner(committed_offsets or {}), FakeCluster({})
        parts: Any = {"_propagate": self.owner, "_cluster": self.cluster}
        vars(self.app).update(parts)

    def run(self, timer: str, turns: int = 1, end: type[Exception] = StoppedError) -> float:
        """Let one of the app's timers go off, up to `end`; returns how long it wanted to wait before, in seconds."""
        slept: list[float] = []

        async def sleep(seconds: float) -> None:
            if len(slept) == turns:
                raise StoppedError
            slept.append(seconds)

        vars(self.app)["sleep"] = sleep
        (task,) = [task for task in self.app._app_tasks if task.__name__ == timer]
        with pytest.raises(end):
            asyncio.run(task())
        return slept[0]


def test_records_up_to_the_committed_ones_are_deleted_every_minute_and_none_beyond() -> None:
    """Partition 2 has nothing in its state yet: all that it needs still lies in the log."""
    rig = Rig({0: 41, 1: 0, 2: -1})
    assert rig.run("_delete_what_is_done") == pytest.approx(60.0)
    # A deletion keeps the offset that it names: the one that is read next.
    assert rig.cluster.deleted == {"p-propagation": {0: 42, 1: 1}}


def test_deletion_that_fails_is_tried_again_a_minute_later() -> None:
    rig = Rig({0: 41})
    rig.cluster.silent = KafkaConnectionError("no broker")
    rig.run("_delete_what_is_done", turns=2)
    rig.cluster.silent = None
    rig.run("_delete_what_is_done")
    assert rig.cluster.deleted == {"p-propagation": {0: 42}}


def test_broker_that_does_not_answer_for_the_sources_stops_nothing() -> None:
    rig = Rig()
    rig.owner.problem = KafkaConnectionError("no broker")
    rig.run("_look_at_sources", turns=3)
    assert rig.owner.looks == 3


def test_source_that_lost_records_stops_the_worker() -> None:
    rig = Rig()
    rig.owner.problem = LostDataError("made anew")
    rig.run("_look_at_sources", end=LostDataError)


def _prepared(monkeypatch: pytest.MonkeyPatch, folder: Path, **sections: dict[str, Any]) -> StreamTgat:
    """A worker that has found its topics and a release of the topology's widths."""
    topology = Topology.model_validate({"name": "t", **sections})
    serving = SimpleNamespace(
        version=0, engine=None, layout=PacketLayout(topology.id_bytes, 0, 0, (0, 64)), next_offset=1
    )
    monkeypatch.setattr("stream_tgat.worker.check_topics", lambda topology: {})
    monkeypatch.setattr("stream_tgat.agents.releases.start_serving", lambda topology, metrics: serving)
    app = StreamTgat(topology)
    app.conf.datadir = folder
    app.prepare(lambda kafka: None, lambda line: None)
    return app


def test_micro_batch_that_one_commit_may_not_hold_stops_the_worker_before_it_starts(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with pytest.raises(TopologyError, match=r"serving\.micro_batch: 20000"):
        _prepared(monkeypatch, tmp_path, serving={"micro_batch": 20_000})


def test_packets_are_smaller_where_heads_are_long(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """So that each fits into one commit of the partition that it goes to."""
    short, long = (
        _prepared(monkeypatch, tmp_path, model={"candidates": candidates})._ingest._packer for candidates in (20, 900)
    )
    assert 3 * long.max_interactions < short.max_interactions


def test_broker_that_does_not_answer_for_the_quality_stops_nothing() -> None:
    rig = Rig()
    looks = []

    class Watch:
        async def look(self) -> None:
            looks.append(1)
            raise KafkaConnectionError("no broker")

    vars(rig.app)["_quality"] = Watch()
    rig.run("_look_at_quality", turns=3)
    assert len(looks) == 3
