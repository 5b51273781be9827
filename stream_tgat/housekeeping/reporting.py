"""What a worker writes into its log about its work, and the metrics that come of the same looks."""

import logging
import time
from collections.abc import Mapping
from typing import Protocol

from stream_tgat.agents.metrics import Metrics
from stream_tgat.backlog.holding import Holding
from stream_tgat.housekeeping.observing import Lags
from stream_tgat.housekeeping.telling import CatchingUp, Rates
from stream_tgat.housekeeping.transactions import OpenTransactions
from stream_tgat.topology import Topology
from stream_tgat.transport.application import Application
from stream_tgat.wire.packets import Source

_log = logging.getLogger(__name__)


class _Reported(Protocol):
    """What is asked of the worker's partitions: see `Propagate`."""

    async def waiting(self) -> int: ...

    def source_watermarks(self) -> Mapping[Source, float]: ...


class Reporter:
    """Writes what has been done, what rows wait for, and when the worker has caught up or fallen behind."""

    def __init__(
        self, app: Application, topology: Topology, partitions: _Reported, lags: Lags, metrics: Metrics
    ) -> None:
        self._app = app
        self._partitions = partitions
        self._lags = lags
        self._metrics = metrics
        self._transactions = OpenTransactions(app)
        self._rates = Rates(time.monotonic())
        self._holding = Holding(by_the_clock=topology.time.clock == "wall")
        self._catching_up = CatchingUp(topology.serving.ready_within_s)

    async def report(self) -> None:
        """Write what has been done since the last report, and name transactions that have begun to hang."""
        self._metrics.hanging_transactions = self._transactions.look(self._app.recovered)
        line = self._rates.look(time.monotonic(), self._metrics)
        if line is not None:
            _log.info("%s", line)

    async def look(self) -> None:
        """Write what rows have begun to wait for, and whether the worker has caught up or fallen behind."""
        now, waiting = time.monotonic(), await self._partitions.waiting()
        self._metrics.due = max(self._metrics.pending - waiting, 0)
        line = self._holding.look(now, waiting, self._partitions.source_watermarks())
        self._metrics.held_back_s = {source: now - since for source, since in self._holding.since.items()}
        if line is not None:
            _log.warning("%s", line)
        news = self._catching_up.look(now, self._lags.worst())
        if news is not None:
            is_warning, line = news
            _log.log(logging.WARNING if is_warning else logging.INFO, "%s", line)
