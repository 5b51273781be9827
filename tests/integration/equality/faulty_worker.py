"""The worker with a fault at a chosen step of a commit: `faust -A tests.integration.equality.faulty_worker worker`.

FAULT="point:count:what" does to itself what it says when it passes that point for the count-th time: a signal (KILL,
STOP), or an error of the system that is raised there (ENOSPC):

    sending     some outputs of a batch are acknowledged, others perhaps not
    commit      all outputs are acknowledged, the fence was not asked yet
    appended    the changelog has the batch, RocksDB does not
    writing     as appended, and just before RocksDB is written
    written     RocksDB has the batch, the source's offset is not acknowledged
    acknowledged

SLOW_OUTPUTS_S delays every send, by half more or less, so that those of one cycle part, and a step that does not wait
for the one before overtakes it.
HOLD_NODES_S keeps the records of `nodes` from the agents for so long, as a slow disk of their broker would.
SESSION_S shortens the group's session, so that the partitions of a dead worker are not missed for long.
RESERVE_BYTES is the room that is left on the disk; with 0 nobody looks, and RocksDB finds it full in the middle.
CLOCK_JUMPS="after:by,…" sets the clock ahead or back by so many seconds, so many seconds after the start.
"""

from __future__ import annotations

import asyncio
import errno
import itertools
import os
import signal
import time
from collections.abc import Callable
from typing import Any

from aiokafka import AIOKafkaProducer

from stream_tgat import disk
from stream_tgat.message_passing import partition
from stream_tgat.transport import options
from stream_tgat.transport.application import Application
from stream_tgat.transport.changelog import Changelog
from stream_tgat.transport.consumer import BulkConsumer
from stream_tgat.transport.store import BulkStore
from stream_tgat.transport.table import BulkTable

_point, _count, _signal = os.environ.get("FAULT", "never:0:KILL").split(":")
_slow_s = float(os.environ.get("SLOW_OUTPUTS_S", "0"))
_passed = 0

if "SESSION_S" in os.environ:
    os.environ["KAFKA_SESSION_TIMEOUT_S"] = os.environ["SESSION_S"]
    options.DEFAULTS["broker_commit_interval"] = 0.2


# There is little to do in a test, and it shall be committed in many steps.
vars(partition)["COMMIT_S"] = 0.25

if "RESERVE_BYTES" in os.environ:
    disk.RESERVE_BYTES = int(os.environ["RESERVE_BYTES"])


def _pass(point: str) -> None:
    global _passed
    if point == _point:
        _passed += 1
        if _passed == int(_count):
            if hasattr(errno, _signal):
                raise OSError(getattr(errno, _signal), os.strerror(getattr(errno, _signal)))
            os.kill(os.getpid(), getattr(signal, f"SIG{_signal}"))


def _around(owner: type, name: str, *, before: str = "", after: str = "", delay_s: float = 0.0) -> None:
    """Pass a point before or after each call of a method."""
    original: Callable[..., Any] = getattr(owner, name)
    turns = itertools.cycle((0.5, 1.0, 1.5))

    async def awaited(*arguments: Any, **named: Any) -> Any:
        await asyncio.sleep(delay_s * next(turns))
        _pass(before)
        result = await original(*arguments, **named)
        _pass(after)
        return result

    def called(*arguments: Any, **named: Any) -> Any:
        _pass(before)
        result = original(*arguments, **named)
        _pass(after)
        return result

    setattr(owner, name, awaited if asyncio.iscoroutinefunction(original) else called)


def _sent_apart() -> None:
    """Pass the point after each batch of outputs that is acknowledged, and send each of them at its own time."""
    original = AIOKafkaProducer.send_batch
    turns = itertools.cycle((0.5, 1.0, 1.5))

    async def later(delay_s: float, *arguments: Any, **named: Any) -> Any:
        await asyncio.sleep(delay_s)
        result = await (await original(*arguments, **named))
        _pass("sending")
        return result

    async def send_batch(self: Any, batch: Any, topic: str, **named: Any) -> Any:
        if topic.endswith("-changelog"):
            return await original(self, batch, topic, **named)
        return asyncio.ensure_future(later(_slow_s * next(turns), self, batch, topic, **named))

    AIOKafkaProducer.send_batch = send_batch


_sent_apart()
_around(BulkTable, "_commit", before="commit")
_around(Changelog, "append", after="appended")
_around(BulkStore, "write", before="writing", after="written")
_around(Application, "acknowledge", after="acknowledged")
_around(Application, "acknowledge_to", after="acknowledged")

if "CLOCK_JUMPS" in os.environ:
    _jumps = [tuple(map(float, jump.split(":"))) for jump in os.environ["CLOCK_JUMPS"].split(",")]
    _started, _true_time = time.monotonic(), time.time

    def _jumping() -> float:
        passed = time.monotonic() - _started
        return _true_time() + next((by for after, by in reversed(_jumps) if passed >= after), 0.0)

    time.time = _jumping

if "HOLD_NODES_S" in os.environ:
    _hand_on = BulkConsumer._hand_on_source
    _until = time.monotonic() + float(os.environ["HOLD_NODES_S"])

    async def _hold_nodes(self: Any, tp: Any, chunk: Any) -> bool:
        if tp.topic.endswith("nodes") and time.monotonic() < _until:
            return False
        return await _hand_on(self, tp, chunk)

    BulkConsumer._hand_on_source = _hold_nodes

from stream_tgat import app  # noqa: E402

__all__ = ["app"]
