"""Cards: what they keep, and that those of before can still be read."""

import hashlib
from uuid import UUID

import orjson
import pytest

from stream_tgat.topology import Topology
from stream_tgat.training.card import GateNote, ReleaseCard, content_hash, new_card
from stream_tgat.training.log_part import Wanted, read_by
from stream_tgat.training.shape import model_config
from stream_tgat.training.window import Window

TOPOLOGY = Topology.model_validate(
    {"name": "shop", "model": {"hidden": 4, "time_dim": 4, "neighbours": 2, "candidates": 3}}
)
NOTE = GateNote(passed=False, reason="worse", serving="r0", begin=1.5, end=3.5, interactions=9, note="all new ones")


def card(**more) -> ReleaseCard:
    return new_card(
        TOPOLOGY,
        model_config(TOPOLOGY),
        manifest={"interactions": {0: (3, 17), 11: (0, 0)}},
        metrics={"links.newest.average_precision": 0.75},
        seed=3,
        **more,
    )


def test_card_comes_back_from_json_as_it_was():
    ids = {"interactions": UUID(int=5)}
    made = card(
        topic_ids=ids, learnt_until=1.25, log_since=0.5, serving_metrics={"a": 0.5, "b": float("nan")}, gate=NOTE
    )
    again = ReleaseCard.model_validate_json(made.model_dump_json())
    assert again == made
    assert again.serving_metrics == {"a": 0.5, "b": None}
    assert read_by(again) == Wanted({"interactions": {0: (3, 17), 11: (0, 0)}}, Window(since=0.5), ids)
    assert read_by(card()).window == Window()


def test_card_without_what_was_added_later_is_read_and_keeps_its_hash():
    content = card().model_dump(mode="json")
    added_later = {"topic_ids", "learnt_until", "log_since", "serving_metrics", "gate", "measured", "best", "rules"}
    old = {key: value for key, value in content.items() if key not in added_later}
    read = ReleaseCard.model_validate(old)
    assert (read.learnt_until, read.log_since, read.serving_metrics, read.gate) == (None, None, {}, None)
    # As it was made when there was nothing else on a card.
    first = {key: value for key, value in old.items() if key != "hash"}
    expected = hashlib.sha256(b"weights" + orjson.dumps(first, option=orjson.OPT_SORT_KEYS)).hexdigest()
    assert content_hash(b"weights", read.model_dump(mode="json")) == expected


@pytest.mark.parametrize(
    "field", [{"learnt_until": 1.0}, {"log_since": 0.0}, {"serving_metrics": {"a": 1.0}}, {"gate": NOTE}]
)
def test_what_was_added_later_is_hashed_where_it_says_something(field):
    base = card()
    assert content_hash(b"w", base.model_dump(mode="json")) != content_hash(
        b"w", base.model_copy(update=field).model_dump(mode="json")
    )


def test_release_is_untrained_only_if_it_learnt_nothing():
    assert new_card(TOPOLOGY, model_config(TOPOLOGY), seed=1).is_untrained
    assert not card().is_untrained


def test_newest_figure_is_that_of_the_newest_part_measured():
    made = card()
    assert made.newest("links", "average_precision") == 0.75
    assert made.newest("heads.churn", "auc") is None
    older = made.model_copy(update={"metrics": {"links.test.x": None, "links.validation.x": 0.5}})
    assert older.newest("links", "x") == 0.5
