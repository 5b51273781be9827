"""Reading between offsets: the end is reached by position, whatever compaction and retention took away."""

import time
from dataclasses import dataclass

import pytest
from kafka.errors import OffsetOutOfRangeError

from stream_tgat.errors import TopicError
from stream_tgat.topology import Topology
from stream_tgat.training import kafka_log
from stream_tgat.training.kafka_log import read_topic, still_there

TOPOLOGY = Topology(name="x")


@dataclass(frozen=True)
class Message:
    partition: int
    offset: int


class Broker:
    """One topic. offsets: {partition: those that have a record}   ends: {partition: end}"""

    def __init__(self, offsets, ends, begins=None):
        self.offsets, self.ends = offsets, ends
        self.begins = begins or dict.fromkeys(ends, 0)
        self.at_once = 2
        self.before_poll = lambda polls: None

    def consumer(self, *_, **__):
        return Client(self)


class Client:
    """As kafka-python's consumer, as far as it is used."""

    def __init__(self, broker):
        self.broker, self.positions, self.paused, self.polls = broker, {}, set(), 0

    def topics(self):
        return {"t"}

    def partitions_for_topic(self, topic):
        return set(self.broker.ends)

    def beginning_offsets(self, places):
        return {place: self.broker.begins[place.partition] for place in places}

    def end_offsets(self, places):
        return {place: self.broker.ends[place.partition] for place in places}

    def assign(self, places):
        self.positions = dict.fromkeys(places, 0)

    def seek(self, place, offset):
        self.positions[place] = offset

    def position(self, place):
        return self.positions[place]

    def pause(self, *places):
        self.paused |= set(places)

    def close(self):
        pass

    def poll(self, timeout_ms):
        self.polls += 1
        self.broker.before_poll(self.polls)
        found = {}
        for place, position in self.positions.items():
            if place in self.paused:
                continue
            if not self.broker.begins[place.partition] <= position <= self.broker.ends[place.partition]:
                raise OffsetOutOfRangeError({place: position})
            left = [each for each in self.broker.offsets[place.partition] if each >= position]
            taken = left[: self.broker.at_once]
            self.positions[place] = taken[-1] + 1 if len(left) > len(taken) else self.broker.ends[place.partition]
            if taken:
                found[place] = [Message(place.partition, offset) for offset in taken]
        return found


@pytest.fixture
def broker(monkeypatch):
    made = Broker({0: [0, 1, 4, 5, 8], 1: [], 2: [3]}, {0: 12, 1: 4, 2: 4})
    monkeypatch.setattr(kafka_log, "consumer", made.consumer)
    return made


def offsets(messages):
    return sorted((each.partition, each.offset) for each in messages)


def test_offsets_without_a_record_are_not_waited_for(broker):
    told = []
    found = read_topic(TOPOLOGY, "t", progress=lambda *place: told.append(place))
    assert offsets(found) == [(0, 0), (0, 1), (0, 4), (0, 5), (0, 8), (2, 3)]
    assert (told[0], told[-1]) == ((0, 20), (20, 20))
    assert told == sorted(told)


def test_part_is_read_and_no_more(broker):
    assert offsets(read_topic(TOPOLOGY, "t", {0: (1, 5), 1: (0, 0), 2: (4, 4)})) == [(0, 1), (0, 4)]


def test_records_that_go_while_others_are_read_are_passed_over_and_named(broker, caplog):
    def retention(polls):
        if polls == 2:
            broker.begins[0] = 8

    broker.before_poll = retention
    assert offsets(read_topic(TOPOLOGY, "t")) == [(0, 0), (0, 1), (0, 8), (2, 3)]
    assert "t/0: offsets 2 to 7 passed their retention while the topic was read" in caplog.text


def test_topic_that_is_created_anew_while_it_is_read_is_refused(broker):
    def anew(polls):
        if polls == 2:
            broker.ends[0] = 1

    broker.before_poll = anew
    with pytest.raises(TopicError, match="created anew"):
        list(read_topic(TOPOLOGY, "t"))


def test_part_that_is_gone_is_refused_by_name(broker):
    broker.begins[0] = 4
    with pytest.raises(TopicError, match=r"t/0 holds offsets 4 to 12, but 1 to 5 were asked for.*retention"):
        list(read_topic(TOPOLOGY, "t", {0: (1, 5)}))


def test_what_is_still_there_of_a_part_is_told_with_what_has_gone(broker):
    broker.begins[0] = 4
    assert still_there(TOPOLOGY, "t", {0: (1, 6), 1: (0, 4), 2: (2, 2)}) == ({0: (4, 6), 1: (0, 4), 2: (2, 2)}, 3)
    assert still_there(TOPOLOGY, "t", {0: (1, 3)}) == ({0: (3, 3)}, 2)
    with pytest.raises(TopicError, match="created anew"):
        still_there(TOPOLOGY, "t", {0: (5, 13)})
    with pytest.raises(TopicError, match="created anew"):
        still_there(TOPOLOGY, "t", {7: (0, 2)})


def test_long_stretch_without_records_is_passed_however_long_that_takes(broker, monkeypatch):
    """As a transaction of millions of records leaves it, when its producer has taken it back."""
    monkeypatch.setattr(kafka_log, "STALL_S", 0.1)
    passed = broker.offsets = {0: [], 1: [], 2: [3]}

    class SlowClient(Client):
        def poll(self, timeout_ms):
            time.sleep(0.03)
            for place, position in self.positions.items():
                self.positions[place] = min(position + 1, self.broker.ends[place.partition])
            return {}

    monkeypatch.setattr(kafka_log, "consumer", lambda *_, **__: SlowClient(broker))
    assert list(read_topic(TOPOLOGY, "t", {0: (0, 12)})) == passed[0]


def test_topic_that_gives_nothing_before_its_end_is_told(broker, monkeypatch):
    monkeypatch.setattr(kafka_log, "STALL_S", 0.1)
    monkeypatch.setattr(Client, "poll", lambda *_, **__: time.sleep(0.03) or {})
    with pytest.raises(TopicError, match="gave nothing for 0 s before its end"):
        list(read_topic(TOPOLOGY, "t"))
