"""From a topology to the model it describes: the one place where the two meet."""

from dataclasses import replace

from stream_tgat.nn.model import ModelConfig
from stream_tgat.topology import Topology

SHAPE_FIELDS = (
    "preset",
    "layers",
    "attention_heads",
    "neighbours",
    "candidates",
    "node_features",
    "activity",
    "edge_features",
    "time_dim",
    "hidden",
    "sampling",
    "head_names",
    "decay_s",
)
"""What a worker's state and outputs depend on: a release must agree with its topology in all of these."""


def model_config(topology: Topology) -> ModelConfig:
    """The configuration of a model for a deployment."""
    shape = topology.model
    return ModelConfig(
        preset=shape.preset,
        layers=shape.layers,
        attention_heads=shape.attention_heads,
        neighbours=shape.neighbours,
        candidates=shape.candidates,
        node_features=topology.graph.node_features,
        activity=shape.activity,
        edge_features=topology.edge_width,
        time_dim=shape.time_dim,
        hidden=shape.hidden,
        sampling=shape.sampling,
        head_names=topology.head_names,
        head_members=shape.head_members,
        decay_s=shape.decay_s,
        affinity=shape.affinity,
        pair_features=shape.pair_features,
        attention_dropout=topology.training.dropout,
        head_dropout=topology.training.head_dropout,
    )


def differences(config: ModelConfig, topology: Topology, any_heads: bool = False) -> list[str]:
    """Where a model does not fit a topology, in words; empty if it does. any_heads: whatever its heads are"""
    wanted = model_config(topology)
    if any_heads:
        wanted = replace(wanted, head_names=config.head_names)
    return [
        f"{name} is {getattr(config, name)!r} in the release and {getattr(wanted, name)!r} in the topology"
        for name in SHAPE_FIELDS
        if getattr(config, name) != getattr(wanted, name)
    ]
