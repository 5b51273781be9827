"""The model as a whole: configuration, widths, heads, calibration, saving."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from stream_tgat.errors import ModelError
from stream_tgat.graph.pairs import PAIR_WIDTH
from stream_tgat.nn.model import Model, ModelConfig
from tests.unit.nn.models import PRESET_NAMES, random_model


def test_config_survives_json() -> None:
    config = ModelConfig(preset="dyglib", head_names=("ban", "leave"), head_hidden=(7, 3), activity=True)
    assert ModelConfig.from_dict(json.loads(json.dumps(config.to_dict()))) == config


def test_config_with_an_unknown_key_is_refused() -> None:
    with pytest.raises(ModelError, match="layres"):
        ModelConfig.from_dict({"layres": 2})


@pytest.mark.parametrize(
    ("values", "key"),
    [
        ({"preset": "papier"}, "papier"),
        ({"layers": 0}, "layers"),
        ({"edge_features": -1}, "edge_features"),
        ({"time_dim": 7}, "time_dim"),
        ({"hidden": 7}, "attention_heads"),
        ({"neighbours": 50}, "candidates"),
        ({"neighbours": 2, "candidates": 4, "activity": True}, "candidates"),
        ({"attention_dropout": 1.0}, "attention_dropout"),
        ({"sampling": "newest"}, "sampling"),
        ({"affinity": "cosine"}, "affinity"),
        ({"affinity": "inner", "pair_features": True}, "pair_features"),
        ({"head_names": ("a", "a")}, "head_names"),
    ],
)
def test_config_that_contradicts_itself_is_refused_by_name(values: dict[str, Any], key: str) -> None:
    with pytest.raises(ModelError, match=key):
        ModelConfig(**values)


@pytest.mark.parametrize(
    ("values", "widths"),
    [
        ({}, (0, 172)),
        ({"activity": True}, (3, 172)),
        ({"node_features": 5, "activity": True, "layers": 3, "hidden": 8}, (8, 8, 8)),
        ({"node_features": 5, "layers": 1}, (5,)),
    ],
)
def test_state_widths(values: dict[str, Any], widths: tuple[int, ...]) -> None:
    assert Model(ModelConfig(**values)).state_widths == widths


def test_layer0_joins_features_and_activity() -> None:
    features, activity = torch.ones(2, 4), torch.zeros(2, 3)
    with_activity = Model(ModelConfig(node_features=4, activity=True))
    assert with_activity.layer0(features, activity).tolist() == [[1.0] * 4 + [0.0] * 3] * 2
    assert Model(ModelConfig(node_features=4)).layer0(features, activity).shape == (2, 4)


def test_heads_are_independent_three_layer_networks() -> None:
    model = random_model(edge_features=3, head_names=("a", "b", "c"))
    embedding, edge = torch.randn(5, 8, dtype=torch.float64), torch.randn(5, 3, dtype=torch.float64)
    logits = model.logits(embedding, edge)
    for head in range(3):
        state = torch.cat([embedding, edge], 1)
        weights = [weight[head] for weight in model.heads.weights]
        biases = [bias[head] for bias in model.heads.biases]
        state = torch.relu(state @ weights[0] + biases[0])
        state = torch.relu(state @ weights[1] + biases[1])
        torch.testing.assert_close(logits[:, head], (state @ weights[2] + biases[2])[:, 0])


def test_predict_applies_each_heads_calibration() -> None:
    model = random_model(edge_features=3, head_names=("a", "b"))
    embedding, edge = torch.randn(5, 8, dtype=torch.float64), torch.randn(5, 3, dtype=torch.float64)
    logits = model.logits(embedding, edge)
    torch.testing.assert_close(model.predict(embedding, edge), torch.sigmoid(logits))
    model.calibration.copy_(torch.tensor([[2.0, -1.0], [0.5, 3.0]]))
    expected = torch.stack([torch.sigmoid(2 * logits[:, 0] - 1), torch.sigmoid(0.5 * logits[:, 1] + 3)], 1)
    torch.testing.assert_close(model.predict(embedding, edge), expected)


def test_model_without_heads_predicts_nothing() -> None:
    assert random_model(torch.float32).predict(torch.randn(4, 8), torch.zeros(4, 0)).shape == (4, 0)


def test_affinity_kinds() -> None:
    source, destination = torch.randn(4, 8, dtype=torch.float64), torch.randn(4, 8, dtype=torch.float64)
    inner = random_model(affinity="inner").affinity(source, destination)
    torch.testing.assert_close(inner, torch.einsum("bd,bd->b", source, destination))
    network = random_model(pair_features=True)
    pair = torch.randn(4, PAIR_WIDTH, dtype=torch.float64)
    hidden = network.affinity.network
    joined = torch.cat([source, destination, pair], 1)
    expected = torch.relu(joined @ hidden.weight_0 + hidden.bias_0) @ hidden.weight_1 + hidden.bias_1
    torch.testing.assert_close(network.affinity(source, destination, pair), expected[:, 0])


@pytest.mark.parametrize("preset", PRESET_NAMES)
def test_weights_and_buffers_survive_safetensors_bit_for_bit(preset: str, tmp_path: Path) -> None:
    config = ModelConfig(preset=preset, edge_features=3, hidden=8, time_dim=4, head_names=("a",))
    model, other = Model(config), Model(config)
    model.thresholds.fill_(0.75)
    model.calibration.copy_(torch.tensor([[1.5, -0.5]]))
    save_file(model.state_dict(), tmp_path / "weights.safetensors")
    other.load_state_dict(load_file(tmp_path / "weights.safetensors"))
    assert other.state_dict().keys() == model.state_dict().keys()
    for name, value in model.state_dict().items():
        assert torch.equal(other.state_dict()[name], value), name
    assert other.encoder.time_encoding.frequencies().dtype == torch.float64
    assert other.thresholds.item() == 0.75


@pytest.mark.parametrize("preset", PRESET_NAMES)
def test_initial_weights_are_glorot_uniform(preset: str) -> None:
    torch.manual_seed(0)
    model = Model(ModelConfig(preset=preset, edge_features=172, head_names=("a",)))
    for name, parameter in model.named_parameters():
        if parameter.ndim >= 2 and "biases" not in name:
            rows, columns = parameter.shape[-2:]
            bound = np.sqrt(6.0 / (rows + columns))
            assert parameter.abs().max() <= bound, name
            if parameter.numel() > 1000:
                assert abs(parameter.std().item() / (bound / np.sqrt(3.0)) - 1.0) < 0.1, name
