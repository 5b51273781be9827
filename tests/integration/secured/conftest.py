"""One broker that asks for TLS and a login on one listener, and for TLS with a client's certificate on another."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest
from broker import Broker
from kafka.admin import KafkaAdminClient, ScramMechanism, UserScramCredentialUpsertion

from tests.integration.secured.certificates import Certificates, make_certificates
from tests.integration.secured.ways import LISTENERS, PASSWORD, USER, listener_settings


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return make_certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory, certificates: Certificates) -> Iterator[Broker]:
    settings = listener_settings(certificates)
    with Broker(tmp_path_factory.mktemp("secured"), settings=settings, listeners=LISTENERS) as running:
        admin = KafkaAdminClient(bootstrap_servers=running.bootstrap_servers)
        admin.alter_user_scram_credentials(
            [
                UserScramCredentialUpsertion(USER, mechanism, PASSWORD, iterations=4096)
                for mechanism in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512)
            ]
        )
        admin.close()
        yield running


@pytest.fixture(autouse=True)
def _levels_of_loggers() -> Iterator[None]:
    names = ("aiokafka.conn", "kafka.admin.client", "kafka.net.connection", "kafka.protocol.parser")
    levels = {name: logging.getLogger(name).level for name in names}
    yield
    for name, level in levels.items():
        logging.getLogger(name).setLevel(level)
