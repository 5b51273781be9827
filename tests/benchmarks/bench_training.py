"""One training step of the encoder on one core, at the size of the Wikipedia graph."""

from __future__ import annotations

import statistics
import time

import numpy as np
import torch
from figures import Figure
from load import DATASETS
from speed import sgemm_gflops

from stream_tgat.graph.interactions import Interactions
from stream_tgat.nn.model import Model, ModelConfig
from stream_tgat.nn.threads import use_one_thread
from stream_tgat.training.negatives import RandomNegatives
from stream_tgat.training.scoring import TemporalGraph, link_loss

BATCH, ROUNDS, EDGE = 200, 7, 172
WIKIPEDIA = DATASETS / "wikipedia" / "events.csv.gz"


def wikipedia_or_alike() -> tuple[Interactions, str]:
    """The real graph where it is, else a random one of its size, with random edge features."""
    random = np.random.default_rng(0)
    if WIKIPEDIA.is_file():
        user, item, when = np.loadtxt(WIKIPEDIA, delimiter=",", skiprows=1, usecols=(0, 1, 2), unpack=True)
        source, destination, name = user.astype(np.int64), item.astype(np.int64), "wikipedia"
    else:
        count = 157_474
        source = (8227 * random.random(count) ** 3).astype(np.int64)
        destination = 8227 + (1000 * random.random(count) ** 3).astype(np.int64)
        when, name = np.sort(random.random(count)) * 2.7e6, "random, of wikipedia's size"
    edge = random.standard_normal((len(when), EDGE), np.float32)
    return Interactions.in_time_order(source, destination, when, edge), name


def run() -> list[Figure]:
    """Median CPU seconds of forward, backward and Adam over batches in the middle of the graph."""
    use_one_thread()
    torch.manual_seed(0)
    interactions, name = wikipedia_or_alike()
    config = ModelConfig(
        layers=2, attention_heads=2, neighbours=20, edge_features=EDGE, time_dim=100, hidden=172, candidates=20
    )
    model = Model(config).train()
    graph = TemporalGraph.of(interactions, None)
    negatives = RandomNegatives(interactions)
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-4, foreach=True)
    seconds = []
    for number in range(ROUNDS):
        events = np.arange(100_000 + 1000 * number, 100_000 + 1000 * number + BATCH)
        start = time.process_time()
        drawn = negatives.draw(interactions.time[events], 1, (0, number))
        optimiser.zero_grad(set_to_none=True)
        loss = link_loss(model, graph, events, drawn)
        loss.backward()
        optimiser.step()
        seconds.append(time.process_time() - start)
    context = {
        "batch": f"{BATCH} + {BATCH} negatives",
        "neighbours": "20 x 20",
        "edge": EDGE,
        "hidden": 172,
        "time": 100,
        "threads": 1,
        "graph": name,
        "best": min(seconds),
        "gflops": round(sgemm_gflops(5)),
    }
    return [Figure("train_batch_s", statistics.median(seconds[1:]), "s", context=context)]
