"""What another version of the software has stored or sent ends a worker with a sentence, and is left as it was."""

from __future__ import annotations

import pytest

from stream_tgat.message_passing.progress import STATE_FORMAT
from stream_tgat.wire.packets import PACKET_FORMAT
from tests.integration.equality.scenarios import Deployed
from tests.integration.equality.settings import Settings
from tests.integration.equality.streams import random_log
from tests.integration.equality.workers import Worker

OTHER = "tests.integration.equality.other_version"
EVENTS = 100


def refuses(worker: Worker, *sentences: str) -> None:
    """It ends with status 1, and its last line is the reason."""
    assert worker.wait_for_end() == 1, worker.said()[-4000:]
    last = worker.said().rstrip().splitlines()[-1]
    for sentence in sentences:
        assert sentence in last, worker.said()[-4000:]
    assert "Traceback" not in worker.said(), worker.said()[-4000:]


@pytest.mark.parametrize(("form", "which"), [(STATE_FORMAT - 1, "an older"), (STATE_FORMAT + 1, "a newer")])
def test_state_of_another_version_is_refused_and_that_version_goes_on_with_it(
    deployed: Deployed, form: int, which: str
) -> None:
    log = random_log(EVENTS, seed=7)
    deployment, oracle = deployed(log, Settings(clock="wall"))
    deployment.produce(log.records[: EVENTS // 2])
    deployment.start("a", OTHER, OTHER_STATE_FORMAT=str(form))
    deployment.wait_for(EVENTS // 2)
    deployment.stop()
    told = (
        f"The state has format {form} and this version of stream-tgat reads format {STATE_FORMAT}",
        f"so {which} version",
    )
    refuses(deployment.start("a"), *told)
    # Nor is the state read where it comes from the changelog.
    refuses(deployment.start("b"), *told)
    deployment.start("a", OTHER, OTHER_STATE_FORMAT=str(form))
    deployment.produce(log.records[EVENTS // 2 :])
    deployment.wait_for(len(oracle.embeddings))
    deployment.stop()


def test_workers_of_two_versions_refuse_the_messages_of_each_other(deployed: Deployed) -> None:
    log = random_log(EVENTS, seed=7)
    deployment, _ = deployed(log, Settings(clock="wall"))
    other = deployment.start("a", OTHER, OTHER_PACKET_FORMAT=str(PACKET_FORMAT - 1))
    deployment.wait_until_said(other, "Works on")
    this = deployment.start("b")
    deployment.wait_until_said(this, "Works on")
    other.expected_to_end = this.expected_to_end = True
    deployment.produce()
    refuses(this, f"a packet of format {PACKET_FORMAT - 1}", f"reads format {PACKET_FORMAT}", "run only one of them")
    refuses(other, f"a packet of format {PACKET_FORMAT}", f"reads format {PACKET_FORMAT - 1}", "run only one of them")
