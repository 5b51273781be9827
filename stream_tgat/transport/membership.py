"""What the members of a worker group tell each other through the brokers: where each one answers, and what it has.

Faust's members tell the address of their web page, which is the same for all workers of a machine, and none where
there is no page.

A *static* member (KIP-345) has an id that it keeps over restarts. The brokers do not let the group rebalance when it
goes: if it is back within the session timeout, they hand it the assignment of before, as its predecessor was told it.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import orjson
from aiokafka import errors
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.coordinator.protocol import ConsumerProtocolMemberAssignment, ConsumerProtocolMemberMetadata
from faust.assignor.client_assignment import ClientMetadata
from faust.assignor.partition_assignor import PartitionAssignor
from yarl import URL

from stream_tgat.errors import TopicError
from stream_tgat.topology import Kafka
from stream_tgat.transport import clients

_ANSWER_S: Final = 5.0


class Assignor(PartitionAssignor):
    """As Faust's; the member's URL is the application's `advertised`, if it has one."""

    app: Any

    @property
    def _url(self) -> URL:
        return URL(self.app.advertised) if self.app.advertised else super()._url

    def on_assignment(self, assignment: ConsumerProtocolMemberAssignment) -> None:
        """Take an assignment, that of a predecessor included, which names the address at which that one answered."""
        given = ClientMetadata.loads(self._decompress(assignment.user_data))
        mine = self._compress(given.derive(url=str(self._url)).dumps())
        super().on_assignment(ConsumerProtocolMemberAssignment(assignment.version, assignment.assignment, mine))


def instance_id(member: str, topics: Iterable[str]) -> str:
    """The `group.instance.id` of a worker that reads these topics. member: who it is, over restarts

    With other topics it is another member: the assignment of before would leave them out, or name what is not read
    any more.
    """
    return f"{member}-{hashlib.blake2b(' '.join(sorted(topics)).encode(), digest_size=4).hexdigest()}"


@dataclass(frozen=True)
class Member:
    """url: what it told when it joined, None for a stranger   partitions: assigned to it, by topic"""

    url: str | None
    partitions: Mapping[str, Sequence[int]]


@dataclass(frozen=True)
class Membership:
    """A group as its coordinator sees it. is_settled: all members know their partitions"""

    is_settled: bool
    members: tuple[Member, ...]


class ConsumerGroup:
    """A consumer group, looked at from outside; connects when it is first looked at."""

    def __init__(self, kafka: Kafka, name: str) -> None:
        self._kafka = kafka
        self._name = name
        self._admin: AIOKafkaAdminClient | None = None

    async def look(self) -> Membership:
        """Who is in it now; TopicError says why the brokers do not tell."""
        try:
            async with asyncio.timeout(_ANSWER_S):
                if self._admin is None:
                    admin = clients.admin_client(self._kafka)
                    await admin.start()
                    self._admin = admin
                return await self._described(self._admin)
        except (errors.KafkaError, OSError, TimeoutError) as problem:
            raise TopicError(f"the brokers do not tell who works in the group {self._name!r}: {problem!r}") from problem

    async def close(self) -> None:
        """Disconnect."""
        if self._admin is not None:
            await self._admin.close()

    async def _described(self, admin: AIOKafkaAdminClient) -> Membership:
        ((found,),) = [response.groups for response in await admin.describe_consumer_groups([self._name])]
        error, _, state, _, _, members, *_ = found
        if error:
            raise errors.for_code(error)
        return Membership(state == "Stable", tuple(_member(each[3], each[4]) for each in members))


def _member(metadata: bytes, assignment: bytes) -> Member:
    url = None
    if metadata:
        try:
            url = str(orjson.loads(ConsumerProtocolMemberMetadata.decode(metadata).user_data)["url"])
        except (ValueError, KeyError, TypeError):
            # Another sort of client has joined the group.
            url = None
    assigned = ConsumerProtocolMemberAssignment.decode(assignment).assignment if assignment else []
    return Member(url, {topic: tuple(partitions) for topic, partitions in assigned})
