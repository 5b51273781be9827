"""One at a time over the whole cluster: a consumer group whose one partition only one member can have.

Nothing is read from it. The brokers notice within the session timeout when its holder is gone, killed or cut off, and
whoever asks next gets it. The holder notices too: it must hear from the brokers as often, else it has lost the lease.
Till then it outlives what passes, such as a restart of the brokers.
"""

import os
import socket
import threading
import time
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Final, Self

from kafka import ConsumerRebalanceListener, KafkaConsumer, TopicPartition
from kafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
from kafka.errors import KafkaError

from stream_tgat.brokers import admin_client
from stream_tgat.brokers import consumer as lease_consumer
from stream_tgat.errors import AccessError, StreamTgatError, TopicError
from stream_tgat.topology import Topology
from stream_tgat.training.kafka_log import topic_range

SESSION_S: Final = 45.0
"""As Kafka's own default: a holder works at a low priority, and what it loses with the lease may be hours of work."""
_HEARTBEAT_S: Final = 2.0
_POLL_MS: Final = 200
_JOIN_S: Final = SESSION_S + 10.0
"""The group settles when the brokers have given up a member that died just now."""


class HeldError(StreamTgatError):
    """Another process has the lease."""


class LostError(StreamTgatError):
    """The lease was had, and is no more; what was under way must not be finished."""


class Lease:
    """Had from `with` on; raises HeldError, with the name of the holder, if another process has it."""

    def __init__(self, topology: Topology, session_s: float = SESSION_S) -> None:
        self._topology = topology
        self._session_s = session_s
        self._group = group_of(topology)
        self._place = TopicPartition(topology.topics.models, 0)
        self._is_over = threading.Event()
        self._settled = threading.Event()
        self._is_mine = False
        # Why, and for good: whoever has it again may not go on with what was begun before.
        self._lost: str | None = None
        self._heard_at = 0.0
        self._problem: KafkaError | AccessError | None = None
        self._thread = threading.Thread(target=self._hold, name="lease", daemon=True)

    def __enter__(self) -> Self:
        topic_range(self._topology, self._place.topic)  # what it is about must be there
        self._refuse_if_held()
        self._heard_at = time.monotonic()
        self._thread.start()
        if not self._settled.wait(_JOIN_S):
            self._leave()
            raise TopicError(f"the brokers do not let this process into the group {self._group!r}")
        if not self._is_mine:
            self._leave()
            if self._problem is not None:
                raise TopicError(f"no lease from the group {self._group!r}: {self._problem!r}") from self._problem
            self._refuse_if_held()
            raise HeldError("another process was faster")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._leave()

    def check(self) -> None:
        """Raises LostError unless it was had all the time."""
        self._lose_if_silent_until(time.monotonic())
        if not self._is_mine:
            self._lose(f"its client has ended: {self._problem!r}")
        if self._lost is not None:
            raise LostError(
                f"the lease of the group {self._group!r} was lost, and another may have begun afresh: {self._lost}"
            ) from self._problem

    def _refuse_if_held(self) -> None:
        holder = holder_of(self._topology)
        if holder is not None:
            raise HeldError(f"a retraining or re-encoding is under way already, by {holder} (host/process)")

    def _leave(self) -> None:
        self._is_over.set()
        self._thread.join()

    def _hold(self) -> None:
        """In a thread of its own, which alone uses the consumer."""
        try:
            consumer = lease_consumer(
                self._topology.kafka,
                client_id=_own_name(),
                group_id=self._group,
                session_timeout_ms=int(1000 * self._session_s),
                heartbeat_interval_ms=int(1000 * min(_HEARTBEAT_S, self._session_s / 5)),
                enable_auto_commit=False,
                auto_offset_reset="latest",
                allow_auto_create_topics=False,
                # The holder keeps it when others ask at the same moment.
                partition_assignment_strategy=[StickyPartitionAssignor],
            )
        except (KafkaError, AccessError) as problem:
            self._problem = problem
            self._settled.set()
            return
        try:
            # Asked for first: who leads the group can only share out what it knows of.
            consumer.partitions_for_topic(self._place.topic)
            consumer.subscribe([self._place.topic], listener=_Listener(self._assigned, self._put_out))
            while not self._is_over.is_set():
                self._poll(consumer)
                heard = time.monotonic() - _since_heartbeat_s(consumer) if self._is_mine else time.monotonic()
                if self._is_mine:
                    self._lose_if_silent_until(heard)
                self._heard_at = max(heard, self._heard_at)
        except KafkaError as problem:
            self._problem = problem
        finally:
            self._is_mine = False
            self._settled.set()
            consumer.close()

    def _poll(self, consumer: KafkaConsumer) -> None:
        try:
            consumer.poll(timeout_ms=_POLL_MS)
        except KafkaError as problem:
            # What passes is tried again; for how long it may last, the session says.
            if not problem.retriable:
                raise
            time.sleep(_POLL_MS / 1000)
        consumer.pause(*consumer.assignment())

    def _assigned(self, places: Iterable[TopicPartition]) -> None:
        if self._is_mine and self._place not in set(places):
            self._lose("the brokers gave it to another process")
        self._is_mine = self._place in set(places)
        self._settled.set()

    def _lose_if_silent_until(self, now: float) -> None:
        silent_s = now - self._heard_at
        if silent_s > self._session_s:
            self._lose(f"this process was out of touch with the brokers for {silent_s:.0f} s")

    def _put_out(self) -> None:
        self._lose("the brokers heard nothing of this process for too long")

    def _lose(self, reason: str) -> None:
        self._lost = self._lost or reason


class _Listener(ConsumerRebalanceListener):  # type: ignore[misc]  # the client has no types
    def __init__(self, on_assigned: Callable[[Iterable[TopicPartition]], None], on_lost: Callable[[], None]) -> None:
        self._on_assigned = on_assigned
        self._on_lost = on_lost

    def on_partitions_revoked(self, revoked: Iterable[TopicPartition]) -> None:
        """What is revoked is assigned again in the same rebalance, to whoever it may be."""

    def on_partitions_assigned(self, assigned: Iterable[TopicPartition]) -> None:
        """The group has settled."""
        self._on_assigned(assigned)

    def on_partitions_lost(self, lost: Iterable[TopicPartition]) -> None:  # noqa: ARG002
        """The brokers have put this member out of the group; somebody else may have had it since."""
        self._on_lost()


def group_of(topology: Topology) -> str:
    """The consumer group whose one partition is the lease."""
    return f"{topology.app_id}-renewal"


def holder_of(topology: Topology) -> str | None:
    """The process that has the lease now, as host/pid; None if nobody has."""
    group = group_of(topology)
    admin = admin_client(topology.kafka)
    deadline = time.monotonic() + _JOIN_S
    try:
        while True:
            try:
                members = admin.describe_groups([group])[group]["members"]
                return next((str(member["client_id"]) for member in members), None)
            except KafkaError as problem:
                # A cluster that has never had a group makes its topic for them now.
                if not problem.retriable or time.monotonic() > deadline:
                    raise TopicError(f"the group {group!r} cannot be looked at: {problem!r}") from problem
                time.sleep(_POLL_MS / 1000)
    finally:
        admin.close()


def _since_heartbeat_s(consumer: KafkaConsumer) -> float:
    """How long ago the last heartbeat was sent; each waits until the one before is answered, or has failed."""
    found = consumer.metrics()["consumer-coordinator-metrics"]["last-heartbeat-seconds-ago"]
    return float(found)


def _own_name() -> str:
    return f"{socket.gethostname()}/{os.getpid()}"
