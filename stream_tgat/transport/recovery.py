"""Recovery: bringing local state up to date from the changelogs, whole fetches at a time.

Faust hands each record of a changelog through a queue to a task that applies them by the hundred; here a fetch is one
write batch (81,000 records/s against 6,400). Recovery ends when the client's position has passed the end of the log,
so that a log that ends in control records or in a hole left by compaction does not keep it waiting.

A fetch may be under way while a disk turns out to be empty and its changelog is sought anew, and a fetch that comes at
a bad time is dropped. So what was asked for before the last seek does not count, and before each fetch the client goes
back to where the account of what was applied ends.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence
from typing import Any

from faust.tables.manager import TableManager
from faust.tables.recovery import Recovery
from faust.types import TP

from stream_tgat.errors import StateError
from stream_tgat.transport.losses import deleted_unread
from stream_tgat.transport.seeks import Seeks
from stream_tgat.transport.table import BulkTable

_log = logging.getLogger(__name__)


class BulkRecovery(Recovery):
    """Faust's recovery, fed by the consumer directly."""

    _rebalance = 0
    # Records of the changelogs that were to be read when the recovery under way began.
    _to_read = 0

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        # Of the changelogs that are read: none of one whose seek is to come, or of which nothing is to be read.
        self.seeks = Seeks()

    @property
    def remaining(self) -> int:
        """Records of the changelogs that are still to be read before this worker works on its partitions."""
        return int(self.active_remaining_total()) if self.in_recovery else 0

    @property
    def done_percent(self) -> int | None:
        """How much of the recovery under way is done; None without one."""
        if not self.in_recovery or not self._to_read:
            return None
        return max(0, 100 - math.ceil(100 * self.remaining / self._to_read))

    def next(self, tp: TP) -> int | None:
        """The offset of a changelog that must be applied next; None if nothing is to be read, or not yet."""
        offsets = self._offsets(tp)
        if offsets is None or self.seeks.last(tp) is None or not isinstance(self.tp_to_table.get(tp), BulkTable):
            return None
        return int(offsets[tp]) + 1

    async def apply(self, tp: TP, records: Sequence[Any], sought: int | None) -> bool:
        """Apply records of a changelog; False if its table is not ours, and Faust's own way must be taken.

        sought: which seek of it was the last when they were asked for
        """
        offsets, table = self._offsets(tp), self.tp_to_table.get(tp)
        if offsets is None or table is None:
            # Neither active nor standby any more: a fetch that came too late.
            return True
        if not isinstance(table, BulkTable):
            return False
        if sought is None or sought != self.seeks.last(tp):
            return True
        seen = offsets.get(tp)
        fresh = records if seen is None else [record for record in records if record.offset > seen]
        if fresh:
            table.data.apply_records(tp.partition, fresh)
            offsets[tp] = fresh[-1].offset
            self.app.progress()
        self._maybe_end()
        return True

    def reached(self, tp: TP, position: int, sought: int | None) -> None:
        """Note that the client's position in a changelog has moved: nothing before it is missing.

        sought: as for `apply`
        """
        expected = self.next(tp)
        if expected is not None and sought == self.seeks.last(tp):
            if position > expected:
                self._offsets(tp)[tp] = position - 1
            self._maybe_end()

    def _add(self, table: Any, tp: TP, offsets: Any) -> None:
        """Begin where the disk is. Faust goes on from what it knew of a disk even if that is gone."""
        if isinstance(table, BulkTable):
            offsets.pop(tp, None)
        self.seeks.forget([tp])
        super()._add(table, tp, offsets)

    async def _build_offsets(self, consumer: Any, tps: Any, destination: Any, title: str) -> None:
        """Where reading starts. Raises StateError where a disk is ahead of its changelog.

        Faust says so in sixty lines, and not at all where the changelog has a single record. And it begins in silence
        where the changelog does, also behind what the disk holds: LostDataError.
        """
        held = {tp: -1 if destination[tp] is None else destination[tp] for tp in tps}
        await super()._build_offsets(consumer, tps, destination, title)
        for tp in sorted(tps):
            # Compaction leaves holes and does not move the beginning.
            if isinstance(self.tp_to_table.get(tp), BulkTable) and destination[tp] > held[tp]:
                raise deleted_unread(tp, held[tp] + 1, destination[tp] + 1)
        ends = self.active_highwaters
        if title == "standby":
            # Faust asks for these later; what is there is of the last recovery, since when this very worker may have
            # written, as the owner of the partition.
            ends = self.standby_highwaters
            await self._build_highwaters(consumer, tps, ends, title)
        for tp in sorted(tps):
            table = self.tp_to_table.get(tp)
            if isinstance(table, BulkTable) and destination[tp] > ends[tp]:
                raise StateError(
                    f"{table.data.partition_path(tp.partition)} is ahead of its changelog: it holds offset "
                    f"{destination[tp]} of {tp.topic}/{tp.partition}, which ends at {ends[tp] + 1}. The brokers have "
                    "lost what they had acknowledged. Delete that folder and start the worker again: the state is "
                    "recovered as far as the changelog reaches, and what followed is made again, or the worker says "
                    "that it cannot be."
                )

    async def on_rebalance(self, *arguments: Any, **options: Any) -> None:
        """Called when partitions were assigned: note which rebalance the recovery that follows belongs to."""
        self._rebalance = self.app.rebalancing_count
        await super().on_rebalance(*arguments, **options)

    async def _seek_offsets(self, consumer: Any, tps: Any, offsets: Any, title: str) -> None:
        """Faust's last step before it waits: forget that an earlier recovery has ended, or this one ends at once.

        Faust clears the signal in the task that we replace, which now wakes up every 5 s only.
        """
        await super()._seek_offsets(consumer, tps, offsets, title)
        self.seeks.note(tps)
        self.signal_recovery_end.clear()
        if title == "active":
            self._to_read = int(self.active_remaining_total())

    async def on_recovery_completed(self, generation_id: int = 0) -> None:
        """Open the partitions, seek the sources and let streams go on, unless the next rebalance has begun.

        Faust looks only at the generation, which changes at the end of a rebalance; so it resumes in the middle of one.
        """
        await self.app.on_rebalance_complete.send()
        self._set_recovery_ended()
        # From here on they are written, and not read.
        self.seeks.forget(self.active_tps)
        for table in self.tables.values():
            await table.on_recovery_completed(self.actives_for_table[table], self.standbys_for_table[table])
        if self._is_current(generation_id):
            await self._open_partitions(generation_id)
            await self._seek_and_resume(generation_id)

    async def _resume_streams(self, generation_id: int = 0) -> None:
        await self.on_recovery_completed(generation_id)

    async def _open_partitions(self, generation_id: int) -> None:
        for table, tps in self.actives_for_table.items():
            if isinstance(table, BulkTable):
                for tp in tps:
                    table.open_partition(tp.partition, self.active_highwaters[tp] + 1)
        await self.app.partitions_recovered(generation_id)

    async def _seek_and_resume(self, generation_id: int) -> None:
        app, consumer = self.app, self.app.consumer
        assignment = consumer.assignment()
        if assignment:
            await self._wait(consumer.perform_seek(), timeout=app.conf.broker_request_timeout)
        await app._fetcher.maybe_start()  # noqa: SLF001
        if not self._is_current(generation_id):
            return
        # From here on without a pause, so that no rebalance can begin in between.
        consumer.resume_partitions({tp for tp in assignment if not self._is_changelog_tp(tp)})
        self.completed.set()
        app.flow_control.resume()
        consumer.resume_flow()
        self.tables.on_actives_ready()
        if not app.assignor.assigned_standbys():
            self.tables.on_standbys_ready()
        app.on_rebalance_end()
        _log.info("Worker ready")

    async def _verify_remaining(self, now: float, stats: Any) -> None:  # noqa: ARG002
        # Faust would warn of buffers that are never flushed, and of events that never come: it sees no whole fetches.
        remaining = self.active_remaining_total()
        _log.info("Recovering %s %%, %s records of the changelogs remain", self.done_percent or 0, f"{remaining:,}")

    def _is_current(self, generation_id: int) -> bool:
        return self.app.consumer_generation_id == generation_id and self.app.rebalancing_count == self._rebalance

    def _offsets(self, tp: TP) -> Any:
        if tp in self.active_tps:
            return self.active_offsets
        return self.standby_offsets if tp in self.standby_tps else None

    def _maybe_end(self) -> None:
        if self.in_recovery and not self.need_recovery():
            # Faust's own task looks every 5 s, should the signal come before anyone waits for it.
            self.signal_recovery_end.set()
        if not self.tables.standbys_ready and self.standby_tps and not self.standby_remaining_total():
            self.tables.on_standbys_ready()


class BulkTableManager(TableManager):
    """Faust's table manager with our recovery."""

    _recovery: BulkRecovery | None = None

    async def on_start(self) -> None:
        """Declare the tables and start recovery. Faust sleeps for a second before: for tables declared late."""
        await self._update_channels()
        await self.recovery.start()

    @property
    def recovery(self) -> BulkRecovery:
        """The recovery service of this worker."""
        if self._recovery is None:
            self._recovery = BulkRecovery(self.app, self, beacon=self.beacon, loop=self.loop)
        return self._recovery
