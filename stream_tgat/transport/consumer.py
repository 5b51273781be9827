"""The consumer: Faust's, without its losses on rebalance, and handing on whole fetches.

Stock Faust resumes, seeks and then clears its queues after a recovery, while a fetch may be under way; partitions
without a committed offset are not sought at all; and each message costs two tasks. Here, while the group rebalances
only changelogs are fetched; the position of every other partition is compared with our own account before each fetch;
and a fetch goes into the stream's queue at once, in one piece of work without a point where it could be torn.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from faust.events import Event
from faust.transport.drivers import aiokafka as driver
from faust.types import TP
from faust.types.tuples import Message

from stream_tgat.errors import LostDataError
from stream_tgat.transport.positions import Positions

FETCH_TIMEOUT_S = 1.0
FETCH_TIMEOUT_REBALANCING_S = 0.2
HELD_BACK_TIMEOUT_S = 0.02
NOTHING_ACTIVE_S = 0.05
CHUNK = 256
HIGHWATER_MAX_AGE_S = 5.0


@dataclass(frozen=True)
class Fetch:
    """What a fetch returned: records by partition, and the client's position behind them."""

    records: Mapping[TP, Sequence[Any]]
    positions: Mapping[TP, int]


class RebalanceListener(driver.ConsumerRebalanceListener):
    """Faust's listener; an assignment counts as a heartbeat, since the coordinator has just heard of us."""

    async def on_partitions_assigned(self, assigned: Any) -> None:
        """Called in the consumer's thread."""
        self._thread.app.fence.beat(time.monotonic())
        await super().on_partitions_assigned(assigned)


class BulkConsumerThread(driver.AIOKafkaConsumerThread):
    """The thread in which the Kafka client runs."""

    def _create_worker_consumer(self, transport: Any) -> Any:
        consumer = super()._create_worker_consumer(transport)
        # Faust fixes the wait at 1.5 s, which is what a record then waits at a low rate.
        consumer._fetch_max_wait_ms = self.app.options.fetch_max_wait_ms  # noqa: SLF001
        consumer._fetch_min_bytes = self.app.options.fetch_min_bytes  # noqa: SLF001
        return consumer

    async def on_start(self) -> None:
        """Start the client and listen to its heartbeats."""
        await super().on_start()
        coordinator = self._consumer._coordinator  # noqa: SLF001
        heartbeat = getattr(coordinator, "_do_heartbeat", None)
        if heartbeat is None:
            return

        async def heard_heartbeat() -> bool:
            sent_at = time.monotonic()
            accepted = bool(await heartbeat())
            if accepted:
                self.app.fence.beat(sent_at)
            return accepted

        coordinator._do_heartbeat = heard_heartbeat  # noqa: SLF001

    def generation(self) -> int:
        """The generation of the group as its coordinator has it now; -1 after it has expelled us."""
        return -1 if self._consumer is None else int(self._consumer._coordinator.generation)  # noqa: SLF001

    def client_position(self, tp: TP) -> int | None:
        """The offset that the client would fetch next; None while it is being looked up."""
        state = self._state(tp)
        return None if state is None else state._position  # noqa: SLF001

    def end(self, tp: TP, max_age_s: float) -> int | None:
        """The end of a partition as the last fetch reported it, if that is not older than max_age_s."""
        state = self._state(tp)
        if state is None or state.highwater is None or time.time() - state.timestamp / 1000 > max_age_s:
            return None
        return int(state.highwater)

    async def _fetch_records(self, consumer: Any, active_partitions: Any, **options: Any) -> Fetch:
        records = await super()._fetch_records(consumer, active_partitions, **options)
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


class BulkConsumer(driver.Consumer):
    """Faust's consumer with its own account of what was handed on."""

    RebalanceListener = RebalanceListener

    def __init__(self, *arguments: Any, **options: Any) -> None:
        self.positions = Positions()
        self.gaps = 0
        self._n_acked: int = 0
        self._corrected: dict[TP, tuple[int, int]] = {}
        super().__init__(*arguments, **options)

    def _new_consumer_thread(self) -> BulkConsumerThread:
        return BulkConsumerThread(self, loop=self.loop, beacon=self.beacon)

    # What agents need

    def begin(self, messages: Sequence[Message]) -> None:
        """Note that work on messages has begun: a rebalance waits until they are acknowledged or abandoned."""
        for message in messages:
            message.tracked = True
        self._unacked_messages.update(messages)
        monitor = self.app.monitor
        monitor.messages_received_total += len(messages)
        for message in messages:
            monitor.messages_received_by_topic[message.topic] += 1

    def abandon(self, messages: Sequence[Message]) -> None:
        """Note that work on messages has ended without a result; they are read again after a rebalance or rewind."""
        for message in messages:
            self._unacked_messages.discard(message)

    async def rewind(self, tp: TP, offset: int) -> None:
        """Read a partition again from an offset; what is in the queues is dropped."""
        for channel in self.app.topics._tp_index.get(tp, ()):  # noqa: SLF001
            channel.queue.discard(tp)
        self._forget_acknowledgements(tp)
        self.positions.seek(tp, offset)
        self._committed_offset[tp] = offset or None

    def end_of_partition(self, tp: TP, max_age_s: float = HIGHWATER_MAX_AGE_S) -> bool:
        """Whether all records that the broker had at the last fetch were taken out of the stream's queue.

        What the caller has taken and not processed it knows itself. False if the last fetch is older than max_age_s.
        """
        end = self._thread.end(tp, max_age_s)
        reached = self.positions.next(tp)
        if end is None or reached is None or reached < end or self.app.rebalancing:
            return False
        return not any(channel.queue.waiting(tp) for channel in self.app.topics._tp_index.get(tp, ()))  # noqa: SLF001

    def backlog(self, tp: TP) -> int:
        """How many offsets of an assigned partition were not handed on yet; 0 while that is not known."""
        end, reached = self._thread.end(tp, float("inf")), self.positions.next(tp)
        return 0 if end is None or reached is None else max(end - reached, 0)

    # Where reading starts

    async def perform_seek(self) -> None:
        """Seek every source partition: to its own start offset, else to the group's, else to the beginning."""
        await super().perform_seek()
        self._corrected.clear()
        self.positions.clear()
        sources = [tp for tp in self.assignment() if not self._is_changelog_tp(tp)]
        starts = {tp: self.app.start_offset(tp) for tp in sources}
        named = {tp: offset for tp, offset in starts.items() if offset is not None}
        if named:
            await self._check_ends(named)
        unknown = [tp for tp in sources if tp not in named and not self._committed_offset[tp]]
        earliest = await self.earliest_offsets(*unknown) if unknown else {}
        named |= {TP(tp.topic, tp.partition): offset or 0 for tp, offset in earliest.items()}
        if named:
            await self.seek_wait(named)
        for tp in sources:
            self._forget_acknowledgements(tp)
            offset = named[tp] if tp in named else self._committed_offset[tp]
            self.positions.seek(tp, offset)
            if starts[tp] is not None:
                self._committed_offset[tp] = offset or None

    async def _check_ends(self, starts: Mapping[TP, int]) -> None:
        ends = await self.highwaters(*starts)
        for tp, end in ends.items():
            start = starts[TP(tp.topic, tp.partition)]
            if end is not None and start > end:
                raise LostDataError(
                    f"{tp.topic}/{tp.partition} ends at offset {end}, but offset {start} is the next to read: the "
                    "topic was truncated or made anew; start with a new application id, or restore the topic"
                )

    # The loop that fetches

    async def _drain_messages(self, fetcher: Any) -> None:
        stopped = self._stopped.is_set
        self._corrected.clear()
        try:
            while not (stopped() or fetcher._stopped.is_set()):  # noqa: SLF001
                await self._fetch_once()
                await asyncio.sleep(0)
        except self.consumer_stopped_errors:
            if not self.app.should_stop:
                raise
            self.log.info("The broker's client has stopped: shutting down")
        except asyncio.CancelledError:
            if not self.app.should_stop:
                raise
        except Exception as error:
            self.log.exception("Fetching failed: %r", error)
            raise

    async def _fetch_once(self) -> None:
        if not self.flow_active:
            await self.wait(self.can_resume_flow)
            return
        fetchable, held_back = self._fetchable()
        if not fetchable:
            await asyncio.sleep(HELD_BACK_TIMEOUT_S if held_back else NOTHING_ACTIVE_S)
            return
        if not self.app.rebalancing:
            await self._correct_positions(fetchable)
        generation = self.app.consumer_generation_id
        fetch = await self._getmany(fetchable, self._fetch_timeout_s(held_back))
        if isinstance(fetch, Fetch):
            await self._hand_on(fetch, generation)

    def _fetch_timeout_s(self, held_back: bool) -> float:
        if self.app.rebalancing:
            return FETCH_TIMEOUT_REBALANCING_S
        return HELD_BACK_TIMEOUT_S if held_back else FETCH_TIMEOUT_S

    def _fetchable(self) -> tuple[set[TP], bool]:
        """The partitions to fetch, and whether others are held back until their queues have room."""
        index = self.app.topics._tp_index  # noqa: SLF001
        active = self._get_active_partitions()
        changelogs = {tp for tp in active if self._is_changelog_tp(tp)}
        if self.app.rebalancing:
            return changelogs, False
        sources = active - changelogs
        ready = {tp for tp in sources if all(channel.queue.has_room() for channel in index.get(tp, ()))}
        return changelogs | ready, len(ready) < len(sources)

    async def _correct_positions(self, tps: set[TP]) -> None:
        """Seek where the client's position is not the offset that must come next."""
        wrong: dict[TP, int] = {}
        for tp in tps:
            expected = self.positions.next(tp)
            position = self._thread.client_position(tp)
            if expected is None or position is None or position == expected:
                continue
            if self._corrected.get(tp) == (expected, position):
                # It went back to the same wrong place: the broker does not have the offset any more.
                await self._accept_truncation(tp, expected)
            else:
                self._corrected[tp] = (expected, position)
                wrong[tp] = expected
        if wrong:
            self.log.info("Reading again what was fetched and dropped: %s", wrong)
            await self.seek_wait(wrong)

    async def _accept_truncation(self, tp: TP, expected: int) -> None:
        del self._corrected[tp]
        (earliest,) = (await self.earliest_offsets(tp)).values()
        (end,) = (await self.highwaters(tp)).values()
        if expected > end:
            await self.app.crash(LostDataError(f"{tp.topic}/{tp.partition} ends at {end}, but {expected} comes next"))
        elif earliest > expected:
            self._report_gap(tp, expected, earliest)
            self.positions.seek(tp, earliest)
            await self.seek_wait({tp: earliest})

    def _report_gap(self, tp: TP, expected: int, found: int) -> None:
        self.gaps += 1
        self.app.on_gap(tp, expected, found)

    # Handing on

    async def _hand_on(self, fetch: Fetch, generation: int) -> None:
        for tp, chunk in _in_turns(fetch.records):
            if not self.flow_active or self.app.consumer_generation_id != generation:
                return
            if self._is_changelog_tp(tp):
                if not await self.app.tables.recovery.apply(tp, chunk):
                    await self._hand_on_singly(tp, chunk)
            elif not self.app.rebalancing:
                await self._hand_on_source(tp, chunk)
        for tp, position in fetch.positions.items():
            if self._is_changelog_tp(tp):
                self.app.tables.recovery.reached(tp, position)
            elif not self.app.rebalancing:
                self.positions.skip_to(tp, position)
        if self._commit_every is not None and self._n_acked >= self._commit_every:
            self._n_acked = 0
            await self.commit()

    async def _hand_on_source(self, tp: TP, chunk: Sequence[Any]) -> None:
        records, missing = self.positions.fresh(tp, chunk)
        if not records:
            return
        if missing:
            # The client was at the offset that came next, so the log itself has nothing there.
            self._report_gap(tp, records[0].offset - missing, records[0].offset)
        channels = self.app.topics._tp_index.get(tp)  # noqa: SLF001
        if not channels:
            return
        acks = self.app.topics.acks_enabled_for(tp.topic)
        self.app.monitor.track_tp_end_offset(tp, self.highwater(tp))
        self.positions.handed_on(tp, records, acknowledged_later=acks)
        self._read_offset[tp] = records[-1].offset
        if len(channels) == 1 and all(_is_raw(channel) for channel in channels):
            (channel,) = channels
            self._enqueue(tp, channel.queue, records)
        else:
            await self._hand_on_singly(tp, records)

    def _enqueue(self, tp: TP, queue: Any, records: Sequence[Any]) -> None:
        app, to_message, put = self.app, self._to_message, queue.force_put_nowait
        for record in records:
            message = to_message(tp, record)
            message.refcount = 1
            put(Event(app, record.key, record.value, None, message))

    async def _hand_on_singly(self, tp: TP, records: Sequence[Any]) -> None:
        """Faust's own way, for streams that decode and for stock tables."""
        for record in records:
            await self.callback(self._to_message(tp, record))

    # What may be committed

    def _new_offset(self, tp: TP) -> int | None:
        self._acked[tp].clear()
        return self.positions.committable(tp, self._acked_index[tp])

    def _forget_acknowledgements(self, tp: TP) -> None:
        self._acked.pop(tp, None)
        self._acked_index.pop(tp, None)
        self._gap.pop(tp, None)


def _is_raw(channel: Any) -> bool:
    return channel.key_serializer == "raw" and channel.value_serializer == "raw"


def _in_turns(records: Mapping[TP, Sequence[Any]]) -> Iterator[tuple[TP, Sequence[Any]]]:
    """Chunks of each partition's records, partitions taking turns, so that no partition waits for another's fetch."""
    longest = max((len(found) for found in records.values()), default=0)
    for start in range(0, longest, CHUNK):
        for tp, found in records.items():
            if start < len(found):
                yield tp, found[start : start + CHUNK]
