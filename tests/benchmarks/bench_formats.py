"""What an embedding costs in JSON, MessagePack and Avro: CPU time to make one, and its bytes."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from figures import Figure

from stream_tgat.topology import Topology
from stream_tgat.wire import EmbeddingEncoder, OutputSchemas

WIDTHS = (64, 172)
FORMS = ("json", "msgpack", "avro")
COUNT, ROUNDS = 3000, 15


def run() -> list[Figure]:
    return [figure for width in WIDTHS for form in FORMS for figure in of_format(form, width)]


def of_format(form: str, width: int) -> list[Figure]:
    """The least of some rounds, in CPU time of this thread: what runs beside counts little."""
    given = {"name": "x", "heads": [{"name": "returns"}], "schema_registry": {"url": "http://nobody"}}
    topology = Topology.model_validate({**given, "kafka": {"output_format": form}})
    encoder = EmbeddingEncoder(topology, OutputSchemas(1, 2, 3))
    vectors = np.random.default_rng(0).standard_normal((COUNT, width)).astype(np.float32)
    fields: dict[str, Any] = {
        "interaction": b"basket-7", "node": b"uann", "peer": b"itea", "side": 0, "timestamp": 1714552200.0,
        "predictions": np.array([0.1234567], np.float32), "model": 12, "late": False,
    }  # fmt: skip
    best, size = float("inf"), 0
    for _ in range(ROUNDS):
        began, size = time.thread_time(), 0
        for vector in vectors:
            size += len(encoder.encode(**fields, embedding=vector)[1])
        best = min(best, time.thread_time() - began)
    return [
        Figure(f"format_{form}_{width}_us", 1e6 * best / COUNT, "us"),
        Figure(f"format_{form}_{width}_bytes", size / COUNT, "bytes"),
    ]
