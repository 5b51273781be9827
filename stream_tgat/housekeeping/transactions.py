"""Transactions that do not end: what lies behind one is in the log and cannot be read, so the stream stands still."""

import logging
from collections.abc import Iterable
from typing import Protocol

from faust.types import TP

from stream_tgat.transport.client import HeldBack

_log = logging.getLogger(__name__)


class _HeldBackReader(Protocol):
    def held_back(self, tp: TP) -> HeldBack | None: ...


class OpenTransactions:
    """Looks at partitions again and again, some seconds apart; a transaction open at two looks in a row hangs."""

    def __init__(self, app: _HeldBackReader) -> None:
        self._app = app
        self._open: dict[TP, int] = {}
        self._hanging: set[TP] = set()

    def look(self, partitions: Iterable[TP]) -> int:
        """How many of these partitions a hanging transaction holds back now; each is told once in the log."""
        found = {tp: held for tp in partitions if (held := self._app.held_back(tp)) is not None}
        hanging = {tp for tp, held in found.items() if self._open.get(tp) == held.offset}
        for tp in sorted(hanging - self._hanging):
            held = found[tp]
            _log.warning(
                "%s/%s: a transaction hangs: it has begun at offset %s and does not end; the %s offsets from there on "
                "wait for it, and all that waits for their time. If its producer is gone, the brokers end it after the "
                "producer's transaction.timeout.ms; at once does: kafka-transactions.sh --bootstrap-server … abort "
                "--topic %s --partition %s --start-offset %s",
                *(tp.topic, tp.partition, held.offset, held.count, tp.topic, tp.partition, held.offset),
            )
        self._open, self._hanging = {tp: held.offset for tp, held in found.items()}, hanging
        return len(hanging)
