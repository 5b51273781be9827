"""The compiled layer against the model's own, which the plain equations hold."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from stream_tgat.nn.inference import FrozenHeads, InferenceEncoder, NeighbourPlaces, attend_rows
from tests.unit.nn.models import PRESET_NAMES, random_model


@pytest.mark.parametrize("preset", PRESET_NAMES)
@given(
    seed=st.integers(0, 1 << 20),
    state=st.sampled_from([0, 3]),
    edge=st.sampled_from([0, 5]),
    heads=st.sampled_from([1, 2, 3, 4]),
    layer=st.sampled_from([1, 2]),
    targets=st.sampled_from([0, 1, 7]),
)
@settings(max_examples=25, deadline=None)
def test_fused_layer_equals_model(
    preset: str, seed: int, state: int, edge: int, heads: int, layer: int, targets: int
) -> None:
    shape = {"node_features": state, "edge_features": edge, "attention_heads": heads, "hidden": 4 * heads}
    model = random_model(torch.float32, seed, preset=preset, **shape)
    random = np.random.default_rng(seed)
    neighbours, slots = model.config.neighbours, 11
    widths = model.state_widths
    payload = random.standard_normal((slots, edge + sum(widths))).astype(np.float32)
    at = edge + sum(widths[: layer - 1])
    rows = NeighbourPlaces(
        payload,
        at,
        random.integers(0, slots, (targets, neighbours)).astype(np.int32),
        random.integers(0, neighbours + 1, targets).astype(np.int32),
        10.0 ** random.uniform(-2, 7, (targets, neighbours)),
    )
    own = [random.standard_normal((targets, width)).astype(np.float32) for width in widths[:layer]]
    with torch.inference_mode():
        gathered = torch.from_numpy(payload[rows.slots])
        expected, weights = model.layer(
            layer,
            [torch.from_numpy(h) for h in own],
            gathered[..., at : at + widths[layer - 1]],
            gathered[..., :edge],
            torch.from_numpy(rows.spans),
            torch.from_numpy(np.arange(neighbours) < rows.counts[:, None]),
        )
    h, attention = InferenceEncoder(model.encoder).layer(layer, own, rows)
    scale = max(1.0, float(expected.abs().max())) if targets else 1.0
    np.testing.assert_allclose(h, expected.numpy(), rtol=0, atol=2e-5 * scale)
    np.testing.assert_allclose(attention, weights.numpy(), rtol=0, atol=2e-5)


@given(seed=st.integers(0, 1 << 20), heads=st.integers(1, 3), members=st.integers(1, 2), targets=st.integers(1, 5))
@settings(max_examples=25, deadline=None)
def test_frozen_heads_equal_model(seed: int, heads: int, members: int, targets: int) -> None:
    names = tuple(f"head{k}" for k in range(heads))
    model = random_model(torch.float32, seed, edge_features=3, head_names=names, head_members=members)
    random = np.random.default_rng(seed)
    with torch.no_grad():
        model.heads.lowest.fill_(-1.5)
        model.heads.highest.fill_(1.0)
        model.calibration.copy_(torch.from_numpy(random.standard_normal((heads, 2))))
    embedding = random.standard_normal((targets, model.config.hidden)).astype(np.float32)
    event = random.standard_normal((targets, 3)).astype(np.float32)
    with torch.inference_mode():
        expected = model.eval().predict(torch.from_numpy(embedding), torch.from_numpy(event)).numpy()
    found = FrozenHeads(model.heads, model.calibration).predict(embedding, event)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-6)


def test_fused_time_encoding_equals_cosine_and_sine() -> None:
    # One neighbour has weight 1, so the weighted sum is its Φ; values by NumPy in float64 from spans of up to a year.
    spans = np.concatenate([[0.0], 10.0 ** np.linspace(-3, 7.5, 400)])
    omega = 10.0 ** -np.linspace(0, 9, 50)
    total, weights = np.empty((1, len(spans), 100), np.float32), np.empty((len(spans), 1, 1), np.float32)
    attend_rows(
        np.zeros((1, 1, 100), np.float32),
        np.zeros((1, 0), np.float32),
        0,
        0,
        0,
        np.zeros((len(spans), 1), np.int32),
        np.ones(len(spans), np.int32),
        spans[:, None],
        omega / (2 * np.pi),
        np.zeros(50),
        True,
        np.zeros((4, 100), np.float32),
        np.empty((2, 4), np.float32),
        total,
        weights,
    )
    angle = spans[:, None] * omega
    expected = np.concatenate([np.cos(angle), np.sin(angle)], 1) / np.sqrt(50)
    assert np.abs(total[0] - expected).max() < 1e-7
