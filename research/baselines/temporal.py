"""TGAT and the graph networks beside it, trained alike: one loss, one loop, one rule for stopping.

They learn from what training may see; fitted, they embed a node at a time from all interactions strictly earlier, those
of nodes that training never saw included.
"""

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Self

import numpy as np
import torch
from numpy.typing import NDArray

from research.baselines.neural import AggregatingModel, Aggregation
from research.baselines.visible import visible
from stream_tgat.evaluation.link_prediction.model_scorer import ModelScorer
from stream_tgat.evaluation.link_prediction.task import LinkTask
from stream_tgat.graph.interactions import Interactions
from stream_tgat.nn.heads import AffinityKind
from stream_tgat.nn.model import Model, ModelConfig
from stream_tgat.topology import PresetName
from stream_tgat.training.checkpoint import Checkpoint
from stream_tgat.training.links import LinkSettings, train_links
from stream_tgat.training.negatives import AnyDestination
from stream_tgat.training.scoring import TemporalGraph


@dataclass(frozen=True, eq=False)
class TemporalMethod:
    """One row of the table: what it is called and how it sums up a neighbourhood, None being TGAT's attention.

    reads_time: whether neighbours carry Φ(t − t_i); TGAT's always do   activity: layer 0 has the activity features
    pair_features: the affinity reads how the two met before   candidates: C, as many interactions back
    width: D, of every layer   time_width: T   preset: of TGAT, see `stream_tgat.nn.presets`
    settings: how it is trained; the seed is the one that `fit` is given   device: torch's name of it
    checkpoint: where a killed training goes on; of one task and seed only
    """

    name: str
    aggregation: Aggregation | None = None
    reads_time: bool = True
    activity: bool = False
    pair_features: bool = False
    width: int = 100
    time_width: int = 100
    layers: int = 2
    attention_heads: int = 2
    neighbours: int = 20
    candidates: int = 100
    affinity: AffinityKind = "mlp"
    preset: PresetName = "paper"
    settings: LinkSettings = field(default_factory=lambda: LinkSettings(epochs=50, patience=10))
    device: str = "cpu"
    checkpoint: Checkpoint | None = None

    def kept_in(self, scratch: Path | None) -> Self:
        """The same, but that a killed training goes on from a folder of its own. None: just the same"""
        return self if scratch is None else replace(self, checkpoint=Checkpoint(scratch))

    def fit(self, task: LinkTask, seed: int) -> ModelScorer:
        """Train on the task's training part, and keep the epoch that validates best.

        Negatives are what the protocol asks first: any destination, also one that is not seen until later. Had training
        only those seen before, a node without a past would always be a positive, and so score highest.
        """
        seen, train, validation = visible(task)
        torch.manual_seed(seed)
        own = 0 if task.node_features is None else task.node_features.shape[1]
        model = self.untrained(task.interactions.edge.shape[1], own).to(self.device)
        result = train_links(
            model,
            self.past_of(seen, task.node_features),
            train,
            validation,
            replace(self.settings, seed=seed),
            negatives=AnyDestination(task.learnt, seed),
            validation_negatives=AnyDestination(seen, seed),
            checkpoint=self.checkpoint,
        )
        return ModelScorer(model, self.past_of(task.interactions, task.node_features), result.epochs)

    def past_of(self, interactions: Interactions, node_features: NDArray[np.float32] | None) -> TemporalGraph:
        """What the method reads of some interactions."""
        return TemporalGraph.of(interactions, node_features, torch.device(self.device))

    def untrained(self, edge_features: int = 0, node_features: int = 0) -> Model:
        """A model with random weights from torch's generator, for interactions with E features and nodes with F."""
        config = ModelConfig(
            preset=self.preset,
            layers=self.layers,
            attention_heads=self.attention_heads,
            neighbours=self.neighbours,
            candidates=max(self.neighbours, self.candidates),
            node_features=node_features,
            activity=self.activity,
            edge_features=edge_features,
            time_dim=self.time_width,
            hidden=self.width,
            affinity=self.affinity,
            pair_features=self.pair_features,
        )
        if self.aggregation is None:
            return Model(config)
        return AggregatingModel(config, self.aggregation, reads_time=self.reads_time)


def temporal_methods(like: TemporalMethod) -> tuple[TemporalMethod, ...]:
    """The paper's rows that read a neighbourhood in the past, all with the options of `like`."""
    return (
        replace(like, name="TGAT", aggregation=None, reads_time=True),
        replace(like, name="Const-TGAT", aggregation="constant", reads_time=True),
        replace(like, name="GAT", aggregation="additive", reads_time=False),
        replace(like, name="GAT+T", aggregation="additive", reads_time=True),
        replace(like, name="GraphSAGE-mean", aggregation="mean", reads_time=False),
        replace(like, name="GraphSAGE-pool", aggregation="pool", reads_time=False),
        replace(like, name="GraphSAGE-LSTM", aggregation="lstm", reads_time=False),
        replace(like, name="GraphSAGE+T", aggregation="mean", reads_time=True),
    )
