"""The service ends when it is told to, whatever the brokers do."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from stream_tgat.query.catalog import Catalog
from stream_tgat.query.following import Following
from stream_tgat.query.watching.memory import Memory
from stream_tgat.topology import Topology


def test_brokers_that_do_not_answer_are_not_waited_for_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client waits for half a minute where a broker has gone."""
    asked, answered = threading.Event(), threading.Event()

    class Waits:
        def partitions_for_topic(self, topic: str) -> set[int]:
            asked.set()
            answered.wait()
            return set()

        def assignment(self) -> set[Any]:
            return set()

        def end_offsets(self, places: Any) -> dict[Any, int]:
            return {}

        def close(self) -> None:
            pass

        def poll(self, **_: Any) -> dict[Any, Any]:
            return {}

    monkeypatch.setattr("stream_tgat.query.following.consumer", lambda *_, **__: Waits())
    monkeypatch.setattr("stream_tgat.query.following._STOP_S", 0.01)
    topology = Topology(name="t")
    following = Following(topology, Catalog(), Memory(topology))
    following.start()
    asked.wait()
    following.stop()
    assert not answered.is_set()
    answered.set()
    following._thread.join()
