"""Scores from vectors, and the methods that make the vectors."""

from dataclasses import replace
from importlib.util import find_spec

import numpy as np
import pytest
import torch

from research.baselines import optional
from research.baselines.autoencoder import GraphAutoencoder
from research.baselines.skipgram import CTDNE, DeepWalk, Node2vec, SkipGram
from research.baselines.static import PairInputs, PairScoring, StaticScorer
from stream_tgat.errors import DataError
from stream_tgat.graph.adjacency import TemporalAdjacency
from tests.unit.research.baselines.small import circles, task_of

needs_gensim = pytest.mark.skipif(find_spec("gensim") is None, reason="gensim is not installed (extra: research)")
needs_geometric = pytest.mark.skipif(
    find_spec("torch_geometric") is None, reason="torch-geometric is not installed (extra: research)"
)
QUICK = SkipGram(width=16, window=5, epochs=2)
METHODS = [
    pytest.param(DeepWalk(walks_per_node=20, walk_length=10, skip_gram=QUICK), marks=needs_gensim, id="DeepWalk"),
    pytest.param(Node2vec(walks_per_node=20, walk_length=10, skip_gram=QUICK), marks=needs_gensim, id="Node2vec"),
    pytest.param(CTDNE(walks_per_node=60, walk_length=10, skip_gram=QUICK), marks=needs_gensim, id="CTDNE"),
    pytest.param(GraphAutoencoder(hidden=16, width=8, epochs=200), marks=needs_geometric, id="GAE"),
    pytest.param(
        GraphAutoencoder("VGAE", variational=True, hidden=16, width=8, epochs=200), marks=needs_geometric, id="VGAE"
    ),
]
TABLE = np.array([[1.0, 2.0], [3.0, -1.0], [0.0, 0.0]], np.float32)


def pairs(*rows):
    source, destination, time = zip(*rows, strict=True)
    return np.array(source), np.array(destination), np.array(time, np.float64)


def test_operators_equal_hand_computation():
    asked = pairs((0, 1, 5.0))
    assert PairInputs(TABLE, "inner").of(*asked).tolist() == [[1.0]]
    assert PairInputs(TABLE, "hadamard").of(*asked).tolist() == [[3.0, -2.0]]
    assert PairInputs(TABLE, "concatenated").of(*asked).tolist() == [[1.0, 2.0, 3.0, -1.0]]


def test_activity_of_both_joins_the_vectors_and_is_of_the_past_only():
    history = TemporalAdjacency(task_of([0, 0, 0], [1, 1, 2], [1.0, 3.0, 5.0]).interactions)
    found = PairInputs(TABLE, "inner", history).of(*pairs((0, 2, 5.0)))
    assert found[0, 1:] == pytest.approx([np.log(3), np.log(3), -1.0, 0.0, -1.0, -1.0])


def test_inner_product_alone_is_its_own_score():
    scores = StaticScorer(PairInputs(TABLE, "inner")).scores(np.array([0, 2]), np.array([[1, 0], [1, 0]]), np.zeros(2))
    assert scores.tolist() == [[1.0, 5.0], [0.0, 0.0]]


def test_classifier_learns_the_sign_of_what_happens():
    """Pairs whose vectors agree meet: their score must be the higher one, with any operator that can tell."""
    task = circles(300)
    kind = np.arange(task.interactions.node_count) % 2
    table = np.stack([kind, 1 - kind], 1).astype(np.float32)
    for operator in ("inner", "hadamard"):
        scorer = PairScoring(activity=operator == "inner").scorer(task, table, operator, 0)
        same, other = scorer.scores(np.array([0]), np.array([[12, 13]]), np.array([1e9]))[0]
        assert same > other


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
def test_method_learns_who_belongs_together(method):
    task = circles(600)
    events = np.arange(task.split.test.start, task.split.test.stop)
    destination = task.interactions.destination[events]
    candidates = np.column_stack([destination, destination ^ 1])  # what happened, and an item of the other kind
    scores = method.fit(task, 0).scores(task.interactions.source[events], candidates, task.interactions.time[events])
    assert (scores[:, 0] > scores[:, 1]).mean() > 0.9


def test_best_scorer_is_the_one_that_validates_best():
    task = circles(300)
    kind = np.arange(task.interactions.node_count) % 2
    good = np.stack([kind, 1 - kind], 1).astype(np.float32)
    found = PairScoring(("inner",)).best(task, [good * [[1, 0]], np.zeros_like(good), good], 0)
    assert found.inputs.table is good
    # A sum of two vectors cannot tell whether they agree.
    found = PairScoring(("concatenated", "inner")).best(task, [good], 0)
    assert found.inputs.operator == "inner"


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
def test_same_seed_gives_the_same_vectors_and_another_does_not(method):
    task = circles(150)
    one, two, three = (method.fit(task, seed).inputs.table for seed in (3, 3, 4))
    assert np.array_equal(one, two)
    assert not np.array_equal(one, three)


@pytest.mark.parametrize("method", METHODS)
def test_nodes_that_training_does_not_see_have_zero_vectors_and_finite_scores(method):
    task = circles(150, hidden=(2, 15))
    assert task.split.train.stop > 0
    scorer = method.fit(task, 0)
    train = task.interactions.select(task.split.train)
    clean = ~(task.hidden[train.source] | task.hidden[train.destination])
    seen = np.unique(np.concatenate([train.source[clean], train.destination[clean]]))
    unseen = np.setdiff1d(np.arange(task.interactions.node_count), seen)
    assert {2, 15} <= set(unseen.tolist())
    assert not scorer.inputs.table[unseen].any()
    assert scorer.inputs.table[seen].any(1).all()
    assert np.isfinite(scorer.scores(np.array([2]), np.array([[15]]), np.array([1e9]))).all()


@pytest.mark.parametrize("method", METHODS)
def test_nodes_without_any_interaction_have_a_place_and_features_are_taken(method):
    features = np.random.default_rng(0).normal(size=(30, 4)).astype(np.float32)
    task = replace(circles(150), node_features=features, hidden=np.zeros(30, np.bool_))
    table = method.fit(task, 0).inputs.table
    assert len(table) == 30
    assert table[:24].any(1).all()
    assert not table[24:].any()
    other = method.fit(replace(task, node_features=features[::-1].copy()), 0).inputs.table
    assert np.array_equal(table, other) == (not isinstance(method, GraphAutoencoder))


@pytest.mark.parametrize("method", METHODS)
def test_nothing_after_validation_is_read(method):
    task = circles(150)
    stop = task.split.test.start
    late = task.interactions.destination.copy()
    late[stop:] = late[stop:][::-1]
    changed = task_of(task.interactions.source, late, task.interactions.time)
    assert np.array_equal(method.fit(task, 0).inputs.table, method.fit(changed, 0).inputs.table)


def test_autoencoder_sees_how_often_a_pair_met(monkeypatch):
    seen = []

    def vectors(self, graph, *_):
        seen.append(graph)
        return np.zeros((graph.node_count, self.width), np.float32)

    monkeypatch.setattr(GraphAutoencoder, "_vectors", vectors)
    # The first seven are learnt from: 0 meets 1 four times, either way round, and 2 twice; 1 meets 2 once.
    task = task_of([0, 1, 0, 0, 0, 2, 1, 0, 0, 0], [1, 0, 1, 1, 2, 0, 2, 2, 2, 2], np.arange(10.0))
    GraphAutoencoder(width=2, scoring=PairScoring(("inner",))).fit(task, 0)
    (graph,) = seen
    met = dict(zip(zip(graph.owners.tolist(), graph.neighbours.tolist(), strict=True), graph.weights, strict=True))
    assert met == {(0, 1): 4, (1, 0): 4, (0, 2): 2, (2, 0): 2, (1, 2): 1, (2, 1): 1}


@needs_geometric
def test_loss_of_a_variational_autoencoder_is_the_reconstruction_and_the_divergence_from_a_normal():
    """N(μ, σ²) against N(0, 1): Σ ½(μ² + σ² − 1 − log σ²) over a node's numbers, mean over N nodes, a node's share."""
    mean = torch.tensor([[1.0, -2.0], [0.5, 0.0], [0.0, 3.0]])
    log_deviation = torch.tensor([[0.0, 0.5], [-1.0, 0.2], [0.3, 0.0]])
    edges, others = torch.tensor([[0, 1], [1, 2]]), torch.tensor([[0], [2]])

    class Given(torch.nn.Module):
        def forward(self, *_):
            return mean, log_deviation

    # Without training there is no noise: the vectors are the means.
    model = optional.geometric().VGAE(Given()).eval()
    found = GraphAutoencoder("VGAE", variational=True)._loss(model, torch.zeros(0), edges, torch.ones(2), others)
    yes, no = torch.sigmoid((mean @ mean.T)[tuple(edges)]), torch.sigmoid((mean @ mean.T)[tuple(others)])
    variance = (2 * log_deviation).exp()
    divergence = ((mean**2 + variance - 1 - 2 * log_deviation) / 2).sum(1).mean()
    expected = -yes.log().mean() - (1 - no).log().mean() + divergence / 3
    assert divergence > 1
    assert found.item() == pytest.approx(expected.item(), rel=1e-5)


@pytest.mark.parametrize("load", [optional.word2vec, optional.geometric])
def test_absent_library_says_how_to_install_it(monkeypatch, load):
    monkeypatch.setattr(optional, "find_spec", lambda _: None)
    with pytest.raises(DataError, match=r"pip install '.\[research\]'"):
        load()
