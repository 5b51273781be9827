"""Brokers that are lost, unreachable or slow, and topics that change."""

from __future__ import annotations

import os
import signal
import time

import orjson
from broker import Broker
from kafka.admin import KafkaAdminClient

from tests.faults.scenarios.register import replicated, scenario
from tests.faults.trial import SESSION_S, Trial
from tests.integration.equality.streams import START, Record, end_of, random_log


@replicated
def killed_broker(trial: Trial) -> None:
    """One of three brokers is killed (SIGKILL) and comes back after a while; twice, with every topic on all three."""
    trial.begin(random_log(1200, seed=trial.outcome.seed), 70, "a", "b")
    for _ in range(2):
        trial.pause(4.0, 9.0)
        with trial.fault():
            lost = trial.brokers[int(trial.random.integers(len(trial.brokers)))]
            lost.kill()
            trial.pause(5.0, 12.0)
            _start([lost])
    trial.finish()


@scenario
def unreachable_brokers(trial: Trial) -> None:
    """All brokers are killed and stay away for longer than any session lasts; workers wait for them."""
    trial.begin(random_log(800, seed=trial.outcome.seed), 30, "a", "b")
    trial.pause(4.0, 8.0)
    with trial.fault():
        for broker in trial.brokers:
            broker.kill()
        time.sleep(40.0 * trial.length)
        _start(trial.brokers)
    trial.finish()


@scenario
def frozen_brokers(trial: Trial) -> None:
    """All brokers stand still (SIGSTOP) for longer than a session: connections stay open and nobody answers."""
    trial.begin(random_log(800, seed=trial.outcome.seed), 30, "a", "b")
    trial.pause(4.0, 8.0)
    with trial.fault():
        _signal(trial.brokers, signal.SIGSTOP)
        time.sleep(4 * SESSION_S)
        _signal(trial.brokers, signal.SIGCONT)
    trial.finish()


@scenario
def slow_brokers(trial: Trial) -> None:
    """All brokers stand still for most of the time, half a second at once, during twelve seconds."""
    trial.begin(random_log(800, seed=trial.outcome.seed), 35, "a", "b")
    trial.pause(4.0, 8.0)
    with trial.fault():
        until = time.monotonic() + 12.0
        while time.monotonic() < until:
            _signal(trial.brokers, signal.SIGSTOP)
            time.sleep(0.5)
            _signal(trial.brokers, signal.SIGCONT)
            time.sleep(float(trial.random.uniform(0.1, 0.3)))
    trial.finish()


@scenario
def brokers_back_after_start(trial: Trial) -> None:
    """Workers are started while no broker answers, and serve once there are some."""
    trial.deploy(random_log(500, seed=trial.outcome.seed))
    trial.deployment.produce(trial.deployment.log.records)
    with trial.fault():
        for broker in trial.brokers:
            broker.kill()
        trial.start("a", "b")
        time.sleep(15.0 * trial.length)
        assert all(worker.running for worker in trial.wanted.values()), "a worker did not wait for the brokers"
        _start(trial.brokers)
    trial.finish()


@scenario
def more_partitions(trial: Trial) -> None:
    """`interactions` gains two partitions while a worker runs, and what they hold comes last."""
    before = random_log(300, seed=trial.outcome.seed, jitter_s=0.0)
    after = [_interaction(n, partition=n % 6) for n in range(300)]
    after += end_of(START + 1_000_299.0, 6)
    trial.deploy(before.with_records([*before.records, *after]))
    trial.start("a")
    trial.deployment.produce(before.records)
    trial.pause(2.0, 6.0)
    with trial.fault():
        admin = KafkaAdminClient(bootstrap_servers=trial.servers)
        admin.create_partitions({trial.deployment.topology.topics.interactions: 6})
        admin.close()
        trial.until_said("a", "interactions 0, 1, 2, 3, 4, 5;")
        trial.deployment.reconnect()
    trial.deployment.produce([record for record in after if record.partition < 4])
    trial.pause(1.0, 3.0)
    trial.deployment.produce([record for record in after if record.partition >= 4])
    trial.finish()


@scenario
def deleted_changelog(trial: Trial) -> None:
    """The changelog is deleted under stopped workers: they refuse to start, with the reason, and send nothing."""
    trial.deploy(random_log(400, seed=trial.outcome.seed))
    records = trial.deployment.log.records
    trial.start("a")
    trial.deployment.produce(records[: len(records) // 2])
    trial.until("some embeddings", lambda: len(trial.deployment.outputs.embeddings) > 50)
    trial.stop()
    known = len(trial.deployment.outputs.embeddings)
    with trial.fault():
        admin = KafkaAdminClient(bootstrap_servers=trial.servers)
        admin.delete_topics([trial.deployment.topology.changelog])
        admin.close()
        time.sleep(2.0)
        trial.deployment.produce(records[len(records) // 2 :])
        for name in ("a", "b"):
            trial.start(name)
            worker = trial.leave(name)
            assert worker.wait_for_end(90.0) not in {0, None}, worker.said()
            assert "changelog" in worker.said(), worker.said()
            assert "Traceback" not in worker.said(), worker.said()
    trial.deployment.read()
    assert len(trial.deployment.outputs.embeddings) == known, "embeddings came from a state that has lost its past"


def _interaction(n: int, *, partition: int) -> Record:
    value = {"user": f"a{n % 12}", "item": f"b{n % 8}", "timestamp": START + 1_000_000.0 + n, "id": f"after-{n:03d}"}
    return Record(partition, orjson.dumps({**value, "amount": n, "kind": "buy", "vector": [0.5, -0.5]}))


def _start(brokers: list[Broker] | tuple[Broker, ...]) -> None:
    for broker in brokers:
        broker.launch()
    for broker in brokers:
        broker.wait(90.0)


def _signal(brokers: list[Broker] | tuple[Broker, ...], number: signal.Signals) -> None:
    for broker in brokers:
        if broker.pid is not None:
            os.kill(broker.pid, number)
