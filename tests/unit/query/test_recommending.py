"""Recommendations rank good candidates by the exact score and say why; similar nodes are so by exact embeddings."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import numpy as np
import pytest

from stream_tgat.query.answers import NodeAt, PairAt
from stream_tgat.query.catalog import HALF_LIFE_S, Catalog, Popularity, UnitVectors, _largest
from stream_tgat.query.recommending import Recommending
from stream_tgat.query.scoring import Scoring
from tests.unit.engine.oracle import Oracle
from tests.unit.query.ask import Deployment, catalog_of, deployment, engine_over, model_for, purchases, shop

SHOP = shop()
MODEL = model_for(SHOP, pair_features=True)
STREAM = purchases(SHOP)
NOW = 1100.0
ITEMS = {f"i{k}" for k in range(6)}


class Models:
    async def model(self, version: int | None = None) -> Any:
        return MODEL


def asking(ask: Callable[[Recommending, Scoring, Deployment], Awaitable[None]], catalog: Catalog | None = None) -> None:
    async def run() -> None:
        async with deployment(SHOP, [engine_over(SHOP, MODEL, STREAM)]) as made:
            scoring = Scoring(SHOP, made.asking, Models())
            known = catalog_of(STREAM) if catalog is None else catalog
            await ask(Recommending(SHOP, made.asking, scoring, known), scoring, made)

    asyncio.run(run())


def test_items_come_in_the_order_of_their_scores_with_what_made_them_candidates() -> None:
    async def ask(recommending: Recommending, scoring: Scoring, made: Deployment) -> None:
        found = await recommending.recommend("u1", 4, NOW)
        _, scores = await scoring.score([PairAt(user="u1", item=item, time=NOW) for item in sorted(ITEMS)])
        best = sorted(scores, key=lambda each: -each.probability)[:4]
        assert [(each.item, each.probability) for each in found.items] == [
            (each.item, pytest.approx(each.probability)) for each in best
        ]
        past = Oracle(MODEL, STREAM).past(b"uu1", NOW)[-SHOP.model.candidates :]
        met = {row.peer[1:].decode(): row.time for row in past}
        assert found.considered == len(ITEMS)
        for each in found.items:
            assert each.met_at == met.get(each.item)
            assert ("met before" in each.why) == (each.item in met)
            assert {"popular", "recent"} <= set(each.why)

    asking(ask)


def test_filters_leave_out_what_is_not_wanted() -> None:
    async def ask(recommending: Recommending, scoring: Scoring, made: Deployment) -> None:
        past = Oracle(MODEL, STREAM).past(b"uu1", NOW)[-SHOP.model.candidates :]
        met = {row.peer[1:].decode() for row in past}

        async def items(**filters: Any) -> set[str]:
            return {each.item for each in (await recommending.recommend("u1", 10, NOW, **filters)).items}

        assert await items(met="new") == ITEMS - met
        assert await items(met="known") == met
        assert await items(deny={"i1", "i2"}) == ITEMS - {"i1", "i2"}
        assert await items(allow=["i3", "brand-new"]) == {"i3", "brand-new"}
        assert await items(allow=["i3"], deny={"i3"}) == set()

    asking(ask)


def test_newcomer_is_recommended_what_others_meet() -> None:
    async def ask(recommending: Recommending, scoring: Scoring, made: Deployment) -> None:
        found = await recommending.recommend("nobody", 3, NOW)
        assert not found.known
        assert len(found.items) == 3
        assert all(each.met_at is None and "met before" not in each.why for each in found.items)

    asking(ask)


def test_where_nothing_is_known_nothing_is_recommended_but_what_was_met() -> None:
    async def ask(recommending: Recommending, scoring: Scoring, made: Deployment) -> None:
        assert (await recommending.recommend("nobody", 3, NOW)).items == []
        assert {tuple(each.why) for each in (await recommending.recommend("u1", 3, NOW)).items} == {("met before",)}
        assert (await recommending.similar(NodeAt(kind="user", id="u1"), 3)).nodes == []

    asking(ask, Catalog())


def test_similar_nodes_are_ranked_by_their_embeddings_now_whatever_the_catalog_holds() -> None:
    async def ask(recommending: Recommending, scoring: Scoring, made: Deployment) -> None:
        oracle = Oracle(MODEL, STREAM)
        states = {f"i{k}": oracle.state(2, b"ii%d" % k, NOW) for k in range(6)}
        mine = states.pop("i0")
        cosines = {
            name: float(mine @ state / np.linalg.norm(mine) / np.linalg.norm(state)) for name, state in states.items()
        }
        found = await recommending.similar(NodeAt(kind="item", id="i0", time=NOW), 3)
        assert [each.id for each in found.nodes] == sorted(cosines, key=lambda name: -cosines[name])[:3]
        for each in found.nodes:
            assert each.similarity == pytest.approx(cosines[each.id], abs=1e-5)
        assert found.searched == len(ITEMS)

    asking(ask)


def test_near_finds_all_that_is_nearest_as_vectors_come_and_change() -> None:
    rng = np.random.default_rng(0)
    vectors, known = UnitVectors(8), {}
    for n in range(5000):
        name = f"n{rng.integers(0, 3000)}"
        known[name] = rng.standard_normal(8).astype(np.float32)
        vectors.put(name, known[name])
        if n % 1000 == 999:
            asked = rng.standard_normal(8).astype(np.float32)
            cosine = {name: float(v @ asked / np.linalg.norm(v) / np.linalg.norm(asked)) for name, v in known.items()}
            # Several at once are as each alone.
            found, other = vectors.near(np.array([asked, vectors.of(name)]), 10)
            assert [each.id for each in found] == sorted(cosine, key=lambda name: -cosine[name])[:10]
            assert other[0].id == name
    assert len(vectors) == len(known)
    assert vectors.near(np.zeros((1, 8), np.float32), 3) == [[]]


@pytest.mark.parametrize("size", [1, 5, 700, 5000])
@pytest.mark.parametrize("distinct", [2, 40, 1 << 30])
def test_largest_are_those_of_a_full_sort(size: int, distinct: int) -> None:
    values = np.random.default_rng(size).integers(0, distinct, size).astype(np.float32)
    for count in (1, 3, 10, size, size + 5):
        assert _largest(values, count).tolist() == np.argsort(-values, kind="stable")[:count].tolist()


def test_popularity_halves_with_time_and_recency_follows_it() -> None:
    items = Popularity()
    for at in range(4):
        items.met("old", float(at))
    items.met("new", 2.5 * HALF_LIFE_S)
    assert items.popular(5) == ["new", "old"]
    items.met("old", 2.5 * HALF_LIFE_S - 1)
    assert items.popular(1) == ["old"]
    # As they were told: what is late does not come to the front again.
    assert items.recent(5) == ["old", "new"]
    items.met("new", 3.0)
    assert items.recent(1) == ["old"]


def test_vectors_of_two_models_stay_apart_and_older_ones_go() -> None:
    catalog, one = Catalog(), np.ones(2, np.float32)
    for model in (3, 4, 3, 5, 3):
        catalog.put(f"n{model}", "item", model, one)
    assert catalog.vectors("item", 3) is None
    assert [each.id for each in catalog.vectors("item", 4).near(one[None], 9)[0]] == ["n4"]  # type: ignore[union-attr]
    assert len(catalog.vectors("user", 5) or ()) == 0
