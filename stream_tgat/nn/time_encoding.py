"""Time spans as vectors: Φ(Δt) of the paper (eq. 5), and the cosine with phase of the peers.

Phases are formed in float64, whatever the model's type: ω·Δt of a month has no correct digit of a cosine left in
float32. A phase is reduced to one turn, p − rint(p) with p = Δt·ω/2π, and only then rounded.
"""

import math
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

TURN = 2.0 * math.pi


class TimeEncoding(nn.Module):
    """Φ(Δt), with learnt frequencies.

    Frequencies are kept in float64 (a frequency is part of the phase) and start at 10^-linspace(0, 9, d).
    bochner: width = 2d, sqrt(1/d) [cos ω_1 t, sin ω_1 t, cos ω_2 t, …], so that ⟨Φ, Φ⟩ = 1; log ω is learnt, because
    Adam moves a parameter by about the learning rate, which would swamp all but the largest raw ω.
    otherwise: width = d, cos(ω t + φ) with raw ω and φ learnt, as the peers have it.
    """

    phase: Tensor | None

    def __init__(self, width: int, *, bochner: bool) -> None:
        super().__init__()
        self.width = width
        self.bochner = bochner
        count = width // 2 if bochner else width
        exponent = torch.linspace(0.0, 9.0, count, dtype=torch.float64)
        if bochner:
            self.log_omega = nn.Parameter(-exponent * math.log(10.0))
            self.register_parameter("phase", None)
        else:
            self.omega = nn.Parameter(10.0**-exponent)
            self.phase = nn.Parameter(torch.zeros(count))

    def frequencies(self) -> Tensor:
        """ω, radians per second: [d] float64."""
        return self.log_omega.double().exp() if self.bochner else self.omega.double()

    def forward(self, span: Tensor, dtype: torch.dtype = torch.float32) -> Tensor:
        """Encode time spans.

        span: [...] float64, seconds
        Returns [..., T] of `dtype`; differentiable in ω and φ, not in the span.
        """
        return cast(Tensor, _Encode.apply(span, self.frequencies(), self.phase, dtype))

    def at_zero(self, dtype: torch.dtype = torch.float32) -> Tensor:
        """Φ(0), the query's own: [T]. For Bochner a constant."""
        return cast(Tensor, self(torch.zeros((), dtype=torch.float64, device=self.frequencies().device), dtype))


def reduced_phase(span: Tensor, omega: Tensor, dtype: torch.dtype) -> Tensor:
    """ω·Δt less its whole turns, in [−π, π].

    span: [...] float64   omega: [d] float64
    Returns [..., d] of `dtype`.
    """
    turns = span.unsqueeze(-1) * (omega / TURN)
    turns -= turns.round()
    return turns.to(dtype).mul_(TURN)


class _Encode(torch.autograd.Function):
    """The encoding with a backward pass that keeps no phases, only spans (and, for Bochner, the result)."""

    @staticmethod
    def forward(ctx: Any, span: Tensor, omega: Tensor, phase: Tensor | None, dtype: torch.dtype) -> Tensor:
        angle = reduced_phase(span, omega, dtype)
        ctx.bochner = phase is None
        if phase is None:
            result = angle.new_empty((*angle.shape, 2))
            torch.cos(angle, out=result[..., 0])
            torch.sin(angle, out=result[..., 1])
            result = result.mul_(omega.shape[0] ** -0.5).flatten(-2)
            ctx.save_for_backward(span, result)
            return result
        ctx.save_for_backward(span, omega, phase)
        return angle.add_(phase.to(dtype)).cos_()

    @staticmethod
    @once_differentiable  # type: ignore[untyped-decorator,unused-ignore]
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor | None, ...]:
        if ctx.bochner:
            span, result = ctx.saved_tensors
            cosine, sine = result[..., 0::2], result[..., 1::2]
            of_cosine, of_sine = upstream[..., 0::2], upstream[..., 1::2]
            by_angle = of_sine * cosine - of_cosine * sine
            return None, _by_frequency(span, by_angle), None, None
        span, omega, phase = ctx.saved_tensors
        by_angle = (
            reduced_phase(span, omega, upstream.dtype).add_(phase.to(upstream.dtype)).sin_().mul_(upstream).neg_()
        )
        by_phase = by_angle.reshape(-1, omega.shape[0]).sum(0).to(phase.dtype)
        return None, _by_frequency(span, by_angle), by_phase, None


def _by_frequency(span: Tensor, by_angle: Tensor) -> Tensor:
    """Σ Δt · ∂/∂angle: [d] float64. Spans need no more digits here than the angles' gradients have."""
    spans = span.reshape(1, -1).to(by_angle.dtype)
    return (spans @ by_angle.reshape(spans.shape[1], -1)).squeeze(0).double()
