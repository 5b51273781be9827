"""How the process of a worker hears signals."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest

from stream_tgat.transport import process


@pytest.fixture(autouse=True)
def as_before(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    heard = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    monkeypatch.setattr(process, "_is_asked_to_leave", False)
    yield
    for number, handler in heard.items():
        signal.signal(number, handler)


def test_signal_that_a_library_has_swallowed_ends_the_worker_before_it_begins() -> None:
    process.end_quietly_on_signals()
    process.leave_if_asked()
    with pytest.raises(SystemExit) as swallowed:
        os.kill(os.getpid(), signal.SIGTERM)
    assert swallowed.value.code == 0
    with pytest.raises(SystemExit) as left:
        process.leave_if_asked()
    assert left.value.code == 0
