"""A rolling upgrade: workers are replaced one by one under steady traffic, as static members of their group or not."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.integration.equality.checks import Report, assert_equal
from tests.integration.equality.deployment import Deployment
from tests.integration.equality.scenarios import deploy
from tests.integration.equality.settings import Settings
from tests.integration.equality.workers import Worker
from tests.rehearsals.traffic import PARTITIONS, Span, Traffic, embeddings_of, long_log, pauses, spread

_THRESHOLDS_OF = 2000
_PATIENCE_S = 300.0


@dataclass(frozen=True)
class Replaced:
    """What the replacement of a worker has cost. pauses_s: of each partition, its longest time without an embedding
    rebalances: how often the other workers were given partitions meanwhile, all together
    """

    worker: str
    away_s: float
    pauses_s: Sequence[float]
    rebalances: int

    def line(self) -> str:
        """What is printed of it."""
        return (
            f"worker {self.worker}: away {self.away_s:.1f} s; pause of a partition (least / median / most) "
            f"{spread(self.pauses_s)} s; {self.rebalances} rebalances of others"
        )


@dataclass(frozen=True)
class Rolled:
    """What a rolling upgrade has shown. rate: interactions a second that were produced"""

    replaced: Sequence[Replaced]
    report: Report
    rate: float


def rolling_upgrade(
    servers: str,
    folder: Path,
    prefix: str,
    *,
    static: bool,
    workers: int = 3,
    rate: float = 500.0,
    seconds: float = 180.0,
) -> Rolled:
    """Replace each of the workers once; AssertionError if what comes out is not what a single pass gives.

    seconds: how long there is traffic at most
    """
    log = long_log(rate, seconds, seed=51)
    first = log.with_records(log.records[:_THRESHOLDS_OF])
    deployment, oracle = deploy(servers, folder, prefix, first, Settings(cache_bytes=64 << 20, micro_batch=256))
    deployment.log = log
    with deployment:
        names = [f"worker-{n}" for n in range(workers)]
        running = {name: _start(deployment, name, static=static) for name in names}
        deployment.wait_until("all have a share", lambda: _is_shared(running.values()), _PATIENCE_S)
        traffic = Traffic(deployment, rate)
        traffic.start()
        spans, rebalances = [], []
        for name in names:
            _catch_up(deployment, traffic)
            before = _assignments(running, name)
            began = time.time()
            running[name].stop()
            running[name] = _start(deployment, name, static=static)
            deployment.wait_until_said(running[name], "Works on ", _PATIENCE_S)
            spans.append(Span(name, began, time.time()))
            _catch_up(deployment, traffic)
            rebalances.append(_assignments(running, name) - before)
        oracle.take(traffic.stop())
        deployment.wait_for(len(oracle.embeddings), _PATIENCE_S)
        deployment.stop()
        report = assert_equal(deployment, oracle)
        came = embeddings_of(deployment)
    replaced = [
        Replaced(span.name, span.seconds, pauses(came, span), count)
        for span, count in zip(spans, rebalances, strict=True)
    ]
    return Rolled(replaced, report, traffic.sent / traffic.seconds)


def _start(deployment: Deployment, name: str, *, static: bool) -> Worker:
    """From a fresh interpreter, as an orchestrator starts it."""
    return deployment.start(name, plain=True, KAFKA_STATIC_MEMBERSHIP=str(static).lower())


def _catch_up(deployment: Deployment, traffic: Traffic) -> None:
    """Wait until the embeddings of nearly all that was produced by now are out: a few records are no interactions."""
    goal = int(1.9 * traffic.sent)
    deployment.wait_for(max(goal, len(deployment.outputs.embeddings) + 50), _PATIENCE_S)


def _is_shared(workers: Iterable[Worker]) -> bool:
    """Whether all partitions are worked on, some by each."""
    shares = [set(re.findall(r"Works on .*propagation ([\d, ]+)", worker.said())[-1:]) for worker in workers]
    partitions = [number for share in shares for line in share for number in line.split(", ")]
    return all(shares) and len(partitions) == len(set(partitions)) == PARTITIONS


def _assignments(running: dict[str, Worker], but: str) -> int:
    return sum(worker.said().count("The group has assigned") for name, worker in running.items() if name != but)
