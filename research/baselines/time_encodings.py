"""What could stand in the place of the model's time encoding: nothing, positions, raw ω, and ω from an invertible flow.

Each takes the place of `TimeEncoding` in a TGAT and has its width and its norm, 1, so that only the meaning differs. An
encoding with frequencies is computed by the model's own kernels; one without never sees a span.

Flows learn the distribution p(ω) of the paper's eq. 4 rather than the frequencies: ω = exp(m + s·f(ε)), with ε from a
fixed distribution and f invertible. Training draws ε anew whenever it asks, one number from each of d equally likely
strata, so that the j-th number of an encoding keeps its meaning; evaluation takes the strata's middles. An f that
changes nothing gives the range that `TimeEncoding` starts from: log ω uniform from 1 down to 10^-9 per second.
"""

import math
from enum import StrEnum

import torch
from torch import Tensor, nn

from stream_tgat.nn.attention import glorot
from stream_tgat.nn.model import Model
from stream_tgat.nn.time_encoding import TimeEncoding

LONGEST = 10_000.0
"""Of the wave lengths of fixed positions (Vaswani et al., 2017), in positions, over 2π."""

FLOW_STEPS = 4
"""Transformations one after the other in a flow."""


class TimeEncodingKind(StrEnum):
    """By the names that the table gives them."""

    NONE = "none"
    POSITION_FIXED = "positions, fixed"
    POSITION_LEARNT = "positions, learnt"
    RAW = "Bochner, raw ω"
    LOG = "Bochner, log ω"
    PLANAR = "normalizing flow"
    REAL_NVP = "RealNVP"


def with_time_encoding(model: Model, kind: TimeEncodingKind) -> Model:
    """A model whose encoder tells times in another way; the other weights stay what they are."""
    config = model.config
    if kind is TimeEncodingKind.LOG:
        return model
    encoding = _made(kind, config.time_dim, config.neighbours)
    model.encoder.time_encoding = encoding.to(next(model.parameters()).device)
    model.encoder.reads_rows = isinstance(encoding, Frequencies)
    return model


class NoTime(TimeEncoding):
    """Zeros, whatever the time."""

    zeros: Tensor

    def __init__(self, width: int) -> None:
        nn.Module.__init__(self)  # it has none of TimeEncoding's parameters
        self.width = width
        self.register_buffer("zeros", torch.zeros(width), persistent=False)

    def forward(self, span: Tensor, dtype: torch.dtype = torch.float32) -> Tensor:
        """span: [...] float64; returns [..., T], zeros."""
        return self.zeros.to(dtype).expand(*span.shape, self.width)

    def at_zero(self, dtype: torch.dtype = torch.float32) -> Tensor:
        """[T], zeros."""
        return self.zeros.to(dtype)


class PositionEncoding(TimeEncoding):
    """A vector for each place in the neighbourhood: 0 is the query, 1 the newest neighbour, K the oldest.

    fixed: sqrt(2/T) [sin(p w_1), cos(p w_1), …], w_i = 10000^(-2i/T); otherwise learnt, and random at first
    """

    table: Tensor

    def __init__(self, width: int, neighbours: int, *, fixed: bool) -> None:
        nn.Module.__init__(self)
        self.width = width
        if fixed:
            self.register_buffer("table", fixed_positions(neighbours + 1, width))
        else:
            self.table = nn.Parameter(torch.randn(neighbours + 1, width) / math.sqrt(width))

    def forward(self, span: Tensor, dtype: torch.dtype = torch.float32) -> Tensor:
        """span: [..., K], oldest first, of which only the places count; returns [..., K, T]."""
        places = torch.arange(span.shape[-1], 0, -1, device=span.device)
        return self.table[places].to(dtype).expand(*span.shape, self.width)

    def at_zero(self, dtype: torch.dtype = torch.float32) -> Tensor:
        """The query's own: [T]."""
        return self.table[0].to(dtype)


class Frequencies(TimeEncoding):
    """Bochner's encoding of frequencies that come from elsewhere than log ω."""

    def __init__(self, width: int) -> None:
        nn.Module.__init__(self)
        self.width, self.bochner, self.count = width, True, width // 2
        self.register_parameter("phase", None)


class RawFrequencies(Frequencies):
    """ω itself is learnt: Adam moves every frequency by the same amount."""

    def __init__(self, width: int) -> None:
        super().__init__(width)
        self.omega = nn.Parameter(10.0 ** -torch.linspace(0.0, 9.0, self.count, dtype=torch.float64))

    def frequencies(self) -> Tensor:
        """ω, radians per second: [d] float64."""
        return self.omega


class FlowFrequencies(Frequencies):
    """Frequencies drawn from a distribution that is learnt: ω = exp(m + s·f(ε)).

    steps: modules that each map [d] float64 to [d] float64, invertibly
    """

    middles: Tensor

    def __init__(self, width: int, steps: list[nn.Module]) -> None:
        super().__init__(width)
        self.steps = nn.ModuleList(steps).double()
        self.register_buffer("middles", _middles(self.count), persistent=False)

    def frequencies(self) -> Tensor:
        """ω, radians per second: [d] float64; another sample at every call in training."""
        sample = self.middles
        if self.training:
            within = torch.rand(self.count, dtype=torch.float64, device=sample.device) - 0.5
            sample = sample + within * (2.0 * math.sqrt(3.0) / self.count)
        for step in self.steps:
            sample = step(sample)
        return _log_omega(sample).exp()

    def at_zero(self, dtype: torch.dtype = torch.float32) -> Tensor:
        """Φ(0) = sqrt(1/d) [1, 0, 1, 0, …], whatever the frequencies: [T]."""
        cosine = self.middles.new_tensor([1.0, 0.0], dtype=dtype)
        return cosine.repeat(self.count) / math.sqrt(self.count)


class Planar(nn.Module):
    """z + û tanh(w·z + b), with û made from u such that w·û > −1, where it is invertible (Rezende & Mohamed, 2015)."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(width) / math.sqrt(width))
        self.direction = nn.Parameter(torch.zeros(width))
        self.bias = nn.Parameter(torch.zeros(()))

    def forward(self, z: Tensor) -> Tensor:
        """[d] to [d]."""
        return z + self.invertible_direction() * torch.tanh(self.weight @ z + self.bias)

    def invertible_direction(self) -> Tensor:
        """û: [d]; u shifted along w until w·û = log(1 + exp(w·u + c)) − 1, c such that u = 0 gives û = 0."""
        along = self.weight @ self.direction
        wanted = nn.functional.softplus(along + math.log(math.e - 1.0)) - 1.0
        return self.direction + (wanted - along) * self.weight / (self.weight @ self.weight)


class Coupling(nn.Module):
    """RealNVP's layer: one half of z moves, z_b ← z_b · exp(s(z_a)) + t(z_a), the other tells how (Dinh et al., 2017).

    odd: which numbers move, those at odd places or those at even ones; s = tanh of what its network says
    """

    def __init__(self, width: int, *, odd: bool) -> None:
        super().__init__()
        self.odd = odd
        moved = width // 2 if odd else width - width // 2
        self.weight_0 = glorot(width - moved, width)
        self.bias_0 = nn.Parameter(torch.zeros(width))
        self.weight_1 = nn.Parameter(torch.zeros(width, 2 * moved))  # at first, nothing moves
        self.bias_1 = nn.Parameter(torch.zeros(2 * moved))

    def forward(self, z: Tensor) -> Tensor:
        """[d] to [d]."""
        log_scale, shift = self.told_by(z)
        result = z.clone()
        result[int(self.odd) :: 2] = z[int(self.odd) :: 2] * log_scale.exp() + shift
        return result

    def told_by(self, z: Tensor) -> tuple[Tensor, Tensor]:
        """Logarithms of scales, and shifts, of the half that moves: each [d/2]; of [d] only the other half counts."""
        kept = z[1 - int(self.odd) :: 2]
        scale, shift = ((kept @ self.weight_0 + self.bias_0).relu() @ self.weight_1 + self.bias_1).chunk(2)
        return torch.tanh(scale), shift


def fixed_positions(count: int, width: int) -> Tensor:
    """Sinusoids of positions 0 … count − 1, of norm 1: [count, width]; width is even."""
    rate = LONGEST ** (-torch.arange(0, width, 2, dtype=torch.float64) / width)
    angle = torch.arange(count, dtype=torch.float64)[:, None] * rate
    return (torch.stack([angle.sin(), angle.cos()], -1).flatten(1) * math.sqrt(2.0 / width)).float()


def _made(kind: TimeEncodingKind, width: int, neighbours: int) -> TimeEncoding:
    count = width // 2
    match kind:
        case TimeEncodingKind.NONE:
            return NoTime(width)
        case TimeEncodingKind.POSITION_FIXED | TimeEncodingKind.POSITION_LEARNT:
            return PositionEncoding(width, neighbours, fixed=kind is TimeEncodingKind.POSITION_FIXED)
        case TimeEncodingKind.RAW:
            return RawFrequencies(width)
        case TimeEncodingKind.LOG:
            return TimeEncoding(width, bochner=True)
        case TimeEncodingKind.PLANAR:
            return FlowFrequencies(width, [Planar(count) for _ in range(FLOW_STEPS)])
        case TimeEncodingKind.REAL_NVP:
            return FlowFrequencies(width, [Coupling(count, odd=step % 2 == 0) for step in range(FLOW_STEPS)])


def _middles(count: int) -> Tensor:
    """Middles of `count` equally likely strata of the uniform distribution with mean 0 and variance 1: [d] float64."""
    return (2.0 * (torch.arange(count, dtype=torch.float64) + 0.5) / count - 1.0) * math.sqrt(3.0)


def _log_omega(sample: Tensor) -> Tensor:
    """From a sample of mean 0 and variance 1, m − s·sample: log ω, uniform in [−9, 0]·log 10 if the sample is."""
    half = 4.5 * math.log(10.0)
    return -half - sample * (half / math.sqrt(3.0))
