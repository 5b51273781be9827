"""Sends refused records again: those that would be taken now, as they were, to where they lay."""

from __future__ import annotations

import time
from types import TracebackType
from typing import Any

from kafka.errors import KafkaError

from stream_tgat.brokers import producer
from stream_tgat.commands.replayer import partition_of
from stream_tgat.commands.verdicts import Tally
from stream_tgat.errors import TopicError
from stream_tgat.topology import Topology
from stream_tgat.wire import FIRST_PLACE, FIRST_WRITTEN, Candidate, InputTopic, Judge, Letter

_LARGEST_REQUEST = 8 << 20
_PATIENCE_S = 60.0


class Resending:
    """Takes letters one by one, in a `with` block, at whose end the brokers have what was sent.

    check: only say what would become of them   anyway: also send what would be refused again
    taken: letters so far, each record once   sent: of these   left_out: the others, and why
    """

    def __init__(self, topology: Topology, *, check: bool, anyway: bool) -> None:
        self.taken = self.sent = 0
        self.left_out = Tally()
        self._kafka = topology.kafka
        self._check, self._anyway = check, anyway
        roles: tuple[InputTopic, ...] = ("interactions", "labels", "nodes")
        self._topics = {name: role for role in roles for name in topology.input_topics(role)}
        self._judge = Judge(topology)
        self._seen: set[tuple[str, bytes]] = set()
        self._producer: Any = None
        self._waiting: list[tuple[Letter, Any]] = []

    def __enter__(self) -> Resending:
        if not self._check:
            self._producer = producer(self._kafka, acks="all", max_request_size=_LARGEST_REQUEST)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._producer is not None:
            try:
                if kind is None:
                    self._settle()
            finally:
                self._producer.close(_PATIENCE_S if kind is None else 0)

    def take(self, letter: Letter) -> None:
        """Send the record of a letter, or count why not."""
        of_record = letter.topic, letter.first_place
        if of_record in self._seen:
            return  # letters are written at least once, and a record that was sent again in vain has several
        self._seen.add(of_record)
        self.taken += 1
        reason = self._reason(letter)
        if reason is not None:
            self.left_out.add(letter.place, reason)
            return
        self.sent += 1
        if self._producer is not None:
            self._send(letter)

    def _reason(self, letter: Letter) -> str | None:
        """Why a letter is left out; None if it is to be sent."""
        if letter.size is not None:
            return f"the record has {letter.size:,} bytes; only the beginning was kept, so it cannot be sent again"
        topic = self._topics.get(letter.topic)
        if topic is None:
            return f"topic {letter.topic} is not one that this topology reads"
        if self._anyway:
            return None
        candidate = Candidate(letter.value, letter.headers, letter.key)
        return self._judge.reasons(topic, [candidate], time.time())[0]

    def _send(self, letter: Letter) -> None:
        partitions = self._producer.partitions_for(letter.topic)
        to = letter.partition if letter.partition in partitions else partition_of(letter.key or b"", len(partitions))
        headers = list(letter.headers)
        if all(name.lower() != FIRST_PLACE for name, _ in headers):
            headers.append((FIRST_PLACE, letter.first_place))
        if letter.written is not None and all(name.lower() != FIRST_WRITTEN for name, _ in headers):
            headers.append((FIRST_WRITTEN, b"%d" % round(letter.written * 1e3)))
        # No time is given: it is written now, and judged by that.
        try:
            sent = self._producer.send(letter.topic, key=letter.key, value=letter.value, headers=headers, partition=to)
        except KafkaError as problem:
            raise _refused(letter, problem) from problem
        self._waiting.append((letter, sent))
        if len(self._waiting) >= 1_000:
            self._settle()

    def _settle(self) -> None:
        """Wait until the brokers have what was sent; raises TopicError if they refused something."""
        for letter, sent in self._waiting:
            try:
                sent.get(_PATIENCE_S)
            except KafkaError as problem:
                raise _refused(letter, problem) from problem
        self._waiting.clear()


def _refused(letter: Letter, problem: KafkaError) -> TopicError:
    return TopicError(
        f"{letter.place} was not taken by the brokers ({problem}); what came before it was sent. To send it again is "
        "harmless"
    )
