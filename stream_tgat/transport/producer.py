"""The producer: Faust's, idempotent, with access to whole batches."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from aiokafka.producer.message_accumulator import BatchBuilder
from faust.transport.drivers import aiokafka as driver


class BulkProducer(driver.Producer):
    """Faust's producer, with what sending whole batches needs.

    It is idempotent: a batch whose acknowledgement got lost is not appended a second time when it is sent again, which
    the changelog would take for another writer.
    """

    @property
    def kafka(self) -> Any:
        """The aiokafka producer below; raises NotReady before the start."""
        return self._ensure_producer()

    def new_batch(self, capacity_bytes: int) -> BatchBuilder:
        """An empty batch with its own capacity; only the first record may be larger than that."""
        compression = self.kafka._message_accumulator._compression_type  # noqa: SLF001
        return BatchBuilder(capacity_bytes, compression)

    def _settings_extra(self) -> Mapping[str, Any]:
        return {**super()._settings_extra(), "acks": "all", "enable_idempotence": True}
