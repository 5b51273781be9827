"""Topic `quality`: the newest report for everybody else, under one key."""

from typing import Final, Self

from kafka.errors import KafkaError
from pydantic import ValidationError

from stream_tgat.brokers import producer
from stream_tgat.errors import TopicError
from stream_tgat.topology import Topology
from stream_tgat.training.kafka_log import read_topic, topic_range
from stream_tgat.wire import QualityReport

KEY: Final = b"serving"
SEND_TIMEOUT_S: Final = 30.0


class Publisher:
    """Sends reports; `close` it afterwards."""

    def __init__(self, topology: Topology) -> None:
        self._topic = topology.topics.quality
        topic_range(topology, self._topic)  # a broker may create what is missing, with settings of its own
        try:
            self._producer = producer(topology.kafka, acks="all")
        except KafkaError as problem:
            raise TopicError(f"No Kafka at {topology.kafka.bootstrap_servers}: {problem!r}") from problem

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def publish(self, report: QualityReport) -> None:
        """Send a report; returns once the log has it."""
        value = report.model_dump_json().encode()
        headers = [("content-type", b"application/json")]
        try:
            self._producer.send(self._topic, key=KEY, value=value, headers=headers, partition=0).get(SEND_TIMEOUT_S)
        except KafkaError as problem:
            raise TopicError(f"The report could not be sent to {self._topic}: {problem!r}") from problem

    def close(self) -> None:
        """Disconnect."""
        self._producer.close(timeout=5)


def newest_report(topology: Topology) -> QualityReport | None:
    """The newest report on `quality`; None where nobody has published one, or only in a form not known here."""
    newest = None
    for record in read_topic(topology, topology.topics.quality):
        if record.key == KEY and record.value is not None:
            newest = record.value
    try:
        return None if newest is None else QualityReport.model_validate_json(newest)
    except ValidationError:
        return None
