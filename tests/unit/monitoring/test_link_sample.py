"""Pairs that were met against pairs that were not: who is paired with whom, and how it is scored."""

from __future__ import annotations

import numpy as np
import pytest

from stream_tgat.monitoring.link_sample import LinkSample
from stream_tgat.monitoring.releases import UnknownReleases
from stream_tgat.wire import DecodedEmbedding


def end(interaction: str, side: int, user: str, item: str, model: int = 1) -> DecodedEmbedding:
    ends = (item, user) if side else (user, item)
    return DecodedEmbedding(interaction.encode(), *(each.encode() for each in ends), side, 0.0, (), model)


def vector(*values: float) -> np.ndarray:
    return np.array(values, np.float32)


class Asked(UnknownReleases):
    """Releases that note what they are asked, and answer with the product."""

    def __init__(self) -> None:
        self.questions: list[tuple[int, list[list[float]], list[list[float]]]] = []

    def affinities(self, version: int, users: np.ndarray, items: np.ndarray) -> np.ndarray:  # type: ignore[override]
        self.questions.append((version, users.tolist(), items.tolist()))
        return (users.astype(float) * items).sum(1)


def test_user_is_compared_with_another_item_at_its_newest_embedding_so_far() -> None:
    asked = Asked()
    links = LinkSample(1, 100, asked)
    links.add(end("1", 1, "ann", "tea"), vector(1, 0))
    links.add(end("1", 0, "ann", "tea"), vector(5, 5))  # no other item has been seen yet
    links.add(end("2", 1, "bob", "tea"), vector(2, 0))
    links.add(end("3", 0, "bob", "rum"), vector(0, 3))
    links.add(end("3", 1, "bob", "rum"), vector(0, 4))
    (found,) = links.quality()
    # Interaction 2 lacks its user. Of interaction 3 the item that was met comes first, then tea as it was last.
    assert asked.questions == [(1, [[0, 3], [0, 3]], [[0, 4], [2, 0]])]
    assert (found.model, found.pairs, found.average_precision) == (1, 1, 1.0)


def test_ends_of_different_models_are_never_compared() -> None:
    asked = Asked()
    links = LinkSample(1, 100, asked)
    links.add(end("1", 1, "ann", "tea", model=1), vector(1, 0))
    links.add(end("2", 0, "ann", "rum", model=1), vector(1, 0))
    links.add(end("2", 1, "ann", "rum", model=2), vector(1, 0))  # around a switch
    links.add(end("3", 0, "ann", "gin", model=2), vector(1, 0))
    links.add(end("3", 1, "ann", "gin", model=2), vector(1, 1))
    (found,) = links.quality()
    assert (found.model, found.pairs) == (2, 1)
    assert asked.questions == [(2, [[1, 0], [1, 0]], [[1, 1], [1, 0]])]


def test_average_precision_is_that_of_all_scores_of_a_model() -> None:
    random = np.random.default_rng(0)
    links = LinkSample(1, 40, Asked())
    met = []
    for at in range(300):
        value = float(random.normal())
        links.add(end(f"{at}", 0, f"u{at}", f"i{at}"), vector(1))
        links.add(end(f"{at}", 1, f"u{at}", f"i{at}"), vector(value))
        met.append(value)
    (found,) = links.quality()
    assert found.pairs == 40
    # The items drawn are such as were met, so nothing tells them apart.
    assert found.average_precision == pytest.approx(0.5, abs=0.2)


def test_basket_under_one_id_is_an_interaction_for_each_item() -> None:
    asked = Asked()
    links = LinkSample(1, 100, asked)
    for value, item in enumerate(("tea", "rum", "gin")):
        links.add(end("basket", 1, "ann", item), vector(value))
    for value, item in enumerate(("tea", "rum", "gin")):
        links.add(end("basket", 0, "ann", item), vector(10 + value))
    (found,) = links.quality()
    assert found.pairs == 3
    ((_, users, items),) = asked.questions
    assert (users[:3], items[:3]) == ([[10], [11], [12]], [[0], [1], [2]])


def test_model_that_cannot_be_asked_has_no_figures() -> None:
    links = LinkSample(1, 40, UnknownReleases())
    for at in range(10):
        links.add(end(f"{at}", 1, f"u{at}", f"i{at}"), vector(0))
        links.add(end(f"{at}", 0, f"u{at}", f"i{at}"), vector(0))
    assert links.quality() == ()


def test_sample_is_one_in_so_many_and_both_ends_belong_to_it() -> None:
    links = LinkSample(10, 40, UnknownReleases())
    taken = [at for at in range(5000) if links.takes(end(f"interactions/3/{at:012}", 0, "ann", "tea"))]
    assert 400 < len(taken) < 600
    assert all(links.takes(end(f"interactions/3/{at:012}", 1, "ann", "tea")) for at in taken)
    assert not any(LinkSample(0, 40, UnknownReleases()).takes(end(f"{at}", 0, "ann", "tea")) for at in range(50))


def test_memory_is_bounded() -> None:
    links = LinkSample(1, 50, Asked())
    for at in range(20_000):
        links.add(end(f"lonely-{at}", 0, f"u{at}", f"i{at}"), vector(0))
        links.add(end(f"{at}", 0, f"u{at}", f"i{at}"), vector(0))
        links.add(end(f"{at}", 1, f"u{at}", f"i{at}"), vector(0))
    assert links.size <= 4096 + 1024 + 3 * 256 + 50
