"""Local state that is damaged is rebuilt from the changelog by the worker that finds it, and nothing is lost."""

from __future__ import annotations

from tests.integration.equality.checks import finish
from tests.integration.equality.damage import KINDS
from tests.integration.equality.scenarios import Deployed
from tests.integration.equality.streams import random_log


def test_each_kind_of_damage_is_told_rebuilt_and_changes_nothing(deployed: Deployed) -> None:
    log = random_log(300, seed=41)
    deployment, oracle = deployed(log)
    half = len(log.records) // 2
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
    finish(deployment, oracle)
    said = worker.said()
    for partition in range(4):
        assert f"The local state of table graph, partition {partition}, is damaged" in said
    assert len(list(folders[0].parent.glob("*.damaged-*"))) == 4
    assert "Traceback" not in said
