"""A disk without room: told in a line, before anything is written where that can be seen, and nothing torn or lost."""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from faust.types import TP

from stream_tgat.errors import FullDiskError, StateError
from stream_tgat.rocks import RocksOptions
from stream_tgat.transport import Application, TransportOptions

TOLD = r"The disk of .* is full: .*\. Make room there, and start again: nothing is lost\."
ENOSPC = "IO error: No space left on device: While appending to file: 000004.log: No space left on device"


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 2 MiB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=2m", "none", folder], check=False, capture_output=True
    )
    if mounted.returncode:
        pytest.skip(f"no file system can be mounted here: {mounted.stderr.decode().strip()}")
    yield folder
    subprocess.run(["umount", "--lazy", folder], check=True)


@pytest.fixture(autouse=True)
def nobody_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is kept in reserve, so that RocksDB finds the disk full."""
    monkeypatch.setattr("stream_tgat.disk.RESERVE_BYTES", 0)


def _table(folder: Path) -> Any:
    options = TransportOptions(rocks=RocksOptions(cache_bytes=2**20))
    app = Application("full", broker="kafka://localhost:1", datadir=str(folder), options=options)
    table = app.bulk_table("state", partitions=1)
    table.data._db_for_partition(0)
    return table


def _opened(table: Any) -> list[bytes]:
    """Let commits through; returns what is appended to the changelog."""
    appended: list[bytes] = []

    async def append(changes: Any) -> dict[int, int]:
        appended.extend(key for key, _ in changes[0])
        return {0: len(appended)}

    table.changelog.append = append
    table.app.fence.beat(float("inf"))
    table.app.fence.open(table.app.fence._current_generation())
    table.open_partition(0, 0)
    return appended


def test_write_to_a_disk_that_is_full_is_told_and_all_before_it_is_there_when_there_is_room(small_disk: Path) -> None:
    table = _table(small_disk)
    blocker = small_disk / "of somebody else"
    blocker.write_bytes(bytes(2**20))
    written = 0

    def write_on() -> None:
        nonlocal written
        for written in range(2000):
            table.data.write(0, [(b"k%d" % written, os.urandom(4000)), (b"newest", b"%d" % written)], written)

    with pytest.raises(FullDiskError, match=TOLD):
        write_on()
    table.data.close_partition(0)
    blocker.unlink()
    again = _table(small_disk)
    newest = written - 1
    assert again.data.persisted_offset(TP("x", 0)) == newest
    assert again.data.get_many(0, [b"newest", b"k%d" % newest, b"k%d" % written])[::2] == [b"%d" % newest, None]
    assert None not in again.data.get_many(0, [b"k%d" % number for number in range(written)])
    again.data.write(0, [(b"k", b"1")], written)
    again.data.close_partition(0)


def test_database_that_cannot_be_opened_for_want_of_room_is_told_and_not_set_aside(small_disk: Path) -> None:
    table = _table(small_disk)
    for number in range(100):
        table.data.write(0, [(b"k%d" % number, os.urandom(4000))], number)
    table.data._dbs[0].flush()
    for number in range(100, 200):
        table.data.write(0, [(b"k%d" % number, os.urandom(4000))], number)
    table.data.close_partition(0)
    blocker = small_disk / "of somebody else"
    with pytest.raises(OSError, match="No space left"):
        blocker.write_bytes(bytes(2 * 2**20))
    # What is only in the write-ahead log must be written to a table when it is opened.
    with pytest.raises(FullDiskError, match=TOLD):
        table.data._db_for_partition(0)
    assert not list(table.data.path.glob("*.damaged-*"))
    blocker.unlink()
    assert _table(small_disk).data.persisted_offset(TP("x", 0)) == 199


def test_commit_without_room_is_refused_before_the_changelog_has_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, disk = _table(tmp_path), os.statvfs(tmp_path)
    monkeypatch.setattr("stream_tgat.disk.RESERVE_BYTES", disk.f_blocks * disk.f_frsize)
    appended = _opened(table)
    with pytest.raises(FullDiskError, match=r"is full: .* MiB are left, and .* MiB are kept in reserve"):
        asyncio.run(table.tenure([0]).commit({0: [(b"a", b"1")]}))
    assert appended == []
    assert table.data.get_many(0, [b"a"]) == [None]
    with pytest.raises(FullDiskError, match=TOLD):
        table.data.apply_records(0, [SimpleNamespace(key=b"a", value=b"1", offset=0)])
    table.data.close_partition(0)


@pytest.mark.parametrize("failing", range(4))
def test_after_a_write_that_failed_nothing_is_committed_whichever_it_was(tmp_path: Path, failing: int) -> None:
    """Its changelog has what the disk lacks, so a later commit would be taken for all that there is."""
    table = _table(tmp_path)
    appended = _opened(table)
    whole, writes = table.data._dbs[0], 0

    class Full:
        def write(self, batch: Any) -> None:
            nonlocal writes
            writes += 1
            if writes > failing:
                raise Exception(ENOSPC)
            whole.write(batch)

        def close(self) -> None:
            whole.close()
            raise Exception("IO error: Writer has previous error.")

        def __getattr__(self, name: str) -> Any:
            return getattr(whole, name)

    table.data._dbs[0] = Full()
    tenure = table.tenure([0])
    for number in range(failing):
        asyncio.run(tenure.commit({0: [(b"k%d" % number, b"1")]}))
    with pytest.raises(FullDiskError, match=TOLD):
        asyncio.run(tenure.commit({0: [(b"lost?", b"1")]}))
    assert tenure.is_over
    with pytest.raises(StateError, match="may be behind the changelog"):
        table.tenure([0])
    assert appended == [b"k%d" % number for number in range(failing)] + [b"lost?"]
    # It closes whatever RocksDB says, and the offset tells recovery where to begin.
    table.data.close_partition(0)
    again = _table(tmp_path)
    assert again.data.persisted_offset(TP("x", 0)) == (failing or None)
    assert again.data.get_many(0, [b"lost?"]) == [None]
    again.data.close_partition(0)
