"""One broker that asks for TLS and a login on one listener, and for TLS with a client's certificate on another.

All users but one may do everything.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator

import pytest
from broker import Broker
from kafka.admin import KafkaAdminClient, NewTopic, ScramMechanism, UserScramCredentialUpsertion

from stream_tgat.brokers import reach
from stream_tgat.errors import AccessError
from stream_tgat.topology import LOGIN_VARIABLE, Kafka
from tests.integration.secured.certificates import Certificates, make_certificates
from tests.integration.secured.ways import (
    LIMITED_USER,
    LISTENERS,
    PASSWORD,
    USER,
    by_login,
    kafka_of,
    listener_settings,
)

TOPIC = "for-anybody"


@pytest.fixture(scope="session")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return make_certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory, certificates: Certificates) -> Iterator[Broker]:
    settings = listener_settings(certificates)
    with Broker(tmp_path_factory.mktemp("secured"), settings=settings, listeners=LISTENERS) as running:
        admin = KafkaAdminClient(bootstrap_servers=running.bootstrap_servers)
        words = [
            UserScramCredentialUpsertion(user, ScramMechanism.SCRAM_SHA_512, PASSWORD, iterations=4096)
            for user in (USER, LIMITED_USER)
        ]
        admin.alter_user_scram_credentials(words)
        admin.create_topics([NewTopic(TOPIC, 1, 1)])
        admin.close()
        _wait_for_login(kafka_of(by_login(running, certificates)))
        yield running


def _wait_for_login(kafka: Kafka) -> None:
    """A broker acknowledges a new password a moment before it knows it."""
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv(LOGIN_VARIABLE, PASSWORD)
        deadline = time.monotonic() + 30
        while True:
            try:
                return reach(kafka)
            except AccessError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.1)


@pytest.fixture(autouse=True)
def _levels_of_loggers() -> Iterator[None]:
    names = ("aiokafka.conn", "kafka.admin.client", "kafka.net.connection", "kafka.protocol.parser")
    levels = {name: logging.getLogger(name).level for name in names}
    yield
    for name, level in levels.items():
        logging.getLogger(name).setLevel(level)
