"""Propagate changes its model between two cycles: in the state first, never backwards, and nothing is lost."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import numpy as np
import orjson
import pytest
import torch
from faust.types import TP

from stream_tgat.engine import AlertPolicy, PeerEmbeddings
from stream_tgat.message_passing.progress import PartitionProgress
from stream_tgat.message_passing.release import Ready
from stream_tgat.nn.model import Model, ModelConfig
from stream_tgat.transport.outbox import Delivery
from tests.unit.agents.propagating import TPS, VERSION, Setup

NEWER = VERSION + 4


@pytest.fixture(params=[-1.0, 99.0], ids=["partitions commit in every cycle", "rarely"])
def setup(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Setup:
    monkeypatch.setattr("stream_tgat.message_passing.partition.COMMIT_S", request.param)
    monkeypatch.setattr("stream_tgat.message_passing.cycle._SHARE", 1)
    monkeypatch.setattr("stream_tgat.agents.propagate._WAITING_S", -1.0)
    return Setup()


def ready(version: int = NEWER, seed: int = 1) -> Ready:
    torch.manual_seed(seed)
    model = Model(ModelConfig(neighbours=2, candidates=2, hidden=4, time_dim=4)).eval()
    return Ready(version, f"release-{version}", model, AlertPolicy())


def models(setup: Setup) -> dict[str, int]:
    """Which model each interaction's embedding names, in the order of delivery."""
    records = setup.app.outbox.sent.get(("embeddings", 0), [])
    found = [orjson.loads(record.value or b"") for record in records]
    return {each["interaction"]: each["model"] for each in found}


def test_outputs_after_a_switch_name_the_new_model_and_nothing_is_done_twice(setup: Setup) -> None:
    async def go() -> None:
        await setup.propagate.on_recovered(TPS)
        for offset in range(6):
            if offset == 3:
                setup.propagate.renew(ready())
            await setup.cycle(
                setup.record(0, offset, offset, 1.0 + offset, node=b"u%d" % offset),
                setup.record(1, offset, offset, 1.0 + offset, node=b"uv%d" % offset),
            )
        await setup.propagate.on_revoked(TPS)

    asyncio.run(go())
    expected = {f"x{p}-{n}": VERSION if n < 3 else NEWER for n in range(6) for p in (0, 1)}
    assert models(setup) == expected
    assert len(setup.app.outbox.sent["embeddings", 0]) == 12
    assert sorted(setup.app.acknowledged) == [("propagation", p, n) for p in (0, 1) for n in range(6)]
    assert [setup.progress(p).model for p in (0, 1)] == [NEWER, NEWER]
    assert (setup.metrics.model, setup.metrics.switches) == (NEWER, 1)


def test_state_names_the_new_model_before_the_first_output_and_after_the_last_of_the_old(setup: Setup) -> None:
    deliver = setup.app.outbox.deliver
    seen: list[tuple[set[int], list[int]]] = []

    async def look_and_deliver(deliveries: Sequence[Delivery]) -> list[int]:
        values = [record.value for each in deliveries if each.topic == "embeddings" for record in each.records]
        if values:
            # Slow, so that a switch that did not wait would overtake it.
            await asyncio.sleep(0.02)
            named = {orjson.loads(value or b"")["model"] for value in values}
            seen.append((named, [setup.progress(p).model for p in (0, 1)]))
        return await deliver(deliveries)

    setup.app.outbox.deliver = look_and_deliver  # type: ignore[method-assign]

    async def go() -> None:
        propagate = setup.propagate
        await propagate.on_recovered(TPS)
        await propagate.cycle([setup.record(0, 0, 0, 1.0)])
        propagate.renew(ready())
        await setup.cycle(setup.record(0, 1, 1, 2.0, node=b"u1"))

    asyncio.run(go())
    assert seen == [({VERSION}, [VERSION, VERSION]), ({NEWER}, [NEWER, NEWER])]


def test_switch_commits_what_was_received_together_with_its_rows(setup: Setup) -> None:
    """The reserved key alone would say that records are in the state whose rows are in memory only."""

    async def go() -> None:
        propagate = setup.propagate
        await propagate.on_recovered(TPS)
        await setup.cycle()
        # Ahead of the watermark: received, and nothing is computed.
        await setup.cycle(*(setup.record(p, 0, 0, 200.0, node=b"uw%d" % p) for p in (0, 1)))
        propagate.renew(ready())
        await setup.cycle()
        for partition in (0, 1):
            state = setup.progress(partition)
            assert (state.offset, state.model) == (0, NEWER)
        # What is stored, and not what is in memory.
        await setup.lose_tenure()
        await setup.cycle()
        assert await propagate.look(lambda engine, _: engine.pending()) == 2

    asyncio.run(go())


def test_partition_that_a_newer_model_has_served_waits_for_it(setup: Setup) -> None:
    async def go() -> None:
        layout = setup.layout.fingerprint
        setup.table.store(0).write([(b"\x00progress", PartitionProgress(layout, model=NEWER).encode())])
        await setup.propagate.on_recovered(TPS)
        assert setup.propagate.named_model == NEWER
        await setup.cycle(setup.record(0, 0, 0, 1.0), setup.record(1, 0, 0, 1.0))
        # The other one goes on with what is here.
        assert models(setup) == {"x1-0": VERSION}
        assert [setup.progress(p).model for p in (0, 1)] == [NEWER, VERSION]
        setup.propagate.renew(ready())
        await setup.cycle()
        assert models(setup) == {"x1-0": VERSION, "x0-0": NEWER}
        await setup.propagate.on_revoked(TPS)

    asyncio.run(go())
    assert [setup.progress(p).model for p in (0, 1)] == [NEWER, NEWER]


@pytest.mark.parametrize("version", [VERSION, VERSION - 1])
def test_model_that_is_not_newer_changes_nothing(setup: Setup, version: int) -> None:
    async def go() -> None:
        await setup.propagate.on_recovered(TPS)
        setup.propagate.renew(ready(version))
        await setup.cycle(setup.record(0, 0, 0, 1.0))

    asyncio.run(go())
    assert models(setup) == {"x0-0": VERSION}
    assert setup.metrics.switches == 0


def test_newest_of_several_takes_over_whatever_the_order(setup: Setup) -> None:
    async def go() -> None:
        await setup.propagate.on_recovered(TPS)
        for version in (NEWER, NEWER + 1, NEWER - 1):
            setup.propagate.renew(ready(version))
        await setup.cycle(setup.record(0, 0, 0, 1.0))

    asyncio.run(go())
    assert models(setup) == {"x0-0": NEWER + 1}


def test_switch_that_is_fenced_off_happens_when_the_partitions_are_back(setup: Setup) -> None:
    async def go() -> None:
        await setup.propagate.on_recovered(TPS)
        await setup.cycle(setup.record(0, 0, 0, 1.0))
        setup.table.fenced = True
        setup.propagate.renew(ready())
        asyncio.get_running_loop().call_later(0.25, lambda: setattr(setup.table, "fenced", False))
        await setup.cycle()
        assert {TP("propagation", 0), TP("propagation", 1)} <= set(setup.app.read_from)
        start = setup.propagate.start_offset(TP("propagation", 0)) or 0
        await setup.cycle(*(setup.record(0, n, n, 1.0 + n, node=b"u%d" % n) for n in range(start, 2)))
        await setup.propagate.on_revoked(TPS)

    asyncio.run(go())
    assert models(setup)["x0-1"] == NEWER
    assert [setup.progress(p).model for p in (0, 1)] == [NEWER, NEWER]


def test_rows_on_peer_embeddings_of_the_old_model_are_counted(setup: Setup) -> None:
    async def go() -> None:
        propagate = setup.propagate
        await propagate.on_recovered(TPS)
        await setup.cycle(setup.record(0, 0, 0, 1.0))
        peer_embedding = PeerEmbeddings(
            node=np.array([b"ua0"]),
            peer=np.array([b"ib"]),
            interaction=np.array([b"x0-0"]),
            side=np.zeros(1, np.uint8),
            time=np.ones(1),
            version=np.full(1, VERSION),
            vectors=np.ones((1, 4), np.float32),
            layer=1,
        )
        await propagate.look(lambda engine, _: engine.fill(0, peer_embedding))
        propagate.renew(ready())
        await setup.cycle(setup.record(0, 1, 1, 2.0))

    asyncio.run(go())
    assert models(setup) == {"x0-0": VERSION, "x0-1": NEWER}
    assert setup.metrics.stale_rows == 1
