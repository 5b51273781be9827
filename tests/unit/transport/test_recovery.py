"""Recovery of one rebalance must not be taken for that of the next."""

from __future__ import annotations

import asyncio
from collections import Counter

from stream_tgat.transport import Application


class _Consumer:
    async def seek_wait(self, offsets: object) -> None:
        """Nothing to seek."""


def test_signal_that_ended_the_last_recovery_does_not_end_the_next() -> None:
    """Faust clears it in a task that whole fetches bypass: after two rebalances within 5 s partitions were empty."""

    async def run() -> bool:
        recovery = Application("app", broker="kafka://127.0.0.1:1").tables.recovery
        recovery.signal_recovery_end.set()
        await recovery._seek_offsets(_Consumer(), set(), Counter(), "active")
        return bool(recovery.signal_recovery_end.is_set())

    assert not asyncio.run(run())
