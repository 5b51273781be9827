"""Workers that keep their place in the group over a restart: nobody else notices, and nothing is lost."""

from __future__ import annotations

import re
import signal
from pathlib import Path

import numpy as np
from broker import Broker

from tests.integration.equality.checks import assert_equal
from tests.integration.equality.deployment import Deployment
from tests.integration.equality.scenarios import FAULTY, deploy
from tests.integration.equality.settings import Settings
from tests.integration.equality.streams import random_log
from tests.integration.equality.workers import Worker

SESSION_S = 80.0


def start(deployment: Deployment, name: str) -> Worker:
    return deployment.start(name, FAULTY, KAFKA_STATIC_MEMBERSHIP="true", SESSION_S=str(SESSION_S))


def partitions(worker: Worker) -> list[str]:
    """What it has worked on, once for each time that it recovered."""
    return re.findall(r"Works on (.*)", worker.said())


def test_restarted_static_member_goes_on_and_others_see_no_rebalance(
    broker: Broker, topic_prefix: str, tmp_path: Path
) -> None:
    log = random_log(1500, seed=31, users=40, items=30, ids=20)
    deployment, oracle = deploy(broker.bootstrap_servers, tmp_path, topic_prefix, log, Settings(micro_batch=16))
    with deployment:
        oracle.take(log.records)
        workers = {}
        for name in "ab":
            workers[name] = start(deployment, name)
            deployment.wait_until_said(workers[name], "Worker ready")
        deployment.wait_until("both have their share", lambda: len(set(map(_last, workers.values()))) == 2)
        before = {name: partitions(worker) for name, worker in workers.items()}
        parts = iter(np.array_split(np.arange(len(log.records)), 5))

        def produce() -> None:
            part = next(parts)
            deployment.produce(log.records[part[0] : part[-1] + 1])

        # The first to come leads the group, so both a follower and the leader are restarted.
        for name, other, end in (("b", "a", signal.SIGTERM), ("a", "b", signal.SIGKILL)):
            produce()
            deployment.wait_for(len(deployment.outputs.embeddings) + 50)
            workers[name].expected_to_end = True
            workers[name].process.signal(end)
            workers[name].wait_for_end()
            produce()
            workers[name] = start(deployment, name)
            deployment.wait_until_said(workers[name], "Works on ")
            deployment.wait_for(len(deployment.outputs.embeddings) + 50)
            assert partitions(workers[name]) == before[name][-1:]
            # It has stood still for nobody: a rebalance would have had it recover once more.
            assert partitions(workers[other]) == before[other]
            before[name] = partitions(workers[name])

        produce()
        deployment.wait_for(len(oracle.embeddings))
        deployment.stop()
        assert_equal(deployment, oracle)


def _last(worker: Worker) -> str:
    return (partitions(worker) or [""])[-1]
