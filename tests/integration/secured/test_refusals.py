"""What a broker refuses is told in a line by every kind of client, at once, and never with the password."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

import pytest
from broker import Broker

from stream_tgat import brokers
from stream_tgat.errors import AccessError
from stream_tgat.topology import KEY_VARIABLE, LOGIN_VARIABLE, Kafka, Topology
from stream_tgat.transport import clients
from stream_tgat.worker import StreamTgat
from tests.integration.secured.certificates import KEY_PASSWORD, Certificates
from tests.integration.secured.conftest import TOPIC
from tests.integration.secured.ways import PASSWORD, by_bare_login, by_certificate, by_login, kafka_of

# Kafka's clients would go on trying for 30 s; all these tests together take less.
pytestmark = pytest.mark.timeout(60)


@pytest.fixture(autouse=True)
def _secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(LOGIN_VARIABLE, PASSWORD)
    monkeypatch.setenv(KEY_VARIABLE, KEY_PASSWORD)


def consumer_topics(kafka: Kafka) -> None:
    client = brokers.consumer(kafka)
    try:
        client.topics()
    finally:
        client.close()


def producer_sent(kafka: Kafka) -> None:
    client = brokers.producer(kafka)
    try:
        client.send(TOPIC, b"x").get(10)
    finally:
        client.close(timeout=5)


def admin_topics(kafka: Kafka) -> None:
    client = brokers.admin_client(kafka)
    try:
        client.list_topics()
    finally:
        client.close()


def started(make: Callable[[Kafka], Any]) -> Callable[[Kafka], None]:
    async def start_and_stop(kafka: Kafka) -> None:
        client = make(kafka)
        await client.start()
        await asyncio.sleep(0.01)  # aiokafka's consumer fails to stop before it has had a turn
        await (client.close if hasattr(client, "close") else client.stop)()

    return lambda kafka: asyncio.run(start_and_stop(kafka))


def faust_producer(kafka: Kafka) -> None:
    """What Faust itself makes of the credentials."""

    async def start_and_stop() -> None:
        app = StreamTgat(Topology(name="t", kafka=kafka))
        producer = app.producer._new_producer()
        await producer.start()
        await producer.stop()

    asyncio.run(start_and_stop())


KINDS: dict[str, Callable[[Kafka], None]] = {
    "look": brokers.reach,
    "consumer": consumer_topics,
    "producer": producer_sent,
    "admin": admin_topics,
    "async consumer": started(clients.consumer),
    "async producer": started(clients.producer),
    "async admin": started(clients.admin_client),
}


@pytest.mark.parametrize("kind", [*KINDS, "faust"])
def test_clients_of_every_kind_get_in_and_no_log_holds_the_password(
    kind: str, broker: Broker, certificates: Certificates, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    for way in (
        by_login(broker, certificates),
        by_login(broker, certificates, "PLAIN"),
        by_bare_login(broker),
        by_certificate(broker, certificates),
    ):
        {**KINDS, "faust": faust_producer}[kind](kafka_of(way))
    assert "battery" not in caplog.text
    assert "Traceback" not in caplog.text


@pytest.mark.parametrize("kind", KINDS)
def test_wrong_password_and_unknown_authority_are_told_by_every_kind_of_client(
    kind: str, broker: Broker, certificates: Certificates, monkeypatch: pytest.MonkeyPatch
) -> None:
    use, login = KINDS[kind], by_login(broker, certificates)
    with pytest.raises(AccessError, match=r"the certificate .* is not trusted .*; kafka\.ssl_cafile must name"):
        use(kafka_of({**login, "ssl_cafile": str(certificates.stranger)}))
    monkeypatch.setenv(LOGIN_VARIABLE, "staple battery")
    with pytest.raises(AccessError, match=r"refuses the login of 'ann' by SCRAM-SHA-512 .*KAFKA_SASL_PASSWORD") as told:
        use(kafka_of(login))
    assert "battery" not in str(told.value)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"sasl_mechanism": "PLAIN", "sasl_username": "bob"}, "refuses the login of 'bob' by PLAIN"),
        ({"sasl_mechanism": "SCRAM-SHA-256"}, "has no login by SCRAM-SHA-256, but by PLAIN, SCRAM-SHA-512"),
        ({"security_protocol": "sasl_plaintext", "ssl_cafile": ""}, "does not take kafka.security_protocol = sasl_pla"),
        ({"security_protocol": "ssl"}, "does not take kafka.security_protocol = ssl: it breaks off"),
        ({"security_protocol": "plaintext"}, "does not take kafka.security_protocol = plaintext: it breaks off"),
    ],
)
def test_mistake_about_the_login_is_named(
    change: dict[str, object], told: str, broker: Broker, certificates: Certificates
) -> None:
    with pytest.raises(AccessError) as caught:
        brokers.reach(kafka_of({**by_login(broker, certificates), **change}))
    assert told in str(caught.value)


def test_name_of_the_broker_is_verified(broker: Broker, certificates: Certificates) -> None:
    login = by_login(broker, certificates)
    elsewhere = {"bootstrap_servers": str(login["bootstrap_servers"]).replace("localhost", "127.0.0.1")}
    with pytest.raises(AccessError, match="certificate is not valid for '127"):
        brokers.reach(kafka_of({**login, **elsewhere}))


def test_mistake_about_the_own_certificate_is_named(
    broker: Broker, certificates: Certificates, monkeypatch: pytest.MonkeyPatch
) -> None:
    way = by_certificate(broker, certificates)
    with pytest.raises(AccessError, match="refuses this client's certificate, or its lack of one"):
        brokers.reach(kafka_of({**way, "ssl_certfile": "", "ssl_keyfile": ""}))
    with pytest.raises(AccessError, match=r"kafka\.ssl_cafile: .* cannot be read"):
        brokers.reach(kafka_of({**way, "ssl_cafile": str(certificates.client_key)}))
    monkeypatch.setenv(KEY_VARIABLE, "another")
    with pytest.raises(AccessError, match=r"kafka\.ssl_certfile: .* cannot be used .*KAFKA_SSL_KEY_PASSWORD"):
        brokers.reach(kafka_of(way))
    monkeypatch.delenv(LOGIN_VARIABLE)
    with pytest.raises(AccessError, match="set the environment variable KAFKA_SASL_PASSWORD"):
        brokers.reach(kafka_of(by_login(broker, certificates)))
