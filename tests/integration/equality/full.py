"""Equality at full size: real interactions through a real broker, whatever happens to the workers.

    python -m tests.integration.equality.full --data groceries --interactions 20000 --scenario all

Prints one line per scenario and fails at the first difference. The same code runs at a small size in `make test`.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
import uuid
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "deploy"))
os.environ.setdefault("OMP_NUM_THREADS", "1")

from broker import Broker
from rich.console import Console
from rich.table import Table

from tests.integration.equality.checks import Report, assert_equal
from tests.integration.equality.scenarios import SCENARIOS, Play, deploy
from tests.integration.equality.settings import Settings
from tests.integration.equality.streams import Log, grocery_log, random_log, wikipedia_log

LOGS = {"groceries": grocery_log, "wikipedia": wikipedia_log, "random": random_log}


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--data", choices=[*LOGS], default="groceries")
    parser.add_argument("--interactions", type=int, default=20_000)
    parser.add_argument("--scenario", choices=[*SCENARIOS, "all"], default="all")
    parser.add_argument("--partitions", type=int, default=8)
    parser.add_argument("--timeout", type=float, default=600.0, help="seconds until a step must be done")
    options = parser.parse_args()
    log = LOGS[options.data](options.interactions, partitions=options.partitions)
    chosen = [*SCENARIOS] if options.scenario == "all" else [options.scenario]
    with tempfile.TemporaryDirectory() as folder, Broker(Path(folder) / "broker") as broker:
        rows = []
        for name in chosen:
            report, seconds = run(broker.bootstrap_servers, Path(folder) / name, log, name, options.timeout)
            print(f"{name}: {report} in {seconds:.0f} s", flush=True)
            rows.append((name, report, seconds))
    show(options.data, log, rows)


def run(servers: str, folder: Path, log: Log, scenario: str, timeout_s: float) -> tuple[Report, float]:
    """One scenario: the report and the seconds that the workers took."""
    settings = Settings(cache_bytes=64 << 20, micro_batch=256, window_bytes=64 << 20, max_pending=100_000)
    prefix = f"f{uuid.uuid4().hex[:6]}-"
    deployment, oracle = deploy(servers, folder, prefix, log, settings)
    with deployment:
        oracle.take(log.records)
        started = time.monotonic()
        SCENARIOS[scenario](deployment, len(oracle.embeddings), Play(timeout_s, slow_s=0.1))
        seconds = time.monotonic() - started
        return assert_equal(deployment, oracle), seconds


def show(data: str, log: Log, rows: list[tuple[str, Report, float]]) -> None:
    """One line per scenario."""
    interactions = sum(record.value is not None for record in log.records)
    table = Table(title=f"{interactions:,} interactions of {data}, {log.partitions} partitions")
    for heading in (
        "scenario",
        "embeddings",
        "max |Δ| embedding",
        "prediction",
        "peer_embedding",
        "repeats",
        "max |Δ| of repeats",
        "alerts",
        "nodes",
        "rows",
        "seconds",
    ):
        table.add_column(heading, justify="left" if heading == "scenario" else "right")
    for name, report, seconds in rows:
        table.add_row(
            name,
            f"{report.embeddings:,}",
            f"{report.embedding_difference:.1e}",
            f"{report.prediction_difference:.1e}",
            f"{report.peer_embedding_difference:.1e}",
            f"{report.repeats:,}",
            f"{report.repeat_difference:.1e}",
            f"{report.alerts:,}",
            f"{report.nodes:,}",
            f"{report.rows:,}",
            f"{seconds:.0f}",
        )
    Console(width=160).print(table)


if __name__ == "__main__":
    main()
