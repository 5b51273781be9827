"""Producers compress as they like: the stream and everything that reads the log take all of it."""

from __future__ import annotations

from kafka import KafkaProducer

from stream_tgat.training.log_part import read_log
from tests.integration.equality.checks import finish
from tests.integration.equality.scenarios import Deployed
from tests.integration.equality.streams import random_log

CODECS = ("gzip", "lz4", "snappy", "zstd")


def test_records_of_every_codec_are_embedded_and_learnt_from(deployed: Deployed) -> None:
    log = random_log(200, seed=17)
    deployment, oracle = deployed(log)
    topic = deployment.topology.topics.interactions
    part = -(-len(log.records) // len(CODECS))
    for at, codec in enumerate(CODECS):
        producer = KafkaProducer(bootstrap_servers=deployment.servers, compression_type=codec, linger_ms=50)
        for each in log.records[at * part : (at + 1) * part]:
            producer.send(topic, key=b"", value=each.value, partition=each.partition, headers=list(each.headers))
        producer.close()
    deployment.start()
    finish(deployment, oracle)
    read, _ = read_log(deployment.topology)
    assert 2 * len(read.interactions) == len(oracle.embeddings)
