"""A shop for tests of commands: the demo's topology on topics of its own, its records, and a way to run a command."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from click.testing import CliRunner, Result
from kafka import KafkaProducer

from stream_tgat.nn.model import Model
from stream_tgat.topology import Topology, load_topology
from stream_tgat.training.card import ReleaseCard
from stream_tgat.training.promotion import load_promoted, serving


def small_shop(servers: str, topic_prefix: str, folder: Path, **sections: dict[str, Any]) -> Topology:
    """The demo's topology with a small model and 3 partitions. sections: keys to change, by section"""
    content = load_topology("topologies/groceries.toml").model_dump(mode="json")
    content["kafka"] |= {"bootstrap_servers": servers, "topic_prefix": topic_prefix, "partitions": 3}
    content["graph"]["max_id_bytes"] = 48  # room for the prefix in a default id
    content["model"] |= {"neighbours": 10, "candidates": 10, "hidden": 16, "time_dim": 8}
    content["retrain"]["when_worse_than_rules"] = "promote"  # such a model learns little, and nobody asks it for much
    content["releases"]["store"] = str(folder / "releases")
    for section, changed in sections.items():
        content[section] |= changed
    return Topology.model_validate(content)


def produce(topology: Topology, records) -> None:
    """Records of a data set's stream; punctuation is left out."""
    topics = vars(topology.topics)
    producer = KafkaProducer(bootstrap_servers=topology.kafka.bootstrap_servers, linger_ms=20)
    for each in records:
        if each.value is not None:
            producer.send(topics[each.topic], key=each.key, value=each.value, headers=list(each.headers))
    producer.flush()
    producer.close()


def run(command, *arguments: str) -> Result:
    """A click command on a wide terminal; what it raises is raised here."""
    return CliRunner(env={"COLUMNS": "200"}).invoke(command, list(arguments), catch_exceptions=False)


def load_serving(topology: Topology) -> tuple[int, Model, ReleaseCard]:
    """Version, model (in evaluation mode) and card of the release that serves."""
    promotion = serving(topology)
    model, card = load_promoted(topology, promotion)
    return promotion.version, model, card
