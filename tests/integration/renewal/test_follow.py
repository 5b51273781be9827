"""Workers that renew their model by themselves, while whoever is at it is killed."""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import orjson
import pytest
from broker import Broker

from stream_tgat.training.card import new_card
from stream_tgat.training.promotion import promote, promotions
from stream_tgat.training.registry import ReleaseStore
from tests.integration.equality.deployment import Deployment
from tests.integration.equality.scenarios import FAULTY, SESSION_S, deploy
from tests.integration.equality.settings import HEADS, Settings
from tests.integration.equality.streams import START, random_log, shifted
from tests.integration.equality.test_switch import check_everything
from tests.integration.equality.workers import Worker

RENEWING = """
[retrain]
after_interactions = 300
rest = "1s"
margin = 0.9
when_worse_than_rules = "promote"
reencoding_rate = 100000

[training]
epochs = 150
patience = 150
learning_rate = 1e-4
batch_size = 50
"""


def renewer(worker: Worker, number: int = -1) -> int:
    """The process that a worker has started to renew the model."""
    return int(re.findall(r"Process (\d+) renews the model", worker.said())[number])


def lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def until(what: str, deployment: Deployment, condition: Callable[[], object], timeout_s: float = 200.0) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline:
            said = "\n".join(f"--- {w.name}\n{w.said()[-4000:]}" for w in deployment.workers)
            raise AssertionError(f"not within {timeout_s:.0f} s: {what}\n{said}")
        time.sleep(0.1)


def trainings(worker: Worker) -> int:
    return worker.said().count("renewal: Retraining: ")


@pytest.mark.timeout(600)
def test_head_that_keeps_less_than_its_card_promised_starts_a_retraining(
    broker: Broker, topic_prefix: str, tmp_path: Path
) -> None:
    log = random_log(400, seed=90)
    rules = '[retrain]\nauc_drop = 0.1\nrest = ""\nfewest_answers = 30\n'
    deployment, _ = deploy(broker.bootstrap_servers, tmp_path, topic_prefix, log, Settings(more=rules))
    topology = deployment.topology
    # Trained long ago, so its card says, and better than the untrained weights that it holds.
    card = new_card(
        topology,
        deployment.model.config,
        manifest={topology.topics.interactions: {0: (0, 1)}},
        metrics={"heads.first.test.auc": 0.95, "heads.second.test.auc": 0.3},
        learnt_until=START,
    )
    promote(topology, ReleaseStore(topology.releases.store).save(deployment.model, card))
    with deployment:
        deployment.produce(log.records)
        random = np.random.default_rng(0)
        for record in log.records:
            try:
                event = orjson.loads(record.value or b"")
            except orjson.JSONDecodeError:
                continue
            for name in HEADS:
                label = {"node": event["user"], "label": name, "value": bool(random.random() < 0.4)}
                value = orjson.dumps({**label, "timestamp": event["timestamp"]})
                deployment.producer.send(topology.topics.labels, key=event["user"].encode(), value=value)
        deployment.producer.flush()
        worker = deployment.start("a", FAULTY, SESSION_S=SESSION_S)
        until("the retraining", deployment, lambda: trainings(worker) > 0)
        (reason,) = re.findall(r"renewal: Retraining: (.*)", worker.said())[:1]
        assert re.fullmatch(r"the live AUC of first is 0\.\d+, 0\.\d+ below the 0\.950 of its card", reason)
        worker.stop()


@pytest.mark.timeout(600)
def test_model_is_renewed_although_the_trainer_and_then_the_leader_are_killed(
    broker: Broker, topic_prefix: str, tmp_path: Path
) -> None:
    parts = [shifted(random_log(400, seed=80 + part).records, part) for part in range(3)]
    log = random_log(400, seed=80).with_records([record for part in parts for record in part])
    deployment, oracle = deploy(broker.bootstrap_servers, tmp_path, topic_prefix, log, Settings(more=RENEWING))
    oracle.take(log.records)
    store, topology = ReleaseStore(deployment.topology.releases.store), deployment.topology

    def promoted() -> int:
        return len(promotions(topology))

    with deployment:
        deployment.produce(parts[0])
        first = deployment.start("a", FAULTY, SESSION_S=SESSION_S)
        # The trainer is killed in the middle: nothing of it is left, and another one does it all.
        until("the first retraining", deployment, lambda: trainings(first) == 1)
        os.kill(renewer(first), signal.SIGKILL)
        until("a new process", deployment, lambda: trainings(first) == 2)
        assert first.said().count("has ended with status -9") == 1
        until("the first promotion", deployment, lambda: promoted() == 2)
        assert 2 <= len(store.names()) <= 3, "the model that was measured may have a refit"
        deployment.wait_until_said(first, f"Model {promotions(topology)[-1].version} (release ")
        # All rows are given peer embeddings of it, by the same process.
        until("the peer embeddings", deployment, lambda: "All rows have peer embeddings of model" in first.said())

        second = deployment.start("b", FAULTY, SESSION_S=SESSION_S)
        deployment.wait_until_said(second, "Worker ready")
        deployment.produce(parts[1])
        leader = {w.name: w for w in (first, second)}
        before = {name: trainings(w) for name, w in leader.items()}
        until("the second retraining", deployment, lambda: any(trainings(w) > before[n] for n, w in leader.items()))
        (working,) = [w for n, w in leader.items() if trainings(w) > before[n]]
        (other,) = [w for w in leader.values() if w is not working]
        # The leader is killed in the middle: its trainer ends with it, and the next leader's begins afresh.
        pid, seen = renewer(working), trainings(other)
        working.kill()
        until("the end of its trainer", deployment, lambda: not lives(pid), 30.0)
        until("the next leader's retraining", deployment, lambda: trainings(other) > seen)
        until("the second promotion", deployment, lambda: promoted() == 3)
        deployment.wait_until_said(other, f"Model {promotions(topology)[-1].version} (release ")
        deployment.produce(parts[2])
        deployment.wait_for(len(oracle.embeddings))
        deployment.settle()
        pid = renewer(other)
        other.stop()
        assert not lives(pid), "it outlives its worker"
        deployment.read()
        # Nothing was lost, and the models of each partition only went up, whatever was killed.
        counts = check_everything(deployment, oracle)
        assert len(counts) >= 2
        for name in store.names()[1:]:
            card = store.load(name)[1].card
            assert card.gate is not None
            assert card.manifest
