"""GAE and VGAE (Kipf and Welling, 2016): two graph convolutions, an inner product, and the graph itself as the target.

The graph is that of the training part: undirected, weighted by recurrence. Without node features a node is known by its
number (a one-hot vector), as in the authors' featureless variant.
"""

from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from research.baselines.optional import geometric
from research.baselines.static import PairInputs, PairScoring, StaticScorer
from research.baselines.validation import VALIDATION_EVENTS, Validation
from research.baselines.visible import visible
from research.baselines.walks import Adjacency
from stream_tgat.evaluation.link_prediction.task import LinkTask


@dataclass(frozen=True, eq=False)
class GraphAutoencoder:
    """GAE, or with `variational` VGAE, trained on the whole graph at once.

    hidden: width of the first convolution   width: d, of a node's vector   epochs: at most so many steps
    patience: stop after so many steps without a better validation; the best vectors are kept. With much fewer than the
    default a VGAE may stop in the noise in which it begins
    scoring: whatever it is, stopping is by the inner product
    """

    name: str = "GAE"
    variational: bool = False
    hidden: int = 200
    width: int = 100
    epochs: int = 200
    learning_rate: float = 0.01
    patience: int = 50
    scoring: PairScoring = field(default_factory=PairScoring)

    def fit(self, task: LinkTask, seed: int) -> StaticScorer:
        """Vectors of the nodes of the training part, and a scorer by them."""
        seen, train, validation = visible(task)
        graph = Adjacency.of(seen.select(train), len(task.hidden), weighted=True)
        inputs = _inputs(graph.node_count, task.node_features)
        table = self._vectors(graph, inputs, Validation(seen, validation, VALIDATION_EVENTS, seed), seed)
        return self.scoring.best(task, [table], seed)

    def _vectors(self, graph: Adjacency, inputs: Tensor, validation: Validation, seed: int) -> NDArray[np.float32]:
        torch.manual_seed(seed)
        edges = torch.from_numpy(np.stack([graph.owners, graph.neighbours]))
        weights = torch.from_numpy(graph.weights).float()
        best_table = np.zeros((graph.node_count, self.width), np.float32)
        if edges.shape[1] == 0:
            return best_table
        encoder = _Convolutions(inputs.shape[1], self.hidden, self.width, self.variational)
        model = (geometric().VGAE if self.variational else geometric().GAE)(encoder)
        optimiser = torch.optim.Adam(model.parameters(), lr=self.learning_rate)
        best, best_step = -1.0, 0
        for step in range(self.epochs):
            model.train()
            optimiser.zero_grad(set_to_none=True)
            loss = self._loss(model, inputs, edges, weights, _not_edges(graph, seed, step))
            loss.backward()  # type: ignore[no-untyped-call]
            optimiser.step()
            table = _table(model, inputs, edges, weights, graph)
            precision = validation.average_precision(StaticScorer(PairInputs(table, "inner")))
            if precision > best:
                best, best_step, best_table = precision, step, table
            if step - best_step >= self.patience:
                break
        return best_table

    def _loss(self, model: Any, inputs: Tensor, edges: Tensor, weights: Tensor, others: Tensor) -> Tensor:
        """−log σ(z_i·z_j) over edges, −log(1 − σ(z_i·z_q)) over others, for VGAE the divergence from N(0, 1) too."""
        vectors = model.encode(inputs, edges, weights)
        loss = cast(Tensor, model.recon_loss(vectors, edges, others))
        return loss + model.kl_loss() / len(vectors) if self.variational else loss


class _Convolutions(nn.Module):
    """Two graph convolutions; variational: the second one twice, for the mean and for the log of the deviation."""

    def __init__(self, inputs: int, hidden: int, width: int, variational: bool) -> None:
        super().__init__()
        convolution = geometric().GCNConv
        self.first = convolution(inputs, hidden)
        self.mean = convolution(hidden, width)
        self.log_deviation = convolution(hidden, width) if variational else None

    def forward(self, inputs: Tensor, edges: Tensor, weights: Tensor) -> Any:
        """Vectors [N, width], or two of them; inputs [N, F], edges [2, m], weights [m]."""
        state = self.first(inputs, edges, weights).relu()
        mean = self.mean(state, edges, weights)
        return mean if self.log_deviation is None else (mean, self.log_deviation(state, edges, weights))


def _inputs(node_count: int, node_features: NDArray[np.float32] | None) -> Tensor:
    """What the nodes have of their own, or else the identity: [N, F] or, sparse, [N, N]."""
    if node_features is not None:
        return torch.from_numpy(node_features)
    places = torch.arange(node_count).repeat(2, 1)
    return torch.sparse_coo_tensor(
        places, torch.ones(node_count), (node_count, node_count), is_coalesced=True, check_invariants=False
    )


def _not_edges(graph: Adjacency, seed: int, step: int) -> Tensor:
    """As many random pairs of active nodes as there are edges, without those that are edges: [2, m'] int64."""
    random = np.random.default_rng((seed, step))
    one, other = random.choice(graph.active, (2, len(graph.neighbours)))
    free = ~graph.joined(one, other)
    return torch.from_numpy(np.stack([one, other])[:, free])


def _table(model: Any, inputs: Tensor, edges: Tensor, weights: Tensor, graph: Adjacency) -> NDArray[np.float32]:
    """Vectors in evaluation (the means), zero for nodes without an edge: [N, width] float32."""
    model.eval()
    with torch.no_grad():
        vectors: NDArray[np.float32] = model.encode(inputs, edges, weights).numpy()
    table = np.zeros_like(vectors)
    table[graph.active] = vectors[graph.active]
    return table
