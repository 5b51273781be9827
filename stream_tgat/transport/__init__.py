"""Faust repaired and made fast. Knows topics, partitions, bytes and offsets; knows nothing of graphs or models.

    app = Application("id", broker="kafka://127.0.0.1:9092", options=TransportOptions(...))
    source = app.raw_topic("source")                      # bytes in, bytes out
    table = app.bulk_table("state", partitions=8)         # RocksDB and a changelog topic
    app.add_listener(listener)                            # on_recovered(tps), on_revoked(tps)
    app.read_from("source", start_offset)                 # start_offset(tp) -> int | None, read from the table

    @app.agent(source)
    async def agent(stream):
        async for batch in drain(stream, limit=512, idle_s=0.05, busy=has_work):
            try:
                await app.outbox.deliver([Delivery(topic, partition, records), ...])  # (1) outputs
                await tenure.commit({partition: changes, ...})  # (2) fence, changelog as one batch, (3) RocksDB too
            except FencedError:
                ...                                       # drop memory of the partition
                app.abandon(batch)
                ...                                       # once table.check passes again: await app.read_again(tp)
            else:
                app.acknowledge(batch)                    # (4) the source's offset

- Reads: `table.store(partition)` has get_many, scan (and write, local only). One commit takes at most
  `table.max_commit_bytes`; larger ones raise BatchTooLargeError.
- Several partitions: at most one commit of each at a time.
- FencedError: the partition may belong to another worker. After it, and after any other error of a commit, memory
  must be dropped and rebuilt from the store. If a rebalance is under way `on_revoked` comes next, and `on_recovered`
  for what is kept. Without one (heartbeats were late, and came again) `table.check(partition)` passes again while the
  fence is open, and `app.read_again(tp)` reads the partition from its start offset.
- Any other exception that leaves an agent stops the worker with a non-zero status; the batch is read again.
- `app.end_seen_at(tp)`: when the broker last had no more than was taken out of the stream (synchronous).
- `app.outbox.deliver([Delivery(topic, partition, [OutgoingRecord(key, value, headers)])])` returns once acknowledged;
  `app.outbox.partitions(topic)`, `app.offsets.committed(topic)` of the group for all partitions of any topic.
- A worker whose records wait for `stall_s` exits; an agent that lets them wait on purpose calls `app.progress()`.
- `await app.crash(error)` stops the worker with a non-zero status.

Modules: application (the wiring), options, consumer with client and positions (no losses, whole fetches), recovery,
table with store and changelog, fence, drain with buffer, producer with outbox, offsets, watchdog, outage with process
(brokers that are away, signals), complaints (what clients repeat), web.
"""

from stream_tgat.rocks import Change, RocksOptions
from stream_tgat.transport.application import Application, PartitionListener
from stream_tgat.transport.drain import drain
from stream_tgat.transport.options import TransportOptions
from stream_tgat.transport.outbox import Delivery, OutgoingRecord
from stream_tgat.transport.store import PartitionStore
from stream_tgat.transport.table import BulkTable

__all__ = [
    "Application",
    "BulkTable",
    "Change",
    "Delivery",
    "OutgoingRecord",
    "PartitionListener",
    "PartitionStore",
    "RocksOptions",
    "TransportOptions",
    "drain",
]
