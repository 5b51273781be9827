"""Models that cannot be loaded, must not serve, or take over while things go wrong."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from stream_tgat.training.promotion import promotions
from tests.faults.scenarios.register import scenario
from tests.faults.trial import Trial
from tests.integration.equality.oracle import TOLERANCE
from tests.integration.equality.streams import random_log
from tests.integration.equality.test_reencoding import SIZES, Command, Renewed
from tests.integration.equality.test_switch import promote_nan, promote_truncated
from tests.integration.renewal.test_follow import RENEWING, renewer, trainings

# A few peer embeddings a second, so that making them anew can be disturbed; a training that need not last.
_RENEWING = RENEWING.replace("reencoding_rate = 100000", "reencoding_rate = 100").replace("= 150", "= 20")
# It trains with low priority, so on a busy machine it takes its time.
_PATIENCE_S = 600.0


@scenario
def unreachable_releases(trial: Trial) -> None:
    """The store of releases is away while a killed worker starts again."""
    trial.begin(random_log(700, seed=trial.outcome.seed), 30, "a", "b")
    trial.pause(4.0, 8.0)
    store = Path(str(trial.deployment.topology.releases.store))
    with trial.fault():
        trial.one().kill()
        away = store.rename(store.with_name("away"))
        trial.pause(8.0, 14.0)
        away.rename(store)
    trial.finish()


@scenario
def bad_releases(trial: Trial) -> None:
    """A release with NaN weights and one that was cut are promoted, and a worker starts while they are the newest."""
    trial.begin(random_log(900, seed=trial.outcome.seed), 45, "a", "b")
    for promote_bad in (promote_nan, promote_truncated):
        trial.pause(3.0, 7.0)
        with trial.fault():
            version = promote_bad(trial.deployment).version
            for name in ("a", "b"):
                trial.until_said(name, f"Model {version} is refused: ")
            trial.one().kill()
    trial.finish()


@scenario
def renewal_under_kills(trial: Trial) -> None:
    """Another model takes over and rows are re-encoded, while workers and then the re-encoding itself are killed."""
    renewed = Renewed(trial.servers, trial.folder, trial.prefix, layers=2)
    deployment = trial.deployment = renewed.deployment
    trial.start("a", "b")
    renewed.produce(0)
    renewed.wait(0)
    renewed.promote(70 + trial.outcome.seed)
    renewed.produce(1)
    renewed.wait(1)
    slow = Command(deployment, 20)
    trial.pause(3.0, 8.0)
    with trial.fault():
        trial.one().kill()
        slow.process.kill()
    renewed.produce(2)
    # The group notices after a while that the first one is gone; until then the next one is refused.
    trial.until("the re-encoding is done", lambda: _reencoded(renewed), timeout_s=180.0)
    renewed.wait(2)
    with trial.fault():
        trial.one().kill()
    trial.pause(0.1)
    renewed.produce(3)
    renewed.wait(3)
    _compare(trial, renewed)


@scenario
def retraining_under_kills(trial: Trial) -> None:
    """The model is retrained by the workers while the trainer, its worker and, during re-encoding, one more die."""
    renewed = Renewed(trial.servers, trial.folder, trial.prefix, layers=2, more=_RENEWING)
    deployment = trial.deployment = renewed.deployment
    workers = deployment.workers
    trial.start("a", "b")
    renewed.produce(0)
    trial.until("a retraining", lambda: sum(map(trainings, workers)) == 1, _PATIENCE_S)
    trial.pause(0.0, 3.0)
    (leader,) = [worker for worker in workers if trainings(worker)]
    os.kill(renewer(leader), signal.SIGKILL)
    trial.until("another retraining", lambda: trainings(leader) == 2, _PATIENCE_S)
    trial.pause(0.0, 3.0)
    leader.kill()
    trial.outcome.faults += 2
    trial.until("a promotion", lambda: len(promotions(deployment.topology)) == 2, _PATIENCE_S)
    trial.until("peer embeddings of the new model", lambda: _peer_embeddings_arrive(renewed), _PATIENCE_S)
    trial.outcome.faults += 1
    trial.one().kill()
    trial.until("the re-encoding is done", lambda: renewed.noted() is not None, _PATIENCE_S)
    trial.until_said("a", "Worker ready")
    trial.until_said("b", "Worker ready")
    renewed.adopt()
    for part in range(1, len(SIZES)):
        renewed.produce(part)
        renewed.wait(part)
    assert len(promotions(deployment.topology)) == 2, "so few interactions make another model"
    _compare(trial, renewed)


def _peer_embeddings_arrive(renewed: Renewed) -> bool:
    """Whether the re-encoding is under way: the newest model has taken over."""
    newest = promotions(renewed.deployment.topology)[-1].version
    return any(f"Model {newest} (release " in worker.said() for worker in renewed.deployment.workers)


def _compare(trial: Trial, renewed: Renewed) -> None:
    trial.stop()
    furthest = max(renewed.check_last_part(), renewed.furthest(len(SIZES)))
    assert furthest <= TOLERANCE, f"peer embeddings are off by {furthest:g}"
    trial.outcome.difference = furthest
    trial.outcome.embeddings = len(trial.deployment.outputs.embeddings)


def _reencoded(renewed: Renewed) -> bool:
    if renewed.noted() is not None:
        return True
    Command(renewed.deployment, 100_000).process.wait(120)
    return renewed.noted() is not None
