"""What the brokers say of topics: how many partitions they have, and which topic it is that bears the name."""

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from kafka.admin import KafkaAdminClient


@dataclass(frozen=True)
class TopicDescription:
    """id: given when the topic was created, another one to the next of the same name; None from brokers before 2.8."""

    partitions: int
    id: UUID | None


def describe_topics(admin: KafkaAdminClient, names: Sequence[str] | None = None) -> dict[str, TopicDescription]:
    """The topics of these names that exist, by default all. Takes a round trip; raises kafka-python's KafkaError."""
    found = admin.describe_topics(None if names is None else list(names))
    return {
        topic["name"]: TopicDescription(len(topic["partitions"]), _id(topic.get("topic_id")))
        for topic in found
        if topic["partitions"]
    }


def _id(given: str | UUID | None) -> UUID | None:
    found = None if given is None else UUID(str(given))
    return found if found is not None and found.int else None
