"""Topics on a real broker: created as they must be, left alone when right, refused with a reason when they are not."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from click.testing import CliRunner
from kafka.admin import ConfigResource, ConfigResourceType, KafkaAdminClient

from stream_tgat.commands.topics import Ensured, check_topics, ensure_topics, topic_specs, topics_command
from stream_tgat.errors import TopicError
from stream_tgat.topology import Kafka, Retention, Topology
from stream_tgat.topology.sections import Serving


@pytest.fixture
def admin(topology: Topology) -> Iterator[KafkaAdminClient]:
    client = KafkaAdminClient(bootstrap_servers=topology.kafka.bootstrap_servers)
    yield client
    client.close()


def _partitions(admin: KafkaAdminClient, topic: str) -> int:
    (found,) = admin.describe_topics([topic])
    return len(found["partitions"])


def _settings(admin: KafkaAdminClient, topic: str) -> dict[str, str]:
    resource = ConfigResource(ConfigResourceType.TOPIC, topic)
    described = admin.describe_configs([resource], config_filter="all")["topic"][topic]
    return {key: entry["value"] for key, entry in described.items()}


def _eventually(holds: Callable[[], bool]) -> None:
    """Brokers tell each other of changed settings within moments, not at once."""
    deadline = time.monotonic() + 10
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def _refuses(topology: Topology) -> bool:
    try:
        check_topics(topology)
    except TopicError:
        return True
    return False


def test_ensure_creates_every_topic_with_what_its_data_needs(topology: Topology, admin: KafkaAdminClient) -> None:
    keep = Retention(embeddings_days=2, alerts_days=0.5)
    ensure_topics(topology.model_copy(update={"retention": keep}))
    names = topology.topics
    for many in (names.interactions, names.nodes, names.labels, names.propagation, names.embeddings, names.alerts):
        assert _partitions(admin, many) == 4
    assert _partitions(admin, names.models) == 1
    propagation = _settings(admin, names.propagation)
    assert propagation["retention.ms"] == "-1"
    assert propagation["retention.bytes"] == "-1"
    assert int(propagation["max.message.bytes"]) >= 8 * 2**20
    changelog = _settings(admin, topology.changelog)
    assert _partitions(admin, topology.changelog) == 4
    assert changelog["cleanup.policy"] == "compact"
    assert changelog["compression.type"] == "producer"
    # A commit of 8 MiB and its frame.
    assert int(changelog["max.message.bytes"]) >= 9 * 2**20
    assert _settings(admin, names.nodes)["cleanup.policy"] == "compact"
    assert _settings(admin, names.models)["cleanup.policy"] == "compact"
    assert _settings(admin, names.interactions)["retention.ms"] == "-1"
    for judged in (names.interactions, names.labels):
        assert _settings(admin, judged)["message.timestamp.type"] == "LogAppendTime"
    assert _settings(admin, names.embeddings)["retention.ms"] == str(2 * 86_400_000)
    assert _settings(admin, names.alerts)["retention.ms"] == str(86_400_000 // 2)
    check_topics(topology)


def test_ensure_a_second_time_changes_nothing(topology: Topology) -> None:
    assert len(ensure_topics(topology).created) == 10
    assert ensure_topics(topology) == Ensured((), ())


def test_ensure_creates_only_what_is_missing(topology: Topology, admin: KafkaAdminClient) -> None:
    admin.create_topics({topology.topics.interactions: {"num_partitions": 9}}, wait_for_metadata=True)
    created = ensure_topics(topology).created
    assert len(created) == 9
    assert topology.topics.interactions not in created
    check_topics(topology)  # interactions may have any number of partitions
    assert _partitions(admin, topology.topics.interactions) == 9


def test_check_without_topics_names_each_and_the_command(topology: Topology) -> None:
    topology = topology.model_copy(update={"serving": Serving(latest=True)})
    with pytest.raises(TopicError, match="topics create") as caught:
        check_topics(topology)
    for name in vars(topology.topics).values():
        assert f"topic {name} is missing" in str(caught.value)


@pytest.mark.parametrize("refuse", [check_topics, ensure_topics])
def test_propagation_with_another_count_is_refused_with_the_reason(
    refuse: Callable[[Topology], object], topology: Topology
) -> None:
    ensure_topics(topology)
    kafka = topology.kafka.model_copy(update={"partitions": 5})
    with pytest.raises(TopicError, match=r"propagation has 4 partitions instead of 5: a node's state lives in"):
        refuse(topology.model_copy(update={"kafka": kafka}))


def test_models_with_two_partitions_is_refused(topology: Topology, admin: KafkaAdminClient) -> None:
    admin.create_topics({topology.topics.models: {"num_partitions": 2}}, wait_for_metadata=True)
    with pytest.raises(TopicError, match=r"models has 2 partitions instead of 1: .* one order of promotions"):
        ensure_topics(topology)


def test_changelog_of_another_count_is_refused(topology: Topology, admin: KafkaAdminClient) -> None:
    ensure_topics(topology)
    check_topics(topology)
    admin.create_topics({f"{topology.app_id}-other-changelog": {"num_partitions": 3}}, wait_for_metadata=True)
    with pytest.raises(TopicError, match=r"other-changelog has 3 partitions, but .*propagation is to have 4"):
        check_topics(topology)


def test_propagation_that_forgets_is_refused_and_corrected(topology: Topology, admin: KafkaAdminClient) -> None:
    ensure_topics(topology)
    name = topology.topics.propagation
    admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, name, {"retention.ms": "1000"})])
    _eventually(lambda: _refuses(topology))
    with pytest.raises(TopicError, match=r"propagation has retention.ms=1000 and needs -1"):
        check_topics(topology)
    assert ensure_topics(topology).changed == (f"{name}: retention.ms=-1",)
    _eventually(lambda: not _refuses(topology))


def test_ensure_leaves_the_retention_that_an_operator_chose(topology: Topology, admin: KafkaAdminClient) -> None:
    ensure_topics(topology)
    name = topology.topics.embeddings
    admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, name, {"retention.ms": "3600000"})])
    _eventually(lambda: _settings(admin, name)["retention.ms"] == "3600000")
    assert ensure_topics(topology).changed == ()
    assert _settings(admin, name)["retention.ms"] == "3600000"


def test_commands_create_then_check(topology: Topology) -> None:
    command, runner = topics_command(topology), CliRunner()
    missing = runner.invoke(command, ["check"])
    assert missing.exit_code == 1
    assert "topics create" in missing.output
    created = runner.invoke(command, ["create"])
    assert created.exit_code == 0, created.output
    assert created.output.count("created") == 10
    checked = runner.invoke(command, ["check"])
    assert checked.exit_code == 0, checked.output
    assert all(spec.name in checked.output for spec in topic_specs(topology)), "no name is cut"
    assert checked.output.count("fits") == 10


def test_workers_that_ensure_at_the_same_time_do_not_hinder_each_other(topology: Topology) -> None:
    topology = topology.model_copy(update={"serving": Serving(latest=True)})
    with ThreadPoolExecutor(4) as pool:
        done = list(pool.map(ensure_topics, [topology] * 4))
    created = [name for each in done for name in each.created]
    assert sorted(created) == sorted([*vars(topology.topics).values(), topology.changelog])
    check_topics(topology)


def test_no_broker_is_one_line_that_says_where_and_what_to_do() -> None:
    nowhere = Topology(name="test", kafka=Kafka(bootstrap_servers="127.0.0.1:1"))
    result = CliRunner().invoke(topics_command(nowhere), ["check"])
    assert result.exit_code == 1
    assert "no Kafka broker answers at 127.0.0.1:1" in result.output
    assert "KAFKA_BOOTSTRAP_SERVERS" in result.output
