"""Settings that cannot work are refused with the reason; the defaults are the ones that were measured."""

from __future__ import annotations

import asyncio

import pytest

from stream_tgat.errors import SettingsError
from stream_tgat.transport import Application


@pytest.mark.parametrize(
    ("setting", "reason"),
    [
        ({"processing_guarantee": "exactly_once"}, "at least once"),
        ({"producer_acks": 1}, "producer_acks must be -1"),
        ({"producer_linger": 0.5}, r"at most 0\.02 s"),
        ({"store": "memory://"}, "rocksdb"),
        ({"consumer_auto_offset_reset": "earliest"}, "lost records would be passed over in silence"),
    ],
)
def test_setting_that_cannot_work_is_refused(setting: dict[str, object], reason: str) -> None:
    with pytest.raises(SettingsError, match=reason):
        Application("refused", broker="kafka://localhost:1", **setting)


def test_defaults_read_everything_safely_and_serve_this_machine_only() -> None:
    conf = Application("defaults", broker="kafka://localhost:1").conf
    assert conf.web_bind == "127.0.0.1"
    assert not conf.web_tables_enabled
    assert conf.consumer_auto_offset_reset == "none"
    assert conf.topic_disable_leader
    assert conf.producer_acks == -1
    assert conf.producer_max_request_size >= 8 * 2**20
    assert conf.table_standby_replicas == 0
    assert conf.broker_heartbeat_interval * 3 <= conf.broker_session_timeout


def test_given_settings_win() -> None:
    app = Application("given", broker="kafka://localhost:1", table_standby_replicas=1, broker_session_timeout=20.0)
    assert app.conf.table_standby_replicas == 1
    assert app.fence.heartbeat_limit_s == 0.7 * 20


def test_client_has_a_broker_answer_with_the_first_record_and_soon_without_any() -> None:
    """Stock fixes the wait at 1.5 s: so old the end of a partition would be that it tells."""

    async def scenario() -> tuple[int, int]:
        app = Application("wait", broker="kafka://localhost:1")
        thread = app.consumer._thread
        thread.thread_loop.close()
        client = thread._create_worker_consumer(app.transport)
        client._closed = True
        return client._fetch_max_wait_ms, client._fetch_min_bytes

    assert asyncio.run(scenario()) == (100, 1)


def test_producer_does_not_append_a_batch_twice_when_it_sends_it_again() -> None:
    app = Application("producer", broker="kafka://localhost:1")
    assert app.producer._settings_extra() == {"acks": "all", "enable_idempotence": True}


def test_changelog_topic_takes_a_whole_commit_and_is_compacted_early() -> None:
    app = Application("topic", broker="kafka://localhost:1")
    table = app.bulk_table("state", partitions=3, max_commit_bytes=8 * 2**20)
    topic = table.changelog_topic
    assert topic.partitions == 3
    assert topic.compacting
    assert int(topic.config["max.message.bytes"]) > 8 * 2**20
    assert float(topic.config["min.cleanable.dirty.ratio"]) <= 0.1
    assert app.conf.producer_max_request_size > table.max_commit_bytes
