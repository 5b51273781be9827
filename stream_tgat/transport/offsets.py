"""Offsets of topics as the broker has them, also of partitions that other workers own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from aiokafka import TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, RecordsToDelete
from faust.types import TP


class Offsets:
    """Asks the broker through the application's consumer; these calls take a round trip."""

    def __init__(self, app: Any) -> None:
        self._app = app

    async def ends(self, topic: str) -> dict[int, int]:
        """The end offset of each partition of a topic."""
        thread = self._app.consumer._thread  # noqa: SLF001
        ends = await thread.call_now(thread._ensure_consumer().end_offsets, await self._partitions(topic))  # noqa: SLF001
        return {tp.partition: int(end) for tp, end in ends.items()}

    async def committed(self, topic: str) -> dict[int, int]:
        """The offset that this application's group has committed for each partition (0 if none)."""
        thread = self._app.consumer._thread  # noqa: SLF001
        coordinator = thread._ensure_consumer()._coordinator  # noqa: SLF001
        tps = await self._partitions(topic)
        found = await thread.call_now(coordinator.fetch_committed_offsets, tps)
        return {tp.partition: found[tp].offset if tp in found else 0 for tp in tps}

    async def unread(self, topic: str) -> dict[int, int]:
        """How many offsets of each partition lie beyond the group's commit, whoever owns the partition."""
        ends, committed = await self.ends(topic), await self.committed(topic)
        return {partition: max(end - committed.get(partition, 0), 0) for partition, end in ends.items()}

    async def delete_before(self, offsets: Mapping[TP, int]) -> None:
        """Delete the records of partitions that lie before given offsets."""
        producer = self._app.producer
        settings = {**producer._settings_default(), **producer._settings_auth()}  # noqa: SLF001
        names = ("bootstrap_servers", "client_id", "security_protocol", "ssl_context", "sasl_mechanism")
        admin = AIOKafkaAdminClient(**{name: settings[name] for name in names if name in settings})
        await admin.start()
        try:
            await admin.delete_records(
                {
                    TopicPartition(tp.topic, tp.partition): RecordsToDelete(before_offset=offset)
                    for tp, offset in offsets.items()
                }
            )
        finally:
            await admin.close()

    async def _partitions(self, topic: str) -> list[TopicPartition]:
        return [TopicPartition(topic, partition) for partition in range(await self._app.outbox.partitions(topic))]
