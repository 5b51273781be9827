"""Releases are promoted, refused and taken back while interactions flow: nothing is lost, nothing goes backwards."""

from __future__ import annotations

import zlib
from collections import defaultdict
from functools import partial

import orjson
import torch

from stream_tgat.message_passing.progress import RESERVED_KEY, PartitionProgress
from stream_tgat.nn.model import Model
from stream_tgat.topology import node_key
from stream_tgat.training.promotion import Promotion, load_release, promote, promotions, served_before
from stream_tgat.training.registry import WEIGHTS_FILE, Release, ReleaseStore, new_card
from stream_tgat.training.shape import model_config
from tests.integration.equality.deployment import Deployment
from tests.integration.equality.flow import Flow
from tests.integration.equality.oracle import Oracle
from tests.integration.equality.received import records_of
from tests.integration.equality.scenarios import Deployed, start
from tests.integration.equality.streams import random_log
from tests.integration.equality.workers import Worker


def started(deployment: Deployment, *names: str) -> list[Worker]:
    """Workers that all have partitions: one that takes them over switched already has no switch to tell of."""
    workers = [start(deployment, name) for name in names]
    for worker in workers:
        deployment.wait_until_said(worker, "Worker ready")
    return workers


def make_release(deployment: Deployment, seed: int, *, broken: bool = False) -> Release:
    """Other weights for the same topology; broken: some are NaN."""
    torch.manual_seed(seed)
    model = Model(model_config(deployment.topology)).eval()
    if broken:
        with torch.no_grad():
            next(model.encoder.parameters()).fill_(float("nan"))
    card = new_card(deployment.topology, model.config, seed=seed)
    return ReleaseStore(deployment.topology.releases.store).save(model, card)


def promote_good(deployment: Deployment, seed: int) -> Promotion:
    return promote(deployment.topology, make_release(deployment, seed))


def promote_nan(deployment: Deployment) -> Promotion:
    return promote(deployment.topology, make_release(deployment, 91, broken=True))


def promote_truncated(deployment: Deployment) -> Promotion:
    release = make_release(deployment, 92)
    file = release.folder / WEIGHTS_FILE
    file.write_bytes(file.read_bytes()[:-11])
    return promote(deployment.topology, release)


def roll_back(deployment: Deployment) -> Promotion:
    _, release = load_release(deployment.topology, served_before(deployment.topology))
    return promote(deployment.topology, release)


def wait_until_serving(deployment: Deployment, workers: list[Worker], version: int) -> None:
    for worker in workers:
        deployment.wait_until_said(worker, f"Model {version} (release ")


def wait_until_refused(deployment: Deployment, workers: list[Worker], version: int) -> None:
    for worker in workers:
        deployment.wait_until_said(worker, f"Model {version} is refused: ")


def check_everything(deployment: Deployment, oracle: Oracle) -> dict[int, int]:
    """Both embeddings of each interaction, and models that only go up; how many embeddings name each model."""
    # An output's id is made of the interaction's, the side and the model.
    found = {(name.rsplit("/", 2)[0], int(name.rsplit("/", 2)[1])) for name in deployment.outputs.embeddings}
    assert found == oracle.embeddings.keys()
    partitions = deployment.topology.kafka.partitions
    counts: dict[int, int] = defaultdict(int)
    for records in records_of(deployment.servers, deployment.topology.topics.embeddings).values():
        newest: dict[int, int] = defaultdict(int)
        for record in records:
            content = orjson.loads(record.value)
            owner = zlib.crc32(node_key(content["kind"], content["node"], bipartite=True)) % partitions
            assert content["model"] >= newest[owner], f"partition {owner} went back from model {newest[owner]}"
            newest[owner] = content["model"]
            counts[content["model"]] += 1
    for partition, records in records_of(deployment.servers, deployment.topology.changelog).items():
        named = [PartitionProgress.decode(record.value).model for record in records if record.key == RESERVED_KEY]
        assert named == sorted(named), f"the state of partition {partition} went back"
        assert named[-1] == max(counts)
    return dict(counts)


def test_releases_change_while_interactions_flow_and_bad_ones_never_serve(deployed: Deployed) -> None:
    log = random_log(1_200, seed=41)
    deployment, oracle = deployed(log)
    workers = started(deployment, "a", "b")
    stream = Flow(deployment, 0.08)
    stream.start()
    deployment.wait_for(100)
    good: list[int] = []
    steps = (
        (partial(promote_good, deployment, 51), True),
        (partial(promote_nan, deployment), False),
        (partial(promote_good, deployment, 52), True),
        (partial(promote_truncated, deployment), False),
        (partial(roll_back, deployment), True),
    )
    for step, is_good in steps:
        version = step().version
        if is_good:
            good.append(version)
            wait_until_serving(deployment, workers, version)
        else:
            wait_until_refused(deployment, workers, version)
    assert stream.running, "all was produced before the last release served"
    stream.join()
    deployment.wait_for(len(oracle.embeddings))
    deployment.settle()
    for worker in workers:
        worker.stop()
    deployment.read()
    counts = check_everything(deployment, oracle)
    # Every good one has served, no bad one has; the last took over from those before.
    assert sorted(counts) == [deployment.version, *good]
    records = {promotion.version: promotion.record.release for promotion in promotions(deployment.topology)}
    assert records[good[-1]] == records[good[1]]
    for worker in workers:
        assert worker.process.poll() == 0, worker.said()[-5000:]


def test_worker_that_starts_while_a_bad_release_is_the_newest_serves_what_the_others_do(deployed: Deployed) -> None:
    log = random_log(700, seed=42)
    deployment, oracle = deployed(log)
    first, second = started(deployment, "a", "b")
    stream = Flow(deployment, 0.12)
    stream.start()
    deployment.wait_for(100)
    good = promote_good(deployment, 53).version
    wait_until_serving(deployment, [first, second], good)
    bad = promote_nan(deployment).version
    second.kill()
    third = start(deployment, "c")
    wait_until_refused(deployment, [third], bad)
    # Alone, it has to go on with what states say was served by the newer one of the two that it knows.
    first.kill()
    stream.join()
    deployment.wait_for(len(oracle.embeddings))
    deployment.stop()
    assert sorted(check_everything(deployment, oracle)) == [deployment.version, good]
    assert third.process.poll() == 0
