"""The process beside the worker: kept alive while wanted, and gone with whoever started it."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest

from stream_tgat.housekeeping import process_beside
from stream_tgat.housekeeping.process_beside import ProcessBeside

# Notes that it runs, then does what the worker's child does: it stops when its input ends, or when it is told to.
CHILD = """
import os, pathlib, sys
with open(sys.argv[1], "a") as file: file.write(f"{os.getpid()}\\n")
if len(sys.argv) > 2: sys.exit(int(sys.argv[2]))
sys.stdin.buffer.read()
"""
# A worker that is killed: it starts the child as the worker does.
PARENT = """
import asyncio, sys
from stream_tgat.housekeeping.process_beside import ProcessBeside
async def main():
    process = ProcessBeside((sys.executable, "-c", sys.argv[1], sys.argv[2]), "tests", lambda: True)
    await process.look()
    print("started", flush=True)
    await asyncio.sleep(60)
asyncio.run(main())
"""


def pids(file: Path) -> list[int]:
    return [int(line) for line in file.read_text().split()] if file.exists() else []


async def until(condition: Callable[[], object], timeout_s: float = 20.0) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline
        await asyncio.sleep(0.02)


def lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_runs_once_while_wanted_and_stops_when_the_partition_has_gone_for_good(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asyncio.run(come_and_go(tmp_path, monkeypatch))


async def come_and_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted: set[str] = set()
    process = ProcessBeside((sys.executable, "-c", CHILD, str(tmp_path / "ran")), "tests", lambda: bool(wanted))
    await process.look()
    assert not process.running
    wanted.add("by its worker")
    for _ in range(3):
        await process.look()
    await until(lambda: pids(tmp_path / "ran"))
    (pid,) = pids(tmp_path / "ran")
    # In a rebalance the partition is nobody's for a moment.
    wanted.clear()
    await process.look()
    assert process.running
    monkeypatch.setattr(process_beside, "_GONE_S", 0.0)
    await process.look()
    assert not process.running
    assert not lives(pid)


def test_is_started_again_after_ever_longer_pauses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    starts = asyncio.run(end_and_begin(tmp_path, monkeypatch))
    assert [later - earlier for earlier, later in pairwise(starts)] == [6.0, 11.0, 21.0]


async def end_and_begin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [1000.0]
    monkeypatch.setattr(process_beside, "monotonic", lambda: now[0])
    process = ProcessBeside((sys.executable, "-c", CHILD, str(tmp_path / "ran"), "3"), "tests", lambda: True)
    starts = []
    for _ in range(40):
        before = process.running
        await process.look()
        if process.running and not before:
            starts.append(now[0])
            while process.running:
                await asyncio.sleep(0.01)
        now[0] += 1.0
    await process.stop()
    return starts


def test_is_gone_when_its_worker_was_killed(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", PARENT, CHILD, str(tmp_path / "ran")], stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdout is not None
        assert parent.stdout.readline() == "started\n"
        deadline = time.monotonic() + 20
        while not pids(tmp_path / "ran"):
            assert time.monotonic() < deadline
            time.sleep(0.02)
        (pid,) = pids(tmp_path / "ran")
        assert lives(pid)
        parent.send_signal(signal.SIGKILL)
    while lives(pid):
        assert time.monotonic() < deadline
        time.sleep(0.02)
