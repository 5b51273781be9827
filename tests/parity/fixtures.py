"""The parity fixtures as this package's values: a model with the peer's weights, events, queries, expected numbers."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from stream_tgat.graph.adjacency import TemporalAdjacency
from stream_tgat.graph.interactions import Interactions
from stream_tgat.nn.attention import Attention
from stream_tgat.nn.model import Model, ModelConfig
from stream_tgat.nn.tgat import FeedForward

NAMES = ("paper_layer", "reference", "dyglib")
REPOSITORY = Path(__file__).resolve().parents[2]

Arrays = dict[str, NDArray[Any]]


def arrays(name: str) -> Arrays:
    """All arrays of a fixture file, or a skip that says where it was looked for."""
    folder = Path(os.environ.get("PARITY_DIR", REPOSITORY / ".." / "shared" / "parity"))
    path = folder / f"{name}.npz"
    if not path.is_file():
        pytest.skip(f"no parity fixture {path}; set PARITY_DIR")
    with np.load(path, allow_pickle=False) as file:
        return {key: file[key] for key in file.files}


@dataclass(frozen=True, eq=False)
class Fixture:
    """One fixture, read into this package's types.

    model: the preset with the fixture's weights, in evaluation mode, of the type asked for
    interactions: event_id 1 … E become places 0 … E-1; node ids stay as they are (0 never occurs)
    node_features: [N + 1, F] of that type
    nodes, times: Q queries (paper_layer), or 2Q: the sources' and then the destinations' (peers)
    expected: [Q or 2Q, D] float64, with a zero aggregate for nodes without past
    peer_float32: [2Q, D] float32, the peer as it is; None for paper_layer
    flagged: [Q or 2Q] bool, where the peer averages padding
    raw: the file's arrays
    """

    name: str
    model: Model
    interactions: Interactions
    node_features: Tensor
    nodes: NDArray[np.int64]
    times: NDArray[np.float64]
    expected: NDArray[np.float64]
    peer_float32: NDArray[np.float32] | None
    flagged: NDArray[np.bool_]
    raw: Arrays

    def history(self) -> TemporalAdjacency:
        """All events, with a place for nodes that never occur."""
        return TemporalAdjacency(self.interactions, node_count=len(self.node_features))


def load_fixture(name: str, dtype: torch.dtype = torch.float32) -> Fixture:
    """Read `paper_layer`, `reference` or `dyglib`; sizes, layers and heads come from the file."""
    raw = arrays(name)
    interactions = Interactions(
        raw["event_src"], raw["event_dst"], raw["event_time"], raw["edge_feat"][1:].astype(np.float32)
    )
    assert np.array_equal(raw["event_id"], np.arange(1, len(interactions) + 1))
    model = _LOADERS[name](raw, dtype).eval()
    if name == "paper_layer":
        nodes, times, expected = raw["query_node"], raw["query_time"], raw["embedding"]
        peer, flagged = None, np.zeros(len(nodes), np.bool_)
    else:
        nodes = np.concatenate([raw["query_src"], raw["query_dst"]])
        times = np.concatenate([raw["query_time"]] * 2)
        expected = np.concatenate([raw["src_embedding_zero_aggregate"], raw["dst_embedding_zero_aggregate"]])
        peer = np.concatenate([raw["src_embedding"], raw["dst_embedding"]])
        flagged = (raw["root_without_past"] | raw["any_neighbour_without_past"]).T.ravel()
    features = torch.from_numpy(raw["node_feat"]).to(dtype)
    return Fixture(name, model, interactions, features, nodes, times, expected, peer, flagged, raw)


def half_edges(fixture: Fixture, which: slice = slice(None)) -> Any:
    """The events as the engine's HalfEdges, two each: node keys b"n" + id, interaction ids that sort like they do."""
    from stream_tgat.engine import HalfEdges

    part = fixture.interactions.select(which)
    events = np.repeat(np.arange(len(fixture.interactions))[which], 2)
    return HalfEdges(
        node=node_keys(np.stack([part.source, part.destination], 1).ravel()),
        peer=node_keys(np.stack([part.destination, part.source], 1).ravel()),
        interaction=interaction_ids(events),
        side=np.tile(np.array([0, 1], np.uint8), len(part)),
        time=np.repeat(part.time, 2),
        edge=np.repeat(part.edge, 2, axis=0),
    )


def node_keys(nodes: NDArray[np.int64], id_bytes: int = 40) -> NDArray[np.bytes_]:
    """Node ids as keys of a graph with one id space."""
    return np.array([b"n%d" % node for node in nodes], f"S{id_bytes}")


def interaction_ids(events: NDArray[np.int64], id_bytes: int = 40) -> NDArray[np.bytes_]:
    """Places of interactions as ids whose bytes sort like them."""
    return np.array([b"%012d" % event for event in events], f"S{id_bytes}")


def _model(raw: Arrays, dtype: torch.dtype, **config: Any) -> Model:
    candidates = max(5, 2 * int(raw["num_neighbours"]))
    model = Model(
        ModelConfig(
            layers=int(raw["num_layers"]),
            attention_heads=int(raw["num_heads"]),
            neighbours=int(raw["num_neighbours"]),
            candidates=candidates,
            node_features=raw["node_feat"].shape[1],
            edge_features=raw["edge_feat"].shape[1],
            **config,
        )
    )
    model.to(dtype)
    # Frequencies stay in float64, whatever the model's type.
    for name, parameter in model.encoder.time_encoding.named_parameters():
        if name != "phase":
            parameter.data = parameter.data.double()
    return model


def _paper(raw: Arrays, dtype: torch.dtype) -> Model:
    model = _model(raw, dtype, preset="paper", time_dim=2 * len(raw["omega"]), hidden=raw["embedding"].shape[1])
    _set_frequencies(model, log_omega=np.log(raw["omega"]))
    for layer, attention, merge in _layers(model):
        here = {key: raw[f"param.layer{layer}.{key}"] for key in ("W_Q", "W_K", "W_V", "W_0", "b_0", "W_1", "b_1")}
        query, key, value = (here[k].transpose(1, 0, 2).reshape(here[k].shape[1], -1) for k in ("W_Q", "W_K", "W_V"))
        _set(attention.query, _without_edge_rows(query, attention))
        _set(attention.key, key)
        _set(attention.value, value)
        _set_merge(merge, here["W_0"], here["b_0"], here["W_1"], here["b_1"])
    return model


def _reference(raw: Arrays, dtype: torch.dtype) -> Model:
    time, hidden = len(raw["param.time_encoder.phase"]), raw["src_embedding"].shape[1]
    model = _model(raw, dtype, preset="reference", time_dim=time, hidden=hidden, affinity="mlp")
    _set_frequencies(model, omega=raw["param.time_encoder.basis_freq"], phase=raw["param.time_encoder.phase"])
    for layer, attention, merge in _layers(model):
        prefix = f"param.attn_model_list.{layer - 1}."
        target = prefix + "multi_head_target."
        _set(attention.query, _without_edge_rows(raw[target + "w_qs.weight"].T, attention))
        _set(attention.key, raw[target + "w_ks.weight"].T)
        _set(attention.value, raw[target + "w_vs.weight"].T)
        _set_residual(attention, raw, target + "fc", target + "layer_norm")
        _set_linear_merge(merge, raw, prefix + "merger")
    network = model.affinity.network
    assert network is not None
    _set_linear_merge(network, raw, "param.affinity_score")
    return model


def _dyglib(raw: Arrays, dtype: torch.dtype) -> Model:
    time, hidden = len(raw["param.time_encoder.w.bias"]), raw["src_embedding"].shape[1]
    model = _model(raw, dtype, preset="dyglib", time_dim=time, hidden=hidden)
    _set_frequencies(model, omega=raw["param.time_encoder.w.weight"][:, 0], phase=raw["param.time_encoder.w.bias"])
    for layer, attention, merge in _layers(model):
        prefix = f"param.temporal_conv_layers.{layer - 1}."
        _set(attention.query, raw[prefix + "query_projection.weight"].T)
        _set(attention.key, raw[prefix + "key_projection.weight"].T)
        _set(attention.value, raw[prefix + "value_projection.weight"].T)
        _set_residual(attention, raw, prefix + "residual_fc", prefix + "layer_norm")
        _set_linear_merge(merge, raw, f"param.merge_layers.{layer - 1}")
    return model


_LOADERS: dict[str, Callable[[Arrays, torch.dtype], Model]] = {
    "paper_layer": _paper,
    "reference": _reference,
    "dyglib": _dyglib,
}


def _layers(model: Model) -> list[tuple[int, Attention, FeedForward]]:
    pairs = zip(model.encoder.attention, model.encoder.merge, strict=True)
    return [(layer, attention, merge) for layer, (attention, merge) in enumerate(pairs, start=1)]  # type: ignore[misc]


def _set(parameter: Tensor, values: NDArray[Any]) -> None:
    assert parameter.shape == values.shape, (parameter.shape, values.shape)
    with torch.no_grad():
        parameter.copy_(torch.from_numpy(np.array(values)))


def _set_frequencies(model: Model, **values: NDArray[Any]) -> None:
    encoding = model.encoder.time_encoding
    for name, value in values.items():
        _set(getattr(encoding, name), value)


def _set_residual(attention: Attention, raw: Arrays, output: str, norm: str) -> None:
    _set(attention.output, raw[output + ".weight"].T)
    _set(attention.output_bias, raw[output + ".bias"])
    _set(attention.norm.weight, raw[norm + ".weight"])
    _set(attention.norm.bias, raw[norm + ".bias"])


def _set_linear_merge(merge: FeedForward, raw: Arrays, prefix: str) -> None:
    first, second = (prefix + name for name in (".fc1", ".fc2"))
    _set_merge(merge, raw[first + ".weight"].T, raw[first + ".bias"], raw[second + ".weight"].T, raw[second + ".bias"])


def _set_merge(merge: nn.Module, *values: NDArray[Any]) -> None:
    for parameter, value in zip(merge.parameters(), values, strict=True):
        _set(parameter, value)


def _without_edge_rows(query: NDArray[Any], attention: Attention) -> NDArray[Any]:
    """The rows that meet the query's zeros have no counterpart here."""
    rows = np.r_[: attention.state, attention.state + attention.edge : len(query)]
    return query[rows]
