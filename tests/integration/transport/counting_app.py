"""A worker for tests: counts the records of a topic, so that a lost record and one counted twice both show.

The environment says what to do: BROKER, PREFIX, PARTITIONS; OPTIONS holds Faust settings as JSON. Each record of the
topic `numbers` becomes a row, an output, and one more in its partition's count. As a count is not idempotent, the
state is right only if each record was applied exactly once. DO_AT names a place and what to do there, "committed:kill",
once DO_AFTER batches were read.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import time

from faust.types import TP

from stream_tgat.errors import FencedError
from stream_tgat.transport import Application, Delivery, OutgoingRecord, TransportOptions, drain, watchdog

PREFIX = os.environ["PREFIX"]
PARTITIONS = int(os.environ.get("PARTITIONS", "4"))
NUMBERS, OUTPUTS = PREFIX + "numbers", PREFIX + "outputs"
PROGRESS, COUNT = b"\x00progress", b"count"
DO_AT, DO_AFTER = os.environ.get("DO_AT", ""), int(os.environ.get("DO_AFTER", "3"))

app = Application(
    PREFIX + "counter",
    broker="kafka://" + os.environ["BROKER"],
    options=TransportOptions(**json.loads(os.environ.get("TRANSPORT", "{}"))),
    topic_partitions=PARTITIONS,
    **{"broker_session_timeout": 6.0, **json.loads(os.environ.get("OPTIONS", "{}"))},
)
numbers = app.raw_topic(NUMBERS)
table = app.bulk_table("counts", partitions=PARTITIONS)


class Counts:
    """What each partition has counted, in memory; dropped and read again whenever it may be wrong."""

    def __init__(self) -> None:
        self.progress: dict[int, int] = {}
        self.count: dict[int, int] = {}

    def load(self, partition: int) -> None:
        """Read a partition's state from its store."""
        progress, count = table.store(partition).get_many([PROGRESS, COUNT])
        self.progress[partition] = int(progress or -1)
        self.count[partition] = int(count or 0)

    def drop(self, partition: int) -> None:
        """Forget a partition's state."""
        self.progress.pop(partition, None)
        self.count.pop(partition, None)

    async def on_recovered(self, tps: frozenset[TP]) -> None:
        """Load what is ours."""
        for tp in tps:
            if tp.topic == NUMBERS:
                self.load(tp.partition)
        app.log.warning("RECOVERED %s", sorted(tp.partition for tp in tps if tp.topic == NUMBERS))

    async def on_revoked(self, tps: frozenset[TP]) -> None:
        """Drop what may go to another worker."""
        for tp in tps:
            if tp.topic == NUMBERS:
                self.drop(tp.partition)


counts = Counts()
app.add_listener(counts)
app.read_from(NUMBERS, lambda tp: int(table.store(tp.partition).get_many([PROGRESS])[0] or -1) + 1)
tenures: dict = {}
batches = 0
done = False


async def at(place: str) -> None:
    """Do what the test asks for at this place."""
    global done
    where, _, what = DO_AT.partition(":")
    if place != where or batches < DO_AFTER or done:
        return
    done = True
    if what == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    elif what == "stop":
        os.kill(os.getpid(), signal.SIGSTOP)
    elif what == "wait":
        await asyncio.sleep(1000)
    elif what == "hang":
        time.sleep(1000)
    else:
        raise ZeroDivisionError(place)


append = table.changelog.append


async def append_and(changes: dict) -> dict:
    """Append, with a place between the changelog and RocksDB."""
    offsets = await append(changes)
    await at("appended")
    return offsets


table.changelog.append = append_and


async def count(partition: int, messages: list) -> None:
    """Count the new records of one partition."""
    messages = [m for m in messages if m.offset > counts.progress[partition]]
    if not messages:
        return
    expected = counts.progress[partition] + 1
    assert messages[0].offset == expected or "HOLES" in os.environ, (partition, messages[0].offset, expected)
    records = [OutgoingRecord(m.key, m.value, [("o", b"%d" % m.offset)]) for m in messages]
    await app.outbox.deliver([Delivery(OUTPUTS, partition, records)])
    await at("delivered")
    counts.progress[partition] = messages[-1].offset
    counts.count[partition] += len(messages)
    changes = [(b"row" + m.value, b"%d" % m.offset) for m in messages]
    changes += [(PROGRESS, b"%d" % counts.progress[partition]), (COUNT, b"%d" % counts.count[partition])]
    if partition not in tenures or tenures[partition].is_over:
        tenures[partition] = table.tenure([partition])
    await tenures[partition].commit({partition: changes})
    await at("committed")


if os.environ.get("LOG_WRITES"):
    apply_records = table.data.apply_records

    def apply_and_log(partition: int, records: list) -> None:
        """Apply, and log how many."""
        apply_records(partition, records)
        app.log.warning("APPLIED %s", len(records))

    table.data.apply_records = apply_and_log
if "GRACE_S" in os.environ:
    watchdog.GRACE_S = float(os.environ["GRACE_S"])


if "REPORT_COMMITTED" in os.environ:

    @app.timer(0.5)
    async def report_committed() -> None:
        """Log how far the group has read, as the broker has it."""
        if not app.fence.is_open:
            return
        began = time.monotonic()
        report = {"committed": await app.offsets.committed(NUMBERS), "took_s": time.monotonic() - began}
        app.log.warning("COMMITTED %s", json.dumps(report))


def report_end() -> None:
    """Log the counts, if all is counted and they are not the last that were logged."""
    global reported
    sources = [tp for tp in app.recovered if tp.topic == NUMBERS]
    at_end = bool(sources) and all(app.end_seen_at(tp) is not None for tp in sources)
    if at_end and counts.count != reported:
        app.log.warning("AT END %s", {p: counts.count[p] for p in sorted(counts.count)})
        reported = dict(counts.count)


reported: dict[int, int] = {}


async def heartbeats_or_handover() -> None:
    """Wait after a FencedError: until heartbeats come again, or until the partitions are being handed over."""
    while app.fence.is_open:
        try:
            app.fence.check("anything")
        except FencedError:
            await asyncio.sleep(0.1)
        else:
            return


@app.agent(numbers, name="count")
async def count_numbers(stream) -> None:
    """Count batch by batch."""
    global batches
    async for batch in drain(stream, limit=int(os.environ.get("LIMIT", "500")), idle_s=0.05):
        batches += bool(batch)
        if not batch:
            report_end()
            continue
        by_partition: dict[int, list] = {}
        for message in batch:
            by_partition.setdefault(message.partition, []).append(message)
        try:
            counting = (count(p, messages) for p, messages in by_partition.items())
            for failure in await asyncio.gather(*counting, return_exceptions=True):
                if failure is not None:
                    raise failure
        except FencedError as error:
            app.log.warning("FENCED %s", error)
            for partition in by_partition:
                counts.drop(partition)
            app.abandon(batch)
            await heartbeats_or_handover()
            for tp in {message.tp for message in batch} & app.recovered:
                counts.load(tp.partition)
                await app.read_again(tp)
            continue
        app.acknowledge(batch)
