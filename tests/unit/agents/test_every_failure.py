"""Whatever fails between taking records and acknowledging them, wherever it does, the next worker loses nothing by it.

The places are found in the code (see `faults`); a place that no life of a worker passes through makes a test fail.
"""

from __future__ import annotations

import gc
import logging
from collections.abc import Iterator

import pytest

from stream_tgat.agents import committing, dead_letters, engine_thread, ingest, propagate
from stream_tgat.errors import ForeignWriterError, StreamTgatError
from stream_tgat.message_passing import cycle, latest, owned, partition
from stream_tgat.transport import changelog, fence, outbox, producer, table, tenure
from tests.integration.equality.streams import Record, random_log
from tests.unit.agents.faults import CANCELLED, FAULTS, RAISED, REFUSED, Fault, Place, Points, functions_of
from tests.unit.agents.lives import World, read_stream

#: All of the agents, and what they go through in the transport.
POINTS = Points(
    [
        *functions_of(propagate),
        *functions_of(engine_thread),
        *functions_of(owned),
        *functions_of(partition),
        *functions_of(cycle),
        *functions_of(latest),
        *functions_of(committing),
        *functions_of(ingest),
        dead_letters.deliver_dead_letters,
        *functions_of(outbox),
        producer.first_offsets,
        *functions_of(changelog.Changelog),
        table.BulkTable.check,
        table.BulkTable.tenure,
        table.BulkTable._commit,
        tenure.Tenure.commit,
        tenure.to_its_end,
        fence.Fence.guard,
    ]
)
PLACES = {str(place): place for place in POINTS.places}

FOREIGN = Fault("foreign", lambda: ForeignWriterError("another worker writes too"))
GIVES_UP = ("cycle.work: self._encoder.encode(computed)", REFUSED)

#: Places that are passed only after something has failed, and what that may be.
AFTER = {
    "propagate.on_revoked: await self._app.crash(problem)": ("propagate.on_revoked: self._tenure.at_stake()", RAISED),
    "producer.first_offsets: future.cancel()": ("producer.first_offsets: await asyncio.wait([future])", CANCELLED),
    "propagate._close: await asyncio.wait([durable])": GIVES_UP,
    "propagate._cycle: self._app.abandon(batch) (2)": GIVES_UP,
    "propagate._cycle: self._app.abandon(batch) (3)": ("cycle.work: self._encoder.encode(computed)", RAISED),
    "propagate._give_up: await self._app.read_again(TP(self._topic, partition))": GIVES_UP,
    "table.tenure: held.end(FencedError(f'table {self.name}, partition {partition}: its state was …": GIVES_UP,
    "table._commit: await self.app.crash(error)": (
        "changelog._batch: self._app.producer.new_batch(self.max_batch_bytes)",
        FOREIGN,
    ),
}
#: Places that are passed here in no way, and why that is no gap.
NOT_HERE = {
    "fence.guard: self._exit(f'an append was not acknowledged and the last heartbeat is …": "ends the process",
    "propagate._look: self._tenure.end(error)": "ends what a question has read in part, and takes no record",
    "propagate._cycle: self._app.abandon(batch)": "gives back what makes no cycle, which is seldom all that is read",
    "ingest._check_notes: begin_again(self._topology)": "words an error",
    "ingest._cycle: self._waiting[source].extendleft(reversed(left))": "only with input.interactions.each",
    **{
        f"ingest.{place}": "only with a schema registry, before anything is made of what was read"
        for place in (
            "_cycle: self._waiting[source].extendleft(reversed(records))",
            "_have_schemas: await asyncio.to_thread(self._packer.fetch, batch)",
            "_have_schemas: await self._registry_wait.pause(problem)",
            "_have_schemas: self._app.progress()",
            "_have_schemas: self._registry_wait.over()",
        )
    },
    "ingest._idle: self._app.end_seen_at(self._tp(source))": "asked only with time.idle_after_s",
    "ingest.run: wake()": "only while it rests, and holds no record",
    "ingest._pause: self._app.consumer.resume_partitions(self._paused - wanted)": "holds no record",
    "ingest._pause: self._app.consumer.pause_partitions(wanted - self._paused)": "holds no record",
}
CASES = [
    *((place, fault) for place in POINTS.places if str(place) not in NOT_HERE for fault in FAULTS[place.kind]),
    # The store of a partition that is not open any more: the changelog has what it lacks.
    (PLACES["table._commit: self.data.write(partition, mine, offsets[partition])"], REFUSED),
]


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    """A log with disorder, node features and something unreadable."""
    log = random_log(24, partitions=2, users=4, items=3, punctuation_every=8, seed=1)
    log = log.with_records([*log.records[:6], Record(0, b"not an interaction"), *log.records[6:]])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("stream_tgat.agents.propagate.drain", read_stream)
        patch.setattr("stream_tgat.agents.ingest.drain", read_stream)
        # Some cycles hold messages back, and the next ones commit them.
        patch.setattr("stream_tgat.message_passing.partition.COMMIT_S", 0.002)
        for tick in ("TICK_S", "WAITED_TICK_S"):
            patch.setattr(f"stream_tgat.agents.ingest.{tick}", -1.0)
        POINTS.put(patch)
        made = World(log)
        gc.freeze()
        yield made
        gc.unfreeze()


@pytest.fixture(scope="module")
def passes(world: World) -> dict[Place, int]:
    """How often each place is passed while the first half of the log is worked off and nothing fails."""
    world.renew()
    POINTS.arm()
    assert world.live() == []
    found = dict(POINTS.passed)
    _go_on(world)
    return found


def _go_on(world: World) -> None:
    POINTS.arm()
    world.go_on()
    assert world.live() == []
    world.assert_complete()


def test_every_place_is_passed_or_it_is_said_why_not(passes: dict[Place, int]) -> None:
    unknown = (AFTER.keys() | NOT_HERE.keys()) - PLACES.keys()
    assert not unknown, "no such places any more"
    missed = {name for name, place in PLACES.items() if not passes.get(place)} - AFTER.keys() - NOT_HERE.keys()
    assert not missed, "let a life pass through them, or say in AFTER or NOT_HERE why none does"


@pytest.mark.parametrize(("place", "fault"), CASES, ids=[f"{place} {fault.name}" for place, fault in CASES])
def test_failure_at_any_place_loses_nothing_and_spoils_nothing(
    world: World, passes: dict[Place, int], caplog: pytest.LogCaptureFixture, place: Place, fault: Fault
) -> None:
    """In the middle of the first half of the log; the next worker does the rest, upon what is stored."""
    caplog.set_level(logging.CRITICAL)
    first, failure = AFTER.get(str(place), (None, fault))
    for on_pass in _tries(passes[place if first is None else PLACES[first]]):
        world.renew()
        if first is None:
            POINTS.arm((place, fault, on_pass))
        else:
            POINTS.arm((PLACES[first], failure, on_pass), (place, fault, 1))
        failures = world.live()
        if place in POINTS.fired:
            break
    else:
        pytest.fail("the place was not passed any more")
    of_ours = (type(fault.error()), type(failure.error()), StreamTgatError)
    assert all(isinstance(each, of_ours) for each in failures), f"another error came of it: {failures}"
    _go_on(world)
    # What a failure left behind says so when it goes: here, and not in the middle of something else.
    gc.collect()


def _tries(passes: int) -> tuple[int, ...]:
    """In the middle. No two lives cut their cycles alike: a place may be passed less often, or in vain."""
    middle = max(1, passes // 2)
    return middle, middle + 1, middle + 2, max(1, middle // 2), max(1, middle // 4)
