"""TGAT with one part in another way: its time encoding, or how its neighbours are chosen from the past."""

from dataclasses import dataclass, fields, replace

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from research.baselines.temporal import TemporalMethod
from research.baselines.time_encodings import TimeEncodingKind, with_time_encoding
from stream_tgat.graph.interactions import Interactions
from stream_tgat.graph.sampling import Sampler, inverse_timespan, recent, uniform
from stream_tgat.nn.model import Model
from stream_tgat.training.links import TrainingSampling
from stream_tgat.training.scoring import TemporalGraph


@dataclass(frozen=True, eq=False)
class VariedTGAT(TemporalMethod):
    """encoding: of time   sampling: of neighbours among the newest `candidates`, in training as in evaluation."""

    encoding: TimeEncodingKind = TimeEncodingKind.LOG
    sampling: TrainingSampling = "recent"
    candidates: int = 100

    def __post_init__(self) -> None:
        """Training samples as evaluation does."""
        object.__setattr__(self, "settings", replace(self.settings, sampling=self.sampling))

    def untrained(self, edge_features: int = 0, node_features: int = 0) -> Model:
        """As for every method, with its own encoding and candidates."""
        model = super().untrained(edge_features, node_features)
        model.config = replace(model.config, candidates=max(self.candidates, self.neighbours))
        return with_time_encoding(model, self.encoding)

    def past_of(self, interactions: Interactions, node_features: NDArray[np.float32] | None) -> TemporalGraph:
        """Graph whose neighbours are sampled as the method says, unless it is told otherwise."""
        graph = super().past_of(interactions, node_features)
        return SampledGraph(graph.history, graph.node_features, self._sampler())

    def _sampler(self) -> Sampler:
        match self.sampling:
            case "uniform":
                return uniform(self.candidates)
            case "inverse_timespan":
                return inverse_timespan(self.candidates)
            case _:
                return recent


def time_encoding_methods(like: TemporalMethod) -> tuple[VariedTGAT, ...]:
    """TGAT with every other time encoding than its own, all with the options of `like`."""
    options = {each.name: getattr(like, each.name) for each in fields(like)}
    options |= {"aggregation": None, "reads_time": True}
    return tuple(
        VariedTGAT(**{**options, "name": f"TGAT, time encoding: {kind}"}, encoding=kind)
        for kind in TimeEncodingKind
        if kind is not TimeEncodingKind.LOG
    )


@dataclass(frozen=True, eq=False)
class SampledGraph(TemporalGraph):
    """A graph with a sampler of its own."""

    sampler: Sampler = recent

    def embed(
        self, model: Model, nodes: NDArray[np.int64], times: NDArray[np.float64], sampler: Sampler | None = None
    ) -> Tensor:
        """As `TemporalGraph.embed`; by default with the graph's sampler, not with the model's."""
        return super().embed(model, nodes, times, sampler or self.sampler)
