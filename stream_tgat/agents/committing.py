"""How a cycle becomes durable: in four steps, whose order is all that a crash between them can rely on."""

import time
from collections.abc import Callable, Sequence

from faust.types import TP

from stream_tgat.agents.metrics import Metrics
from stream_tgat.message_passing.cycle import Cycle
from stream_tgat.message_passing.own_writes import OwnWrite
from stream_tgat.transport.application import Application
from stream_tgat.transport.outbox import Delivery
from stream_tgat.transport.tenure import Tenure


class Committer:
    """Commits cycles, one after the other. hear: told of the messages that the brokers have acknowledged."""

    def __init__(
        self,
        app: Application,
        topic: str,
        hear: Callable[[int, OwnWrite], None],
        metrics: Metrics,
    ) -> None:
        """topic: `propagation`, by its full name"""
        self._app = app
        self._topic = topic
        self._hear = hear
        self._metrics = metrics

    async def commit(self, tenure: Tenure, cycle: Cycle) -> list[int]:
        """Make a cycle durable; returns the partitions whose rows are now stored."""
        # 1. Outputs and messages are acknowledged first. Once the state says that they were computed, nobody computes
        #    them again, so a crash after step 2 would lose those still under way.
        begun = time.perf_counter()
        await self._deliver([*cycle.deliveries, *cycle.latest], cycle.known, is_last_word=bool(cycle.latest))
        self._metrics.embedded(time.time() - cycle.written)
        # 2. and 3. Still the owner and the heartbeat fresh, then the changelog as one record batch, which the log has
        #    completely or not at all: rows ahead of their node record would overwrite live ones. Then one RocksDB batch
        # with the changelog's offset, so that the disk is never between two commits either. See BulkTable.
        if cycle.commits:
            await tenure.commit({each.partition.number: each.changes for each in cycle.commits})
        # 4. Only what is in the state is acknowledged: the group's offset never claims more than the reserved key.
        for each in cycle.commits:
            self._app.acknowledge_to(TP(self._topic, each.partition.number), each.offset)
            each.partition.committed_offset = each.offset
        self._metrics.commit_s.observe(time.perf_counter() - begun)
        self._count(cycle)
        return [each.partition.number for each in cycle.commits if each.has_rows]

    async def _deliver(self, deliveries: Sequence[Delivery], known: Sequence[Delivery], *, is_last_word: bool) -> None:
        """Send everything together. Messages are heard as soon as all are acknowledged.

        is_last_word: among it is what must not come behind that of a new owner, as the changelog must not
        """
        together = [*deliveries, *known]
        if not together:
            return
        deliver, fence = self._app.outbox.deliver, self._app.fence
        if is_last_word:
            fence.check("topic latest")
            offsets = await fence.guard(deliver(together))
        else:
            offsets = await deliver(together)
        for at, (delivery, offset) in enumerate(zip(together, offsets, strict=True)):
            value = delivery.records[0].value
            # Of several records only the last one's offset is known.
            if delivery.topic == self._topic and len(delivery.records) == 1 and value is not None:
                self._hear(delivery.partition, OwnWrite(offset, value, is_known=at >= len(deliveries)))

    def _count(self, cycle: Cycle) -> None:
        metrics = self._metrics
        for received in cycle.received.values():
            metrics.half_edges += received.half_edges
            metrics.messages += received.messages
            metrics.duplicates += received.duplicates
            metrics.repeats += received.repeats
            metrics.differing_repeats += received.differing
            metrics.behind_by_source.update(received.behind)
        metrics.cycle_s.observe(cycle.seconds)
        if cycle.embeddings:
            metrics.cycle_embeddings.observe(cycle.embeddings)
        metrics.embeddings += cycle.embeddings
        metrics.alerts += cycle.alerts
        metrics.forced += cycle.forced
        metrics.stale_rows += cycle.stale
        metrics.commits += len(cycle.commits)
        metrics.pending = cycle.pending
