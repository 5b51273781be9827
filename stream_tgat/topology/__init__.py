"""What a deployment looks like: the pydantic models of ``topologies/*.toml``, read once, at the edge.

A `Topology` is a frozen value that is passed down. It knows names, sizes and limits, and what follows from them (topic
names, node keys, the width of the edge vector); it knows neither Kafka nor torch.
"""

from stream_tgat.topology.agreement import RESERVED_FIELDS
from stream_tgat.topology.deployment import STATE_TABLE, Kind, Topics, Topology, node_key, split_node_key
from stream_tgat.topology.explaining import KEY_VARIABLE, LOGIN_VARIABLE, REGISTRY_VARIABLE
from stream_tgat.topology.inputs import (
    ROLES,
    Input,
    InputFormat,
    InputSection,
    InteractionInput,
    LabelInput,
    NodeInput,
    Role,
)
from stream_tgat.topology.loading import load_defaults, load_topology, registry_password
from stream_tgat.topology.sections import (
    LIVE_LATENESS_S,
    Duration,
    GateMetric,
    Graph,
    Head,
    Kafka,
    ModelShape,
    Monitoring,
    PresetName,
    Query,
    Registry,
    Releases,
    Retention,
    Retrain,
    SecurityProtocol,
    Serving,
    Time,
    Training,
)

__all__ = [
    "KEY_VARIABLE",
    "LIVE_LATENESS_S",
    "LOGIN_VARIABLE",
    "REGISTRY_VARIABLE",
    "RESERVED_FIELDS",
    "ROLES",
    "STATE_TABLE",
    "Duration",
    "GateMetric",
    "Graph",
    "Head",
    "Input",
    "InputFormat",
    "InputSection",
    "InteractionInput",
    "Kafka",
    "Kind",
    "LabelInput",
    "ModelShape",
    "Monitoring",
    "NodeInput",
    "PresetName",
    "Query",
    "Registry",
    "Releases",
    "Retention",
    "Retrain",
    "Role",
    "SecurityProtocol",
    "Serving",
    "Time",
    "Topics",
    "Topology",
    "Training",
    "load_defaults",
    "load_topology",
    "node_key",
    "registry_password",
    "split_node_key",
]
