"""Properties of Φ; its values are checked against sixty digits in the parity tests."""

import math

import pytest
import torch

from stream_tgat.nn.time_encoding import TimeEncoding


def moved(bochner: bool) -> TimeEncoding:
    """Six numbers out, frequencies and phases somewhere."""
    torch.manual_seed(3)
    encoding = TimeEncoding(6, bochner=bochner)
    with torch.no_grad():
        for parameter in encoding.parameters():
            parameter.add_(torch.rand_like(parameter))
    return encoding


def test_bochner_has_length_one_at_any_span() -> None:
    encoding = TimeEncoding(100, bochner=True)
    span = torch.tensor([0.0, 1e-3, 1.0, 86400.0, 3e7, 1.7e9], dtype=torch.float64)
    assert torch.allclose(encoding(span).square().sum(-1), torch.ones(6))


def test_bochner_inner_product_depends_on_the_difference_only() -> None:
    """⟨Φ(a), Φ(b)⟩ is a function of a − b: what the encoding is derived from."""
    encoding = moved(bochner=True)
    a, b = torch.tensor(5.0, dtype=torch.float64), torch.tensor(3.0, dtype=torch.float64)
    products = [encoding(a + shift, torch.float64) @ encoding(b + shift, torch.float64) for shift in (0.0, 11.0, 500.0)]
    torch.testing.assert_close(products[1], products[0])
    torch.testing.assert_close(products[2], products[0])


def test_at_zero_is_a_cosine_of_the_phase() -> None:
    torch.testing.assert_close(TimeEncoding(6, bochner=True).at_zero(), torch.tensor([1.0, 0.0] * 3) / math.sqrt(3.0))
    encoding = moved(bochner=False)
    assert encoding.phase is not None
    torch.testing.assert_close(encoding.at_zero(), encoding.phase.cos())


def test_frequencies_are_float64_and_log_omega_is_what_is_learnt() -> None:
    encoding = TimeEncoding(6, bochner=True)
    assert [name for name, _ in encoding.named_parameters()] == ["log_omega"]
    torch.testing.assert_close(encoding.frequencies(), torch.tensor([1.0, 10**-4.5, 1e-9], dtype=torch.float64))


@pytest.mark.parametrize("bochner", [True, False])
def test_gradients_equal_those_of_the_direct_formula(bochner: bool) -> None:
    encoding = moved(bochner)
    span = torch.rand(5, 4, dtype=torch.float64) * 100.0
    upstream = torch.randn(5, 4, 6, dtype=torch.float64)
    parameters = list(encoding.parameters())

    angle = span.unsqueeze(-1) * encoding.frequencies()
    if encoding.phase is None:
        direct = torch.stack([angle.cos(), angle.sin()], -1).flatten(-2) / math.sqrt(3.0)
    else:
        direct = (angle + encoding.phase).cos()
    expected = torch.autograd.grad(direct, parameters, upstream)

    for dtype, tolerance in ((torch.float64, 1e-9), (torch.float32, 1e-4)):
        got = torch.autograd.grad(encoding(span, dtype), parameters, upstream.to(dtype))
        for one, other, parameter in zip(got, expected, parameters, strict=True):
            assert one.dtype == parameter.dtype
            torch.testing.assert_close(one, other.to(one.dtype), rtol=tolerance, atol=tolerance)


def test_encoding_under_inference_mode_and_without_gradients_is_the_same() -> None:
    encoding = moved(bochner=True)
    span = torch.rand(3, dtype=torch.float64) * 1e6
    with torch.inference_mode():
        inferred = encoding(span)
    assert torch.equal(inferred, encoding(span).detach())


def test_one_adam_step_changes_every_bochner_frequency_by_its_share_only() -> None:
    """With raw ω a step of the learning rate would be a million times the smallest frequency."""
    encoding = TimeEncoding(20, bochner=True)
    before = encoding.frequencies().detach().clone()
    optimizer = torch.optim.Adam(encoding.parameters(), lr=1e-3)
    encoding(torch.rand(50, dtype=torch.float64) * 1e7)[..., 1::2].sum().backward()
    optimizer.step()
    ratio = encoding.frequencies().detach() / before
    assert ((ratio - 1.0).abs() < 1.01e-3).all()
    assert ((ratio - 1.0).abs() > 0.9e-3).all()
