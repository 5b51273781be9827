"""How a worker that is asked to stop ends: soon, with everything committed; and at once when it is asked twice."""

from __future__ import annotations

import signal
import time

from tests.integration.equality.checks import finish
from tests.integration.equality.deployment import Deployment
from tests.integration.equality.scenarios import FAULTY, Deployed
from tests.integration.equality.settings import Settings
from tests.integration.equality.streams import random_log

# What orchestrators allow for between SIGTERM and SIGKILL.
PATIENCE_S = 10.0


def test_busy_worker_ends_within_ten_seconds_of_a_signal_and_at_once_after_a_second(deployed: Deployed) -> None:
    log = random_log(800, seed=21, users=40, items=30)
    deployment, oracle = deployed(log, Settings(micro_batch=16))
    deployment.produce()
    _end_gracefully(deployment, signal.SIGTERM, embeddings=100)
    _end_gracefully(deployment, signal.SIGINT, embeddings=400)
    deployment.assert_fewer_than(len(oracle.embeddings))
    assert deployment.outputs.repeats == 0, "something had left that was not committed"

    # Each send takes five seconds, so a graceful end does too.
    slow = deployment.start("a", FAULTY, SLOW_OUTPUTS_S="5")
    deployment.wait_until_said(slow, "Worker ready")
    time.sleep(2.0)
    slow.terminate()
    time.sleep(0.05)  # The first may not have been seen yet; without a moment between them they are one signal.
    asked_at = time.monotonic()
    slow.process.signal(signal.SIGINT)
    assert slow.wait_for_end() == 128 + signal.SIGINT
    assert time.monotonic() - asked_at < 1.0

    deployment.start("a")
    finish(deployment, oracle)


def _end_gracefully(deployment: Deployment, number: signal.Signals, embeddings: int) -> None:
    """Signal a worker in the middle of its work; all that it has sent is in its state then."""
    worker = deployment.start("a", FAULTY, SLOW_OUTPUTS_S="0.1")
    deployment.wait_for(embeddings)
    asked_at = time.monotonic()
    worker.process.signal(number)
    assert worker.wait_for_end() == 0, worker.said()[-3000:]
    assert time.monotonic() - asked_at < PATIENCE_S
    assert worker.said().rstrip().endswith("Stopped, as asked")
    deployment.read()
