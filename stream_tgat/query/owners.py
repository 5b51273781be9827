"""Which worker has which partition, as the consumer group says: its members tell where they answer when they join."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from stream_tgat.errors import TopicError
from stream_tgat.query.messages import SCHEME
from stream_tgat.topology import Topology
from stream_tgat.transport.membership import ConsumerGroup, Membership

#: The group is asked at most so often, however many questions find nobody.
_SOONEST_S: Final = 0.2


@dataclass(frozen=True)
class Ownership:
    """address: host:port of the owner of each partition that has one   why: others have none now, None if all have
    at: when that was so, monotonic seconds
    """

    address: Mapping[int, str]
    why: str | None
    at: float


class Owners:
    """Asks the group, and remembers what it said."""

    def __init__(self, topology: Topology) -> None:
        self._topology = topology
        self._group = ConsumerGroup(topology.kafka, topology.app_id)
        self._known = Ownership({}, "the consumer group has not been asked yet", -_SOONEST_S)
        self._asking = asyncio.Lock()

    @property
    def known(self) -> Ownership:
        """What the group said last."""
        return self._known

    async def look(self, than: Ownership | None = None) -> Ownership:
        """What the group says now. than: what has turned out to be wrong; something newer is waited for"""
        async with self._asking:
            if than is not None and self._known is not than:
                return self._known
            await asyncio.sleep(max(self._known.at + _SOONEST_S - time.monotonic(), 0.0))
            self._known = await self._ask()
        return self._known

    async def close(self) -> None:
        """Disconnect."""
        await self._group.close()

    async def _ask(self) -> Ownership:
        try:
            return ownership_in(await self._group.look(), self._topology)
        except TopicError as problem:
            return Ownership({}, str(problem), time.monotonic())


def ownership_in(found: Membership, topology: Topology) -> Ownership:
    """Who has what in a group."""
    now = time.monotonic()
    if not found.members:
        return Ownership({}, "no worker runs; start one: faust -A stream_tgat worker", now)
    if not found.is_settled:
        return Ownership({}, "the workers are sharing out the partitions", now)
    address: dict[int, str] = {}
    for member in found.members:
        if member.url is not None and member.url.startswith(f"{SCHEME}://"):
            mine = member.partitions.get(topology.topics.propagation, ())
            address.update(dict.fromkeys(mine, member.url.removeprefix(f"{SCHEME}://")))
    missing = sorted(set(range(topology.kafka.partitions)) - address.keys())
    return Ownership(address, f"no worker has partitions {missing}" if missing else None, now)
