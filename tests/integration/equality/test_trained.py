"""A release that was trained from the log is served by a worker, which says what evaluation says."""

from __future__ import annotations

from itertools import starmap
from pathlib import Path

import numpy as np
import orjson
import torch
from broker import Broker

from stream_tgat.commands.topics import ensure_topics
from stream_tgat.topology import split_node_key
from stream_tgat.training.heads import HeadSettings, embed_events
from stream_tgat.training.links import LinkSettings
from stream_tgat.training.log_part import read_log
from stream_tgat.training.pipeline import train
from stream_tgat.training.scoring import TemporalGraph
from stream_tgat.wire import interaction_name
from tests.integration.equality.deployment import Deployment
from tests.integration.equality.oracle import TOLERANCE
from tests.integration.equality.settings import HEADS
from tests.integration.equality.streams import random_log

LINKS = LinkSettings(epochs=2, batch_size=50, learning_rate=0.01)


def test_trained_release_streams_what_evaluation_says(broker: Broker, topic_prefix: str, tmp_path: Path) -> None:
    log = random_log(400, seed=31)
    with Deployment(broker.bootstrap_servers, tmp_path, topic_prefix, log) as deployment:
        topology = deployment.topology
        ensure_topics(topology)
        for key, value in log.nodes:
            deployment.producer.send(topology.topics.nodes, key=key, value=value)
        deployment.produce(log.records)
        produce_labels(deployment)
        known, _ = read_log(topology)
        trained = train(topology, known, LINKS, HeadSettings(epochs=3))
        assert all(head.trained for head in trained.heads)
        deployment.model = trained.model
        version = deployment.promote()

        deployment.start()
        interactions = known.interactions
        deployment.wait_for(2 * len(interactions))
        deployment.stop()

    graph = TemporalGraph.of(interactions, known.node_features)
    with torch.inference_mode():
        expected = [
            graph.embed(trained.model, nodes, interactions.time).numpy()
            for nodes in (interactions.source, interactions.destination)
        ]
        inputs = embed_events(trained.model, graph, np.arange(len(interactions)))
        width = trained.model.config.hidden
        probabilities = trained.model.predict(inputs[:, :width], inputs[:, width:]).numpy()
    came = deployment.outputs.embeddings
    assert len(came) == 2 * len(interactions)
    users, items = (
        [split_node_key(known.nodes[node])[1] for node in nodes]
        for nodes in (interactions.source, interactions.destination)
    )
    made_of = zip((each.decode() for each in known.ids.tolist()), interactions.time.tolist(), users, items, strict=True)
    for event, name in enumerate(starmap(interaction_name, made_of)):
        for side, nodes in enumerate((interactions.source, interactions.destination)):
            found = came[f"{name}/{side}/{version}"]
            assert found["node"] == split_node_key(known.nodes[nodes[event]])[1]
            difference = np.abs(np.array(found["embedding"]) - expected[side][event]).max()
            assert difference <= TOLERANCE, f"{name}/{side}: embedding is off by {difference:g}"
        told = came[f"{name}/0/{version}"]["predictions"]
        difference = np.abs([told[head] for head in HEADS] - probabilities[event]).max()
        assert difference <= TOLERANCE, f"{name}: prediction is off by {difference:g}"
    assert np.ptp(probabilities, axis=0).min() > 100 * TOLERANCE, "heads that say the same of all show nothing"


def produce_labels(deployment: Deployment) -> None:
    """Every third interaction is judged, at its own time."""
    topic = deployment.topology.topics.labels
    random = np.random.default_rng(1)
    values = [each.value for each in deployment.log.records if (each.value or b"").startswith(b"{")]
    for value in values[::3]:
        read = orjson.loads(value)
        for head in HEADS:
            label = {"node": read["user"], "label": head, "value": bool(random.random() < 0.5)}
            deployment.producer.send(topic, value=orjson.dumps({**label, "timestamp": read["timestamp"]}))
    deployment.producer.flush()
