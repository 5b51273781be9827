"""Other time encodings against their formulas, and in a model: the compiled path and the plain one agree."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from research.baselines.temporal import TemporalMethod
from research.baselines.time_encodings import (
    Coupling,
    FlowFrequencies,
    NoTime,
    Planar,
    PositionEncoding,
    RawFrequencies,
    TimeEncodingKind,
    fixed_positions,
    with_time_encoding,
)
from stream_tgat.training.scoring import TemporalGraph
from tests.unit.research.baselines.small import circles

SPANS = torch.tensor([[0.5, 3600.0, 86_400.0 * 30]], dtype=torch.float64)


def some_flow(width: int, steps: int = 3) -> FlowFrequencies:
    flow = FlowFrequencies(width, [Coupling(width // 2, odd=bool(step % 2)) for step in range(steps)])
    with torch.no_grad():
        for parameter in flow.parameters():
            parameter.add_(torch.randn(parameter.shape, dtype=torch.float64), alpha=0.3)
    return flow


def test_no_time_is_zero_everywhere() -> None:
    assert NoTime(6)(SPANS).shape == (1, 3, 6)
    assert not NoTime(6)(SPANS).any()
    assert not NoTime(6).at_zero().any()


def test_fixed_positions_are_the_sinusoids_of_transformers() -> None:
    table = fixed_positions(5, 8) / math.sqrt(2 / 8)
    for place in range(5):
        for pair in range(4):
            angle = place / 10_000 ** (2 * pair / 8)
            assert table[place, 2 * pair].item() == pytest.approx(math.sin(angle), abs=1e-6)
            assert table[place, 2 * pair + 1].item() == pytest.approx(math.cos(angle), abs=1e-6)


@pytest.mark.parametrize("fixed", [True, False])
def test_positions_count_from_the_newest_and_ignore_spans(fixed: bool) -> None:
    positions = PositionEncoding(8, 3, fixed=fixed)
    encoded = positions(SPANS)
    assert torch.equal(encoded[0], positions.table[[3, 2, 1]])
    assert torch.equal(encoded, positions(SPANS * 2 + 1))
    assert torch.equal(positions.at_zero(), positions.table[0])


def test_raw_frequencies_give_bochners_encoding_of_omega() -> None:
    encoding = RawFrequencies(8)
    omega = 10.0 ** -np.array([0.0, 3.0, 6.0, 9.0])
    phases = SPANS.numpy()[..., None] * omega
    expected = np.stack([np.cos(phases), np.sin(phases)], -1).reshape(1, 3, 8) / 2
    assert np.abs(encoding(SPANS, torch.float64).detach().numpy() - expected).max() < 1e-9
    # d/dω Σ sqrt(1/d) cos(ω t) = -sqrt(1/d) Σ t sin(ω t)
    encoding(SPANS, torch.float64)[..., 0::2].sum().backward()
    wanted = -(SPANS.numpy()[..., None] * np.sin(phases)).sum((0, 1)) / 2
    assert np.allclose(encoding.omega.grad.numpy(), wanted, rtol=1e-9)


@pytest.mark.parametrize("scale", [0.1, 3.0, 30.0])
def test_planar_flow_follows_its_formula_and_is_invertible(scale: float) -> None:
    torch.manual_seed(0)
    for _ in range(5):
        step = Planar(6).double()
        with torch.no_grad():
            step.direction += scale * torch.randn(6, dtype=torch.float64)
            step.bias += 0.3
        z = torch.randn(6, dtype=torch.float64)
        w, u = step.weight.detach(), step.invertible_direction().detach()
        inside = float(w @ z + step.bias.detach())
        assert torch.allclose(step(z), z + u * math.tanh(inside))
        determinant = 1 + float(u @ w) * (1 - math.tanh(inside) ** 2)
        found = torch.linalg.det(torch.autograd.functional.jacobian(step, z))
        assert found.item() == pytest.approx(determinant, rel=1e-6)
        assert float(u @ w) > -1 - 1e-12


@pytest.mark.parametrize("odd", [True, False])
@pytest.mark.parametrize("width", [6, 7])
def test_coupling_is_undone_by_what_the_kept_half_says(width: int, odd: bool) -> None:
    torch.manual_seed(1)
    step = Coupling(width, odd=odd).double()
    with torch.no_grad():
        step.weight_1 += torch.randn(step.weight_1.shape, dtype=torch.float64)
    z = torch.randn(width, dtype=torch.float64)
    moved = step(z)
    kept = slice(1 - int(odd), None, 2)
    changed = slice(int(odd), None, 2)
    assert torch.equal(moved[kept], z[kept])
    log_scale, shift = step.told_by(moved)
    assert torch.allclose((moved[changed] - shift) * (-log_scale).exp(), z[changed])
    determinant = torch.linalg.det(torch.autograd.functional.jacobian(step, z)).abs().log()
    assert determinant.item() == pytest.approx(log_scale.sum().item())


@pytest.mark.parametrize("kind", [TimeEncodingKind.PLANAR, TimeEncodingKind.REAL_NVP])
def test_flow_starts_log_uniform_with_one_frequency_per_stratum(kind: TimeEncodingKind) -> None:
    encoding = with_time_encoding(TemporalMethod("", width=8, time_width=20).untrained(), kind).encoder.time_encoding
    encoding.eval()
    middles = encoding.frequencies().log10().detach().numpy()
    assert np.allclose(middles, -9 * (np.arange(10) + 0.5) / 10)
    encoding.train()
    samples = np.stack([encoding.frequencies().log10().detach().numpy() for _ in range(200)])
    assert (np.abs(samples - middles) <= 0.45 + 1e-9).all()
    assert np.abs(samples - middles).max() > 0.4
    assert np.abs(samples.mean(0) - middles).max() < 0.1


def test_flow_at_zero_is_what_its_encoding_of_zero_is() -> None:
    flow = some_flow(8)
    assert torch.allclose(flow.at_zero(), flow(torch.zeros((), dtype=torch.float64)))


def test_flow_learns_through_its_steps() -> None:
    torch.manual_seed(0)
    flow = some_flow(32)
    flow(SPANS).square().cumsum(-1).sum().backward()
    assert all(parameter.grad is not None and parameter.grad.abs().sum() > 0 for parameter in flow.parameters())


@pytest.mark.parametrize("kind", list(TimeEncodingKind))
def test_compiled_attention_and_plain_attention_agree(kind: TimeEncodingKind) -> None:
    task = circles(150)
    torch.manual_seed(0)
    method = TemporalMethod("", width=8, time_width=8, neighbours=4, activity=True)
    model = with_time_encoding(method.untrained(), kind).eval()
    graph = TemporalGraph.of(task.interactions, None)
    nodes, times = np.arange(20), np.full(20, task.interactions.time[-1])
    found = graph.embed(model, nodes, times)
    model.encoder.reads_rows = False
    assert torch.allclose(found, graph.embed(model, nodes, times), atol=1e-5)


def test_encodings_leave_the_other_weights_alone() -> None:
    def weights(kind: TimeEncodingKind) -> dict[str, torch.Tensor]:
        torch.manual_seed(3)
        model = with_time_encoding(TemporalMethod("", width=8, time_width=8).untrained(), kind)
        return {name: value for name, value in model.state_dict().items() if "time_encoding" not in name}

    known = weights(TimeEncodingKind.LOG)
    for kind in TimeEncodingKind:
        assert all(torch.equal(value, known[name]) for name, value in weights(kind).items())
