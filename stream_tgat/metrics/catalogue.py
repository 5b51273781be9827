"""Every metric of a worker: its name, unit, labels and meaning are here and nowhere else.

Names follow Prometheus' conventions: base units, and `_total` for what only grows. Labels take few values: topics and
partitions of the deployment, heads of the topology, reasons from short lists. A topic is named as in the topology
(`interactions`), without its prefix.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Literal

PREFIX: Final = "stream_tgat_"
MetricKind = Literal["counter", "gauge", "histogram"]

#: Seconds from 5 ms to 10 minutes: what is live is below one, and what catches up beyond.
_LATENCIES: Final = (0.005, 0.01, 0.02, 0.03, 0.05, 0.075, 0.1, 0.15, 0.25, 0.5, 1.0, 2.5, 5.0, 15.0, 60.0, 600.0)
_DURATIONS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)
_SIZES: Final = (1.0, 4.0, 16.0, 64.0, 256.0, 1024.0, 4096.0, 16384.0)


@dataclass(frozen=True)
class Metric:
    """One metric. group: the heading that it stands under   bounds: of a histogram's buckets, each included"""

    group: str
    name: str
    kind: MetricKind
    help: str
    labels: tuple[str, ...] = ()
    bounds: tuple[float, ...] = ()


def _declared() -> Iterator[Metric]:
    for value in globals().values():
        if isinstance(value, Metric):
            yield value


def _metric(group: str, kind: MetricKind, name: str, help: str, *labels: str, bounds: tuple[float, ...] = ()) -> Metric:  # noqa: A002
    return Metric(group, PREFIX + name, kind, help, labels, bounds)


# What flows

_FLOW: Final = "What flows"
EVENT_TO_EMBEDDING: Final = _metric(
    _FLOW,
    "histogram",
    "event_to_embedding_seconds",
    "From the time at which the interaction's record was written to Kafka to the brokers' acknowledgement of its "
    "embedding, one entry for each embedding",
    bounds=_LATENCIES,
)
INTERACTIONS: Final = _metric(
    _FLOW, "counter", "interactions_total", "Interactions read, decoded and handed to their nodes"
)
NODES: Final = _metric(_FLOW, "counter", "node_features_total", "Records with node features handed to their nodes")
PASSED_OVER: Final = _metric(_FLOW, "counter", "passed_over_total", "Records that the topology's [input] does not want")
HALF_EDGES: Final = _metric(_FLOW, "counter", "half_edges_total", "Half-edges received, two for each interaction")
MESSAGES: Final = _metric(
    _FLOW, "counter", "peer_embeddings_total", "Peer embeddings received from the other ends of interactions"
)
EMBEDDINGS: Final = _metric(_FLOW, "counter", "embeddings_total", "Embeddings sent, two for each interaction")
ALERTS: Final = _metric(_FLOW, "counter", "alerts_total", "Alerts sent")
RECORDS_READ: Final = _metric(
    _FLOW, "counter", "records_read_total", "Records taken from a topic, those read again included", "topic"
)
REPEATS: Final = _metric(
    _FLOW, "counter", "repeats_total", "Interactions dropped: id, user, item and timestamp are those of one before"
)
DIFFERING_REPEATS: Final = _metric(
    _FLOW,
    "counter",
    "differing_repeats_total",
    "Of the repeats, those with other features than the first, whose features stay",
)
DUPLICATES: Final = _metric(
    _FLOW, "counter", "resent_half_edges_total", "Half-edges that a worker sent again after a failure, skipped"
)
DEAD_LETTERS: Final = _metric(
    _FLOW,
    "counter",
    "dead_letters_total",
    "Records that could not be used, by the kind of their reason; from the fiftieth kind on it is 'other'",
    "topic",
    "reason",
)
UNKNOWN_LABELS: Final = _metric(_FLOW, "counter", "unknown_labels_total", "Labels that no head of the topology learns")

# Time and lag

_TIME: Final = "Time and lag"
LAG_RECORDS: Final = _metric(
    _TIME, "gauge", "lag_records", "Offsets of a partition that can be read and are not processed", "topic", "partition"
)
LAG_SECONDS: Final = _metric(
    _TIME,
    "gauge",
    "lag_seconds",
    "Age of the last record that was processed of a partition, while more can be read; else 0",
    "topic",
    "partition",
)
WATERMARK: Final = _metric(
    _TIME,
    "gauge",
    "watermark_timestamp_seconds",
    "Event time before which all of a source is received; absent while it is idle or before its first record",
    "topic",
    "partition",
)
BLOCKING_SECONDS: Final = _metric(
    _TIME,
    "gauge",
    "blocking_seconds",
    "For how long a source's watermark has stood still while rows wait for it; 0 for all that nobody waits for",
    "topic",
    "partition",
)
PENDING_ROWS: Final = _metric(_TIME, "gauge", "pending_rows", "Rows that wait for a watermark or for peer embeddings")
DUE_ROWS: Final = _metric(
    _TIME,
    "gauge",
    "due_rows",
    "Of these, the rows whose time has come: they wait for their turn, or for peer embeddings",
)
EMBEDDING_LAG: Final = _metric(
    _TIME,
    "gauge",
    "embedding_lag_seconds",
    "Age of the oldest record among the embeddings that were sent last, while rows are due; else 0",
)
ARRIVED_BEHIND: Final = _metric(
    _TIME,
    "counter",
    "late_half_edges_total",
    "Half-edges that came after a later one of their node had been computed, by partition of interactions",
    "topic",
    "partition",
)
FORCED: Final = _metric(
    _TIME, "counter", "forced_rows_total", "Rows computed without all peer embeddings, after serving.max_wait_s"
)
HANGING_TRANSACTIONS: Final = _metric(
    _TIME, "gauge", "hanging_transactions", "Partitions that a transaction holds back which does not end"
)
STALLS: Final = _metric(
    _TIME,
    "counter",
    "window_stalls_total",
    "Times that reading was held as a partition of propagation had serving.window_bytes unread",
)
THROTTLED: Final = _metric(
    _TIME,
    "counter",
    "throttled_seconds_total",
    "For how long reading was held on purpose: 'window' (serving.window_bytes unread in propagation) or 'pending' "
    "(serving.max_pending rows)",
    "reason",
)

# Work

_WORK: Final = "Work"
CYCLE: Final = _metric(
    _WORK, "histogram", "cycle_seconds", "One cycle of receiving, computing and encoding", bounds=_DURATIONS
)
COMMIT: Final = _metric(
    _WORK,
    "histogram",
    "commit_seconds",
    "Making one cycle durable: outputs acknowledged, changelog and RocksDB written",
    bounds=_DURATIONS,
)
CYCLE_EMBEDDINGS: Final = _metric(
    _WORK, "histogram", "cycle_embeddings", "Embeddings of one cycle that had any", bounds=_SIZES
)
BATCH_RECORDS: Final = _metric(
    _WORK, "histogram", "batch_records", "Records of interactions and nodes sent on together", bounds=_SIZES
)
COMMITS: Final = _metric(_WORK, "counter", "commits_total", "Commits of a partition")
FENCED: Final = _metric(
    _WORK, "counter", "fenced_batches_total", "Batches given up because the partitions may have a new owner"
)
NODE_LOOKUPS: Final = _metric(
    _WORK,
    "counter",
    "cache_lookups_total",
    "Nodes looked up in memory: 'hit', or 'miss' for one that was read from RocksDB or is new",
    "result",
)

# State

_STATE: Final = "State"
CACHE_USED: Final = _metric(_STATE, "gauge", "cache_used_bytes", "Memory of the nodes and rows in the engine's cache")
CACHE_LIMIT: Final = _metric(_STATE, "gauge", "cache_limit_bytes", "serving.cache_bytes")
ROCKSDB_FILES: Final = _metric(_STATE, "gauge", "rocksdb_files_bytes", "Table files of RocksDB on the disk")
ROCKSDB_MEMORY: Final = _metric(
    _STATE, "gauge", "rocksdb_memory_bytes", "Memory of RocksDB: 'memtables', 'block_cache', 'table_readers'", "part"
)
ROCKSDB_KEYS: Final = _metric(_STATE, "gauge", "rocksdb_keys", "Keys in RocksDB, as it estimates")
ROCKSDB_COMPACTION: Final = _metric(
    _STATE, "gauge", "rocksdb_pending_compaction_bytes", "What RocksDB still has to compact, as it estimates"
)
ROCKSDB_STOPPED: Final = _metric(
    _STATE, "gauge", "rocksdb_stopped_partitions", "Partitions whose writes RocksDB has stopped to catch up"
)
DISK_FREE: Final = _metric(
    _STATE, "gauge", "state_disk_free_bytes", "Free space where the local state lies; below 64 MiB nothing is committed"
)
DAMAGED: Final = _metric(
    _STATE,
    "counter",
    "damaged_partitions_total",
    "Times that a partition's local state was damaged, set aside and recovered",
)

# The worker in its group

_GROUP: Final = "The worker in its group"
READY: Final = _metric(
    _GROUP, "gauge", "ready", "1 while the worker is recovered, caught up and hears a broker, as /readyz says"
)
BROKERS: Final = _metric(_GROUP, "gauge", "brokers_answer", "0 while no broker answers")
PARTITIONS: Final = _metric(
    _GROUP, "gauge", "assigned_partitions", "Partitions of a topic that this worker works on", "topic"
)
TOPIC_PARTITIONS: Final = _metric(
    _GROUP, "gauge", "topic_partitions", "Partitions that a topic has, each of which some worker should have", "topic"
)
REBALANCING: Final = _metric(_GROUP, "gauge", "rebalancing", "1 while partitions are being assigned or recovered")
REBALANCES: Final = _metric(_GROUP, "counter", "rebalances_total", "Rebalances of the consumer group")
GENERATION: Final = _metric(_GROUP, "gauge", "group_generation", "Generation of the consumer group; -1 outside of it")
HEARTBEAT_AGE: Final = _metric(
    _GROUP, "gauge", "heartbeat_age_seconds", "Since the last heartbeat that the group's coordinator accepted"
)
RECOVERY_REMAINING: Final = _metric(
    _GROUP, "gauge", "recovery_remaining_records", "Records of the changelogs that recovery still has to read"
)
BUILD: Final = _metric(_GROUP, "gauge", "build_info", "Always 1, with the version of this software", "version")

# The model

_MODEL: Final = "The model"
MODEL: Final = _metric(_MODEL, "gauge", "model_version", "Version of the model that serves")
MODEL_INFO: Final = _metric(
    _MODEL, "gauge", "model_info", "Always 1, with the release that serves and its version", "release", "version"
)
REENCODED: Final = _metric(
    _MODEL,
    "gauge",
    "reencoded_model_version",
    "Newest model whose peer embeddings all rows have been given; -1 for none",
)
SWITCHES: Final = _metric(
    _MODEL, "counter", "model_switches_total", "Times that another model took over while this worker ran"
)
REFUSED_RELEASES: Final = _metric(
    _MODEL, "counter", "refused_releases_total", "Promoted releases that this worker could not serve"
)
STALE_ROWS: Final = _metric(
    _MODEL,
    "counter",
    "stale_rows_total",
    "Rows computed from what an older model had made, once for each layer",
)
INEXACT_PEER_EMBEDDINGS: Final = _metric(
    _MODEL,
    "counter",
    "inexact_peer_embeddings_total",
    "Peer embeddings given anew from a log that was cut at its beginning, so they may differ",
)
RENEWAL_RUNNING: Final = _metric(
    _MODEL, "gauge", "renewal_running", "1 while this worker keeps the process that renews the model"
)
RENEWAL_FAILURES: Final = _metric(
    _MODEL, "counter", "renewal_failures_total", "Times that the process which renews the model ended by itself"
)
RENEWAL_STATE: Final = _metric(
    _MODEL,
    "gauge",
    "renewal_state",
    "1 for what the renewal of the model is at, as it told last on topic quality: 'watching', 'training' or "
    "'re-encoding'",
    "state",
)

# Live quality

_QUALITY: Final = "Live quality, where somebody publishes it (topic quality)"
AUC: Final = _metric(_QUALITY, "gauge", "quality_auc", "AUC of the serving model over its newest answers", "head")
AVERAGE_PRECISION: Final = _metric(
    _QUALITY, "gauge", "quality_average_precision", "Average precision over the same answers", "head"
)
CALIBRATION_ERROR: Final = _metric(
    _QUALITY, "gauge", "quality_calibration_error", "Mean distance of probabilities and what came true", "head"
)
ALERT_PRECISION: Final = _metric(
    _QUALITY, "gauge", "quality_alert_precision_ratio", "Share of the alerts among these answers that came true", "head"
)
ANSWERS: Final = _metric(_QUALITY, "gauge", "quality_answers", "How many answers the figures are over", "head")
IMMATURE: Final = _metric(
    _QUALITY, "gauge", "quality_immature_answers", "Answers that are left out as their question is too new", "head"
)
LINK_PRECISION: Final = _metric(
    _QUALITY,
    "gauge",
    "quality_link_average_precision",
    "Average precision of real interactions against items drawn at random; 0.5 is chance",
)
DRIFTING: Final = _metric(_QUALITY, "gauge", "quality_drifting", "Scores and features that have drifted")
QUALITY_CREATED: Final = _metric(_QUALITY, "gauge", "quality_report_timestamp_seconds", "When these figures were found")

ALL: Final = tuple(_declared())
"""All of them, in the order in which they are shown."""
