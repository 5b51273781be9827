"""The whole model as one value: its configuration, the encoder, the heads, their calibration and thresholds.

Training, the engine and releases all hold this one class; it knows neither neighbourhoods nor Kafka.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal, Self

import torch
from torch import Tensor, nn

from stream_tgat.errors import ModelError
from stream_tgat.graph.pairs import PAIR_WIDTH
from stream_tgat.nn.heads import Affinity, AffinityKind, PredictionHeads
from stream_tgat.nn.presets import preset_named
from stream_tgat.nn.tgat import TGAT, EncoderShape
from stream_tgat.topology import PresetName

Sampling = Literal["recent", "uniform"]

ACTIVITY_WIDTH = 3


@dataclass(frozen=True)
class ModelConfig:
    """Everything that fixes the shapes and the meaning of a model's weights.

    candidates: C, the newest past interactions among which the `neighbours` K are chosen.
    node_features: F, own features of a node. activity: the three activity features join them in layer 0.
    time_dim: T, numbers out of the time encoding (the paper's d is T/2). hidden: D, width of every layer's embedding.
    head_hidden: widths of the two hidden layers of each network of a prediction head, which is the mean of
    head_members of them.
    decay_s: time constants, in seconds, of the decayed sums of a user's past (`graph.decayed`) that heads read too.
    affinity: what says how likely two nodes interact. pair_features: it also reads how the two met before, from the
    candidates of both (needs the mlp).
    Dropout holds in training only: of attention weights (and of what a residual is added to), of whole neighbours, and
    inside the heads.
    """

    preset: PresetName = "paper"
    layers: int = 2
    attention_heads: int = 2
    neighbours: int = 20
    candidates: int = 32
    node_features: int = 0
    activity: bool = False
    edge_features: int = 0
    time_dim: int = 100
    hidden: int = 172
    sampling: Sampling = "recent"
    head_names: tuple[str, ...] = ()
    head_hidden: tuple[int, int] = (80, 10)
    head_members: int = 1
    decay_s: tuple[float, ...] = ()
    affinity: AffinityKind = "mlp"
    pair_features: bool = False
    attention_dropout: float = 0.1
    neighbour_dropout: float = 0.0
    head_dropout: float = 0.1

    def __post_init__(self) -> None:
        """Refuse what contradicts itself, with the key and what to do."""
        preset = preset_named(self.preset)
        for key in ("layers", "attention_heads", "neighbours", "time_dim", "hidden", "head_members"):
            if getattr(self, key) < 1:
                raise ModelError(f"{key} is {getattr(self, key)}; it must be at least 1")
        for key in ("node_features", "edge_features"):
            if getattr(self, key) < 0:
                raise ModelError(f"{key} is {getattr(self, key)}; it must not be negative")
        for key in ("attention_dropout", "neighbour_dropout", "head_dropout"):
            if not 0.0 <= getattr(self, key) < 1.0:
                raise ModelError(f"{key} is {getattr(self, key)}; a probability below 1 is needed")
        if self.sampling not in ("recent", "uniform"):
            raise ModelError(f"sampling is {self.sampling!r}; choose recent or uniform")
        if self.affinity not in ("mlp", "inner"):
            raise ModelError(f"affinity is {self.affinity!r}; choose mlp or inner")
        if self.pair_features and self.affinity == "inner":
            raise ModelError("pair_features have no place in an inner product; set affinity to mlp")
        if preset.bochner and self.time_dim % 2:
            raise ModelError(f"time_dim is {self.time_dim}; preset {self.preset} needs an even one (cosine and sine)")
        if not preset.residual and self.hidden % self.attention_heads:
            raise ModelError(
                f"hidden is {self.hidden}; it must be a multiple of attention_heads {self.attention_heads}"
            )
        if self.candidates < self.neighbours:
            raise ModelError(f"candidates is {self.candidates}; at least neighbours = {self.neighbours} are needed")
        if self.activity and self.candidates < 5:
            raise ModelError(f"candidates is {self.candidates}; activity looks back 5 interactions")
        if not all(0.0 < each < math.inf for each in self.decay_s):
            raise ModelError(f"decay_s is {self.decay_s}; time constants are positive numbers of seconds")
        if len(set(self.head_names)) < len(self.head_names):
            raise ModelError(f"head_names {self.head_names} repeat a name")

    @property
    def state_widths(self) -> tuple[int, ...]:
        """(w_0, …, w_(L-1)), the widths of h^(0) … h^(L-1), which peers send; w_0 may be 0."""
        return (self.node_features + ACTIVITY_WIDTH * self.activity,) + (self.hidden,) * (self.layers - 1)

    @property
    def event_width(self) -> int:
        """What heads read beside the embedding: the event's edge features ‖ the user's decayed sums."""
        return self.edge_features + len(self.decay_s) * (1 + self.edge_features)

    @property
    def encoder_shape(self) -> EncoderShape:
        """Sizes of the encoder."""
        return EncoderShape(
            state=self.state_widths[0],
            edge=self.edge_features,
            time=self.time_dim,
            hidden=self.hidden,
            heads=self.attention_heads,
            layers=self.layers,
        )

    def to_dict(self) -> dict[str, Any]:
        """As plain values that JSON holds."""
        return {key: list(value) if isinstance(value, tuple) else value for key, value in asdict(self).items()}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """From what `to_dict` gave; unknown keys are refused, since weights would mean something else."""
        unknown = sorted(set(values) - {field.name for field in fields(cls)})
        if unknown:
            raise ModelError(f"the model's configuration has unknown keys: {', '.join(unknown)}")
        shaped: dict[str, Any] = {key: tuple(v) if isinstance(v, list) else v for key, v in values.items()}
        return cls(**shaped)


class Model(nn.Module):
    """Encoder, affinity and prediction heads.

    calibration: [heads, 2], Platt's a and b: probability = σ(a · logit + b). thresholds: [heads], for alerts.
    Both are buffers, so that a release holds them with the weights.
    """

    calibration: Tensor
    thresholds: Tensor

    def __init__(self, config: ModelConfig, encoder: TGAT | None = None) -> None:
        """encoder: of the configuration's shape; by default the one of its preset."""
        super().__init__()
        self.config = config
        self.encoder = encoder or TGAT(preset_named(config.preset), config.encoder_shape)
        self.encoder.attention_dropout = config.attention_dropout
        self.encoder.neighbour_dropout = config.neighbour_dropout
        self.encoder.output_dropout = config.attention_dropout
        self.affinity = Affinity(config.affinity, config.hidden, PAIR_WIDTH * config.pair_features)
        heads = len(config.head_names)
        width = config.hidden + config.event_width
        self.heads = PredictionHeads(heads, width, config.head_hidden, config.head_dropout, config.head_members)
        self.register_buffer("calibration", torch.tensor([1.0, 0.0]).repeat(heads, 1))
        self.register_buffer("thresholds", torch.full((heads,), 0.5))

    @property
    def state_widths(self) -> tuple[int, ...]:
        """(w_0, …, w_(L-1)); w_0 is 0 where nodes have neither features nor activity."""
        return self.config.state_widths

    def layer0(self, features: Tensor, activity: Tensor) -> Tensor:
        """h^(0): own features, then activity where the configuration has it.

        features: [B, F]   activity: [B, 3], ignored where the configuration has none
        Returns [B, w_0].
        """
        return torch.cat([features, activity], -1) if self.config.activity else features

    def layer(
        self, layer: int, own: Sequence[Tensor], neighbour_state: Tensor, edge: Tensor, span: Tensor, mask: Tensor
    ) -> tuple[Tensor, Tensor]:
        """h^(l) of B targets from the layer below.

        layer: 1 … L   own: h^(0 … l-1)(t) of the targets, each [B, w]
        neighbour_state: [B, K, w_(l-1)], h_i^(l-1)(t_i)   edge: [B, K, E]   span: [B, K] float64, t − t_i in seconds
        mask: [B, K] bool, True where a neighbour exists; what is masked may hold any finite numbers
        Returns h^(l) [B, D] and the attention weights [B, H, K].
        """
        return self.encoder.layer(layer, own, neighbour_state, edge, span, mask)

    def logits(self, embedding: Tensor, event: Tensor) -> Tensor:
        """Each head's logit before calibration: [B, heads].

        embedding: [B, D]   event: [B, E + S], the current event's edge features ‖ the user's decayed sums, compressed
        """
        result: Tensor = self.heads(embedding, event)
        return result

    def predict(self, embedding: Tensor, event: Tensor) -> Tensor:
        """Each head's calibrated probability: as `logits`."""
        slope, offset = self.calibration.unbind(-1)
        return torch.sigmoid(self.logits(embedding, event) * slope + offset)
