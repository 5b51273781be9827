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
from typing import Any

from aiokafka.errors import OffsetOutOfRangeError
from faust.events import Event
from faust.transport.drivers import aiokafka as driver
from faust.types import TP
from faust.types.tuples import Message

from stream_tgat.transport.client import BulkConsumerThread, Fetch, HeldBack, Lag, RebalanceListener
from stream_tgat.transport.losses import cut_short, deleted_unread
from stream_tgat.transport.positions import Doubt, Positions

FETCH_TIMEOUT_S = 1.0
FETCH_TIMEOUT_REBALANCING_S = 0.2
HELD_BACK_TIMEOUT_S = 0.02
NOTHING_ACTIVE_S = 0.05
CHUNK = 256
FRESH_S = 5.0


class BulkConsumer(driver.Consumer):
    """Faust's consumer with its own account of what was handed on."""

    RebalanceListener = RebalanceListener

    def __init__(self, *arguments: Any, **options: Any) -> None:
        self.positions = Positions()
        self._n_acked: int = 0
        # When the last record of each source partition that was handed on was written: unix seconds.
        self._written: dict[TP, float] = {}
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

    def acknowledge_to(self, tp: TP, offset: int) -> None:
        """Note that all records of a partition up to and with an offset are done with, read or heard."""
        self.positions.acknowledge_to(tp, offset)
        # Faust looks at the partitions that are in there.
        self._acked[tp].append(offset)

    async def rewind(self, tp: TP, offset: int) -> None:
        """Read a partition again from an offset; what is in the queues is dropped."""
        for channel in self.app.topics._tp_index.get(tp, ()):  # noqa: SLF001
            channel.queue.discard(tp)
        self._forget_acknowledgements(tp)
        self.positions.seek(tp, offset)
        self._committed_offset[tp] = offset or None

    def end_seen_at(self, tp: TP) -> float | None:
        """When the broker last said that it has no more records than were taken out of the stream's queue.

        Unix seconds: what came to the broker since then is not known. None if there are such records, or if that is not
        known. Records of open transactions are such records: they may have been written long ago, and may still count.
        What the caller has taken and not processed it knows itself.
        """
        end, reached = self._thread.end(tp), self.positions.next(tp)
        if end is None or reached is None or reached < end.offset or self.app.rebalancing:
            return None
        if any(channel.queue.waiting(tp) for channel in self.app.topics._tp_index.get(tp, ())):  # noqa: SLF001
            return None
        return end.seen_at

    def held_back(self, tp: TP, max_age_s: float = FRESH_S) -> HeldBack | None:
        """What an open transaction keeps from being read, as of the last fetch; None if that is too old, or nothing."""
        end = self._thread.end(tp)
        if end is None or end.readable >= end.offset or time.time() - end.seen_at > max_age_s:
            return None
        return HeldBack(end.readable, end.offset - end.readable)

    def backlog(self, tp: TP) -> int:
        """How many offsets of an assigned partition can be read and were not handed on; 0 while that is not known."""
        end, reached = self._thread.end(tp), self.positions.next(tp)
        return 0 if end is None or reached is None else max(end.readable - reached, 0)

    def lag(self, tp: TP, place: tuple[int, float | None] | None = None) -> Lag | None:
        """How far the reading of an assigned partition is behind, as of the last fetch.

        None while that is not known: before the first fetch, and before the first record where there are some.

        place: the next offset, and when the record before it was written; by default what was handed on to the streams
        """
        end = self._thread.end(tp)
        reached, written = (self.positions.next(tp), self._written.get(tp)) if place is None else place
        if end is None or reached is None:
            return None
        records = max(end.readable - reached, 0)
        if not records:
            return Lag(0, 0.0)
        return None if written is None else Lag(records, max(time.time() - written, 0.0))

    # Where reading starts

    async def perform_seek(self) -> None:
        """Seek every source partition: to its own start offset, else to the group's, else to the beginning."""
        await super().perform_seek()
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
        for tp, end in sorted(ends.items()):
            start = starts[TP(tp.topic, tp.partition)]
            if end is not None and start > end:
                raise cut_short(tp, end, start)

    async def on_partitions_revoked(self, revoked: set[TP]) -> None:
        """Let streams finish and commit what they acknowledged; only then forget the partitions.

        Faust forgets first, so that acknowledged records are not committed and come again.
        """
        self._active_partitions.difference_update(revoked)
        self._paused_partitions.difference_update(revoked)
        await self._on_partitions_revoked(revoked)
        for tp in revoked:
            self._forget_acknowledgements(tp)
            self._read_offset.pop(tp, None)
            self._written.pop(tp, None)
            self._committed_offset.pop(tp, None)

    async def verify_all_partitions_active(self) -> None:
        """Say nothing: Faust goes by what it counts of single events, and takes each stream for one that stands still.

        The watchdog sees to it that records do not wait.
        """

    # The loop that fetches

    async def _drain_messages(self, fetcher: Any) -> None:
        stopped = self._stopped.is_set
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
        await self._correct_positions(fetchable)
        generation = self.app.consumer_generation_id
        seeks = self.positions.seeks.all() | self.app.tables.recovery.seeks.all()
        try:
            fetch = await self._getmany(fetchable, self._fetch_timeout_s(held_back))
        except OffsetOutOfRangeError as problem:
            for tp, offset in problem.args[0].items():
                await self._out_of_range(TP(tp.topic, tp.partition), offset)
            return
        if isinstance(fetch, Fetch):
            await self._hand_on(fetch, generation, seeks)

    def _fetch_timeout_s(self, held_back: bool) -> float:
        if self.app.rebalancing:
            return FETCH_TIMEOUT_REBALANCING_S
        return HELD_BACK_TIMEOUT_S if held_back else FETCH_TIMEOUT_S

    def _fetchable(self) -> tuple[set[TP], bool]:
        """The partitions to fetch, and whether others are held back until their queues have room."""
        index = self.app.topics._tp_index  # noqa: SLF001
        active, names = self._get_active_partitions(), self.app.tables.changelog_topics
        changelogs = {tp for tp in active if tp.topic in names}
        if self.app.rebalancing:
            return changelogs, False
        sources = active - changelogs
        ready = {tp for tp in sources if all(channel.queue.has_room() for channel in index.get(tp, ()))}
        return changelogs | ready, len(ready) < len(sources)

    async def _correct_positions(self, tps: set[TP]) -> None:
        """Seek where the client's position is not the offset that must come next.

        It moves behind what was heard by itself. Of a changelog it may be sent again what was applied.
        """
        heard, recovery, wrong = self.positions.heard, self.app.tables.recovery, {}
        for tp in tps:
            is_changelog = self._is_changelog_tp(tp)
            expected = recovery.next(tp) if is_changelog else self.positions.next(tp)
            position = self._thread.client_position(tp)
            if position is None or expected is None or position == expected:
                continue
            if position > expected or not (is_changelog or expected == heard.get(tp)):
                wrong[tp] = expected
        if wrong:
            self.log.info("Reading again what was fetched and dropped: %s", wrong)
            await self.seek_wait(wrong)

    async def _out_of_range(self, tp: TP, fetched: int) -> None:
        """Stop with the reason if the log does not hold what comes next; go on if only `fetched` was wrong.

        The client never goes on elsewhere by itself: what it skipped would look like the holes that compaction and
        transactions leave, and those are read past.
        """
        expected = fetched if self._is_changelog_tp(tp) else self.positions.next(tp)
        if expected is None:
            return
        (begin,) = (await self.earliest_offsets(tp)).values()
        (end,) = (await self.highwaters(tp)).values()
        if expected > end:
            raise cut_short(tp, end, expected)
        if expected < begin:
            # A worker has its own messages before it reads them, and may have had them deleted.
            wanted = self.app.start_offset(tp)
            if wanted is None or wanted < begin:
                if not self.app.is_expendable(tp.topic):
                    raise deleted_unread(tp, expected, begin)
                self.log.warning("%s/%s: offsets %s to %s were deleted unread", *tp, expected, begin - 1)
            self.positions.skip_to(tp, begin)

    # Handing on

    async def _hand_on(self, fetch: Fetch, generation: int, seeks: Mapping[TP, int]) -> None:
        complete: set[TP] = set()
        for tp, chunk, is_last in _in_turns(fetch.records):
            if not self.flow_active or self.app.consumer_generation_id != generation:
                return
            if self._is_changelog_tp(tp):
                if not await self.app.tables.recovery.apply(tp, chunk, seeks.get(tp)):
                    await self._hand_on_singly(tp, chunk)
            elif (
                not self.app.rebalancing
                and self.positions.seeks.last(tp) == seeks.get(tp)
                and await self._hand_on_source(tp, chunk)
                and is_last
            ):
                complete.add(tp)
        if self.app.consumer_generation_id != generation:
            return
        for tp, position in fetch.positions.items():
            if self._is_changelog_tp(tp):
                self.app.tables.recovery.reached(tp, position, seeks.get(tp))
            elif tp in complete or (tp not in fetch.records and self._holds_nothing(tp, position, seeks)):
                self.positions.skip_to(tp, position)
        if self._commit_every is not None and self._n_acked >= self._commit_every:
            self._n_acked = 0
            await self.commit()

    def _holds_nothing(self, tp: TP, position: int, seeks: Mapping[TP, int]) -> bool:
        """Whether a fetch without records shows that the log has none before the client's position."""
        expected = self.positions.next(tp)
        if expected is None or position <= expected or self.positions.seeks.last(tp) != seeks.get(tp):
            return False
        return not self.app.rebalancing and not self.positions.doubt(tp, Doubt.NOTHING, position)

    async def _hand_on_source(self, tp: TP, chunk: Sequence[Any]) -> bool:
        """Hand on what is new; False if it does not follow what was handed on before, and must be read again."""
        records, missing = self.positions.fresh(tp, chunk)
        if not records:
            return True
        if missing and self.positions.doubt(tp, Doubt.HOLE, records[0].offset):
            return False
        channels = self.app.topics._tp_index.get(tp)  # noqa: SLF001
        if not channels:
            return False
        acks = self.app.topics.acks_enabled_for(tp.topic)
        self.app.monitor.track_tp_end_offset(tp, self.highwater(tp))
        self.positions.handed_on(tp, records, acknowledged_later=acks)
        self._read_offset[tp] = records[-1].offset
        self._written[tp] = records[-1].timestamp / 1000
        if len(channels) == 1 and all(_is_raw(channel) for channel in channels):
            (channel,) = channels
            self._enqueue(tp, channel.queue, records)
        else:
            await self._hand_on_singly(tp, records)
        return True

    def _enqueue(self, tp: TP, queue: Any, records: Sequence[Any]) -> None:
        app, to_message, put = self.app, self._to_message, queue.force_put_nowait
        for record in records:
            message = to_message(tp, record)
            message.refcount = 1
            put(Event(app, record.key, record.value, None, message))

    async def _hand_on_singly(self, tp: TP, records: Sequence[Any]) -> None:
        """Faust's own way, for streams that decode and for stock tables."""
        for record in records:
            if not self.flow_active:
                # A rebalance has begun: what was not handed on is sought again after it.
                return
            await self.wait_first(self.callback(self._to_message(tp, record)), self.suspend_flow.wait())

    # What may be committed

    async def commit(self, topics: Any = None, start_new_transaction: bool = True) -> bool:
        """Commit what is acknowledged; after a crash nothing, since the client's thread may be gone by then."""
        if self.app.crashed:
            return False
        return bool(await super().commit(topics, start_new_transaction))

    def _new_offset(self, tp: TP) -> int | None:
        self._acked[tp].clear()
        return self.positions.committable(tp, self._acked_index[tp])

    def _forget_acknowledgements(self, tp: TP) -> None:
        self._acked.pop(tp, None)
        self._acked_index.pop(tp, None)
        self._gap.pop(tp, None)


def _is_raw(channel: Any) -> bool:
    return channel.key_serializer == "raw" and channel.value_serializer == "raw"


def _in_turns(records: Mapping[TP, Sequence[Any]]) -> Iterator[tuple[TP, Sequence[Any], bool]]:
    """Chunks of each partition's records and whether each is the last of its partition, partitions taking turns."""
    longest = max((len(found) for found in records.values()), default=0)
    for start in range(0, longest, CHUNK):
        for tp, found in records.items():
            if start < len(found):
                yield tp, found[start : start + CHUNK], start + CHUNK >= len(found)
