"""From records to a report, without a broker: what is no record of ours is passed over, and a new model begins anew."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import orjson
import pytest

from stream_tgat.monitoring.monitor import LiveQuality
from stream_tgat.monitoring.releases import UnknownReleases
from stream_tgat.topology import Topology
from stream_tgat.wire import AlertEncoder, EmbeddingEncoder, ModelRecord

TOPOLOGY = Topology.model_validate(
    {
        "name": "t",
        "kafka": {"topic_prefix": "p-"},
        "heads": [{"name": "ban"}],
        "features": [{"name": "amount", "kind": "number"}],
        "monitoring": {"links_every": 1},
    }
)
ENCODER = EmbeddingEncoder(TOPOLOGY)


@dataclass
class Record:
    """A record of kafka-python, as far as it is looked at."""

    topic: str
    value: bytes | None
    offset: int = 0
    partition: int = 0
    timestamp: int = 2_000_000_000_000
    headers: list[tuple[str, bytes]] = field(default_factory=list)


class Products(UnknownReleases):
    def affinities(self, version: int, users: np.ndarray, items: np.ndarray) -> np.ndarray:  # type: ignore[override]
        return (users * items).sum(1).astype(float)


def figures() -> LiveQuality:
    return LiveQuality(TOPOLOGY, Products())


def promotion(offset: int, release: str) -> Record:
    content = ModelRecord(release=release, store="s", hash="0" * 64).model_dump_json().encode()
    return Record("p-models", content, offset, timestamp=1_500 * offset)


def embedding(at: int, user: str, item: str, probability: float, model: int) -> list[Record]:
    return [
        Record(
            "p-embeddings",
            ENCODER.encode(
                interaction=f"{at}".encode(),
                node=node.encode(),
                peer=peer.encode(),
                side=side,
                timestamp=float(at),
                embedding=np.ones(2, np.float32),
                predictions=np.array([probability]),
                model=model,
                late=False,
            )[1],
        )
        for side, (node, peer) in enumerate([(f"u{user}", f"i{item}"), (f"i{item}", f"u{user}")])
    ]


def interaction(at: int, amount: Any) -> Record:
    return Record("p-interactions", orjson.dumps({"user": "a", "item": "b", "timestamp": at, "amount": amount}), at)


def label(at: int, user: str, value: bool, name: str = "ban") -> Record:
    return Record("p-labels", orjson.dumps({"node": user, "label": name, "value": value, "timestamp": at}))


def alert(at: int, user: str, item: str) -> Record:
    encoded = AlertEncoder(TOPOLOGY).encode(
        interaction=f"{at}".encode(),
        node=f"u{user}".encode(),
        peer=f"i{item}".encode(),
        head="ban",
        probability=0.9,
        threshold=0.5,
        timestamp=float(at),
        model=1,
        because=[],
    )
    return Record("p-alerts", encoded[1])


def test_report_before_anything_came_is_empty() -> None:
    report = figures().report(behind=7)
    assert (report.release, report.model, report.serving_since, report.until, report.behind) == (
        None,
        None,
        None,
        None,
        7,
    )
    assert [(head.head, head.overall.count, head.by_model) for head in report.heads] == [("ban", 0, {})]
    assert (report.links, report.drift, report.watched) == ((), (), 2)


def test_report_says_who_serves_since_when_and_who_predicted() -> None:
    found = figures()
    found.take([promotion(0, "first"), promotion(3, "second")])
    found.take([*embedding(10, "ann", "tea", 0.2, model=0), *embedding(11, "bob", "rum", 0.9, model=0)])
    found.take([label(10, "ann", value=False), label(11, "bob", value=True), alert(11, "bob", "rum")])
    report = found.report()
    assert (report.release, report.model, report.serving_since) == ("second", 3, 4.5)
    assert report.releases == {0: "first", 3: "second"}
    (head,) = report.heads
    assert (head.by_model[0].auc, head.by_model[0].alerts, head.by_model[0].alert_precision) == (1.0, 1, 1.0)
    assert head.by_model.keys() == {0}
    assert (report.until, report.predictions) == (11.0, 2)
    # Only for the second interaction had another item been seen.
    assert [(each.model, each.pairs) for each in report.links] == [(0, 1)]


def test_records_that_are_not_ours_are_passed_over() -> None:
    found = figures()
    strays = [None, b"", b"not json", b"[]", b"{}", b'{"id": "x", "embedding": [1.0]}']
    topics = [f"p-{name}" for name in ("models", "embeddings", "labels", "alerts", "interactions")]
    found.take([Record(topic, stray) for topic in topics for stray in strays])
    found.take([*embedding(10, "ann", "tea", 0.2, model=0), label(10, "ann", value=True), interaction(3, "much")])
    report = found.report()
    assert report.model is None
    assert report.heads[0].overall.count == 1


def stream(found: LiveQuality, first: int, count: int, model: int, probability: float, amount: float) -> None:
    random = np.random.default_rng(first)
    records: list[Record] = []
    for at in range(first, first + count):
        shown = float(np.clip(probability + random.normal() * 0.05, 0, 1))
        records += [*embedding(at, "ann", f"{at % 7}", shown, model), interaction(at, amount + float(random.normal()))]
    for start in range(0, len(records), 300):
        found.take(records[start : start + 300])


def test_drift_is_against_the_beginning_of_the_model_that_serves() -> None:
    found = figures()
    stream(found, 0, 3000, model=1, probability=0.2, amount=0.0)
    assert found.report().drift == ()
    stream(found, 3000, 2000, model=1, probability=0.4, amount=2.0)
    score, amount = found.report().drift
    assert (score.name, amount.name) == ("score:ban", "feature:amount")
    assert (score.reference, score.present) == (pytest.approx(0.2, abs=0.01), pytest.approx(0.4, abs=0.02))
    assert (amount.reference, amount.present) == (pytest.approx(0.0, abs=0.1), pytest.approx(2.0, abs=0.2))
    assert 3000 <= score.since <= 4500
    # The next model has this as its beginning, and predictions of the model before it do not count any more.
    stream(found, 5000, 2500, model=2, probability=0.4, amount=2.0)
    stream(found, 7500, 1500, model=1, probability=0.9, amount=2.0)
    assert found.report().drift == ()


@pytest.mark.slow
def test_monitoring_needs_neither_torch_nor_river_before_it_watches() -> None:
    """A status that is published is shown at once."""
    code = (
        "import sys, stream_tgat.commands.status, stream_tgat.monitoring.monitor, stream_tgat.monitoring.publishing; "
        "print(sorted({'torch', 'river'} & set(sys.modules)))"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == "[]"


class Refusing(UnknownReleases):
    """Releases of which workers refuse some."""

    def __init__(self, *refused: int) -> None:
        self.refused = refused

    def is_refused(self, version: int) -> bool:
        return version in self.refused


def test_promotion_that_workers_refuse_does_not_serve() -> None:
    releases = Refusing(4)
    found = LiveQuality(TOPOLOGY, releases)
    found.take([promotion(3, "good"), promotion(4, "damaged")])
    report = found.report()
    assert (report.model, report.release, report.serving_since) == (3, "good", 4.5)
    releases.refused = (3, 4)
    assert (found.report().model, found.report().release) == (None, None)


def test_promotion_that_has_left_embeddings_serves_whatever_its_store_says_now() -> None:
    found = LiveQuality(TOPOLOGY, Refusing(4))
    found.take([promotion(3, "good"), promotion(4, "gone since")])
    found.take(embedding(1, "a", "b", 0.5, 4))
    assert found.report().model == 4


def test_labels_that_say_nothing_are_named() -> None:
    found = figures()
    found.take([promotion(0, "first"), *embedding(10, "ann", "tea", 0.2, model=0)])
    found.take([label(10, "Ann", value=True), *(label(10, "ann", value=True, name="bna") for _ in range(7))])
    report = found.report()
    assert [(each.label, each.count) for each in report.unknown_labels] == [("bna", 7)]
    assert report.unknown_labels[0].why == "no head learns 'bna'; did you mean 'ban'?"
    (head,) = report.heads
    assert (head.without_prediction, head.without_prediction_of) == (1, ("Ann",))
    assert head.overall.unmeasured == "no answer is complete yet"
