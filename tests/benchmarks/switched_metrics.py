"""Faust's command line, with a worker whose metrics can be switched off and on while it runs.

For `bench_metrics` alone: what is on the way of an event is replaced by what does nothing.
"""

from __future__ import annotations

import signal
from typing import Any

import numpy as np
from faust.cli.faust import cli

from stream_tgat.agents.committing import Committer
from stream_tgat.agents.metrics import Metrics
from stream_tgat.message_passing.record_times import Written
from stream_tgat.metrics import Histogram

OFF, ON = signal.SIGRTMIN, signal.SIGRTMIN + 1


def nothing(*_: Any) -> None:
    """In place of what counts."""


def only_pending(self: Any, cycle: Any) -> None:
    """In place of counting a cycle; what waits is looked at by the worker itself."""
    self._metrics.pending = cycle.pending


REPLACED: list[tuple[type, str, Any]] = [
    (Histogram, "observe", nothing),
    (Histogram, "observe_all", nothing),
    (Metrics, "embedded", nothing),
    (Committer, "_count", only_pending),
    (Written, "hear", nothing),
    (Written, "times", lambda _, origins: np.full(len(origins), np.nan)),
]


def main() -> None:
    counting = [vars(owner)[name] for owner, name, _ in REPLACED]

    def switch(number: int, _: Any) -> None:
        for (owner, name, replacement), original in zip(REPLACED, counting, strict=True):
            setattr(owner, name, original if number == ON else replacement)

    signal.signal(OFF, switch)
    signal.signal(ON, switch)
    cli()


if __name__ == "__main__":
    main()
