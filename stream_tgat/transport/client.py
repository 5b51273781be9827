"""The Kafka client and the thread in which it runs.

The client has its own event loop, so that heartbeats go on while streams compute. What is read from another thread here
are single attributes.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

from aiokafka.errors import NoOffsetForPartitionError
from aiokafka.structs import OffsetAndMetadata
from faust.transport.drivers import aiokafka as driver
from faust.types import TP

from stream_tgat.brokers import READ_COMMITTED
from stream_tgat.transport.fence import SESSION_MARGIN
from stream_tgat.transport.pacing import Pacer
from stream_tgat.transport.process import end

_log = logging.getLogger(__name__)

#: How long a broker holds a fetch while there is nothing; and how old the end of a partition is by then that it tells.
WAIT_MS = 100


class End(NamedTuple):
    """Where a partition ended, and when the answer of the broker that says so had come, in unix seconds.

    readable: as far as it can be read; what follows waits for an open transaction, if that is not the end
    """

    offset: int
    readable: int
    seen_at: float


@dataclass(frozen=True)
class Fetch:
    """What a fetch returned: records by partition, and the client's position behind them."""

    records: Mapping[TP, Sequence[Any]]
    positions: Mapping[TP, int]


@dataclass(frozen=True)
class HeldBack:
    """What is in a partition and may not be read yet: from the first offset of an open transaction to the end."""

    offset: int
    count: int


class Lag(NamedTuple):
    """How far the reading of a partition is behind: offsets that can be read, and the age of the last one before them.

    seconds: 0 without such offsets
    """

    records: int
    seconds: float


class RebalanceListener(driver.ConsumerRebalanceListener):
    """Faust's listener; an assignment counts as a heartbeat, since the coordinator has just heard of us."""

    async def on_partitions_assigned(self, assigned: Any) -> None:
        """Called in the consumer's thread."""
        self._thread.app.fence.beat(time.monotonic())
        _log.info("The group has assigned %d partitions, changelogs included", len(assigned))
        await super().on_partitions_assigned(assigned)


class BulkConsumerThread(driver.AIOKafkaConsumerThread):
    """The thread in which the Kafka client runs."""

    def _create_worker_consumer(self, transport: Any) -> Any:
        consumer = super()._create_worker_consumer(transport)
        # Faust fixes the wait at 1.5 s.
        consumer._fetch_max_wait_ms = WAIT_MS  # noqa: SLF001
        commit = consumer.commit

        async def commit_with_notes(offsets: Mapping[Any, OffsetAndMetadata]) -> None:
            # Faust leaves the place beside an offset empty.
            notes = self.app.commit_notes
            await commit({tp: OffsetAndMetadata(at.offset, notes.get(tp.topic, "")) for tp, at in offsets.items()})

        consumer.commit = commit_with_notes
        # Faust reads aborted transactions, too, unless it writes in transactions itself.
        consumer._isolation_level = READ_COMMITTED  # noqa: SLF001
        return consumer

    async def on_start(self) -> None:
        """Start the client and listen to its heartbeats."""
        _log.info("Joins the group %s", self.app.conf.id)
        await super().on_start()
        self._pace(self._consumer._fetcher)  # noqa: SLF001
        coordinator = self._consumer._coordinator  # noqa: SLF001
        heartbeat = getattr(coordinator, "_do_heartbeat", None)
        if heartbeat is None:
            return

        async def heard_heartbeat() -> bool:
            sent_at = time.monotonic()
            accepted = bool(await heartbeat())
            if accepted:
                self.app.fence.beat(sent_at)
            elif self.app.conf.consumer_group_instance_id:
                self._end_if_replaced(coordinator)
            return accepted

        coordinator._do_heartbeat = heard_heartbeat  # noqa: SLF001

    def _end_if_replaced(self, coordinator: Any) -> None:
        """End the process if another one has joined with its `group.instance.id`, as on a copy of its folder.

        For nothing else the group forgets a static member before its session is over. To join again would only take
        the place from the other one, which would take it back.
        """
        fence = self.app.fence
        if coordinator.generation < 0 and fence.heartbeat_age_s < SESSION_MARGIN * fence.session_s:
            end(
                1,
                f"Error: another worker has joined as {self.app.conf.consumer_group_instance_id}, on a copy of the "
                f"folder {self.app.conf.datadir}: delete the copy, or let only one of them run",
            )

    def _stopped_set(self) -> None:
        try:
            super()._stopped_set()
        except RuntimeError:
            # A thread that a crash has ended took its loop with it, and nobody waits there any more.
            self._stopped.set()

    async def call_now(self, method: Callable[..., Coroutine[Any, Any, Any]], *arguments: Any) -> Any:
        """Await a method of the client in its thread, at once; Faust's queue of calls waits behind a long poll."""
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(method(*arguments), self.thread_loop))

    def rejoin(self) -> None:
        """Have the client join the group again; its partitions are taken from it and come back recovered."""
        self.thread_loop.call_soon_threadsafe(self._consumer._coordinator.request_rejoin)  # noqa: SLF001

    def generation(self) -> int:
        """The generation of the group as its coordinator has it now; -1 after it has expelled us."""
        return -1 if self._consumer is None else int(self._consumer._coordinator.generation)  # noqa: SLF001

    def client_position(self, tp: TP) -> int | None:
        """The offset that the client would fetch next; None while it is being looked up."""
        state = self._state(tp)
        return None if state is None else state._position  # noqa: SLF001

    def end(self, tp: TP) -> End | None:
        """The end of a partition as the last fetch reported it; None before the first."""
        state = self._state(tp)
        if state is None or state.timestamp is None:
            return None
        # The client's thread writes the end and then the time, so an end is never taken for newer than it is.
        seen_at = state.timestamp / 1000
        return End(int(state.highwater), int(state.lso), seen_at)

    def _pace(self, fetcher: Any) -> None:
        """Have the client's own loop, which sends a fetch as soon as the last one is taken, wait until it may."""
        self._pacer = Pacer(self.app.options.linger_s)
        look = fetcher._get_actions_per_node  # noqa: SLF001

        def look_in_time(assignment: Any) -> tuple[Any, ...]:
            wait_s = self._pacer.wait_s(time.monotonic())
            if wait_s > 0:
                # Nothing to send, and when to look again.
                return [], {}, wait_s, False, []
            self._pass_over_known(fetcher, assignment)
            found: tuple[Any, ...] = look(assignment)
            return found

        fetcher._get_actions_per_node = look_in_time  # noqa: SLF001

    def _pass_over_known(self, fetcher: Any, assignment: Any) -> None:
        """Move the client's positions behind what the streams have already, so that it is not sent again."""
        if self.app.rebalancing or fetcher._in_flight:  # noqa: SLF001
            return
        # A copy, as the streams hear more meanwhile, in another thread.
        for tp, known in tuple(self.app.consumer.positions.heard.items()):
            if tp in assignment.tps and tp not in fetcher._records:  # noqa: SLF001
                state = assignment.state_value(tp)
                if state.has_valid_position and state.position < known:
                    state.seek(known)

    async def getmany(self, active_partitions: Any, timeout: float) -> Any:
        """A fetch, without Faust's queue of calls, whose waiting costs as much as the call."""
        consumer = self._ensure_consumer()
        options = {"timeout": timeout, "max_records": consumer._max_poll_records}  # noqa: SLF001
        return await self.call_now(partial(self._fetch_records, **options), consumer, active_partitions)

    async def _fetch_records(self, consumer: Any, active_partitions: Any, **options: Any) -> Fetch:
        try:
            records = await super()._fetch_records(consumer, active_partitions, **options)
        except NoOffsetForPartitionError:
            # The client looked for a place before it was told one, as it is of every partition that is read.
            records = {}
        if records:
            size = sum(len(record.value or b"") for found in records.values() for record in found)
            self._pacer.fetched(time.monotonic(), time.process_time(), size)
        # No other code of this thread can run between the fetch and here, so the positions belong to it.
        positions = {tp: self.client_position(tp) for tp in active_partitions}
        return Fetch(
            {TP(tp.topic, tp.partition): found for tp, found in records.items()},
            {tp: position for tp, position in positions.items() if position is not None},
        )

    def _state(self, tp: TP) -> Any:
        subscription = None if self._consumer is None else self._consumer._subscription.subscription  # noqa: SLF001
        assignment = None if subscription is None else subscription.assignment
        if assignment is None or tp not in assignment.tps:
            return None
        return assignment.state_value(tp)
