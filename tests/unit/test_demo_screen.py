"""What the demo says at the end is what was measured."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import orjson
import pytest
from live import Tally, Watcher
from renewal import Renewal
from rich.console import Console
from screen import summary_panel

from stream_tgat.topology import Topology


def summary(p50: float | None, p99: float | None) -> dict[str, Any]:
    head = dict.fromkeys(
        ("auc", "boosted_trees_auc", "trivial_auc", "average_precision", "boosted_trees_average_precision"), 0.5
    )
    return {
        "interactions": 10, "embeddings": 20, "alerts": 1, "dead_letters": 0, "events_per_s": 3000.0,
        "latency_p50_ms": 50.0, "latency_p99_ms": 90.0, "live_rate_per_s": 860.0, "retrained": True, "promoted": True,
        "retraining_s": 25.0, "auc_before": 0.6, "auc_after": 0.7, "decision": "better",
        "heads": {"pet": {**head, "targets": 7, "base_rate": 0.1}},
        "retraining_latency_p50_ms": p50, "retraining_latency_p99_ms": p99,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("p50", "p99", "told"), [(53.0, 88.0, "p50 53 ms   p99 88 ms"), (None, None, "not measured")], ids=["live", "over"]
)
def test_latency_beside_a_retraining_is_told_only_where_it_was_measured(
    p50: float | None, p99: float | None, told: str
) -> None:
    console = Console(width=120, file=io.StringIO())
    with console.capture() as drawn:
        console.print(summary_panel(summary(p50, p99)))
    (line,) = [line for line in drawn.get().splitlines() if "latency meanwhile" in line]
    assert told in line
    assert "p50 0 ms" not in line


def test_latency_is_until_the_broker_had_the_embedding_whenever_the_demo_comes_round_to_it() -> None:
    watcher = Watcher(Topology(name="x"))
    watcher.produced_at["a"] = 1_000.0
    for side, written in enumerate((1_000.05, 1_000.25)):
        content = {"id": f"a/{side}", "interaction": "a", "node": "n", "timestamp": 5.0, "model": 1, "predictions": {}}
        watcher._embedding(orjson.dumps(content), written)
    assert watcher.tally.latency_ms(0) == pytest.approx(50.0, abs=1e-3)
    assert watcher.tally.latency_ms(100) == pytest.approx(250.0, abs=1e-3)
    assert watcher.tally.latency_ms_between(1_000.0, 1_000.1, 100) == pytest.approx(50.0, abs=1e-3)
    assert watcher.tally.latency_ms_except(1_000.0, 1_000.1, 0) == pytest.approx(250.0, abs=1e-3)
    assert watcher.tally.latency_ms_except(1_000.0, 1_000.3, 0) is None
    assert (watcher.tally.first_at, watcher.tally.last_at) == (1_000.05, 1_000.25)


@pytest.mark.parametrize(
    ("began", "ended", "live", "meanwhile"),
    [(100.0, 200.0, 20.0, 900.0), (100.0, 0.0, 10.0, 465.0), (0.0, 0.0, 30.0, None)],
    ids=["retrained", "not yet", "never"],
)
def test_latency_beside_a_retraining_is_not_taken_for_that_of_the_stream(
    tmp_path: Path, began: float, ended: float, live: float, meanwhile: float | None
) -> None:
    tally = Tally()
    tally.arrived.extend([50.0, 150.0, 250.0])
    tally.latencies_s.extend([0.010, 0.900, 0.030])
    told = Renewal(tmp_path / "log", began=began, ended=ended).summary(Topology(name="x"), tally, 1)
    assert told["latency_p50_ms"] == pytest.approx(live)
    assert told["retraining_latency_p50_ms"] == pytest.approx(meanwhile)
