"""The Grafana dashboard, made from the panels below: `python deploy/monitoring/dashboard.py` writes dashboard.json.

Import the file in Grafana and choose a Prometheus. One row for each question that somebody who looks has.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FILE = Path(__file__).with_name("dashboard.json")
_DATA_SOURCE = {"type": "prometheus", "uid": "${source}"}
_HERE = '{job=~"$job"}'
_WIDTH, _HEIGHT, _COLUMNS = 8, 8, 3


@dataclass(frozen=True)
class Panel:
    """One graph. lines: (expression, legend); HERE in an expression is the choice of jobs   unit: Grafana's name"""

    title: str
    unit: str
    lines: tuple[tuple[str, str], ...]
    kind: str = "timeseries"
    description: str = ""


def _quantiles(metric: str) -> tuple[tuple[str, str], ...]:
    """Median and 99th percentile over all workers."""
    return tuple(
        (f"histogram_quantile({q}, sum by (le) (rate({metric}_bucketHERE[$__rate_interval])))", name)
        for q, name in ((0.5, "half"), (0.99, "99 %"))
    )


def _rate(metric: str, legend: str, by: str = "") -> tuple[str, str]:
    return f"sum{f' by ({by})' if by else ''} (rate({metric}HERE[$__rate_interval]))", legend


def _each(metric: str, by: str = "instance", how: str = "max") -> tuple[str, str]:
    return f"{how} by ({by}) ({metric}HERE)", " ".join(f"{{{{{label}}}}}" for label in by.split(", "))


_S = "stream_tgat_"
_MISSES = (
    f'sum(rate({_S}cache_lookups_total{{result="miss", job=~"$job"}}[$__rate_interval])) '
    f"/ sum(rate({_S}cache_lookups_totalHERE[$__rate_interval]))"
)
ROWS: dict[str, tuple[Panel, ...]] = {
    "Is it well?": (
        Panel("Ready", "short", (_each(f"{_S}ready"),), "stat", "1: recovered, caught up, and hears a broker"),
        Panel("Event to embedding", "s", _quantiles(f"{_S}event_to_embedding_seconds")),
        Panel(
            "Interactions and embeddings",
            "ops",
            (_rate(f"{_S}interactions_total", "interactions"), _rate(f"{_S}embeddings_total", "embeddings")),
        ),
    ),
    "Is it behind, and who holds it back?": (
        Panel("Lag by partition", "s", (_each(f"{_S}lag_seconds", "topic, partition"),)),
        Panel("Lag in records", "short", (_each(f"{_S}lag_records", "topic, partition"),)),
        Panel(
            "The source that rows wait for",
            "s",
            ((f"topk(3, max by (topic, partition) ({_S}blocking_secondsHERE))", "{{topic}}/{{partition}}"),),
            description="For how long its watermark has stood still while rows wait for it",
        ),
        Panel(
            "Watermark behind the clock",
            "s",
            ((f"time() - max by (topic, partition) ({_S}watermark_timestamp_secondsHERE)", "{{topic}}/{{partition}}"),),
        ),
        Panel(
            "Rows",
            "short",
            (
                (f"sum({_S}pending_rowsHERE)", "pending"),
                (f"sum({_S}due_rowsHERE)", "due"),
                (f"max({_S}embedding_lag_secondsHERE)", "age of the oldest that left, s"),
            ),
        ),
        Panel(
            "Held on purpose",
            "percentunit",
            (
                _rate(f"{_S}throttled_seconds_total", "{{reason}}", "reason"),
                _rate(f"{_S}window_stalls_total", "stalls/s"),
                (f"sum({_S}hanging_transactionsHERE)", "hanging transactions"),
            ),
        ),
    ),
    "Is what comes out exact?": (
        Panel(
            "Inexact",
            "ops",
            (
                _rate(f"{_S}late_half_edges_total", "late, interactions/{{partition}}", "partition"),
                _rate(f"{_S}forced_rows_total", "without all peer embeddings"),
                _rate(f"{_S}stale_rows_total", "on an older model"),
                _rate(f"{_S}inexact_peer_embeddings_total", "from a cut log"),
            ),
        ),
        Panel(
            "Refused",
            "ops",
            (
                _rate(f"{_S}dead_letters_total", "{{topic}}: {{reason}}", "topic, reason"),
                _rate(f"{_S}unknown_labels_total", "labels that no head learns"),
                _rate(f"{_S}passed_over_total", "not wanted by the topology"),
            ),
        ),
        Panel(
            "Repeats",
            "ops",
            (
                _rate(f"{_S}repeats_total", "repeats"),
                _rate(f"{_S}differing_repeats_total", "with other features"),
                _rate(f"{_S}resent_half_edges_total", "sent again by a worker"),
            ),
        ),
    ),
    "What does the work cost?": (
        Panel("Cycle", "s", _quantiles(f"{_S}cycle_seconds")),
        Panel("Commit", "s", _quantiles(f"{_S}commit_seconds")),
        Panel("Embeddings of a cycle", "short", _quantiles(f"{_S}cycle_embeddings")),
        Panel("Records of a batch", "short", _quantiles(f"{_S}batch_records")),
        Panel(
            "Received and committed",
            "ops",
            (
                _rate(f"{_S}half_edges_total", "half-edges"),
                _rate(f"{_S}peer_embeddings_total", "peer_embeddings"),
                _rate(f"{_S}node_features_total", "node features"),
                _rate(f"{_S}commits_total", "commits"),
                _rate(f"{_S}alerts_total", "alerts"),
            ),
        ),
        Panel("Records read", "ops", (_rate(f"{_S}records_read_total", "{{topic}}", "topic"),)),
        Panel("CPU", "percentunit", (("rate(process_cpu_seconds_totalHERE[$__rate_interval])", "{{instance}}"),)),
        Panel("Memory", "bytes", (_each("process_resident_memory_bytes"),)),
        Panel("Open files", "short", (_each("process_open_fds"),)),
    ),
    "What does the state need?": (
        Panel(
            "Lookups that miss the cache",
            "percentunit",
            ((_MISSES, "misses"),),
        ),
        Panel(
            "Cache",
            "bytes",
            (
                (f"max by (instance) ({_S}cache_used_bytesHERE)", "{{instance}}"),
                (f"max({_S}cache_limit_bytesHERE)", "serving.cache_bytes"),
            ),
        ),
        Panel(
            "Disk",
            "bytes",
            (
                (f"max by (instance) ({_S}state_disk_free_bytesHERE)", "free, {{instance}}"),
                (f"sum by (instance) ({_S}rocksdb_files_bytesHERE)", "RocksDB, {{instance}}"),
            ),
        ),
        Panel("Memory of RocksDB", "bytes", (_each(f"{_S}rocksdb_memory_bytes", "instance, part"),)),
        Panel(
            "RocksDB's debts",
            "bytes",
            (
                (f"sum by (instance) ({_S}rocksdb_pending_compaction_bytesHERE)", "to compact, {{instance}}"),
                (f"sum by (instance) ({_S}rocksdb_stopped_partitionsHERE)", "stopped partitions, {{instance}}"),
            ),
        ),
        Panel(
            "Keys, and what was damaged",
            "short",
            (
                (f"sum by (instance) ({_S}rocksdb_keysHERE)", "keys, {{instance}}"),
                (f"sum by (instance) ({_S}damaged_partitions_totalHERE)", "damaged, {{instance}}"),
            ),
        ),
    ),
    "Is the group at rest?": (
        Panel(
            "Partitions with and without worker",
            "short",
            (
                (f"sum by (topic) ({_S}assigned_partitionsHERE)", "{{topic}}: with a worker"),
                (f"max by (topic) ({_S}topic_partitionsHERE)", "{{topic}}: there are"),
            ),
        ),
        Panel(
            "Rebalances",
            "short",
            (
                (f"max by (instance) ({_S}rebalancingHERE)", "under way, {{instance}}"),
                (f"increase({_S}rebalances_totalHERE[$__rate_interval])", "begun, {{instance}}"),
                (f"increase({_S}fenced_batches_totalHERE[$__rate_interval])", "batches given up, {{instance}}"),
                (f"max({_S}group_generationHERE)", "generation"),
            ),
        ),
        Panel(
            "Heartbeat and brokers",
            "s",
            (
                (f"max by (instance) ({_S}heartbeat_age_secondsHERE)", "heartbeat's age, {{instance}}"),
                (f"min by (instance) ({_S}brokers_answerHERE)", "a broker answers, {{instance}}"),
            ),
        ),
        Panel("Recovery: records left", "short", (_each(f"{_S}recovery_remaining_records"),)),
        Panel("Version", "short", (_each(f"{_S}build_info", "instance, version"),), "stat"),
    ),
    "How good is the model?": (
        Panel(
            "AUC and average precision",
            "short",
            (
                (f"max by (head) ({_S}quality_aucHERE)", "AUC {{head}}"),
                (f"max by (head) ({_S}quality_average_precisionHERE)", "AP {{head}}"),
                (f"max({_S}quality_link_average_precisionHERE)", "AP of links"),
            ),
        ),
        Panel(
            "Probabilities and alerts",
            "short",
            (
                (f"max by (head) ({_S}quality_calibration_errorHERE)", "off by, {{head}}"),
                (f"max by (head) ({_S}quality_alert_precision_ratioHERE)", "alerts that came true, {{head}}"),
            ),
        ),
        Panel(
            "KnownAnswers",
            "short",
            (
                (f"max by (head) ({_S}quality_answersHERE)", "{{head}}"),
                (f"max by (head) ({_S}quality_immature_answersHERE)", "too new, {{head}}"),
            ),
        ),
        Panel(
            "Model",
            "short",
            (
                (f"max by (instance) ({_S}model_versionHERE)", "version, {{instance}}"),
                (f"max({_S}reencoded_model_versionHERE)", "all peer embeddings are of"),
                (f"sum({_S}model_switches_totalHERE)", "switches"),
                (f"sum({_S}refused_releases_totalHERE)", "refused releases"),
            ),
        ),
        Panel("Release", "short", (_each(f"{_S}model_info", "release, version"),), "stat"),
        Panel(
            "Renewal and drift",
            "short",
            (
                (f"max by (state) ({_S}renewal_stateHERE)", "{{state}}"),
                (f"sum({_S}renewal_runningHERE)", "processes"),
                (f"sum({_S}renewal_failures_totalHERE)", "ended by themselves"),
                (f"max({_S}quality_driftingHERE)", "drifting scores and features"),
                (f"time() - max({_S}quality_report_timestamp_secondsHERE)", "age of the report, s"),
            ),
        ),
    ),
}


def dashboard() -> dict[str, Any]:
    """What Grafana imports."""
    panels: list[dict[str, Any]] = []
    top = 0
    for title, row in ROWS.items():
        panels.append(_place(len(panels), "row", title, (0, top, _WIDTH * _COLUMNS, 1)))
        top += 1
        for at, panel in enumerate(row):
            place = _WIDTH * (at % _COLUMNS), top + _HEIGHT * (at // _COLUMNS), _WIDTH, _HEIGHT
            panels.append(_place(len(panels), panel.kind, panel.title, place) | _content(panel))
        top += _HEIGHT * -(-len(row) // _COLUMNS)
    return {
        "title": "Streaming TGAT",
        "uid": "stream-tgat",
        "tags": ["stream-tgat"],
        "schemaVersion": 39,
        "editable": True,
        "refresh": "10s",
        "time": {"from": "now-1h", "to": "now"},
        "templating": {
            "list": [
                {"name": "source", "label": "Prometheus", "type": "datasource", "query": "prometheus"},
                {
                    "name": "job",
                    "type": "query",
                    "datasource": _DATA_SOURCE,
                    "query": f"label_values({_S}ready, job)",
                    "refresh": 2,
                    "includeAll": True,
                    "multi": True,
                    "current": {"text": "All", "value": "$__all"},
                },
            ]
        },
        "panels": panels,
    }


def _place(number: int, kind: str, title: str, place: tuple[int, int, int, int]) -> dict[str, Any]:
    x, y, w, h = place
    return {"id": number + 1, "type": kind, "title": title, "gridPos": {"x": x, "y": y, "w": w, "h": h}}


def _content(panel: Panel) -> dict[str, Any]:
    return {
        "datasource": _DATA_SOURCE,
        "description": panel.description,
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []},
        "targets": [
            {
                "refId": chr(ord("A") + at),
                "datasource": _DATA_SOURCE,
                "expr": expression.replace("HERE", _HERE),
                "legendFormat": legend,
            }
            for at, (expression, legend) in enumerate(panel.lines)
        ],
    }


def content() -> str:
    """The file."""
    return json.dumps(dashboard(), indent=2) + "\n"


if __name__ == "__main__":
    FILE.write_text(content())
