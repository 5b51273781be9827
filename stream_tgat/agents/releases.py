"""The release that serves: loaded when a worker starts, watched while it runs."""

import logging
from dataclasses import dataclass

import torch

from stream_tgat.agents.packets import PacketLayout
from stream_tgat.engine import AlertPolicy, Engine
from stream_tgat.nn.model import Model
from stream_tgat.nn.threads import use_one_thread
from stream_tgat.topology import Topology
from stream_tgat.training.promotion import load_serving

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Serving:
    """A model with its version, the engine that runs it, and the widths of everything that follows from it."""

    version: int
    engine: Engine
    layout: PacketLayout


def start_serving(topology: Topology) -> Serving:
    """Load the release that serves and make an engine for it; ReleaseError says how to make a release."""
    version, model, card = load_serving(topology)
    device = _device(topology.serving.device)
    # Workers are the unit of parallelism; threads of several would only get in each other's way.
    use_one_thread()
    serving = topology.serving
    engine = Engine(
        model.to(device),
        version,
        id_bytes=topology.id_bytes,
        cache_bytes=serving.cache_bytes,
        alerts=alert_policy(topology, model),
        max_wait_s=serving.max_wait_s or None,
        device=device,
    )
    layout = PacketLayout(
        topology.id_bytes,
        topology.edge_width,
        topology.graph.node_features,
        model.state_widths,
        len(model.config.head_names),
    )
    _log.info("Serving release of %s as model %d on %s", card.created, version, device)
    return Serving(version, engine, layout)


def alert_policy(topology: Topology, model: Model) -> AlertPolicy:
    """Thresholds of the topology where it gives them, else those of the release."""
    learnt = model.thresholds.tolist()
    return AlertPolicy(
        tuple(learnt[i] if head.threshold is None else head.threshold for i, head in enumerate(topology.heads)),
        tuple(head.cooldown_s for head in topology.heads),
    )


def _device(wanted: str) -> str:
    if wanted != "auto":
        return wanted
    return "cuda" if torch.cuda.is_available() else "cpu"
