"""Local state that is damaged is rebuilt from the changelog by the worker that finds it, and nothing is lost."""

from __future__ import annotations

from pathlib import Path

from broker import Broker

from tests.integration.equality.checks import assert_equal
from tests.integration.equality.damage import KINDS
from tests.integration.equality.scenarios import deploy
from tests.integration.equality.streams import random_log


def test_each_kind_of_damage_is_told_rebuilt_and_changes_nothing(
    broker: Broker, topic_prefix: str, tmp_path: Path
) -> None:
    log = random_log(300, seed=41)
    deployment, oracle = deploy(broker.bootstrap_servers, tmp_path, topic_prefix, log)
    oracle.take(log.records)
    half = len(log.records) // 2
    with deployment:
        deployment.produce(log.records[:half])
        worker = deployment.start("a")
        deployment.wait_until("half is done", lambda: len(deployment.outputs.embeddings) > half // 2)
        deployment.stop()
        folders = sorted(deployment.data("a").glob("**/tables/graph-?.db"))
        assert len(folders) == 4
        for partition, folder in enumerate(folders):
            assert list(folder.glob("*.sst")), "the state was not written to files yet"
            KINDS[partition](folder)
        worker = deployment.start("a")
        deployment.produce(log.records[half:])
        deployment.wait_for(len(oracle.embeddings))
        deployment.stop()
        assert_equal(deployment, oracle)
        said = worker.said()
        for partition in range(4):
            assert f"The local state of table graph, partition {partition}, is damaged" in said
        assert len(list(folders[0].parent.glob("*.damaged-*"))) == 4
        assert "Traceback" not in said
