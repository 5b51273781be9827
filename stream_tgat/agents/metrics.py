"""What a worker counts. Names, units and meanings are here and nowhere else."""

from collections import Counter
from dataclasses import dataclass, field, fields
from typing import Final

from stream_tgat.wire import QualityReport
from stream_tgat.wire.packets import Source

_OF_NOW: Final = ("model", "reencoded", "pending", "held_back_s")


@dataclass(slots=True)
class Metrics:
    """Counters since the start of this worker; some are values of now, as their help says."""

    interactions: int = field(default=0, metadata={"help": "interactions read, decoded and handed to their nodes"})
    nodes: int = field(default=0, metadata={"help": "records with node features handed to their nodes"})
    dead_letters: int = field(default=0, metadata={"help": "records that could not be used"})
    unknown_labels: int = field(default=0, metadata={"help": "labels that no head of the topology learns"})
    half_edges: int = field(default=0, metadata={"help": "half-edges received, two for each interaction"})
    arrived_behind: int = field(
        default=0, metadata={"help": "half-edges that came after a later one of their node had been computed"}
    )
    messages: int = field(default=0, metadata={"help": "memos received from the other ends of interactions"})
    embeddings: int = field(default=0, metadata={"help": "embeddings sent, two for each interaction"})
    alerts: int = field(default=0, metadata={"help": "alerts sent"})
    forced: int = field(default=0, metadata={"help": "rows computed without all their memos, after max_wait_s"})
    stale_rows: int = field(
        default=0, metadata={"help": "rows computed from what an older model had made, once for each layer"}
    )
    duplicates: int = field(default=0, metadata={"help": "half-edges that a worker sent again, skipped"})
    repeats: int = field(
        default=0, metadata={"help": "interactions dropped: id, user, item and timestamp are those of one before"}
    )
    differing_repeats: int = field(
        default=0, metadata={"help": "of the repeats, those with other features than the first, whose features stay"}
    )
    commits: int = field(default=0, metadata={"help": "commits of a partition"})
    fenced: int = field(default=0, metadata={"help": "batches given up because the partitions may have a new owner"})
    damaged: int = field(
        default=0, metadata={"help": "times that a partition's local state was damaged, set aside and recovered"}
    )
    switches: int = field(default=0, metadata={"help": "times that another model took over while this worker ran"})
    refused_releases: int = field(default=0, metadata={"help": "promoted releases that this worker could not serve"})
    model: int = field(default=-1, metadata={"help": "version of the model that serves, now"})
    reencoded: int = field(
        default=-1, metadata={"help": "newest model whose memos all rows have been given; -1 for none, now"}
    )
    inexact_memos: int = field(
        default=0, metadata={"help": "memos given anew from a log that was cut at its beginning, so they may differ"}
    )
    hanging_transactions: int = field(
        default=0, metadata={"help": "partitions that a transaction holds back which does not end, now"}
    )
    window_stalls: int = field(
        default=0, metadata={"help": "times that ingest waited as a partition of propagation held window_bytes unread"}
    )
    window_stalled_ms: int = field(default=0, metadata={"help": "milliseconds that ingest waited for that"})
    pending: int = field(default=0, metadata={"help": "rows that wait for a watermark or for memos, now"})

    # `arrived_behind` by partition of `interactions`
    behind_by_source: Counter[int] = field(default_factory=Counter)
    # The sources that rows wait for, now: seconds since when their watermark stands still, once that is long
    held_back_s: dict[Source, int] = field(default_factory=dict)

    def as_dict(self) -> dict[str, int]:
        """All values by name; some have one for each partition N that they are about.

        arrived_behind_interactions_N   held_back_s_interactions_N, held_back_s_nodes_N
        """
        counts = {each.name: getattr(self, each.name) for each in fields(self) if "help" in each.metadata}
        by_source = sorted(self.behind_by_source.items())
        counts |= {f"arrived_behind_interactions_{partition}": count for partition, count in by_source}
        held = sorted(self.held_back_s.items())
        return counts | {f"held_back_s_{source.topic.name.lower()}_{source.partition}": s for source, s in held}

    def changes(self, before: dict[str, int]) -> str:
        """A line for the log: what is not zero, with what was added since `before`."""
        parts = []
        for name, value in self.as_dict().items():
            added = value - before.get(name, 0)
            if name.startswith(_OF_NOW):
                parts.append(f"{name} {value:,}")
            elif value:
                parts.append(f"{name.replace('_', ' ')} {value:,} (+{added:,})")
        return ", ".join(parts)


def quality_metrics(report: QualityReport) -> dict[str, float]:
    """Live quality of the model that serves, by name; what is not known has no entry.

    auc_HEAD, average_precision_HEAD, calibration_error_HEAD, alert_precision_HEAD: over its newest answers
    answers_HEAD: how many these are   immature_HEAD: answers that are left out as their question is too new
    link_average_precision: real pairs against sampled ones   drifting: scores and features that have drifted
    quality_created: unix seconds at which all this was found
    """
    found: dict[str, float | None] = {}
    for head in report.heads:
        figures = None if report.model is None else head.by_model.get(report.model)
        if figures is not None:
            found |= {
                f"auc_{head.head}": figures.auc,
                f"average_precision_{head.head}": figures.average_precision,
                f"calibration_error_{head.head}": figures.calibration_error,
                f"alert_precision_{head.head}": figures.alert_precision,
                f"answers_{head.head}": figures.count,
            }
        found[f"immature_{head.head}"] = head.immature
    for links in report.links:
        if links.model == report.model:
            found["link_average_precision"] = links.average_precision
    found |= {"drifting": len(report.drift), "quality_created": report.created}
    return {name: value for name, value in found.items() if value is not None}
