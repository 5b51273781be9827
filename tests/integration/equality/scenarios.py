"""What happens to the workers while a log is processed; a scenario ends with all embeddings there and all stopped."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
import torch

from stream_tgat.engine import AlertPolicy
from tests.integration.equality.deployment import Deployment
from tests.integration.equality.oracle import Oracle, threshold
from tests.integration.equality.settings import HEADS, Settings
from tests.integration.equality.streams import Log
from tests.integration.equality.workers import Worker

FAULTY = "tests.integration.equality.faulty_worker"
SESSION_S = "3"


def start(deployment: Deployment, name: str = "a", **environment: str) -> Worker:
    """A worker that faults can be planned for (see `faulty_worker`), with a short session.

    Nobody waits long for the partitions of a dead one.
    """
    return deployment.start(name, FAULTY, SESSION_S=SESSION_S, **environment)


@dataclass(frozen=True)
class Play:
    """How a scenario is played.

    timeout_s: for each step   slow_s: delay of each send, so that a short log is not done before anything happens
    kills: how often a worker is killed
    """

    timeout_s: float = 90.0
    slow_s: float = 0.0
    kills: int = 5
    seed: int = 0

    def start(self, deployment: Deployment, name: str) -> Worker:
        """A worker with this delay."""
        return start(deployment, name, SLOW_OUTPUTS_S=str(self.slow_s))


Scenario = Callable[[Deployment, int, Play], None]


def deploy(
    servers: str, folder: Path, prefix: str, log: Log, settings: Settings | None = None
) -> tuple[Deployment, Oracle]:
    """A deployment whose thresholds are often crossed and never nearly, and its oracle, which has seen nothing yet."""
    plain = Deployment(servers, folder, prefix, log, settings)
    first = make_oracle(plain)
    first.set_features(log.nodes)
    first.take(log.records)
    users = np.stack([each.predictions for key, each in first.embeddings.items() if key[1] == 0]).astype(np.float64)
    logits = np.log(users / (1 - users))
    mean, spread = logits.mean(0), logits.std(0)
    # An untrained head says about the same of everybody; a calibration that spreads its probabilities is a legal one.
    calibration = np.stack([1 / spread, -mean / spread], 1)
    chosen = [threshold(1 / (1 + np.exp(-column))) for column in ((logits - mean) / spread).T]
    deployment = Deployment(servers, folder, prefix, log, settings, dict(zip(HEADS, chosen, strict=True)))
    deployment.model.calibration.copy_(torch.from_numpy(calibration))
    deployment.prepare()
    oracle = make_oracle(deployment)
    oracle.set_features(log.nodes)
    return deployment, oracle


class Deployed(Protocol):
    """Makes the deployment of a test, and the oracle of what should come out of it."""

    def __call__(
        self, log: Log, settings: Settings | None = None, *, oracle_takes_log: bool = True
    ) -> tuple[Deployment, Oracle]:
        """oracle_takes_log: the oracle has computed all of `log` already; else the test hands it over in parts."""


def make_oracle(deployment: Deployment) -> Oracle:
    """The oracle of a deployment's model and thresholds."""
    heads = deployment.topology.heads
    policy = AlertPolicy(
        tuple(head.threshold if head.threshold is not None else 1.0 for head in heads),
        tuple(head.cooldown_s for head in heads),
    )
    return Oracle(deployment.topology, deployment.model, max(deployment.version, 0), policy)


def one(deployment: Deployment, embeddings: int, play: Play) -> None:
    """One worker, from the beginning to the end."""
    deployment.produce()
    deployment.start("a", plain=True)
    deployment.wait_for(embeddings, play.timeout_s)
    deployment.stop()


def three(deployment: Deployment, embeddings: int, play: Play) -> None:
    """Three workers that share the partitions."""
    deployment.produce()
    for name in "abc":
        deployment.start(name)
    deployment.wait_for(embeddings, play.timeout_s)
    deployment.stop()


def kills(deployment: Deployment, embeddings: int, play: Play) -> None:
    """One worker that is killed at random moments, during recovery too, and once loses its disk as well."""
    deployment.produce()
    random = np.random.default_rng(play.seed)
    wiped = int(random.integers(1, play.kills))
    for n in range(play.kills):
        worker = play.start(deployment, "a")
        if n % 2:
            deployment.wait_until_said(worker, "The group has assigned ", play.timeout_s)
            time.sleep(random.uniform(0.0, 0.5))
        else:
            # What has come is known a little late, so the last point is far from the end.
            point = random.uniform(n, n + 1) / play.kills * 0.5 * embeddings
            deployment.wait_for(max(int(point), len(deployment.outputs.embeddings) + 1), play.timeout_s)
        worker.kill()
        deployment.assert_fewer_than(embeddings)
        if n == wiped:
            shutil.rmtree(deployment.data("a"))
    play.start(deployment, "a")
    deployment.wait_for(embeddings, play.timeout_s)
    deployment.stop()


def joins(deployment: Deployment, embeddings: int, play: Play) -> None:
    """Workers join and leave as an operator would have it, each time just after much has come in."""
    parts = np.array_split(np.arange(len(deployment.log.records)), 5)
    later = iter([deployment.log.records[part[0] : part[-1] + 1] for part in parts])

    def join(name: str) -> Worker:
        worker = play.start(deployment, name)
        deployment.wait_until_said(worker, "Joins the group ", play.timeout_s)
        deployment.produce(next(later))
        deployment.wait_until_said(worker, "Worker ready", play.timeout_s)
        return worker

    def leave(worker: Worker) -> None:
        deployment.produce(next(later))
        worker.terminate()
        deployment.assert_fewer_than(embeddings)
        worker.wait_for_end()

    first = join("a")
    second = join("b")
    leave(first)
    join("c")
    leave(second)
    deployment.wait_for(embeddings, play.timeout_s)
    deployment.stop()
    # Work that was under way when partitions moved may come twice; whatever was committed must not.
    assert deployment.outputs.repeats <= embeddings // 10


SCENARIOS: dict[str, Scenario] = {"one": one, "three": three, "kills": kills, "joins": joins}
