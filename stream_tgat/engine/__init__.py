"""The streaming model without any stream: half-edges and peer embeddings in, embeddings, alerts and messages out.

`core` is what others call; `ready` computes pending rows, `looking` answers questions, `layers` is the model over
stored rows. It knows neither Kafka nor Faust.

Fed in one process (`single_pass`) it is the oracle of the tests, the re-encoder of rollouts, the benchmarks' core.
"""

from stream_tgat.engine.core import Engine
from stream_tgat.engine.looking import AlertStates, Look, Past
from stream_tgat.engine.single_pass import both_halves, settle, single_pass
from stream_tgat.engine.values import (
    AlertPolicy,
    Appended,
    AttendedRow,
    Computed,
    FinalEmbeddings,
    HalfEdges,
    LatestNodes,
    PeerEmbeddings,
    ThresholdCrossing,
)

__all__ = [
    "AlertPolicy",
    "AlertStates",
    "Appended",
    "AttendedRow",
    "Computed",
    "Engine",
    "FinalEmbeddings",
    "HalfEdges",
    "LatestNodes",
    "Look",
    "Past",
    "PeerEmbeddings",
    "ThresholdCrossing",
    "both_halves",
    "settle",
    "single_pass",
]
