"""Workers that are killed, frozen, stopped, and that come and go."""

from __future__ import annotations

import shutil
import signal
import time

from tests.faults.scenarios.register import scenario
from tests.faults.trial import SESSION_S, Trial
from tests.integration.equality.streams import random_log

_STOPS_WITHIN_S = 10.0


@scenario
def killed_workers(trial: Trial) -> None:
    """Ten times one of two workers is killed (SIGKILL), while it starts, recovers or computes; twice with its disk."""
    trial.begin(random_log(1500, seed=trial.outcome.seed, bipartite=False), 75, "a", "b")
    lost = trial.random.choice(10, 2, replace=False)
    for n in range(10):
        trial.pause(0.5, 7.0)
        with trial.fault():
            worker = trial.one()
            worker.kill()
            if n in lost:
                shutil.rmtree(trial.deployment.data(worker.name), ignore_errors=True)
    trial.finish()


@scenario
def frozen_workers(trial: Trial) -> None:
    """A worker is stopped (SIGSTOP) for longer than the group waits for it, others take over, and it wakes up."""
    trial.begin(random_log(900, seed=trial.outcome.seed), 45, "a", "b")
    for _ in range(2):
        trial.pause(3.0, 7.0)
        with trial.fault():
            worker = trial.one()
            worker.process.signal(signal.SIGSTOP)
            trial.pause(2 * SESSION_S)
            worker.process.signal(signal.SIGCONT)
    trial.finish()


@scenario
def three_one_four_workers(trial: Trial) -> None:
    """Of three workers two leave, and while the third recovers their partitions three others come."""
    trial.begin(random_log(1200, seed=trial.outcome.seed, users=40, items=30), 50, "a", "b", "c")
    trial.pause(5.0, 9.0)
    with trial.fault():
        trial.leave("b").kill()
        trial.leave("c").terminate()
    trial.pause(0.5, SESSION_S)
    with trial.fault():
        trial.start("b", "d", "e")
    trial.pause(6.0, 10.0)
    with trial.fault():
        for name in ("a", "d", "e"):
            trial.leave(name).kill()
    trial.finish()


@scenario
def stopped_workers(trial: Trial) -> None:
    """Busy workers get SIGTERM: each ends within 10 s with status 0, all is committed, and nothing comes twice."""
    trial.begin(random_log(900, seed=trial.outcome.seed), 45, "a")
    for _ in range(3):
        trial.until_said("a", "Worker ready")
        trial.pause(1.0, 4.0)
        with trial.fault():
            worker = trial.wanted["a"]
            asked = time.monotonic()
            worker.terminate()
            status = worker.wait_for_end(60.0)
            took = time.monotonic() - asked
            assert status == 0, f"status {status}:\n{worker.said()[-3000:]}"
            assert took <= _STOPS_WITHIN_S, f"it took {took:.1f} s to stop:\n{worker.said()[-3000:]}"
    trial.finish()
    assert trial.outcome.repeats == 0, f"{trial.outcome.repeats} embeddings came twice although all was committed"


@scenario
def stopped_at_once(trial: Trial) -> None:
    """A second SIGTERM ends a busy worker at once, whatever it was about to finish."""
    trial.deploy(random_log(600, seed=trial.outcome.seed))
    trial.start("a", SLOW_OUTPUTS_S="0.5")
    trial.flow(35)
    for _ in range(2):
        trial.until_said("a", "Worker ready")
        trial.pause(1.0, 3.0)
        with trial.fault():
            worker = trial.wanted["a"]
            worker.terminate()
            time.sleep(0.1)
            worker.terminate()
            asked = time.monotonic()
            worker.wait_for_end(60.0)
            assert time.monotonic() - asked < 2.0, worker.said()[-3000:]
    trial.finish()


@scenario
def jumping_clocks(trial: Trial) -> None:
    """The clock of one of two workers jumps by hours, ahead and back, while both compute."""
    trial.deploy(random_log(800, seed=trial.outcome.seed))
    trial.start("a", CLOCK_JUMPS="8:3600,14:-7200,20:0")
    trial.start("b")
    trial.flow(40)
    for seconds in (10.0, 6.0, 6.0):
        with trial.fault():
            trial.pause(seconds)
    trial.finish()
