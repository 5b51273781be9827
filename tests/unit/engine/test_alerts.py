"""Alerts: upwards through the threshold, silent in the cooldown, with the past interactions that weigh most."""

from __future__ import annotations

import zlib
from collections import defaultdict
from dataclasses import replace
from itertools import permutations, product

import numpy as np
import pytest
import torch

from stream_tgat.engine import AlertPolicy, Engine, HalfEdges
from stream_tgat.errors import TopologyError
from stream_tgat.storage.stores import MemoryStore
from tests.unit.engine.small import INFINITY, NODE, commit, reopen, rows, small_engine, small_model


def engine_that_says(threshold: float, cooldown: float, store: MemoryStore | None = None) -> Engine:
    """An engine whose head says of a row what its edge feature is."""
    model = small_model(layers=1, neighbours=2, candidates=8, head_names=("ban",))
    policy = AlertPolicy((threshold,), (cooldown,))
    engine = small_engine(model=model, alerts=policy, store=store, cache_bytes=1 << 24)
    engine._layers.forward.predict = lambda embedding, event: event[:, :1]  # type: ignore[method-assign]
    return engine


def said(nodes: list[bytes], times: list[float], probabilities: list[float]) -> HalfEdges:
    """One row of each node, of users, named by its time."""
    count = len(nodes)
    return HalfEdges(
        node=np.array(nodes),
        peer=np.full(count, b"peer"),
        interaction=np.array([b"%05.1f" % time for time in times]),
        side=np.zeros(count, np.uint8),
        time=np.array(times),
        edge=np.array(probabilities, np.float32)[:, None],
    )


def crossings(
    probabilities: list[float], times: list[float], threshold: float, cooldown: float, batch: int = 1
) -> list[int]:
    """Positions of the events of one node that alert; they arrive in this order, `batch` at a time."""
    engine, found = engine_that_says(threshold, cooldown), []
    for at in range(0, len(times), batch):
        cut = slice(at, at + batch)
        engine.append(0, said([NODE] * len(times[cut]), times[cut], probabilities[cut]))
        found += [times.index(alert.time) for alert in engine.compute(INFINITY, 99).alerts]
    return found


def test_alert_only_when_the_threshold_is_crossed_upwards() -> None:
    assert crossings([0.1, 0.6, 0.7, 0.4, 0.5, 0.9], [0, 1, 2, 3, 4, 5], 0.5, 0.0) == [1, 4]


def test_first_event_above_the_threshold_alerts() -> None:
    assert crossings([0.9, 0.9], [0, 1], 0.5, 0.0) == [0]


def test_cooldown_runs_in_event_time_from_the_last_alert() -> None:
    # Crossings at 0, 2, 9 and 10; the second and third fall into the cooldown of 10 s, the fourth just not.
    levels, times = [0.9, 0.1, 0.9, 0.1, 0.9, 0.1, 0.9], [0.0, 1.0, 2.0, 3.0, 9.0, 9.5, 10.0]
    assert crossings(levels, times, 0.5, 10.0) == [0, 6]


def test_crossing_that_comes_behind_a_later_row_alerts() -> None:
    assert crossings([0.1, 0.9], [10.0, 9.999], 0.5, 0.0) == [1]
    assert crossings([0.1, 0.1, 0.9], [8.0, 10.0, 9.0], 0.5, 0.0) == [2]


def test_row_that_comes_behind_does_not_move_the_newest_probability_back() -> None:
    # At 11 it is still above, as at 10; it was below at 9 only.
    assert crossings([0.9, 0.1, 0.9], [10.0, 9.0, 11.0], 0.5, 0.0) == [0]
    # At 11 it crosses, since it was below at 10, although it was above at 9.
    assert crossings([0.1, 0.9, 0.9], [10.0, 9.0, 11.0], 0.5, 0.0) == [1, 2]


def test_rows_above_beside_one_that_alerted_are_the_same_crossing_whichever_comes_first() -> None:
    assert crossings([0.9, 0.9], [10.0, 9.0], 0.5, 0.0) == [0]
    assert crossings([0.9, 0.1, 0.9], [5.0, 10.0, 7.0], 0.5, 0.0) == [0]


def test_cooldown_holds_on_both_sides_of_an_alert() -> None:
    assert crossings([0.9, 0.1, 0.9], [20.0, 15.0, 12.0], 0.5, 10.0) == [0]
    assert crossings([0.9, 0.1, 0.9], [20.0, 15.0, 10.0], 0.5, 10.0) == [0, 2]


def test_rows_of_one_time_go_in_the_order_in_which_they_come() -> None:
    engine = engine_that_says(0.5, 0.0)
    rows_of_one_time = said([NODE] * 3, [5.0] * 3, [0.1, 0.9, 0.9])
    for at, name in enumerate((b"c", b"b", b"a")):
        row = rows_of_one_time.take(slice(at, at + 1))
        engine.append(0, replace(row, interaction=np.array([name])))
        assert len(engine.compute(INFINITY, 99).alerts) == (name == b"b")


def judged_once(rows: list[tuple[float, bool]], cooldown: float) -> list[float]:
    """The slow oracle: the times that alert, of rows (time, is above) in the order of their arrival.

    Rows above that are neighbours in time, among those that have come, are one crossing. It is judged when the first of
    them comes: it alerts unless another alert is nearer than the cooldown.
    """
    here: list[tuple[float, bool]] = []
    alerted: list[float] = []
    for row in rows:
        here = sorted([*here, row])
        crossing = next(run for run in runs_of(here) if row[0] in run or not row[1])
        if row[1] and crossing == [row[0]] and all(abs(row[0] - other) >= cooldown for other in alerted):
            alerted.append(row[0])
    return alerted


def runs_of(rows: list[tuple[float, bool]]) -> list[list[float]]:
    """The times of rows above that are neighbours in time; last an empty run."""
    runs: list[list[float]] = [[]]
    for time, above in sorted(rows):
        if above:
            runs[-1].append(time)
        elif runs[-1]:
            runs.append([])
    return [*runs, []]


@pytest.mark.parametrize("cooldown", [0.0, 2.5])
@pytest.mark.parametrize("crash", [False, True])
def test_each_crossing_alerts_once_in_every_order_of_arrival(cooldown: float, crash: bool) -> None:
    """All 120 orders of five rows, above or below in all 32 ways: one node for each."""
    times = (1.0, 2.0, 4.0, 5.0, 9.0)
    cases = [
        [(times[at], above[at]) for at in order]
        for order in permutations(range(5))
        for above in product((False, True), repeat=5)
    ]
    nodes = [b"n%04d" % case for case in range(len(cases))]
    store = MemoryStore()
    engine, alerted = engine_that_says(0.5, cooldown, store), defaultdict(list)
    for step in range(5):
        arriving = [case[step] for case in cases]
        probabilities = [0.9 if above else 0.1 for _, above in arriving]
        engine.append(0, said(nodes, [time for time, _ in arriving], probabilities))
        for alert in engine.compute(INFINITY, 1 << 20).alerts:
            alerted[alert.node].append(alert.time)
        commit(engine, store)
        if crash:
            engine = engine_that_says(0.5, cooldown, store)
    for node, case in zip(nodes, cases, strict=True):
        assert alerted[node] == judged_once(case, cooldown), case
        assert all(sum(time in run for time in alerted[node]) <= 1 for run in runs_of(case)), case


def alerting_engine(threshold: float, cooldown_s: float = 0.0, store: MemoryStore | None = None) -> Engine:
    torch.manual_seed(0)
    model = small_model(layers=1, neighbours=6, candidates=8, head_names=("ban",))
    policy = AlertPolicy((threshold,), (cooldown_s,))
    return small_engine(model=model, alerts=policy, store=store)


def probabilities() -> list[float]:
    engine = alerting_engine(2.0)
    engine.append(0, rows(*EVENTS))
    return engine.compute(INFINITY, 99).embeddings.predictions[:, 0].tolist()


EVENTS = [(b"%02d" % k, 1.0 + 7.3 * k) for k in range(12)]


def expected_crossings(levels: list[float], threshold: float) -> list[bytes]:
    before = [0.0, *levels[:-1]]
    return [EVENTS[k][0] for k in range(len(levels)) if levels[k] >= threshold > before[k]]


@pytest.mark.parametrize("batch", [1, 5, 12])
@pytest.mark.parametrize("crash", [False, True])
def test_alerts_do_not_depend_on_batches_or_crashes(batch: int, crash: bool) -> None:
    levels = probabilities()
    threshold = float(np.median(levels)) + 1e-6
    expected = expected_crossings(levels, threshold)
    assert 1 < len(expected) < 12
    store = MemoryStore()
    engine, alerts = alerting_engine(threshold, store=store), []
    for at in range(0, 12, batch):
        engine.append(0, rows(*EVENTS[at : at + batch]))
        alerts += engine.compute(INFINITY, 99).alerts
        commit(engine, store)
        if crash:
            reopen(engine, store)
    assert [alert.interaction for alert in alerts] == expected
    first = alerts[0]
    assert (first.node, first.head, first.threshold, first.version) == (NODE, "ban", threshold, 7)
    assert first.probability == levels[[name for name, _ in EVENTS].index(first.interaction)]


def test_cooldown_survives_a_crash() -> None:
    levels = probabilities()
    threshold = float(np.median(levels)) + 1e-6
    store = MemoryStore()
    engine, alerts = alerting_engine(threshold, cooldown_s=1e6, store=store), []
    for event in EVENTS:
        engine.append(0, rows(event))
        alerts += engine.compute(INFINITY, 99).alerts
        commit(engine, store)
        reopen(engine, store)
    assert [alert.interaction for alert in alerts] == expected_crossings(levels, threshold)[:1]


def test_alert_states_stay_with_their_heads_while_others_come_and_go() -> None:
    store = MemoryStore()

    def crossed(heads: tuple[str, ...], event: tuple[bytes, float]) -> list[tuple[bytes, str]]:
        torch.manual_seed(0)
        model = small_model(layers=1, neighbours=6, candidates=8, head_names=heads)
        # Every probability is above 0, so a head crosses it where it has none before.
        engine = small_engine(model=model, alerts=AlertPolicy((0.0,) * len(heads), (0.0,) * len(heads)), store=store)
        engine.append(0, rows(event))
        alerts = engine.compute(INFINITY, 99).alerts
        commit(engine, store)
        return [(alert.interaction, alert.head) for alert in alerts]

    first, second, third, fourth, fifth = EVENTS[:5]
    assert crossed(("ban",), first) == [(first[0], "ban")]
    assert crossed(("leave", "ban"), second) == [(second[0], "leave")]
    assert crossed(("ban", "leave"), third) == []
    assert crossed(("ban",), fourth) == []
    # It was away, so nothing is known of it.
    assert crossed(("ban", "leave"), fifth) == [(fifth[0], "leave")]


def test_heads_that_cannot_be_told_apart_are_refused() -> None:
    assert zlib.crc32(b"plumless") == zlib.crc32(b"buckeroo")
    with pytest.raises(TopologyError, match="rename one"):
        small_engine(head_names=("plumless", "buckeroo"))


def test_alert_names_the_origin_of_its_row_after_a_crash() -> None:
    store = MemoryStore()
    engine = alerting_engine(0.0, store=store)
    engine.append(0, replace(rows(*EVENTS[:2]), origin=np.array([3 << 48 | 41, 3 << 48 | 42])))
    commit(engine, store)
    reopen(engine, store)
    computed = engine.compute(INFINITY, 99)
    assert [(alert.interaction, alert.origin) for alert in computed.alerts] == [(EVENTS[0][0], 3 << 48 | 41)]


def test_because_names_the_largest_mean_attention() -> None:
    engine = alerting_engine(0.0)
    engine.append(0, rows(*EVENTS[:7]))
    engine.compute({0: np.nextafter(EVENTS[5][1], np.inf)}, 99)
    # The last event alone, through the model's own layer: its six neighbours, newest first.
    engine._arena.probability[:] = np.nan
    alert = engine.compute(INFINITY, 99).alerts[0]
    model = engine._layers.forward.model
    times = torch.tensor([time for _, time in EVENTS[:6]], dtype=torch.float64)
    with torch.inference_mode():
        _, weights = model.layer(
            1,
            [torch.empty(1, 0)],
            torch.empty(1, 6, 0),
            torch.sin(times).float()[None, :, None],
            (EVENTS[6][1] - times)[None],
            torch.ones(1, 6, dtype=torch.bool),
        )
    mean = weights.mean(1)[0].numpy()
    order = np.argsort(-mean)[:5]
    assert [because.interaction for because in alert.because] == [EVENTS[k][0] for k in order]
    assert [because.peer for because in alert.because] == [b"peer-" + EVENTS[k][0] for k in order]
    assert [because.time for because in alert.because] == [EVENTS[k][1] for k in order]
    np.testing.assert_allclose([because.weight for because in alert.because], mean[order], atol=1e-6)


def test_items_neither_alert_nor_count() -> None:
    engine = alerting_engine(0.0)
    engine.append(0, rows(EVENTS[0], side=1))
    computed = engine.compute(INFINITY, 99)
    assert computed.alerts == []
    assert np.isnan(computed.embeddings.predictions).all()
    engine.append(0, rows(EVENTS[1]))
    assert len(engine.compute(INFINITY, 99).alerts) == 1


def test_what_heads_said_of_rows_stays_with_them_while_others_come_and_go() -> None:
    """A row that comes behind is compared with those around it, whatever place its head has by then."""
    store = MemoryStore()

    def crossed(heads: tuple[str, ...], event: tuple[bytes, float]) -> list[str]:
        torch.manual_seed(0)
        model = small_model(layers=1, neighbours=6, candidates=8, head_names=heads)
        engine = small_engine(model=model, alerts=AlertPolicy((0.0,) * len(heads), (0.0,) * len(heads)), store=store)
        engine.append(0, rows(event))
        alerts = engine.compute(INFINITY, 99).alerts
        commit(engine, store)
        return [alert.head for alert in alerts]

    first, second, third = EVENTS[:3]
    assert crossed(("ban",), third) == ["ban"]
    # What is above at the later row is one crossing with it; "leave" has said nothing of that one.
    assert crossed(("leave", "ban"), second) == ["leave"]
    assert crossed(("ban", "leave"), first) == []
