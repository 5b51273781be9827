"""What a worker says of its work is in words, and only when there is something to say."""

from __future__ import annotations

from stream_tgat.agents.metrics import REASONS, Metrics
from stream_tgat.housekeeping.telling import CatchingUp, Rates
from stream_tgat.message_passing.refused import Refused
from stream_tgat.transport.client import Lag


def _refused(topic: str, reason: str) -> Refused:
    return Refused(topic, 0, 0, None, None, None, reason)


def test_rates_are_those_since_the_last_look_and_silence_is_kept_where_nothing_happens() -> None:
    rates, metrics = Rates(0.0), Metrics()
    metrics.interactions, metrics.embeddings, metrics.alerts = 12_000, 24_000, 3
    for _ in range(98):
        metrics.event_to_embedding.observe(0.06)
    metrics.event_to_embedding.observe(0.2)
    metrics.refuse([_refused("interactions", "not JSON")])
    metrics.pending = 40
    assert rates.look(10.0, metrics) == (
        "In the last 10 s: 1,200 interactions/s, 2,400 embeddings/s, half of them within 75 ms and 99 % within 250 ms, "
        "3 alerts, 1 to the dead letters, 40 rows wait"
    )
    assert rates.look(20.0, metrics) is None
    metrics.interactions += 10
    metrics.behind_by_source.update({3: 2})
    assert rates.look(25.0, metrics) == (
        "In the last 5 s: 2 interactions/s, 0 embeddings/s, 2 late, late in all: 2 of interactions/3, 40 rows wait"
    )


def test_who_has_caught_up_says_so_once_and_again_after_falling_behind_or_a_rebalance() -> None:
    news = CatchingUp(limit_s=30.0)
    assert news.look(0.0, ("interactions/0", Lag(9_000, 3_600.0))) is None
    assert news.look(60.0, ("interactions/0", Lag(50, 0.4))) == (False, "Caught up after 1 min")
    assert news.look(61.0, ("interactions/0", Lag(500, 20.0))) is None
    told = True, "Fallen behind: 45 s behind at interactions/0, with 70,000 to go"
    assert news.look(62.0, ("interactions/0", Lag(70_000, 45.0))) == told
    assert news.look(63.0, ("interactions/0", Lag(70_000, 46.0))) is None
    assert news.look(64.0, ("interactions/0", Lag(0, 0.0))) == (False, "Caught up after 2 s")
    assert news.look(65.0, None) is None
    assert news.look(66.0, ("computing", Lag(3, 0.1))) == (False, "Caught up after 0 s")


def test_reasons_are_counted_by_kind_and_their_number_is_bounded() -> None:
    metrics = Metrics()
    metrics.refuse([_refused("labels", f"field 'value' must be a number, not {n}") for n in range(5)])
    assert dict(metrics.refused) == {("labels", "field 'value' must be a number"): 5}
    metrics.refuse([_refused("labels", f"field 'f{n}' must be a number") for n in range(2 * REASONS)])
    assert len(metrics.refused) == REASONS + 1
    assert metrics.refused["labels", "other"] == REASONS + 1
    assert metrics.dead_letters == 5 + 2 * REASONS
