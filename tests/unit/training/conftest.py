"""A small deployment, and a stream in which there is something to learn."""

import numpy as np
import orjson
import pytest

from stream_tgat.datasets.stream import StreamRecord
from stream_tgat.topology import Topology
from tests.logs import build_log


@pytest.fixture(scope="session")
def topology():
    return Topology.model_validate(
        {
            "name": "small",
            "graph": {"node_features": 4},
            "model": {"hidden": 16, "time_dim": 8, "neighbours": 4, "candidates": 6},
            "features": [{"kind": "number", "name": "amount"}],
            "heads": [{"name": "even"}, {"name": "never"}],
            "training": {"epochs": 3, "batch_size": 50, "learning_rate": 0.01, "head_epochs": 20, "test_share": 0.0},
        }
    )


def interaction(number, user, item, time, amount=1.0):
    value = {"id": f"e{number:05d}", "user": user, "item": item, "timestamp": time, "amount": amount}
    return StreamRecord("interactions", user.encode(), orjson.dumps(value), time)


def label(user, name, value, time, known):
    content = {"node": user, "label": name, "value": value, "timestamp": time, "known_at": known}
    return StreamRecord("labels", user.encode(), orjson.dumps(content), known)


@pytest.fixture(scope="session")
def records():
    """Users of two kinds meet items of two kinds, in pairs; label `even` is the kind, told 50 s later."""
    random = np.random.default_rng(5)
    made = []
    for item in range(10):
        vector = np.zeros(4)
        vector[item % 2] = 1.0
        value = {"node": f"i{item}", "features": vector.tolist()}
        made.append(StreamRecord("nodes", b"", orjson.dumps(value), 0.0))
    for number in range(600):
        user = int(random.integers(20))
        item = 2 * int(random.integers(5)) + user % 2
        time = 1e9 + 10.0 * number
        made.append(interaction(number, f"u{user}", f"i{item}", time, float(random.random())))
        if number % 3 == 0:
            made.append(label(f"u{user}", "even", 1 - user % 2, time, time + 50.0))
    return made


@pytest.fixture(scope="session")
def log(topology, records):
    return build_log(topology, records)
