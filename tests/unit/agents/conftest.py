"""The propagate agent as most of its tests have it."""

from __future__ import annotations

import pytest

from tests.unit.agents.propagating import Clock, Setup


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr("stream_tgat.engine.core.time", made)
    monkeypatch.setattr("stream_tgat.agents.propagate._WAITING_S", -1.0)
    return made


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every partition commits in every cycle, and every call makes one."""
    monkeypatch.setattr("stream_tgat.message_passing.partition.COMMIT_S", -1.0)
    monkeypatch.setattr("stream_tgat.message_passing.cycle._SHARE", 1)
    monkeypatch.setattr("stream_tgat.agents.propagate._WAITING_S", -1.0)


@pytest.fixture
def setup(at_once: None) -> Setup:
    """A propagate agent whose partitions commit in every cycle."""
    return Setup()
