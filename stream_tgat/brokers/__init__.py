"""The way to the brokers: TLS, the login, and a clear word where they refuse.

Every Kafka client is made here, or in `transport/clients.py` for aiokafka and Faust, so that none can forget what
`[kafka]` of the topology and the environment say.
"""

from stream_tgat.brokers.access import Access, Login, access_to, addresses
from stream_tgat.brokers.clients import READ_COMMITTED, admin_client, consumer, producer, written_at
from stream_tgat.brokers.reaching import options_of, reach, silence
from stream_tgat.brokers.topics import TopicDescription, describe_topics
from stream_tgat.brokers.waiting import wait_for_brokers

__all__ = [
    "READ_COMMITTED",
    "Access",
    "Login",
    "TopicDescription",
    "access_to",
    "addresses",
    "admin_client",
    "consumer",
    "describe_topics",
    "options_of",
    "producer",
    "reach",
    "silence",
    "wait_for_brokers",
    "written_at",
]
