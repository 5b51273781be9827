"""What the stream does not compute with is read to be judged, and acknowledged when the brokers have the verdict."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import orjson
import pytest
from faust.types import TP

from stream_tgat.agents.checking import Checking, checked_topics
from stream_tgat.agents.metrics import Metrics
from stream_tgat.topology import Topology
from tests.unit.agents.fakes import FakeApp, Message

GOOD = {"node": "ann", "label": "ban", "value": 1, "timestamp": 5.0}


def topology(node_features: int = 0) -> Topology:
    return Topology.model_validate({"name": "t", "graph": {"node_features": node_features}, "heads": [{"name": "ban"}]})


def label(offset: int, **fields: Any) -> Message:
    return Message("labels", 3, offset, orjson.dumps(GOOD | fields), b"ann")


@pytest.fixture
def check(monkeypatch: pytest.MonkeyPatch) -> Any:
    def run(app: FakeApp, metrics: Metrics, *batches: list[Message]) -> None:
        async def drain(stream: object, limit: int, *, pace_s: float) -> AsyncIterator[list[Message]]:
            for batch in batches:
                yield batch

        monkeypatch.setattr("stream_tgat.agents.checking.drain", drain)
        asyncio.run(Checking(app, topology(), metrics).run(None))  # type: ignore[arg-type]

    return run


def test_bad_labels_leave_before_their_batch_is_acknowledged(check: Any) -> None:
    app, metrics = FakeApp({"dead-letters": 1}), Metrics()
    check(app, metrics, [label(0), label(1, value=2)], [label(2), label(3)], [label(4, known_at=4.0)])
    assert [each[0] for each in app.happened] == [
        "delivered", "acknowledged", "acknowledged", "delivered", "acknowledged",
    ]  # fmt: skip
    assert app.acknowledged == [("labels", 3, offset) for offset in range(5)]
    letters = app.outbox.sent["dead-letters", 0]
    assert [dict(each.headers)["source-offset"] for each in letters] == [b"1", b"4"]
    assert [each.value for each in letters] == [label(1, value=2).value, label(4, known_at=4.0).value]
    assert metrics.dead_letters == 2


def test_label_from_the_future_is_one_whenever_it_is_read(check: Any) -> None:
    app, metrics = FakeApp({"dead-letters": 1}), Metrics()
    future = [label(offset, timestamp=1_000.0 + ahead) for offset, ahead in enumerate((299.0, 301.0))]
    check(app, metrics, [replace(each, timestamp=1_000.0) for each in future])
    (letter,) = app.outbox.sent["dead-letters", 0]
    assert dict(letter.headers)["source-offset"] == b"1"


def test_label_without_a_head_is_counted_and_its_name_told_once(check: Any, caplog: pytest.LogCaptureFixture) -> None:
    """It may be of a head that is to come, so it is no dead letter."""
    app, metrics = FakeApp({"dead-letters": 1}), Metrics()
    check(app, metrics, [label(0), label(1, label="bna")], [label(2, label="bna"), label(3, label="vip")])
    assert app.outbox.sent == {}
    assert (metrics.unknown_labels, metrics.dead_letters) == (3, 0)
    told = [record.getMessage() for record in caplog.records]
    assert told == [
        "A label on labels says nothing to anybody, that of ann: no head learns 'bna'; did you mean 'ban'?",
        "A label on labels says nothing to anybody, that of ann: no head learns 'vip'; heads learn 'ban'",
    ]


def test_batch_whose_dead_letters_do_not_arrive_is_not_acknowledged(check: Any) -> None:
    app, metrics = FakeApp({"dead-letters": 1}), Metrics()
    app.outbox.fails_on = "dead-letters"
    with pytest.raises(ConnectionError):
        check(app, metrics, [label(0), label(1, value=2)])
    assert app.acknowledged == []
    assert metrics.dead_letters == 0


def test_nodes_are_checked_where_nothing_else_reads_them(check: Any) -> None:
    assert checked_topics(topology(node_features=2)) == ("labels",)
    assert checked_topics(topology()) == ("labels", "nodes")
    app, metrics = FakeApp({"dead-letters": 1}), Metrics()
    check(app, metrics, [Message("nodes", 0, 7, orjson.dumps({"node": "tea", "features": [1.0]}))])
    ((letter,),) = app.outbox.sent.values()
    assert dict(letter.headers)["reason"].decode().startswith("field 'features' must have 0 numbers")


def test_topic_made_anew_is_read_from_its_beginning(caplog: pytest.LogCaptureFixture) -> None:
    app = FakeApp({"dead-letters": 1})
    app.commit_notes = {"labels": "new"}
    app.offsets.noted = {0: "old", 1: "new", 2: ""}
    app.consumer.earliest = {TP("labels", 0): 3}
    checking = Checking(app, topology(), Metrics())  # type: ignore[arg-type]
    tps = [TP("labels", partition) for partition in range(4)]
    asyncio.run(checking.on_recovered(frozenset({*tps, TP("interactions", 0)})))
    assert [checking.start_offset(tp) for tp in tps] == [3, None, None, None]
    assert "labels was deleted and created again" in caplog.text
    asyncio.run(checking.on_revoked(frozenset(tps)))
    assert checking.start_offset(tps[0]) is None
