"""One layer, re-associated, against the plain equations."""

from dataclasses import dataclass

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from stream_tgat.nn.attention import neighbour_weights
from stream_tgat.nn.model import Model
from tests.unit.nn.models import PRESET_NAMES, random_model
from tests.unit.nn.plain import plain_layer


@dataclass
class Inputs:
    own: list[torch.Tensor]
    neighbour_state: torch.Tensor
    edge: torch.Tensor
    span: torch.Tensor
    mask: torch.Tensor


def random_inputs(model: Model, layer: int, batch: int, places: int, seed: int = 0) -> Inputs:
    torch.manual_seed(seed)
    widths = model.state_widths
    dtype = model.thresholds.dtype
    return Inputs(
        own=[torch.randn(batch, width, dtype=dtype) for width in widths[:layer]],
        neighbour_state=torch.randn(batch, places, widths[layer - 1], dtype=dtype),
        edge=torch.randn(batch, places, model.config.edge_features, dtype=dtype),
        span=torch.rand(batch, places, dtype=torch.float64) * 10.0 ** torch.randint(-3, 7, (batch, places)),
        mask=torch.rand(batch, places) < 0.7,
    )


def run(model: Model, layer: int, inputs: Inputs) -> tuple[torch.Tensor, torch.Tensor]:
    with torch.inference_mode():
        return model.layer(layer, inputs.own, inputs.neighbour_state, inputs.edge, inputs.span, inputs.mask)


def plain(model: Model, layer: int, inputs: Inputs) -> tuple[np.ndarray, np.ndarray]:
    batch, places = inputs.mask.shape
    states = np.zeros((batch, model.config.hidden))
    weights = np.zeros((batch, model.config.attention_heads, places))
    for row in range(batch):
        valid = [k for k in range(places) if inputs.mask[row, k]]
        neighbours = [
            (
                inputs.neighbour_state[row, k].double().numpy(),
                inputs.edge[row, k].double().numpy(),
                float(inputs.span[row, k]),
            )
            for k in valid
        ]
        own = [state[row].double().numpy() for state in inputs.own]
        states[row], weights[row][:, valid] = plain_layer(model, layer, own, neighbours)
    return states, weights


@settings(max_examples=60, deadline=None)
@given(
    preset=st.sampled_from(PRESET_NAMES),
    layer=st.integers(1, 3),
    batch=st.integers(1, 5),
    places=st.integers(0, 6),
    heads=st.sampled_from([1, 2, 4]),
    features=st.sampled_from([0, 1, 5]),
    activity=st.booleans(),
    edge=st.sampled_from([0, 1, 4]),
    seed=st.integers(0, 1000),
)
def test_layer_any_shape_equals_the_plain_equations(
    preset: str,
    layer: int,
    batch: int,
    places: int,
    heads: int,
    features: int,
    activity: bool,
    edge: int,
    seed: int,
) -> None:
    model = random_model(
        preset=preset,
        layers=3,
        attention_heads=heads,
        node_features=features,
        activity=activity,
        edge_features=edge,
        seed=seed,
    )
    inputs = random_inputs(model, layer, batch, places, seed)
    states, weights = run(model, layer, inputs)
    expected_states, expected_weights = plain(model, layer, inputs)
    np.testing.assert_allclose(states.numpy(), expected_states, rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(weights.numpy(), expected_weights, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("preset", PRESET_NAMES)
def test_layer_in_float32_stays_close_to_the_plain_equations_in_float64(preset: str) -> None:
    model = random_model(torch.float32, preset=preset, node_features=6, edge_features=5)
    inputs = random_inputs(model, 2, 50, 10)
    inputs.span[:] = torch.rand(50, 10, dtype=torch.float64) * 3e7
    # `.to(float32)` rounds the frequencies too, so both sides read the same ones.
    states, _ = run(model, 2, inputs)
    assert states.dtype == torch.float32
    assert np.abs(states.numpy() - plain(model, 2, inputs)[0]).max() < 5e-5


@pytest.mark.parametrize("preset", PRESET_NAMES)
@pytest.mark.parametrize("garbage", [1e30, -7.0])
def test_layer_masked_places_hold_anything_finite_without_effect(preset: str, garbage: float) -> None:
    model = random_model(preset=preset, node_features=4, edge_features=3)
    inputs = random_inputs(model, 1, 8, 6)
    clean = run(model, 1, inputs)
    for tensor in (inputs.neighbour_state, inputs.edge, inputs.span):
        tensor[~inputs.mask] = garbage
    again = run(model, 1, inputs)
    assert torch.equal(clean[0], again[0])
    assert torch.equal(clean[1], again[1])
    assert not again[1].transpose(1, 2)[~inputs.mask].any()


@pytest.mark.parametrize("preset", PRESET_NAMES)
def test_target_without_neighbours_does_not_depend_on_padding_or_on_its_width(preset: str) -> None:
    model = random_model(preset=preset, node_features=4, edge_features=3)
    inputs = random_inputs(model, 1, 5, 6)
    inputs.mask[:] = False
    none = Inputs(inputs.own, inputs.neighbour_state[:, :0], inputs.edge[:, :0], inputs.span[:, :0], inputs.mask[:, :0])
    assert torch.equal(run(model, 1, inputs)[0], run(model, 1, none)[0])


def test_weights_of_a_row_sum_to_one_or_are_zero() -> None:
    mask = torch.tensor([[True, False, True], [False, False, False]])
    weights = neighbour_weights(torch.tensor([[[1e4, 3.0, -1e4]], [[1.0, 2.0, 3.0]]]), mask)
    assert weights.tolist() == [[[1.0, 0.0, 0.0]], [[0.0, 0.0, 0.0]]]


def test_order_of_neighbours_does_not_matter() -> None:
    model = random_model(node_features=4, edge_features=3)
    inputs = random_inputs(model, 1, 4, 6)
    order = torch.tensor([3, 1, 5, 0, 2, 4])
    shuffled = Inputs(
        inputs.own,
        inputs.neighbour_state[:, order],
        inputs.edge[:, order],
        inputs.span[:, order],
        inputs.mask[:, order],
    )
    torch.testing.assert_close(run(model, 1, inputs)[0], run(model, 1, shuffled)[0])


@pytest.mark.parametrize("preset", PRESET_NAMES)
def test_gradients_of_all_layer_parameters_are_those_of_finite_differences(preset: str) -> None:
    model = random_model(preset=preset, node_features=2, edge_features=2, hidden=4)
    inputs = random_inputs(model, 1, 3, 4)
    inputs.span.clamp_(max=50.0)
    parts = [model.encoder.time_encoding, model.encoder.attention[0], model.encoder.merge[0]]
    parameters = [parameter for part in parts for parameter in part.parameters()]
    states = [inputs.own[0].requires_grad_(), inputs.neighbour_state.requires_grad_()]

    def layer(own: torch.Tensor, neighbour_state: torch.Tensor, *_: torch.Tensor) -> torch.Tensor:
        return model.layer(1, [own], neighbour_state, inputs.edge, inputs.span, inputs.mask)[0]

    assert torch.autograd.gradcheck(layer, (*states, *parameters))


@pytest.mark.parametrize("kind", ["attention_dropout", "neighbour_dropout"])
def test_dropout_acts_in_training_only_and_keeps_the_mean(kind: str) -> None:
    model = random_model(edge_features=3, **({"attention_dropout": 0.0} | {kind: 0.5}))
    inputs = random_inputs(model, 1, 2000, 1)
    inputs.mask[:] = True
    assert torch.equal(run(model, 1, inputs)[0], run(model, 1, inputs)[0])
    model.train()
    torch.manual_seed(0)
    trained, weights = run(model, 1, inputs)
    model.eval()
    nothing = Inputs(inputs.own, inputs.neighbour_state, inputs.edge, inputs.span, torch.zeros_like(inputs.mask))
    share = (trained == run(model, 1, nothing)[0]).all(1).double().mean()
    if kind == "neighbour_dropout":  # the only neighbour of half of them is gone
        assert 0.45 < share < 0.55
        assert 0.45 < weights[:, 0, 0].mean() < 0.55
    else:  # two heads drop independently
        assert 0.2 < share < 0.3
        assert (weights == 1).all()
