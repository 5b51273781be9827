"""What the worker checks before it starts, and what it does by the clock, whether the brokers answer or not."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import pytest
from aiokafka.errors import KafkaConnectionError

from stream_tgat.commands.topics import TopicState, topic_specs
from stream_tgat.errors import LostDataError, TopologyError
from stream_tgat.topology import Topology
from stream_tgat.wire.packets import PacketLayout
from stream_tgat.worker import StreamTgat
from tests.unit.agents.fakes import FakeCluster


class StoppedError(Exception):
    """The worker ends here."""


def run(app: StreamTgat, work: str, turns: int = 1, end: type[Exception] = StoppedError) -> float:
    """Let one of the app's timers go off so often, up to `end`; returns how long it waits before, in seconds."""
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        if len(slept) == turns:
            raise StoppedError
        slept.append(seconds)

    vars(app)["sleep"] = sleep
    (task,) = [task for task in app._app_tasks if task.__qualname__ == work]
    with pytest.raises(end):
        asyncio.run(task())
    return slept[0]


def _prepared(monkeypatch: pytest.MonkeyPatch, folder: Path, **sections: dict[str, Any]) -> StreamTgat:
    """A worker that has found its topics and a release of the topology's widths."""
    topology = Topology.model_validate({"name": "t", **sections})
    serving = SimpleNamespace(
        version=0, engine=None, layout=PacketLayout(topology.id_bytes, 0, 0, (0, 64)), next_offset=1
    )
    found = {spec.name: TopicState(spec.partitions, {}, uuid4()) for spec in topic_specs(topology)}
    monkeypatch.setattr("stream_tgat.worker.check_topics", lambda topology: found)
    monkeypatch.setattr("stream_tgat.housekeeping.releases.start_serving", lambda topology, metrics: serving)
    monkeypatch.setattr("stream_tgat.worker.Cluster", lambda kafka: FakeCluster({}))
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
        _prepared(monkeypatch, tmp_path / str(candidates), model={"candidates": candidates})._ingest._packer
        for candidates in (20, 900)
    )
    assert 3 * long.max_interactions < short.max_interactions


@pytest.mark.parametrize(
    ("work", "seconds"),
    [
        ("PropagationTopic.delete_done", 60.0),
        ("PropagationTopic.look", 0.5),
        ("Propagate.look_at_sources", 5.0),
        ("ModelWatch.look", 1.0),
        ("QualityWatch.look", 10.0),
    ],
)
def test_what_is_done_by_the_clock_goes_on_without_brokers(
    work: str, seconds: float, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    app = _prepared(monkeypatch, tmp_path)
    cluster: Any = app._cluster
    cluster.silent = KafkaConnectionError("no broker")
    assert run(app, work, turns=3) == pytest.approx(seconds)


def test_topic_made_anew_stops_the_worker(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    app = _prepared(monkeypatch, tmp_path)
    cluster: Any = app._cluster
    cluster.ids = {app.topology.topics.labels: uuid4()}
    run(app, "Propagate.look_at_sources", end=LostDataError)
