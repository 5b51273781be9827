"""Scores are those that training learns: the affinity of both embeddings and of how the two met, at one time."""

from __future__ import annotations

import asyncio
from typing import Any
from zlib import crc32

import numpy as np
import pytest
import torch

from stream_tgat.engine import HalfEdges
from stream_tgat.errors import QueryError
from stream_tgat.graph.interactions import Interactions
from stream_tgat.nn.model import Model
from stream_tgat.query import scoring as scored_by
from stream_tgat.query.answers import PairAt
from stream_tgat.query.scoring import Scoring
from stream_tgat.query.workers import MovingError
from stream_tgat.training.scoring import TemporalGraph, pair_logits
from tests.unit.query.ask import PARTITIONS, deployment, engine_over, model_for, purchases, shop

SHOP = shop()
STREAM = purchases(SHOP)
NOW = 1100.0
NAMES = sorted(set(STREAM.node.tolist()))


class Models:
    """The models of some versions; the last serves."""

    def __init__(self, **models: Model) -> None:
        self.models = {int(name[1:]): model for name, model in models.items()}

    async def model(self, version: int | None = None) -> Model:
        return self.models[max(self.models) if version is None else version]


def expected(model: Model, stream: HalfEdges, pairs: list[PairAt]) -> list[float]:
    """By training's code, over the whole history."""
    number = {name: at for at, name in enumerate([*NAMES, b"unobody", b"inothing"])}
    history = Interactions(
        np.array([number[each] for each in stream.node[::2].tolist()]),
        np.array([number[each] for each in stream.peer[::2].tolist()]),
        stream.time[::2],
        stream.edge[::2],
    )
    with torch.inference_mode():
        logits = pair_logits(
            model,
            TemporalGraph.of(history, None),
            np.array([number[f"u{pair.user}".encode()] for pair in pairs]),
            np.array([[number[f"i{pair.item}".encode()]] for pair in pairs]),
            np.array([pair.time for pair in pairs]),
        )
    return torch.sigmoid(logits[:, 0].double()).tolist()


def every_pair(**also: Any) -> list[PairAt]:
    users, items = [f"u{k}" for k in range(5)] + ["nobody"], [f"i{k}" for k in range(6)] + ["nothing"]
    return [
        PairAt(user=user, item=item, **({"time": NOW + k} | also)) for k, user in enumerate(users) for item in items
    ]


@pytest.mark.parametrize("config", [{"pair_features": True}, {}, {"affinity": "inner"}])
def test_scores_are_those_of_training(config: dict[str, Any]) -> None:
    model = model_for(SHOP, **config)

    async def ask() -> None:
        async with deployment(SHOP, [engine_over(SHOP, model, STREAM)] * 2) as made:
            made.move(1, 1)
            version, scores = await Scoring(SHOP, made.asking, Models(v7=model)).score(every_pair())
            assert version == 7
            np.testing.assert_allclose(
                [each.probability for each in scores], expected(model, STREAM, every_pair()), atol=1e-5
            )
            for each in scores:
                assert (each.known_user, each.known_item) == (each.user != "nobody", each.item != "nothing")
                assert each.complete
                assert each.predictions is None

    asyncio.run(ask())


def test_heads_say_what_they_would_if_it_happened() -> None:
    model = model_for(SHOP, pair_features=True)

    async def ask() -> None:
        async with deployment(SHOP, [engine_over(SHOP, model, STREAM)]) as made:
            pairs = [
                PairAt(user="u1", item="i2", time=NOW, features={"price": 24.9, "channel": "web"}),
                PairAt(user="u1", item="i3", time=NOW),
            ]
            _, scores = await Scoring(SHOP, made.asking, Models(v7=model)).score(pairs)
            edge, _ = SHOP.encoder.encode([{"price": 24.9, "channel": "web"}])
            look = made.workers[0].engine.look(crc32(b"uu1") % PARTITIONS, np.array([b"uu1"]), np.array([NOW]))
            said = look.predictions(np.array([0]), edge)
            assert scores[0].predictions == pytest.approx({"returns": float(said[0, 0])})
            assert scores[1].predictions is None

    asyncio.run(ask())


def test_features_that_no_interaction_can_have_are_named() -> None:
    model = model_for(SHOP)

    async def ask() -> None:
        async with deployment(SHOP, [engine_over(SHOP, model, STREAM)]) as made:
            scoring = Scoring(SHOP, made.asking, Models(v7=model))
            with pytest.raises(QueryError, match=r"pairs\.1\.features: field 'price' must be a number"):
                await scoring.score([PairAt(user="a", item="b"), PairAt(user="a", item="b", features={"price": "x"})])

    asyncio.run(ask())


def test_now_is_one_time_for_all_pairs_and_asked_once_where_one_worker_knows() -> None:
    model = model_for(SHOP)
    newest = float(np.nextafter(STREAM.time.max(), np.inf))

    async def ask() -> None:
        async with deployment(SHOP, [engine_over(SHOP, model, STREAM)] * 2, passed=1030.0) as made:
            scoring = Scoring(SHOP, made.asking, Models(v7=model))
            pairs = [*every_pair(time=None), *every_pair(time=1040.0)]
            _, scores = await scoring.score(pairs)
            assert [each.time for each in scores] == [newest] * len(every_pair()) + [1040.0] * len(every_pair())
            assert made.workers[0].slices == [1]
            # Where several know, the latest time is found first; the one that has lost a partition is asked in vain.
            made.move(1, 1)
            assert [each.time for each in (await scoring.score(pairs))[1]] == [each.time for each in scores]
            assert [sum(worker.slices) for worker in made.workers] == [1 + 1 + 2, 2]

    asyncio.run(ask())


def test_models_are_never_mixed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two workers of which one has switched: no score; when both have, by the new one, also if it asks for more."""
    monkeypatch.setattr(scored_by, "_PAUSE_S", 0.01)
    old, new = model_for(SHOP), model_for(SHOP, pair_features=True, seed=1)

    async def ask() -> None:
        engines = [engine_over(SHOP, old, STREAM), engine_over(SHOP, new, STREAM, version=8)]
        async with deployment(SHOP, engines) as made:
            scoring = Scoring(SHOP, made.asking, Models(v7=old, v8=new))
            # The newest promotion has not reached the worker yet: what answers counts.
            version, scores = await scoring.score(every_pair())
            assert version == 7
            np.testing.assert_allclose(
                [each.probability for each in scores], expected(old, STREAM, every_pair()), atol=1e-5
            )
            made.move(1, 1)
            with pytest.raises(MovingError, match="switch to another model"):
                await scoring.score(every_pair())
            for partition in range(4):
                made.move(partition, 1)
            version, scores = await scoring.score(every_pair())
            assert version == 8
            np.testing.assert_allclose(
                [each.probability for each in scores], expected(new, STREAM, every_pair()), atol=1e-5
            )

    asyncio.run(ask())
