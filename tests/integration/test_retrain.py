"""`retrain --now` against a real broker: what is better serves from then on, what is worse is kept with its reason."""

from __future__ import annotations

import gc
import itertools
import json
import warnings

import numpy as np
import pytest
from kafka import KafkaAdminClient, TopicPartition

from research.datasets.groceries import load_groceries
from stream_tgat.commands.release import release_command
from stream_tgat.commands.retrain import retrain_command
from stream_tgat.commands.topics import ensure_topics
from stream_tgat.topology import Topology
from stream_tgat.training.log_part import Wanted, read_by, read_part
from stream_tgat.training.promotion import promotions, serving
from stream_tgat.training.registry import WEIGHTS_FILE, Release, ReleaseStore
from stream_tgat.training.window import Window
from tests.integration.shop import load_serving, produce, run, small_shop

DAY = 86_400.0

# kafka-python now and then leaves a connection to the garbage collector if its client is closed while it is being made.
pytestmark = [
    pytest.mark.filterwarnings("ignore:.*unclosed <socket:ResourceWarning"),
    pytest.mark.filterwarnings("ignore:Exception ignored in. <socket:pytest.PytestUnraisableExceptionWarning"),
]


@pytest.fixture(autouse=True)
def _no_connection_is_left_to_other_tests():
    yield
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "unclosed <socket", ResourceWarning)
        gc.collect()


@pytest.fixture
def shop(broker, topic_prefix, tmp_path) -> Topology:
    """The demo's topology on topics of its own, with a small model."""
    return small_shop(
        broker.bootstrap_servers,
        topic_prefix,
        tmp_path,
        training={"epochs": 2, "epoch_interactions": 4000, "head_epochs": 5, "learning_rate": 3e-3},
        retrain={"nice": 0, "fewest_answers": 5},
    )


def with_section(topology: Topology, section: str, **changed: object) -> Topology:
    content = topology.model_dump(mode="json")
    content[section] |= changed
    return Topology.model_validate(content)


def serving_release(topology: Topology) -> Release:
    return ReleaseStore(topology.releases.store).find(serving(topology).record.release)


def test_better_model_takes_over_and_a_spoilt_one_is_kept_with_the_reason(shop):
    data = load_groceries(150)
    ensure_topics(shop)
    produce(shop, itertools.chain(data.nodes(), data.stream(end=data.cutoff)))
    assert run(release_command(shop), "init").exit_code == 0
    untrained = serving(shop).record.release

    rehearsed = run(retrain_command(shop), "--now", "--dry-run")
    assert rehearsed.exit_code == 0, rehearsed.output
    assert "Would be promoted" in rehearsed.output
    assert (serving(shop).version, ReleaseStore(shop.releases.store).names()) == (0, [untrained])

    first = run(retrain_command(shop), "--now")
    assert first.exit_code == 0, first.output
    assert "serves from now on as version 1: what serves has learnt nothing" in first.output
    version, _, card = load_serving(shop)
    assert " ".join(first.output.split()).endswith(card.rules.sentence)
    assert (version, card.parent, card.gate.passed, card.gate.serving) == (1, untrained, True, untrained)
    assert (
        card.metrics["links.newest.average_precision"] > card.serving_metrics["links.newest.average_precision"] + 0.05
    )
    assert set(card.serving_metrics) <= set(card.metrics)
    twin = ReleaseStore(shop.releases.store).find(card.measured).card
    assert twin.learnt_until <= card.gate.begin < card.gate.end < card.learnt_until, (
        "what serves knows what was held out"
    )
    assert twin.metrics == card.metrics

    spoilt = with_section(shop, "training", epochs=1, learning_rate=1e-12, epoch_interactions=200, head_epochs=1)
    second = run(retrain_command(spoilt), "--now", "--seed", "3", "--json")
    assert second.exit_code == 0, second.output
    told = json.loads(second.stdout)
    assert (told["promoted"], told["passed"], told["version"]) == (False, False, None)
    assert "it is worse in links.average_precision" in told["reason"]
    assert serving(shop).version == 1
    kept = ReleaseStore(shop.releases.store).find(told["release"])
    assert (kept.card.gate.reason, kept.card.gate.passed) == (told["reason"], False)
    # Both were measured on the same: what the first reached on its card it reaches here.
    assert kept.card.serving_metrics == {
        name: pytest.approx(value, abs=1e-6) if value is not None else None
        for name, value in card.metrics.items()
        if name in kept.card.serving_metrics
    }
    shown = run(release_command(shop), "show", kept.name)
    assert "not passed" in shown.output
    assert "serving metrics" in shown.output


def test_release_names_the_data_it_was_trained_on_for_ever(shop):
    data = load_groceries(60)
    ensure_topics(shop)
    produce(shop, itertools.chain(data.nodes(), data.stream(end=data.cutoff)))
    short = with_section(shop, "training", epochs=1, epoch_interactions=400, head_epochs=1)
    windowed = with_section(short, "retrain", window="120d")
    made = run(retrain_command(windowed), "--now", "--seed", "1")
    assert made.exit_code == 0, made.output
    assert "what is older is left out" in made.output
    first = serving_release(shop)
    whole = read_part(shop)
    expected = whole.log.interactions.time >= whole.log.interactions.time[-1] - 120 * DAY
    assert 100 < expected.sum() < len(expected)
    # Less is to be read again than there is, and it gives the same.
    again = read_part(shop, read_by(first.card))
    assert again.log.ids.tolist() == whole.log.ids[expected].tolist()
    produce(shop, data.stream(begin=data.cutoff))
    later = read_part(shop, read_by(first.card))
    assert later.manifest == again.manifest == read_by(first.card).manifest
    assert later.log.ids.tolist() == again.log.ids.tolist()
    assert later.log.nodes == again.log.nodes
    for name, labels in again.log.labels.items():
        assert later.log.labels[name].event.tolist() == labels.event.tolist()

    store = ReleaseStore(shop.releases.store)
    repeated = run(retrain_command(short), "--now", "--seed", "1", "--log-of", first.name, "--json")
    assert repeated.exit_code == 0, repeated.output
    told = json.loads(repeated.stdout)
    second = store.find(told["measured"] or told["release"])
    assert second.card.manifest == first.card.manifest
    assert second.card.log_since == first.card.log_since
    files = [(release.folder / WEIGHTS_FILE).read_bytes() for release in (store.find(first.card.measured), second)]
    assert files[0] == files[1], "the same data and seed give the same weights"


def test_log_that_no_longer_reaches_back_is_used_as_far_as_it_does(shop):
    data = load_groceries(40)
    ensure_topics(shop)
    produce(shop, itertools.chain(data.nodes(), data.stream(end=data.cutoff)))
    whole = read_part(shop)
    topic = shop.topics.interactions
    first = {partition: end // 3 for partition, (_, end) in whole.manifest[topic].items()}
    admin = KafkaAdminClient(bootstrap_servers=shop.kafka.bootstrap_servers)
    admin.delete_records({TopicPartition(topic, each): offset for each, offset in first.items()})
    admin.close()
    gone = f"{sum(first.values()):,} records of {topic} have passed their retention"
    for manifest in (None, whole.manifest):
        part = read_part(shop, Wanted(manifest))
        assert part.missing[0].startswith(gone)
        assert {each: begin for each, (begin, _) in part.manifest[topic].items()} == first
        assert set(part.log.ids.tolist()) < set(whole.log.ids.tolist())
    newest = read_part(shop, Wanted(window=Window(interactions=50)))
    assert newest.missing == ()
    assert newest.log.ids.tolist() == whole.log.ids[-len(newest.log.ids) :].tolist()
    longer = read_part(shop, Wanted(window=Window(seconds=10_000 * DAY)))
    assert longer.missing[0].startswith(gone)


@pytest.mark.parametrize("bad", ["cut", "gone"])
def test_store_that_does_not_give_back_what_was_written_promotes_nothing(shop, bad, monkeypatch):
    data = load_groceries(10)
    ensure_topics(shop)
    produce(shop, itertools.chain(data.nodes(), data.stream(end=data.cutoff)))
    small = with_section(shop, "training", epochs=1, epoch_interactions=200, head_epochs=1)
    save = ReleaseStore.save

    def damaged(self, model, card):
        release = save(self, model, card)
        file = release.folder / WEIGHTS_FILE
        if bad == "gone":
            file.unlink()
        else:
            file.write_bytes(file.read_bytes()[:-7])
        return release

    monkeypatch.setattr(ReleaseStore, "save", damaged)
    result = run(retrain_command(small), "--now")
    assert result.exit_code == 1
    assert ("altered or is incomplete" if bad == "cut" else "no readable") in result.output
    assert promotions(shop) == []


def test_training_that_goes_astray_promotes_nothing(shop):
    data = load_groceries(10)
    ensure_topics(shop)
    produce(shop, itertools.chain(data.nodes(), data.stream(end=data.cutoff)))
    astray = with_section(shop, "training", learning_rate=1e30)
    result = run(retrain_command(astray), "--now")
    assert result.exit_code == 1, result.output
    assert "no longer finite" in result.output
    assert promotions(shop) == []
    assert ReleaseStore(shop.releases.store).names() == []


def test_without_topics_it_says_how_to_create_them(shop):
    result = run(retrain_command(shop), "--now")
    assert result.exit_code == 1
    assert "topics create" in result.output


def test_progress_of_reading_reaches_the_end_of_each_topic(shop):
    data = load_groceries(5)
    ensure_topics(shop)
    produce(shop, itertools.chain(data.nodes(), data.stream(end=data.cutoff)))
    told: dict[str, list[tuple[int, int]]] = {}
    part = read_part(shop, progress=lambda topic, done, total: told.setdefault(topic, []).append((done, total)))
    for topic, offsets in part.manifest.items():
        total = sum(end - first for first, end in offsets.values())
        assert told[topic][0] == (0, total)
        assert told[topic][-1] == (total, total)
        assert (np.diff([done for done, _ in told[topic]]) >= 0).all()
