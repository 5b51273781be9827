"""What the group has committed, also of partitions that other workers own."""

from __future__ import annotations

from typing import Any

from aiokafka import TopicPartition


class Offsets:
    """Asks the broker through the application's consumer, which takes a round trip."""

    def __init__(self, app: Any) -> None:
        self._app = app

    async def committed(self, topic: str) -> dict[int, int]:
        """The offset that this application's group has committed for each partition (0 if none)."""
        return {partition: at.offset if at else 0 for partition, at in (await self._committed(topic)).items()}

    async def notes(self, topic: str) -> dict[int, str]:
        """The note beside the offset that the group has committed, of each partition that has one."""
        return {partition: at.metadata for partition, at in (await self._committed(topic)).items() if at}

    async def _committed(self, topic: str) -> dict[int, Any]:
        thread = self._app.consumer._thread  # noqa: SLF001
        coordinator = thread._ensure_consumer()._coordinator  # noqa: SLF001
        partitions = await self._app.outbox.partitions(topic)
        tps = [TopicPartition(topic, partition) for partition in range(partitions)]
        found = await thread.call_now(coordinator.fetch_committed_offsets, tps)
        return {tp.partition: found.get(tp) for tp in tps}
