"""Whose a folder of state is."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from uuid import UUID

import pytest

from stream_tgat.errors import StateError
from stream_tgat.housekeeping.state_folder import MARKER, bind_folder, member_of, state_folder
from stream_tgat.topology import Topology

SHOP = Topology(name="shop")
ONE, OTHER = ({"stream-tgat-shop-graph-changelog": UUID(int=number)} for number in (1, 2))


def test_deployments_that_share_a_folder_keep_their_state_apart(tmp_path: Path) -> None:
    folders = {state_folder(tmp_path, app_id) for app_id in ("stream-tgat-shop", "b-stream-tgat-shop")}
    assert len(folders) == 2
    assert all(folder.parent == tmp_path for folder in folders)


def test_folder_is_bound_to_the_changelog_that_it_is_a_copy_of(tmp_path: Path) -> None:
    folder = tmp_path / "data" / "app"
    for _ in range(2):
        bind_folder(folder, SHOP, ONE)
    with pytest.raises(StateError, match=r"copy of another changelog.*--datadir.*deleted or created again") as no:
        bind_folder(folder, SHOP, OTHER)
    assert "\n" not in str(no.value)
    # All that is to be deleted, by name.
    for name in ("propagation", *ONE, "stream-tgat-shop"):
        assert f"{name!r}" in str(no.value)
    # Refused, and nothing else: it is still what it was.
    bind_folder(folder, SHOP, ONE)


def test_brokers_that_tell_no_ids_bind_nothing(tmp_path: Path) -> None:
    bind_folder(tmp_path, SHOP, {})
    assert not (tmp_path / MARKER).exists()
    bind_folder(tmp_path, SHOP, OTHER)
    bind_folder(tmp_path, SHOP, {})


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"format": 1}', b'{"format": 2, "changelog_id": "%s"}'])
def test_marker_that_cannot_be_read_is_told_with_the_way_on(tmp_path: Path, content: bytes) -> None:
    (tmp_path / MARKER).write_bytes(content.replace(b"%s", str(UUID(int=1)).encode()))
    with pytest.raises(StateError, match="rebuilt from the changelog"):
        bind_folder(tmp_path, SHOP, ONE)


def test_folder_that_cannot_be_made_is_told_with_the_reason(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(StateError, match="cannot be used: Not a directory"):
        bind_folder(tmp_path / "file" / "data", SHOP, ONE)


@pytest.mark.slow
def test_folder_says_who_its_worker_is_over_restarts_and_is_that_of_one_process(tmp_path: Path) -> None:
    asking = "import sys, pathlib; from stream_tgat.housekeeping.state_folder import member_of; "
    asking += "print(member_of(pathlib.Path(sys.argv[1])))"

    def ask(folder: Path) -> subprocess.CompletedProcess[str]:
        return subprocess.run([sys.executable, "-c", asking, folder], capture_output=True, text=True, check=False)

    member = ask(tmp_path).stdout
    assert member.strip()
    assert ask(tmp_path).stdout == member
    (tmp_path / "other").mkdir()
    assert ask(tmp_path / "other").stdout not in ("", member)
    assert member_of(tmp_path) == member.strip()
    refused = ask(tmp_path)
    assert refused.returncode == 1
    assert f"Another worker runs on the folder of state {tmp_path}; stop it" in refused.stderr
