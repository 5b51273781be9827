"""Live quality from a real broker: the report is what the same records say offline, and `status` shows it."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import orjson
import pytest
import torch
from click.testing import CliRunner, Result
from kafka import KafkaProducer
from kafka.admin import KafkaAdminClient, NewPartitions

from stream_tgat.agents.cluster import Cluster
from stream_tgat.commands.status import status_command
from stream_tgat.commands.topics import ensure_topics
from stream_tgat.errors import TopicError
from stream_tgat.housekeeping.quality import QualityWatch
from stream_tgat.monitoring.follower import Follower
from stream_tgat.monitoring.monitor import Monitor
from stream_tgat.monitoring.publishing import Publisher, newest_report
from stream_tgat.topology import Topology
from stream_tgat.training.log_part import read_log
from stream_tgat.training.pipeline import untrained
from stream_tgat.training.promotion import promote
from stream_tgat.training.registry import Release, ReleaseStore, new_card
from stream_tgat.training.served import ServedReleases
from stream_tgat.wire import AlertEncoder, EmbeddingEncoder, QualityReport, output_headers

USERS, PER_USER = 40, 24
START = 1_700_000_000.0
HOUR = 3_600.0


@pytest.fixture(params=["json", "msgpack"])
def deployment(request: pytest.FixtureRequest, topology: Topology, tmp_path: Path) -> Topology:
    """Topics of its own, and a store in this test's folder."""
    content = topology.model_dump(mode="json") | {
        "kafka": topology.kafka.model_dump() | {"output_format": request.param},
        "model": {"hidden": 8, "time_dim": 4, "neighbours": 2, "candidates": 5},
        "features": [{"name": "amount", "kind": "number"}],
        "heads": [{"name": "ban"}, {"name": "churn"}],
        "monitoring": {"window": 200, "links_every": 2},
        "releases": {"store": str(tmp_path)},
    }
    made = Topology.model_validate(content)
    ensure_topics(made)
    return made


@pytest.fixture
def producer(deployment: Topology) -> Iterator[KafkaProducer]:
    made = KafkaProducer(bootstrap_servers=deployment.kafka.bootstrap_servers)
    yield made
    made.close()


def released(topology: Topology, seed: int, learnt_until: float | None = None) -> Release:
    model = untrained(topology, seed)
    metrics = {"heads.ban.test.auc": 0.875, "heads.ban.test.average_precision": 0.5}
    card = new_card(topology, model.config, seed=seed, metrics=metrics, learnt_until=learnt_until)
    return ReleaseStore(topology.releases.store).save(model, card)


class Stream:
    """A history of users, produced as the workers and the users' own programs would have written it."""

    def __init__(self, topology: Topology, producer: KafkaProducer, versions: list[int]) -> None:
        """versions: of the models that serve one after the other, each for an equal part of the time"""
        self.topology, self._producer = topology, producer
        self._random = np.random.default_rng(7)
        self._embeddings, self._alerts = EmbeddingEncoder(topology), AlertEncoder(topology)
        self.vectors: dict[tuple[str, int], np.ndarray] = {}
        self.probability: dict[str, tuple[float, float]] = {}
        self.version: dict[str, int] = {}
        self.alerted: set[str] = set()
        total = USERS * PER_USER
        for at in range(total):
            self._interaction(at, START + at * HOUR, versions[at * len(versions) // total])
        for _ in range(total // 2):
            self._label(float(self._random.random()) * (total + 20))
        producer.flush()

    def _send(self, topic: str, key: bytes, value: bytes, headers: list[tuple[str, bytes]]) -> None:
        self._producer.send(topic, key=key, value=value, headers=headers)

    def _interaction(self, at: int, when: float, version: int) -> None:
        user, item, name = f"u{self._random.integers(USERS)}", f"i{self._random.integers(15)}", f"x/{at:05}"
        content = {"id": name, "user": user, "item": item, "timestamp": when, "amount": 1.0}
        topics = self.topology.topics
        self._send(topics.interactions, user.encode(), orjson.dumps(content), [])
        said = (round(float(self._random.random()), 7), round(float(self._random.random()), 7))
        self.probability[name], self.version[name] = said, version
        headers = output_headers(self.topology, version, topics.interactions, 0, at)
        ends = (b"u" + user.encode(), b"i" + item.encode())
        for side, (node, peer) in enumerate((ends, ends[::-1])):
            vector = self.vectors[name, side] = self._random.normal(size=8).astype(np.float32)
            key, value = self._embeddings.encode(
                interaction=name.encode(),
                node=node,
                peer=peer,
                side=side,
                timestamp=when,
                embedding=vector,
                predictions=np.array(said),
                model=version,
                late=False,
            )
            for _ in range(1 + (at % 7 == 0)):  # delivery is at least once
                self._send(topics.embeddings, key, value, headers)
        if said[0] > 0.8:
            self.alerted.add(name)
            key, value = self._alerts.encode(
                interaction=name.encode(),
                node=ends[0],
                peer=ends[1],
                head="ban",
                probability=said[0],
                threshold=0.8,
                timestamp=when,
                model=version,
                because=[],
            )
            self._send(topics.alerts, key, value, headers)

    def _label(self, hours: float) -> None:
        user, name = f"u{self._random.integers(USERS)}", ("ban", "churn")[int(self._random.integers(2))]
        when = START + hours * HOUR
        value = bool(self._random.random() < 0.4)
        known = when + float(self._random.random()) * 50 * HOUR
        content = {"node": user, "label": name, "value": value, "timestamp": when, "known_at": known}
        self._send(self.topology.topics.labels, user.encode(), orjson.dumps(content), [])


def expected_answers(
    stream: Stream, head: int, learnt_until: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Truth, probability, model, alerted of the newest answers, by the join that training makes of the same topics."""
    log, _ = read_log(stream.topology)
    labels = log.labels[stream.topology.heads[head].label_name]
    asked = log.interactions.time[labels.event]
    labels = labels.select((asked >= learnt_until) & (asked <= labels.maturity.complete_until))
    newest = labels.select(np.argsort(labels.known, kind="stable")[-stream.topology.monitoring.window :])
    names = [each.decode() for each in log.ids[newest.event]]
    probability = np.array([stream.probability[name][head] for name in names])
    versions = np.array([stream.version[name] for name in names])
    alerted = np.array([head == 0 and name in stream.alerted for name in names])
    return newest.value, probability, versions, alerted


def auc_by_pairs(truth: np.ndarray, probability: np.ndarray) -> float:
    return float(np.mean([(p > q) + (p == q) / 2 for p in probability[truth == 1] for q in probability[truth == 0]]))


def check_heads(report: QualityReport, stream: Stream, learnt_until: float = 0.0) -> None:
    for at, found in enumerate(report.heads):
        truth, probability, versions, alerted = expected_answers(stream, at, learnt_until)
        assert len(truth) > 50
        parts = {None: np.ones(len(truth), np.bool_)} | {int(v): versions == v for v in np.unique(versions)}
        assert found.by_model.keys() == parts.keys() - {None}
        for version, part in parts.items():
            figures = found.overall if version is None else found.by_model[version]
            assert figures.count == part.sum()
            assert figures.auc == pytest.approx(auc_by_pairs(truth[part], probability[part]), abs=1e-9)
            assert figures.brier == pytest.approx(np.mean((truth - probability)[part] ** 2), abs=1e-9)
            assert figures.alerts == alerted[part].sum()
            if figures.alerts:
                assert figures.alert_precision == pytest.approx(truth[part & alerted].mean())


def test_report_equals_what_the_same_topics_say_offline(deployment: Topology, producer: KafkaProducer) -> None:
    one, two = promote(deployment, released(deployment, 1)), promote(deployment, released(deployment, 2))
    stream = Stream(deployment, producer, [one.version, two.version])
    with Monitor(deployment, ServedReleases(deployment)) as monitor:
        seen: list[tuple[int, int]] = []
        monitor.catch_up(lambda done, total: seen.append((done, total)))
        report = monitor.report()
        assert seen[0][0] == 0
        assert seen[-1][0] == seen[-1][1]
        check_heads(report, stream)
        assert (report.release, report.model) == (two.record.release, two.version)
        assert report.releases == {one.version: one.record.release, two.version: two.record.release}
        assert (report.behind, report.user_share) == (0, 1.0)
        assert report.predictions == USERS * PER_USER + len(range(0, USERS * PER_USER, 7))  # repeats included
        assert report.until == START + (USERS * PER_USER - 1) * HOUR
        assert {each.model for each in report.links} == {one.version, two.version}
        assert all(each.pairs > 50 for each in report.links)
        # Vectors of noise say nothing about who meets whom.
        assert all(0.35 < (each.average_precision or 0) < 0.65 for each in report.links)
        assert (report.drift, report.watched) == ((), 3)
        # Live: what comes now is in the next report, and the newest model is the one that serves.
        three = promote(deployment, released(deployment, 3))
        deadline = time.monotonic() + 60
        while report.model != three.version and time.monotonic() < deadline:
            monitor.look(0.5)
            report = monitor.report()
        assert report.model == three.version
        check_heads(report, stream)


def test_affinities_and_what_was_learnt_are_those_of_the_release(deployment: Topology) -> None:
    promoted = promote(deployment, released(deployment, 1, learnt_until=START))
    served = ServedReleases(deployment)
    ask = served.affinities
    users, items = np.random.default_rng(0).normal(size=(2, 5, 8)).astype(np.float32)
    model = untrained(deployment, 1)
    with torch.inference_mode():
        expected = model.affinity(torch.from_numpy(users), torch.from_numpy(items))
    np.testing.assert_allclose(ask(promoted.version, users, items), expected.numpy(), rtol=1e-6)
    assert served.learnt_until(promoted.version) == START
    # One that was never promoted, and one that says nothing of it.
    assert ask(promoted.version + 9, users, items) is None
    silent = promote(deployment, released(deployment, 2))
    assert (served.learnt_until(promoted.version + 9), served.learnt_until(silent.version)) == (np.inf, -np.inf)


def test_monitor_looks_back_a_bounded_number_of_predictions(deployment: Topology, producer: KafkaProducer) -> None:
    promoted = promote(deployment, released(deployment, 1))
    Stream(deployment, producer, [promoted.version])
    bounded = deployment.monitoring.model_copy(update={"predictions": 100})
    with Monitor(deployment.model_copy(update={"monitoring": bounded})) as monitor:
        monitor.catch_up()
        report = monitor.report()
    assert 50 <= report.predictions <= 110
    assert report.links == ()


def status(topology: Topology, *arguments: str) -> Result:
    """As in a terminal of 80 columns, which no line may leave."""
    shown = CliRunner(env={"COLUMNS": "80"}).invoke(status_command(topology), list(arguments))
    if "--json" not in arguments and shown.exit_code == 0:
        assert [line for line in shown.stdout.splitlines() if len(line) > 80] == []
    return shown


def test_status_leaves_out_what_the_model_has_learnt_from(deployment: Topology, producer: KafkaProducer) -> None:
    """As where a first release is trained from the log, and a worker then begins at the beginning of the log."""
    learnt_until = START + USERS * PER_USER * HOUR / 3
    promoted = promote(deployment, released(deployment, 1, learnt_until))
    stream = Stream(deployment, producer, [promoted.version])
    report = QualityReport.model_validate_json(status(deployment, "--fresh", "--json").stdout)
    check_heads(report, stream, learnt_until)
    assert all((head.since or 0) >= learnt_until and head.learnt_from > 10 for head in report.heads)
    with Publisher(deployment) as publisher:
        publisher.publish(report)
    shown = status(deployment)
    assert f"{report.heads[0].learnt_from} answers are left out; the model has learnt from that time" in shown.output


def test_status_shows_figures_beside_those_of_the_card(deployment: Topology, producer: KafkaProducer) -> None:
    one, two = promote(deployment, released(deployment, 1)), promote(deployment, released(deployment, 2))
    stream = Stream(deployment, producer, [one.version, two.version])
    told = status(deployment, "--fresh", "--json")
    assert told.exit_code == 0, told.output
    report = QualityReport.model_validate_json(told.stdout)
    check_heads(report, stream)
    shown = status(deployment, "--fresh")
    assert shown.exit_code == 0, shown.output
    assert f"Release {two.record.release} serves as version {two.version} since 20" in shown.output
    overall = report.heads[0].overall
    _, ban = shown.output.split("ban: ")
    assert ban.startswith(f"{overall.count} answers, of which {overall.base_rate:.1%} came true")
    rows = [line.split() for line in ban.splitlines()[2:5]]
    figures = report.heads[0].by_model
    assert [row[0] for row in rows] == ["all", "model", "model"]
    assert rows[1][1:5] == [
        str(two.version),
        str(figures[two.version].count),
        f"{figures[two.version].auc:.3f}",
        "0.875",
    ]
    assert rows[2][1:5] == [str(one.version), str(figures[one.version].count), f"{figures[one.version].auc:.3f}", "-"]
    assert re.search(r"Links, model \d+: average precision 0\.\d+", shown.output)
    few = QualityReport.model_validate_json(status(deployment, "--window", "10", "--json").stdout)
    assert [head.overall.count for head in few.heads] == [10, 10]


def test_status_shows_the_newest_published_report_and_says_how_old_it_is(deployment: Topology) -> None:
    promote(deployment, released(deployment, 1))
    nobody = status(deployment)
    assert "How good it is nobody says" in nobody.output
    assert status(deployment, "--json").exit_code == 1
    with Monitor(deployment) as monitor, Publisher(deployment) as publisher:
        assert newest_report(deployment) is None
        monitor.catch_up()
        found = monitor.report()
        for age, stale_rows in ((30.0, 5), (7300.0, 1234)):
            report = found.model_copy(update={"created": time.time() - age, "stale_rows": stale_rows, "until": START})
            publisher.publish(report)
    assert newest_report(deployment) == report
    shown = status(deployment)
    assert shown.exit_code == 0, shown.output
    assert "1,234 rows still rest on older models" in shown.output
    assert "Found 2 h ago; nobody seems to watch now." in shown.output
    assert QualityReport.model_validate_json(status(deployment, "--json").stdout) == report
    assert QualityReport.model_validate_json(status(deployment, "--fresh", "--json").stdout).until is None
    # A report from before the promotion is not about what serves.
    two = promote(deployment, released(deployment, 2))
    shown = status(deployment)
    assert f"was promoted last, as version {two.version}" in shown.output
    assert "it is older than the promotion" in " ".join(shown.output.split())
    assert "rows still rest" not in shown.output


def test_workers_read_the_newest_report_from_the_broker(deployment: Topology) -> None:
    promote(deployment, released(deployment, 1))
    with Monitor(deployment) as monitor, Publisher(deployment) as publisher:
        monitor.catch_up()
        publisher.publish(monitor.report())
        publisher.publish(monitor.report().model_copy(update={"created": 123.0}))

    async def look() -> QualityReport | None:
        cluster = Cluster(deployment.kafka)
        await cluster.start()
        try:
            watch = QualityWatch(deployment.topics.quality, cluster)
            # As the worker does: other reads of the same client go on meanwhile.
            models = deployment.topics.models
            await asyncio.gather(watch.look(), *(cluster.read(models, 0, 0, 1) for _ in range(3)))
            return watch.report
        finally:
            await cluster.stop()

    read = asyncio.run(look())
    assert read is not None
    assert read.created == 123.0


def test_status_says_clearly_what_is_missing(topology: Topology, tmp_path: Path) -> None:
    missing = status(topology)
    assert missing.exit_code == 1
    assert "topics create" in missing.output
    ensure_topics(topology)
    nothing_serves = status(topology)
    assert nothing_serves.exit_code == 1
    assert nothing_serves.output.startswith("Error: No release on topic")
    made = topology.model_copy(update={"releases": topology.releases.model_copy(update={"store": tmp_path})})
    promote(made, released(made, 1))
    no_predictions = status(made, "--fresh")
    assert no_predictions.exit_code == 0, no_predictions.output
    assert "No predictions on" in no_predictions.output
    assert "faust -A stream_tgat worker" in " ".join(no_predictions.output.split())


def test_monitor_without_topics_says_how_to_make_them(topology: Topology) -> None:
    with pytest.raises(TopicError, match="topics create"):
        Monitor(topology)


def test_follower_reads_partitions_that_are_added_later(
    deployment: Topology, producer: KafkaProducer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stream_tgat.monitoring.follower._NEW_PARTITIONS_S", 0.1)
    topic = deployment.topics.interactions
    for at in range(8):
        producer.send(topic, value=b"%d" % at, partition=at % 4)
    producer.flush()
    follower = Follower(deployment, {topic: 4})
    try:
        # The newest of each partition.
        first = [record.value for batch in follower.all_there_is(lambda *_: None) for record in batch]
        assert sorted(first) == [b"4", b"5", b"6", b"7"]
        admin = KafkaAdminClient(bootstrap_servers=deployment.kafka.bootstrap_servers)
        admin.create_partitions({topic: NewPartitions(6)})
        admin.close()
        writer = KafkaProducer(bootstrap_servers=deployment.kafka.bootstrap_servers)
        for partition in (1, 5):
            writer.send(topic, value=b"new in %d" % partition, partition=partition)
        writer.close()
        found: list[bytes] = []
        deadline = time.monotonic() + 60
        while len(found) < 2 and time.monotonic() < deadline:
            found += [record.value for batch in follower.new(0.5) for record in batch]
        assert sorted(found) == [b"new in 1", b"new in 5"]
        assert follower.behind() == 0
    finally:
        follower.close()
