"""`train` and `release` against a real broker: what is in the log becomes what serves."""

from __future__ import annotations

import itertools
import json
import time
from pathlib import Path

import pytest
from click.testing import CliRunner
from kafka import KafkaProducer
from kafka.admin import KafkaAdminClient

from research.datasets.groceries import load_groceries
from stream_tgat.commands.release import release_command
from stream_tgat.commands.topics import ensure_topics
from stream_tgat.commands.train import train_command
from stream_tgat.errors import ReleaseError, TopicError
from stream_tgat.topology import Head, Topology, load_topology
from stream_tgat.training.checkpoint import LOG_FILE
from stream_tgat.training.epochs import read_epochs
from stream_tgat.training.log_part import keep_manifest, present_manifest, read_by, read_log, read_part
from stream_tgat.training.promotion import promotions, serving
from stream_tgat.training.registry import WEIGHTS_FILE, ReleaseStore, new_card
from stream_tgat.training.shape import model_config
from tests.integration.shop import load_serving
from tests.logs import build_log


@pytest.fixture
def shop(broker, topic_prefix, tmp_path) -> Topology:
    """The demo's topology on topics of its own, with little training."""
    content = load_topology("topologies/groceries.toml").model_dump(mode="json")
    content["kafka"] |= {"bootstrap_servers": broker.bootstrap_servers, "topic_prefix": topic_prefix, "partitions": 3}
    content["graph"]["max_id_bytes"] = 48  # room for the prefix in a default id
    content["releases"]["store"] = str(tmp_path / "releases")
    content["training"] |= {"epochs": 1, "epoch_interactions": 400, "head_epochs": 3}
    return Topology.model_validate(content)


@pytest.fixture
def data():
    return load_groceries(40)


def produce(topology, records, extra=()):
    topics = {
        "interactions": topology.topics.interactions,
        "labels": topology.topics.labels,
        "nodes": topology.topics.nodes,
    }
    producer = KafkaProducer(bootstrap_servers=topology.kafka.bootstrap_servers, linger_ms=20)
    for each in (each for each in records if each.value is not None):
        producer.send(topics[each.topic], key=each.key, value=each.value, headers=list(each.headers))
    for value in extra:
        producer.send(topology.topics.interactions, value=value)
    producer.flush()
    producer.close()


def run(command, *arguments):
    return CliRunner().invoke(command, list(arguments), catch_exceptions=False)


def test_log_read_from_kafka_is_the_log_that_was_produced(shop, data):
    ensure_topics(shop)
    records = list(itertools.chain(data.nodes(), data.stream(end=data.cutoff)))
    produce(shop, records, extra=[b"{bad"])
    log, manifest = read_log(shop)
    expected = build_log(shop, records)
    assert log.ids.tolist() == expected.ids.tolist()
    assert (log.interactions.edge == expected.interactions.edge).all()
    assert [log.nodes[n] for n in log.interactions.source] == [expected.nodes[n] for n in expected.interactions.source]
    for name, labels in expected.labels.items():
        assert log.labels[name].event.tolist() == labels.event.tolist()
        assert log.labels[name].known.tolist() == labels.known.tolist()
    assert sum(log.skipped["interactions"].values()) == 1
    produce(shop, data.stream(begin=data.cutoff))
    again, _ = read_log(shop, manifest)
    assert again.ids.tolist() == log.ids.tolist(), "a manifest names the same records for ever"
    assert present_manifest(shop) != manifest


def test_train_makes_a_release_that_serves(shop, data):
    ensure_topics(shop)
    produce(shop, itertools.chain(data.nodes(), data.stream(end=data.cutoff)))
    with pytest.raises(ReleaseError, match=r"stream_tgat train.*release init"):
        load_serving(shop)

    result = run(train_command(shop), "--seed", "5")
    assert result.exit_code == 0, result.output
    assert "version 0" in result.output
    told = "Whether it is better than a simple rule cannot be measured: it has learnt from all of the log"
    assert told in " ".join(result.output.split())
    version, model, card = load_serving(shop)
    assert version == 0
    assert not model.training
    assert card.seed == 5
    assert card.parent is None
    assert set(card.manifest) == {shop.topics.interactions, shop.topics.labels, shop.topics.nodes}
    assert card.features_hash == shop.encoder.hash

    first = serving(shop).record.release
    kept = run(train_command(shop), "--no-promote", "--epochs", "1")
    assert kept.exit_code == 0, kept.output
    assert serving(shop).version == 0, "not promoted"

    listed = run(release_command(shop), "list")
    assert "version 0" in listed.output
    shown = run(release_command(shop), "show", first, "--json")
    assert json.loads(shown.output)["seed"] == 5

    refused = run(release_command(shop), "init")
    assert refused.exit_code == 1
    assert "serves, which is trained" in refused.output
    more = shop.model_copy(update={"heads": (*shop.heads, Head(name="another"))})
    assert "serves, which is trained" in run(release_command(more), "init").output, "whatever the heads are"
    started = run(release_command(shop), "init", "--force")
    assert started.exit_code == 0, started.output
    assert load_serving(shop)[0] == 1
    back = run(release_command(shop), "promote", first)
    assert back.exit_code == 0, back.output
    version, again, _ = load_serving(shop)
    assert version == 2
    assert all((again.state_dict()[name] == value).all() for name, value in model.state_dict().items())
    assert [each.version for each in promotions(shop)] == [0, 1, 2]

    untrained = promotions(shop)[1].record.release
    for version, name in ((3, untrained), (4, first)):
        rolled = run(release_command(shop), "rollback")
        assert rolled.exit_code == 0, rolled.output
        assert (serving(shop).version, serving(shop).record.release) == (version, name)


def test_model_that_is_worse_than_the_best_simple_rule_does_not_serve_unless_asked(shop, data):
    """It has as good as not learnt, and households buy again what they have bought."""
    content = shop.model_dump(mode="json")
    content["training"] |= {"learning_rate": 1e-12, "head_learning_rate": 1e-12, "test_share": 0.3}
    spoilt = Topology.model_validate(content)
    ensure_topics(spoilt)
    produce(spoilt, itertools.chain(data.nodes(), data.stream(end=data.cutoff)))
    kept = run(train_command(spoilt))
    assert kept.exit_code == 0, kept.output
    assert "Not promoted, as it is worse than a simple rule. To let it serve: faust" in kept.output
    assert "Worse than the best simple rule by 0." in kept.output
    assert promotions(spoilt) == []
    store = ReleaseStore(spoilt.releases.store)
    (name,) = store.names()
    note = store.find(name).card.rules
    assert (note.verdict, note.high < 0) == ("worse", True)
    assert note.sentence in " ".join(kept.output.split())
    shown = run(release_command(spoilt), "show", name)
    assert "simple rules" in shown.output

    asked = run(train_command(spoilt), "--promote-anyway")
    assert asked.exit_code == 0, asked.output
    assert "Serves from now on, as version 0." in asked.output
    assert "Worse than the best simple rule" in asked.output
    assert run(train_command(spoilt), "--promote-anyway", "--no-promote").exit_code == 2


def test_stray_records_on_models_keep_nobody_from_serving(shop):
    ensure_topics(shop)
    assert run(release_command(shop), "init").exit_code == 0
    producer = KafkaProducer(bootstrap_servers=shop.kafka.bootstrap_servers)
    for key, value in ((b"x", b"not json"), (b"y", b'{"release": "a"}'), (b"z", None)):
        producer.send(shop.topics.models, key=key, value=value, partition=0)
    producer.close()
    assert serving(shop).version == 0


def test_release_altered_after_its_promotion_is_refused(shop):
    ensure_topics(shop)
    assert run(release_command(shop), "init").exit_code == 0
    file = Path(shop.releases.store) / serving(shop).record.release / "model.safetensors"
    file.write_bytes(file.read_bytes()[:-4])
    with pytest.raises(ReleaseError, match="altered or is incomplete"):
        load_serving(shop)


def test_commands_without_topics_say_how_to_create_them(shop):
    for command in (run(train_command(shop)), run(release_command(shop), "init")):
        assert command.exit_code == 1, command.output
        assert "topics create" in command.output
    with pytest.raises(TopicError, match="topics create"):
        serving(shop)


def test_training_in_a_run_folder_goes_on_with_the_log_it_began_with(shop, data, tmp_path):
    ensure_topics(shop)
    produce(shop, itertools.chain(data.nodes(), data.stream(end=data.cutoff)))
    folder = tmp_path / "run"
    first = run(train_command(shop), "--no-promote", "--run", str(folder))
    assert first.exit_code == 0, first.output
    assert len(read_epochs(folder / LOG_FILE)) == 1
    produce(shop, data.stream(begin=data.cutoff))
    longer = run(train_command(shop), "--no-promote", "--run", str(folder), "--epochs", "2")
    assert longer.exit_code == 0, longer.output
    assert len(read_epochs(folder / LOG_FILE)) == 2
    releases = [ReleaseStore(shop.releases.store).find(name).card for name in ReleaseStore(shop.releases.store).names()]
    assert len(releases) == 2
    assert releases[0].manifest == releases[1].manifest
    other = run(train_command(shop), "--no-promote", "--run", str(folder), "--seed", "99")
    assert other.exit_code == 1
    assert "belongs to another training" in other.output


def test_newest_part_that_a_release_was_trained_on_can_be_trained_on_again(shop, data):
    ensure_topics(shop)
    produce(shop, itertools.chain(data.nodes(), data.stream(end=data.cutoff)))
    assert run(train_command(shop), "--no-promote", "--max-interactions", "300").exit_code == 0
    store = ReleaseStore(shop.releases.store)
    (name,) = store.names()
    produce(shop, data.stream(begin=data.cutoff))
    again = run(train_command(shop), "--no-promote", "--log-of", name)
    assert again.exit_code == 0, again.output
    first, second = (store.load(each)[1] for each in (name, next(each for each in store.names() if each != name)))
    assert first.card.log_since is not None
    assert (first.card.log_since, first.card.manifest) == (second.card.log_since, second.card.manifest)
    assert (first.folder / WEIGHTS_FILE).read_bytes() == (second.folder / WEIGHTS_FILE).read_bytes()
    untrained = run(release_command(shop), "init", "--no-promote")
    refused = run(train_command(shop), "--log-of", next(word for word in untrained.output.split() if word[:2] == "20"))
    assert refused.exit_code == 1
    assert "was not trained from the log" in refused.output


def test_training_an_empty_log_says_what_to_do(shop):
    ensure_topics(shop)
    result = run(train_command(shop))
    assert result.exit_code == 1, result.output
    assert "release init" in result.output


def test_offsets_of_a_topic_that_was_created_again_are_not_read_as_if_they_were_of_this_one(shop, data, tmp_path):
    ensure_topics(shop)
    records = list(itertools.chain(data.nodes(), data.stream(end=data.cutoff)))
    produce(shop, records)
    part = read_part(shop)
    topic = shop.topics.interactions
    card = new_card(shop, model_config(shop), manifest=part.manifest, topic_ids=part.topic_ids)
    assert read_part(shop, read_by(card)).manifest == part.manifest
    keep_manifest(tmp_path / "run" / "manifest.json", part.manifest, part.topic_ids)

    admin = KafkaAdminClient(bootstrap_servers=shop.kafka.bootstrap_servers)
    admin.delete_topics([topic])
    deadline = time.monotonic() + 20
    while topic not in ensure_topics(shop).created:
        assert time.monotonic() < deadline
        time.sleep(0.1)
    admin.close()
    produce(shop, [*records, *data.stream(begin=data.cutoff)])
    with pytest.raises(TopicError, match=f"'{topic}' was deleted and created again since.*without --log-of"):
        read_part(shop, read_by(card))
    resumed = run(train_command(shop), "--run", str(tmp_path / "run"))
    assert resumed.exit_code == 1
    assert "created again since" in " ".join(resumed.output.split())
