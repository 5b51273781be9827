"""A worker that takes over goes on with the copy that it has kept on its own disk."""

from __future__ import annotations

from pathlib import Path

from broker import Broker

from tests.integration.equality.checks import assert_equal
from tests.integration.equality.scenarios import FAULTY, SESSION_S, deploy
from tests.integration.equality.settings import Settings
from tests.integration.equality.streams import random_log


def test_standby_takes_over_from_a_killed_worker_and_equals_single_pass(
    broker: Broker, topic_prefix: str, tmp_path: Path
) -> None:
    log = random_log(600, seed=33)
    settings = Settings(serving="standby_replicas = 1", micro_batch=16)
    deployment, oracle = deploy(broker.bootstrap_servers, tmp_path, topic_prefix, log, settings)
    with deployment:
        oracle.take(log.records)
        first, _ = (deployment.start(name, FAULTY, SESSION_S=SESSION_S) for name in "ab")
        half = len(log.records) // 2
        deployment.produce(log.records[:half])
        deployment.wait_for(half // 2)
        tables = [deployment.data(name) for name in "ab"]
        deployment.wait_until(
            "both have all partitions on disk",
            lambda: all(len([*data.glob("**/tables/graph-?.db")]) == log.partitions for data in tables),
        )
        first.kill()
        deployment.produce(log.records[half:])
        deployment.wait_for(len(oracle.embeddings))
        deployment.stop()
        assert_equal(deployment, oracle)
