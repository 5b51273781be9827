"""The listeners of the secured broker, and the keys of `[kafka]` with which a client gets in."""

from __future__ import annotations

from pathlib import Path

from broker import Broker

from stream_tgat.topology import Kafka
from tests.integration.secured.certificates import Certificates

USER = "ann"
#: Who may do only what it has been given a right to.
LIMITED_USER = "stream-tgat"
PASSWORD = "correct horse, battery=staple"
LISTENERS = {"LOGIN": "SASL_SSL", "BARE": "SASL_PLAINTEXT", "MUTUAL": "SSL"}
_MODULES = "org.apache.kafka.common.security"


def listener_settings(certificates: Certificates) -> dict[str, str | int]:
    """What Kafka needs for LISTENERS."""

    settings: dict[str, str | int] = {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(certificates.broker),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(certificates.authority),
        "listener.name.mutual.ssl.client.auth": "required",
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": f"User:ANONYMOUS;User:{USER};User:CN=client",
    }
    for name in ("login", "bare"):
        settings |= {
            f"listener.name.{name}.sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512",
            f"listener.name.{name}.plain.sasl.jaas.config": (
                f'{_MODULES}.plain.PlainLoginModule required user_{USER}="{PASSWORD}";'
            ),
            f"listener.name.{name}.scram-sha-512.sasl.jaas.config": f"{_MODULES}.scram.ScramLoginModule required;",
        }
    return settings


def by_login(
    broker: Broker, certificates: Certificates, mechanism: str = "SCRAM-SHA-512", user: str = USER
) -> dict[str, object]:
    """With a name and a password, over TLS."""
    return {
        "bootstrap_servers": broker.address_of("LOGIN"),
        "security_protocol": "sasl_ssl",
        "sasl_mechanism": mechanism,
        "sasl_username": user,
        "ssl_cafile": str(certificates.authority),
    }


def by_bare_login(broker: Broker, mechanism: str = "PLAIN") -> dict[str, object]:
    """With a name and a password, in plain text."""
    return {
        "bootstrap_servers": broker.address_of("BARE"),
        "security_protocol": "sasl_plaintext",
        "sasl_mechanism": mechanism,
        "sasl_username": USER,
    }


def by_certificate(broker: Broker, certificates: Certificates) -> dict[str, object]:
    """With a certificate of the client's own, whose key has a password."""
    return {
        "bootstrap_servers": broker.address_of("MUTUAL"),
        "security_protocol": "ssl",
        "ssl_cafile": str(certificates.authority),
        "ssl_certfile": str(certificates.client),
        "ssl_keyfile": str(certificates.client_key),
    }


def kafka_of(keys: dict[str, object], prefix: str = "") -> Kafka:
    """The section of a topology."""
    return Kafka.model_validate({**keys, "topic_prefix": prefix, "partitions": 2})


def as_toml(keys: dict[str, object]) -> str:
    """The keys as they stand in a file."""
    return "\n".join(f'{key} = "{value}"' for key, value in keys.items())


REPOSITORY = Path(__file__).resolve().parents[3]
