"""Options of the transport, and the Faust settings that go with them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from stream_tgat.errors import SettingsError
from stream_tgat.rocks import RocksOptions

EXACTLY_ONCE = (
    "processing_guarantee='exactly_once' is not supported: Faust's own implementation writes a table's offset apart "
    "from its data and loses both on a rebalance. Outputs are delivered at least once, under ids that let consumers "
    "drop repeats, and the state is exact (see the commit in the design notes)."
)
MAX_LINGER_S = 0.02


@dataclass(frozen=True)
class TransportOptions:
    """What Faust has no setting for."""

    buffer_bytes: int = 16 * 2**20
    """Bytes that may wait in the queue of a stream before fetching from its partitions pauses."""
    linger_s: float = 0.04
    """So long at most records wait at the brokers for others that are fetched with them."""
    heartbeat_limit: float = 0.7
    """Nothing is committed once the last heartbeat is older than this part of the session timeout."""
    stall_s: float = 300.0
    """A worker that makes no progress for so long although records wait exits with a non-zero status."""
    rocks: RocksOptions = field(default_factory=RocksOptions)


DEFAULTS: dict[str, Any] = {
    "store": "rocksdb://",
    "processing_guarantee": "at_least_once",
    "autodiscover": False,
    "topic_disable_leader": True,
    # The consumer says where to read. Anything else would go on elsewhere in silence where records are gone.
    "consumer_auto_offset_reset": "none",
    # A worker that dies is noticed after the session timeout; see also broker_heartbeat_interval.
    "broker_session_timeout": 10.0,
    "broker_heartbeat_interval": 1.0,
    "broker_commit_interval": 1.0,
    "consumer_max_fetch_size": 2**20,
    "stream_buffer_maxsize": 16_384,
    "producer_acks": -1,
    "producer_linger": 0.005,
    "producer_max_batch_size": 1_000_000,
    "producer_max_request_size": 16 * 2**20,
    "table_standby_replicas": 0,
    "recovery_consistency_check": True,
    # Faust's web server has no authentication, and on request it shows the contents of tables.
    "web_tables_enabled": False,
    "web_bind": "127.0.0.1",
    "web_host": "127.0.0.1",
}


def faust_settings(settings: dict[str, Any]) -> dict[str, Any]:
    """Faust's settings: ours where none is given. Raises SettingsError for what cannot work."""
    merged = {**DEFAULTS, **settings}
    guarantee = merged["processing_guarantee"]
    if getattr(guarantee, "value", guarantee) != "at_least_once":
        raise SettingsError(EXACTLY_ONCE)
    if merged["consumer_auto_offset_reset"] != "none":
        raise SettingsError("consumer_auto_offset_reset must be none: lost records would be passed over in silence")
    if merged["producer_acks"] not in (-1, "all"):
        raise SettingsError("producer_acks must be -1: a commit that a broker may lose is none")
    if merged["producer_linger"] > MAX_LINGER_S:
        raise SettingsError(f"producer_linger must be at most {MAX_LINGER_S} s: every hop of every layer waits for it")
    if not str(merged["store"]).startswith("rocksdb"):
        raise SettingsError(f"store must be rocksdb://, not {merged['store']}")
    return merged
