"""What the demo tells of the model that renews itself: its worker's log meanwhile, its release's card afterwards."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from live import Tally

from stream_tgat.topology import Topology
from stream_tgat.training.card import ReleaseCard
from stream_tgat.training.registry import ReleaseStore

_LINE = re.compile(r"renewal: (.*)")
_BEGAN = "Retraining: "
_ENDED = re.compile(r"Release (\S+) (serves|is kept)|The model could not be renewed")


@dataclass
class Renewal:
    """Follows a worker's log. said: the newest line of the process that renews the model

    began, ended: when the first retraining began and ended, by the clock; 0 before   release: that came of it
    """

    log: Path
    said: str = ""
    began: float = 0.0
    ended: float = 0.0
    release: str = ""
    _read: int = 0

    def look(self) -> None:
        """Read what the log has more than before."""
        with self.log.open("rb") as file:
            file.seek(self._read)
            text = file.read()
        complete = text[: text.rfind(b"\n") + 1]
        self._read += len(complete)
        for line in _LINE.findall(complete.decode(errors="replace")):
            self.said = line
            if line.startswith(_BEGAN) and not self.began:
                self.began = time.time()
            found = _ENDED.match(line)
            if found and not self.ended:
                self.ended, self.release = time.time(), found[1] or ""

    def summary(self, topology: Topology, tally: Tally, first_model: int) -> dict[str, Any]:
        """Whether a model was trained and promoted, how good both are on the same newest interactions, and how
        late embeddings were while a model was trained, and otherwise; mean AUC over the heads, None where nothing was
        trained.
        """
        began, ended = self.began or np.inf, self.ended or np.inf
        card = ReleaseStore(topology.releases.store).find(self.release).card if self.release else None
        return {
            "retrained": card is not None,
            "promoted": any(version > first_model for version in tally.models),
            "auc_before": None if card is None else _mean_auc(card, card.serving_metrics),
            "auc_after": None if card is None else _mean_auc(card, card.metrics),
            "decision": None if card is None or card.gate is None else card.gate.reason,
            "retraining_s": self.ended - self.began if card is not None else None,
            "latency_p50_ms": tally.latency_ms_except(began, ended, 50),
            "latency_p99_ms": tally.latency_ms_except(began, ended, 99),
            "retraining_latency_p50_ms": tally.latency_ms_between(began, ended, 50),
            "retraining_latency_p99_ms": tally.latency_ms_between(began, ended, 99),
            "embeddings_by_model": {str(version): count for version, count in sorted(tally.models.items())},
        }


def _mean_auc(card: ReleaseCard, metrics: dict[str, float | None]) -> float | None:
    """Over the heads for which both models have a number."""
    names = [f"heads.{head}.newest.auc" for head in card.config.head_names]
    both = [name for name in names if card.metrics.get(name) is not None and card.serving_metrics.get(name) is not None]
    return float(np.mean([metrics[name] for name in both])) if both else None
