"""The release whose weights the messages are made with: found among promotions, checked, and what follows from it.

Of the promotions on `models` the newest that can serve does. One that cannot (altered, missing, not finite, made for
another topology) is refused with its reason.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass

from stream_tgat.engine import AlertPolicy, Engine
from stream_tgat.errors import StreamTgatError
from stream_tgat.message_passing.state_identity import meaning_hash
from stream_tgat.nn.model import Model
from stream_tgat.topology import Topology
from stream_tgat.training.promotion import Promotion, newest_loadable
from stream_tgat.wire.packets import PacketLayout

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Ready:
    """A promoted release, loaded and checked: what an engine needs to serve it."""

    version: int
    name: str
    model: Model
    alerts: AlertPolicy


@dataclass(frozen=True)
class ServingEngine:
    """A model with its version, the engine that runs it, and the widths of everything that follows from it.

    next_offset: of `models`; all promotions before it were looked at
    """

    version: int
    engine: Engine
    layout: PacketLayout
    next_offset: int


def newest_that_can_serve(topology: Topology, found: Sequence[Promotion]) -> tuple[Ready | None, list[StreamTgatError]]:
    """The newest of these promotions that can be loaded and fits, and why all newer ones cannot; newest first."""
    loaded, refused = newest_loadable(topology, found)
    for promotion, refusal in refused:
        _log.error("Model %d is refused: %s", promotion.version, refusal)
    refusals = [refusal for _, refusal in refused]
    if loaded is None:
        return None, refusals
    promotion, model = loaded.promotion, loaded.model
    return Ready(promotion.version, promotion.record.release, model, alert_policy(topology, model)), refusals


def packet_layout(topology: Topology, model: Model) -> PacketLayout:
    """Widths of the packets of a deployment that serves this model."""
    return PacketLayout(
        topology.id_bytes,
        topology.edge_width,
        topology.graph.node_features,
        model.state_widths,
        meaning_hash(topology),
    )


def alert_policy(topology: Topology, model: Model) -> AlertPolicy:
    """Thresholds of the topology where it gives them, else those of the release."""
    learnt = model.thresholds.tolist()
    return AlertPolicy(
        tuple(learnt[i] if head.threshold is None else head.threshold for i, head in enumerate(topology.heads)),
        tuple(head.cooldown_s for head in topology.heads),
    )
