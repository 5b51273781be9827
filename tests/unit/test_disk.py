"""Files that are replaced whole, and disks without room."""

from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import Path

import pytest
from safetensors import SafetensorError

from stream_tgat.disk import check_room, replacing, told_if_full
from stream_tgat.errors import FullDiskError
from stream_tgat.training.epochs import write_epochs
from stream_tgat.training.folders import LocalFolder

FULL = (
    OSError(errno.ENOSPC, "No space left on device"),
    OSError(errno.EDQUOT, "Disk quota exceeded"),
    SafetensorError("Error while serializing: I/O error: No space left on device (os error 28)"),
    Exception("IO error: No space left on device: While appending to file: 000004.log: No space left on device"),
)


def test_file_is_replaced_whole_and_nothing_else_is_left(tmp_path: Path) -> None:
    file = tmp_path / "new" / "figures.json"
    for content in (b"before", b"now"):
        with replacing(file) as partial:
            partial.write_bytes(content)
        assert file.read_bytes() == content
    assert list(file.parent.iterdir()) == [file]


@pytest.mark.parametrize("problem", FULL, ids=repr)
def test_file_that_could_not_be_written_is_as_it_was(tmp_path: Path, problem: Exception) -> None:
    file = tmp_path / "figures.json"
    file.write_bytes(b"before")

    def write() -> None:
        with replacing(file) as partial:
            partial.write_bytes(b"no")
            raise problem

    with pytest.raises(FullDiskError, match=f"The disk of {tmp_path} is full: .*[Mm]ake room there.*nothing is lost"):
        write()
    assert file.read_bytes() == b"before"
    assert list(tmp_path.iterdir()) == [file]


def test_other_errors_stay_what_they_are(tmp_path: Path) -> None:
    problem = PermissionError(errno.EACCES, "Permission denied")

    def write() -> None:
        with told_if_full(tmp_path):
            raise problem

    with pytest.raises(PermissionError) as raised:
        write()
    assert raised.value is problem


def test_disk_with_less_than_the_reserve_has_no_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stream_tgat.disk.RESERVE_BYTES", 0)
    check_room(tmp_path)
    monkeypatch.setattr("stream_tgat.disk.RESERVE_BYTES", 1 << 60)
    with pytest.raises(FullDiskError, match=r"\d+\.\d MiB are left"):
        check_room(tmp_path)


WRITERS: dict[str, Callable[[Path], None]] = {
    "epochs": lambda folder: write_epochs(folder / "epochs.jsonl", []),
    "release": lambda folder: LocalFolder(folder, "card.json").write("one", {"card.json": b"{}"}),
}


@pytest.mark.parametrize("writer", WRITERS)
def test_writer_without_room_leaves_nothing_half_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, writer: str
) -> None:
    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(FullDiskError):
        WRITERS[writer](tmp_path)
    assert list(tmp_path.iterdir()) == []
