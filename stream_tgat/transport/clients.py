"""aiokafka's clients and Faust's credentials, for a topology's brokers; `settings` are the client's own.

kafka-python's are made in `stream_tgat.brokers`. An aiokafka client belongs to the loop in which it is made.
"""

from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient
from faust.auth import Credentials, SASLCredentials, SSLCredentials

from stream_tgat.brokers import READ_COMMITTED, Access, options_of
from stream_tgat.topology import Kafka


def consumer(kafka: Kafka, **settings: Any) -> AIOKafkaConsumer:
    """A consumer of what is committed, not yet started; AccessError if the brokers refuse it."""
    return AIOKafkaConsumer(**options_of(kafka), isolation_level=READ_COMMITTED, **settings)


def producer(kafka: Kafka, **settings: Any) -> AIOKafkaProducer:
    """A producer, not yet started; AccessError if the brokers refuse it."""
    return AIOKafkaProducer(**options_of(kafka), **settings)


def admin_client(kafka: Kafka, **settings: Any) -> AIOKafkaAdminClient:
    """What asks for groups and deletes records, not yet started; AccessError if the brokers refuse it."""
    return AIOKafkaAdminClient(**options_of(kafka), **settings)


def credentials(access: Access) -> Credentials | None:
    """What Faust calls `broker_credentials`: its consumers and its producers show them; None without TLS and login."""
    if access.login is not None:
        return SASLCredentials(
            mechanism=access.login.mechanism,
            username=access.login.username,
            password=access.login.password,
            # With a context it is SASL over TLS, without one over plain text.
            ssl_context=access.tls,
        )
    return None if access.tls is None else SSLCredentials(access.tls)
