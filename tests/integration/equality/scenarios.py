"""What happens to the workers while a log is processed; a scenario ends with all embeddings there and all stopped."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

from stream_tgat.engine import AlertPolicy
from tests.integration.equality.harness import HEADS, Deployment, Settings
from tests.integration.equality.oracle import Oracle, threshold
from tests.integration.equality.streams import Log

FAULTY = "tests.integration.equality.faulty_worker"
SESSION_S = "3"

Scenario = Callable[[Deployment, int, float], None]


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


def make_oracle(deployment: Deployment) -> Oracle:
    """The oracle of a deployment's model and thresholds."""
    heads = deployment.topology.heads
    policy = AlertPolicy(
        tuple(head.threshold if head.threshold is not None else 1.0 for head in heads),
        tuple(head.cooldown_s for head in heads),
    )
    return Oracle(deployment.topology, deployment.model, max(deployment.version, 0), policy)


def one(deployment: Deployment, embeddings: int, timeout_s: float = 90.0) -> None:
    """One worker, from the beginning to the end."""
    deployment.start("a")
    deployment.wait_for(embeddings, timeout_s)
    deployment.stop()


def three(deployment: Deployment, embeddings: int, timeout_s: float = 90.0) -> None:
    """Three workers that share the partitions."""
    for name in "abc":
        deployment.start(name)
    deployment.wait_for(embeddings, timeout_s)
    deployment.stop()


def kills(deployment: Deployment, embeddings: int, timeout_s: float = 90.0, count: int = 5, seed: int = 0) -> None:
    """One worker that is killed `count` times after random numbers of embeddings, once losing its disk as well."""
    random = np.random.default_rng(seed)
    points = np.sort(random.integers(embeddings // 20, embeddings * 9 // 10, count))
    wiped = int(random.integers(1, count))
    worker = deployment.start("a", FAULTY, SESSION_S=SESSION_S)
    for n, point in enumerate(points):
        deployment.wait_for(max(int(point), len(deployment.outputs.embeddings) + 1), timeout_s)
        worker.kill()
        if n == wiped:
            shutil.rmtree(deployment.data("a"))
        worker = deployment.start("a", FAULTY, SESSION_S=SESSION_S)
    deployment.wait_for(embeddings, timeout_s)
    deployment.stop()


def joins(deployment: Deployment, embeddings: int, timeout_s: float = 90.0) -> None:
    """Workers join and leave as an operator would have it, while much is still unread."""
    first = deployment.start("a")
    deployment.wait_for(embeddings // 10, timeout_s)
    second = deployment.start("b")
    deployment.wait_for(embeddings * 3 // 10, timeout_s)
    deployment.start("c")
    first.stop()
    deployment.wait_for(embeddings * 5 // 10, timeout_s)
    deployment.start("a")
    second.stop()
    deployment.wait_for(embeddings, timeout_s)
    deployment.stop()


SCENARIOS: dict[str, Scenario] = {"one": one, "three": three, "kills": kills, "joins": joins}
