"""The newest report on topic `quality`, for the metrics of this worker."""

from collections.abc import Collection
from typing import Any, Protocol

from pydantic import ValidationError

from stream_tgat.wire import QualityReport


class _Reports(Protocol):
    """What is asked of the brokers: see `Cluster`."""

    async def ends(self, topic: str, partitions: Collection[int]) -> dict[int, int]: ...

    async def read(self, topic: str, partition: int, first: int, end: int) -> list[Any]: ...


class QualityWatch:
    """Reads a report when there is a new one: most looks cost one question to a broker."""

    def __init__(self, topic: str, cluster: _Reports) -> None:
        self.report: QualityReport | None = None
        self._topic = topic
        self._cluster = cluster
        self._end = 0

    async def look(self) -> None:
        """Take over what the newest report says, if there is a new one."""
        end = (await self._cluster.ends(self._topic, [0]))[0]
        if end == self._end:
            return
        # Compaction keeps the newest record of a key. One that cannot be read, whoever wrote it, changes nothing.
        for record in await self._cluster.read(self._topic, 0, end - 1, end):
            try:
                self.report = QualityReport.model_validate_json(record.value or b"")
            except ValidationError:
                continue
        self._end = end
