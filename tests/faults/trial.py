"""One trial of a scenario: a deployment under steady traffic, things that go wrong, and the comparison at the end.

Workers are supervised as a deployment would have them: who ends by itself is started again, and that is counted.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from broker import Broker
from kafka.errors import KafkaError

from tests.integration.equality.checks import Report, assert_equal
from tests.integration.equality.deployment import Deployment
from tests.integration.equality.flow import Flow
from tests.integration.equality.oracle import Oracle
from tests.integration.equality.scenarios import FAULTY, deploy
from tests.integration.equality.settings import Settings
from tests.integration.equality.streams import Log
from tests.integration.equality.workers import Worker

SESSION_S = 4.0
"""After so long without a heartbeat a worker's partitions go to others."""
_PATIENCE_S = 240.0


class UnavailableError(Exception):
    """The machine cannot play the scenario; the message says why."""


@dataclass
class RetrainResult:
    """What a trial has shown.

    faults: how many were injected   restarts: workers that ended without being told to, and were started again
    recoveries_s: for each fault, from its end to the first new embedding
    """

    scenario: str
    seed: int
    result: str = "equal"
    seconds: float = 0.0
    faults: int = 0
    restarts: int = 0
    recoveries_s: list[float] = field(default_factory=list)
    embeddings: int = 0
    alerts: int = 0
    dead_letters: int = 0
    repeats: int = 0
    difference: float = 0.0
    rows: int = 0

    @property
    def failed(self) -> bool:
        """Whether something differed or did not come."""
        return self.result.startswith("FAILED")

    @property
    def played(self) -> bool:
        """Whether this machine could play it."""
        return not self.result.startswith("not played")

    def line(self) -> str:
        """What is printed of it."""
        recovery = f", recovered in {max(self.recoveries_s):.1f} s at most" if self.recoveries_s else ""
        said = f"{self.faults} faults, {self.restarts} restarts, {self.embeddings:,} embeddings{recovery}"
        return f"{self.scenario} (seed {self.seed}): {self.result}; {said}; {self.seconds:.0f} s"

    def take(self, report: Report, dead_letters: int) -> None:
        """What was compared."""
        self.embeddings, self.alerts, self.rows = report.embeddings, report.alerts, report.rows
        self.dead_letters, self.repeats = dead_letters, report.repeats
        self.difference = max(
            report.embedding_difference, report.prediction_difference, report.peer_embedding_difference
        )


class Trial:
    """What a scenario works with; a context manager that leaves no process behind.

    brokers: those that the trial runs on   length: of the traffic and of the time between faults, times the usual
    """

    def __init__(
        self, scenario: str, seed: int, brokers: Sequence[Broker], folder: Path, prefix: str, length: float = 1.0
    ) -> None:
        self.random = np.random.default_rng([seed, *scenario.encode()])
        self.brokers, self.folder, self.prefix, self.length = brokers, folder, prefix, length
        self.outcome = RetrainResult(scenario, seed)
        self.deployment: Deployment
        self.oracle: Oracle
        self.wanted: dict[str, Worker] = {}
        self.cleanup = ExitStack()
        self._environment: dict[str, dict[str, str]] = {}
        self._flow: Flow | None = None
        self._healed: tuple[float, int] | None = None

    @property
    def servers(self) -> str:
        """Addresses for the clients."""
        return ",".join(broker.bootstrap_servers for broker in self.brokers)

    def close(self) -> None:
        """End what still runs."""
        if hasattr(self, "deployment"):
            self.deployment.__exit__(None, None, None)
        self.cleanup.close()

    def deploy(self, log: Log, settings: Settings | None = None, *, expected: Log | None = None) -> None:
        """Topics, a release and the oracle for a log. expected: what counts of it, if that is not all of it"""
        self.deployment, self.oracle = deploy(self.servers, self.folder, self.prefix, expected or log, settings)
        self.deployment.log = log
        self.oracle.take((expected or log).records)

    def begin(self, log: Log, seconds: float, *names: str, expected: Log | None = None) -> None:
        """The usual beginning: deploy a log, start these workers, and let it arrive over so many seconds."""
        self.deploy(log, expected=expected)
        self.start(*names)
        self.flow(seconds)

    def start(self, *names: str, **environment: str) -> None:
        """Start workers, and have them started again whenever they end."""
        for name in names:
            self._environment[name] = environment
            self.wanted[name] = self.deployment.start(
                name, FAULTY, **{"SESSION_S": str(SESSION_S), "SLOW_OUTPUTS_S": "0.02", **environment}
            )

    def leave(self, name: str) -> Worker:
        """A worker that is not to be started again when it ends."""
        worker = self.wanted.pop(name)
        worker.expected_to_end = True
        return worker

    def one(self) -> Worker:
        """A worker that runs, chosen at random."""
        running = [name for name, worker in sorted(self.wanted.items()) if worker.running]
        return self.wanted[str(self.random.choice(running))]

    def flow(self, seconds: float) -> None:
        """Let the log arrive steadily for so long."""
        seconds *= self.length
        at_once = max(1, round(len(self.deployment.log.records) / (seconds * 20)))
        pause_s = seconds * at_once / len(self.deployment.log.records)
        self._flow = Flow(self.deployment, pause_s, at_once, _PATIENCE_S)
        self._flow.start()

    def pause(self, least_s: float, most_s: float | None = None) -> None:
        """Let it run for a while, at random between these, as the length has it."""
        seconds = least_s if most_s is None else self.length * float(self.random.uniform(least_s, most_s))
        self._run(lambda: False, seconds)

    def until(self, what: str, condition: Callable[[], bool], timeout_s: float = 120.0) -> None:
        """Let it run until something holds; AssertionError when it does not come about."""
        if not self._run(condition, timeout_s):
            said = "\n".join(f"--- {name}\n{worker.said()[-2500:]}" for name, worker in self.wanted.items())
            came = f"{len(self.deployment.outputs.embeddings)} embeddings came"
            raise AssertionError(f"not within {timeout_s:.0f} s: {what}; {came}\n{said}")

    def until_said(self, name: str, text: str, timeout_s: float = 120.0) -> None:
        """Let it run until a worker has logged that text."""
        self.until(f"{name} says {text!r}", lambda: text in self.wanted[name].said(), timeout_s)

    @contextmanager
    def fault(self) -> Iterator[None]:
        """Something goes wrong within; recovery counts from its end."""
        self._read()
        self.outcome.faults += 1
        yield
        self._read()
        self._healed = (time.monotonic(), len(self.deployment.outputs.embeddings))

    def kill_workers(self, times: int, least_s: float, most_s: float) -> None:
        """Kill one at random so often, each time after a while between these."""
        for _ in range(times):
            self.pause(least_s, most_s)
            with self.fault():
                self.one().kill()

    def finish(self, timeout_s: float = 240.0) -> None:
        """Everything arrives, all workers stop cleanly, and all is compared with the single pass."""
        assert self._flow is None or self._flow.running or not self.outcome.faults, "the last fault hit idle workers"
        self.until("all is produced", lambda: self._flow is None or not self._flow.running, timeout_s)
        if self._flow is not None:
            self._flow.join()
        expected = len(self.oracle.embeddings)
        self.until(f"{expected} embeddings", lambda: len(self.deployment.outputs.embeddings) >= expected, timeout_s)
        self.stop()
        self.compare()

    def stop(self) -> None:
        """Stop all workers as an operator would."""
        self.wanted.clear()
        self.deployment.stop()

    def compare(self) -> None:
        """Outputs and state with the oracle's, with all workers stopped."""
        self.outcome.take(assert_equal(self.deployment, self.oracle), len(self.oracle.dead_letters))

    def _run(self, condition: Callable[[], bool], seconds: float) -> bool:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            self._supervise()
            self._read()
            if condition():
                return True
            time.sleep(0.05)
        return False

    def _read(self) -> None:
        try:
            self.deployment.read()
        except (KafkaError, KeyError):
            # The brokers are away or only just back (the client has a KeyError for a partition without a leader): what
            # they hold is read the next time.
            return
        if self._healed is not None:
            since, known = self._healed
            if len(self.deployment.outputs.embeddings) > known:
                self.outcome.recoveries_s.append(time.monotonic() - since)
                self._healed = None

    def _supervise(self) -> None:
        for name, worker in list(self.wanted.items()):
            if not worker.running:
                if not worker.expected_to_end:
                    self.outcome.restarts += 1
                self.start(name, **self._environment[name])
