"""A deployment with one head, and a stream in which users of a kind meet items of their kind, in pairs."""

import numpy as np
import orjson
import pytest

from stream_tgat.datasets.stream import record
from stream_tgat.topology import Topology
from tests.logs import build_log


@pytest.fixture(scope="session")
def shop():
    return Topology.model_validate(
        {
            "name": "shop",
            "model": {"hidden": 8, "time_dim": 4, "neighbours": 4, "candidates": 6, "pair_features": True},
            "features": [{"kind": "number", "name": "amount"}, {"kind": "category", "name": "kind", "values": ["a"]}],
            "heads": [{"name": "even"}],
            "training": {"epochs": 2, "batch_size": 50, "learning_rate": 0.01, "head_epochs": 10},
        }
    )


@pytest.fixture(scope="session")
def rows():
    """What happened: user, item, timestamp, amount, kind, and whether the user is an even one."""
    random = np.random.default_rng(5)
    users = random.integers(20, size=600)
    return [
        {
            "user": f"u{user}",
            "item": f"i{2 * int(random.integers(5)) + user % 2}",
            "timestamp": 1e9 + 10.0 * number,
            "amount": float(random.random()),
            "kind": "ab"[user % 2],
            "even": int(1 - user % 2),
        }
        for number, user in enumerate(users.tolist())
    ]


@pytest.fixture(scope="session")
def log(shop, rows):
    records = []
    for row in rows:
        records.append(record("interactions", row["user"], {k: v for k, v in row.items() if k != "even"}, 0.0))
        label = {"node": row["user"], "label": "even", "value": row["even"], "timestamp": row["timestamp"]}
        records.append(record("labels", row["user"], label, 0.0))
    assert orjson.loads(records[0].value)["user"] == rows[0]["user"]
    return build_log(shop, records)
