"""The folder of a worker's local state: one for each deployment, bound to the changelog that it is a copy of.

Two deployments on one folder would mix their states, and a folder that is ahead of its changelog holds what no other
worker will ever see; so whose it is stands in a file beside the state.
"""

import fcntl
import os
import re
import socket
from pathlib import Path
from typing import Final
from uuid import UUID, uuid4

import orjson

from stream_tgat.disk import check_room, replacing
from stream_tgat.errors import StateError
from stream_tgat.message_passing.state_identity import TopicIds, begin_again
from stream_tgat.topology import Topology

MARKER: Final = "state.json"
_MEMBER: Final = "member"
_FORMAT: Final = 1


def state_folder(data_dir: Path, app_id: str) -> Path:
    """Where below `data_dir` a deployment keeps its state, so that others may lie beside it."""
    return data_dir / app_id


def bind_folder(folder: Path, topology: Topology, ids: TopicIds) -> None:
    """Make the folder if it is not there, and note whose it is.

    StateError if it is a copy of another changelog or cannot be used, FullDiskError if it has no room.
    """
    changelog = topology.changelog
    found = ids.get(changelog)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        check_room(folder)
        known = _read(folder / MARKER)
        if known is None and found is not None:
            content = {"format": _FORMAT, "changelog": changelog, "changelog_id": str(found)}
            with replacing(folder / MARKER) as marker:
                marker.write_bytes(orjson.dumps(content, option=orjson.OPT_INDENT_2))
    except OSError as problem:
        raise StateError(
            f"The folder of state {folder} cannot be used: {problem.strerror}. Correct that, or name another one with "
            "serving.data_dir or --datadir."
        ) from problem
    if known is not None and found is not None and known != found:
        raise StateError(
            f"{folder} is a copy of another changelog than {changelog!r} at these brokers. If it is that of another "
            "Kafka, name another folder with serving.data_dir or --datadir. If the changelog was deleted or created "
            f"again, the state of its partitions is lost. {begin_again(topology)}"
        )


def member_of(folder: Path) -> str:
    """Who the worker on this folder is, over restarts; the folder is its own until this process ends, however it does.

    So a worker that is told who it is knows that its predecessor is gone, and writes nothing any more. StateError if
    another process works on the folder.
    """
    # Never closed: the lock lasts as long as the process.
    descriptor = os.open(folder / _MEMBER, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        raise StateError(
            f"Another worker runs on the folder of state {folder}; stop it, or name another folder with --datadir."
        ) from None
    known = os.read(descriptor, 1024).decode()
    if not known:
        known = f"{re.sub(r'[^A-Za-z0-9._-]', '-', socket.gethostname())[:100]}-{uuid4().hex[:8]}"
        os.write(descriptor, known.encode())
        os.fsync(descriptor)
    return known


def _read(marker: Path) -> UUID | None:
    """The id of the changelog; None where nothing is noted yet."""
    try:
        content = orjson.loads(marker.read_bytes())
        form, known = content["format"], UUID(content["changelog_id"])
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError) as problem:
        raise StateError(
            f"{marker} cannot be read: {problem!r}. Delete {marker.parent}: its state is rebuilt from the changelog."
        ) from problem
    if form != _FORMAT:
        raise StateError(
            f"{marker} has format {form}, this version of the software reads {_FORMAT}. Delete {marker.parent}: its "
            "state is rebuilt from the changelog."
        )
    return known
