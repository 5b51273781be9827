"""How long until somebody works on the partitions again: a worker with its disk, with an empty one, and another worker.

GB=1 is how much state there is, in gigabytes on disk. Another worker takes over half of the partitions, which is what
two workers share, with a standby copy of them and without; the one that had them was asked to stop, so that no session
timeout is in it.
"""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

from figures import Figure
from load import ITEMS_VARIABLE
from path import Deployment, Worker, path

GB = float(os.environ.get("GB", "0.5"))
#: So many that few rows have to make room for others.
ITEMS = 100_000
CHUNK, PROBE = 10_000, 20
MOST = 3_000_000
PATIENCE_S = 600.0
_READY = "Worker ready"


def run() -> list[Figure]:
    os.environ.setdefault(ITEMS_VARIABLE, str(ITEMS))
    with path(MOST) as deployment:
        worker = _started(deployment, 0)
        while _bytes(worker) < GB * 1e9:
            deployment.preload(CHUNK)
            _wait_for_all(deployment)
        _stop(deployment, worker)
        state = _bytes(worker)
        figures = {"disk": _recovered(deployment, 0), "changelog": _recovered(deployment, 1)}
        shutil.rmtree(_folder(deployment, 1))
        figures |= {"takeover": _taken_over(deployment, state, standbys=0)}
        shutil.rmtree(_folder(deployment, 1))
        figures |= {"takeover_standby": _taken_over(deployment, state, standbys=1)}
        context = {
            **deployment.context(),
            "state_gb": round(state / 1e9, 2),
            "changelog_gb": round(_changelog_bytes(deployment) / 1e9, 2),
            "interactions": deployment.at,
        }
    return [
        Figure(f"recovery_{name}_{kind}_s", seconds, "s", context=context)
        for name, (ready_s, working_s) in figures.items()
        for kind, seconds in (("ready", ready_s), ("working", working_s))
    ]


def _recovered(deployment: Deployment, number: int) -> tuple[float, float]:
    """From the start of a worker that is alone until it is ready, and until the next embeddings are out."""
    began = time.perf_counter()
    worker = _started(deployment, number)
    ready_s = time.perf_counter() - began
    working_s = _probe(deployment, began)
    _stop(deployment, worker)
    return ready_s, working_s


def _taken_over(deployment: Deployment, state: int, *, standbys: int) -> tuple[float, float]:
    """From when one of two workers is asked to stop until the other one is ready, and until the next embeddings."""
    text = deployment.file.read_text()
    deployment.file.write_text(text.replace("[serving]", f"[serving]\nstandby_replicas = {standbys}"))
    leaving, staying = _started(deployment, 0), _started(deployment, 1)
    deployment.wait_for("the other one", lambda: _times_ready(leaving) > 1, PATIENCE_S)
    if standbys:
        deployment.wait_for("the standby copy", lambda: _bytes(staying) > 0.9 * state, PATIENCE_S)
        _wait_until_it_rests(staying)
    _probe(deployment, 0.0)
    before, began = _times_ready(staying), time.perf_counter()
    leaving.stop()
    deployment.workers = [staying]
    deployment.wait_for("the one that stays", lambda: _times_ready(staying) > before, PATIENCE_S)
    ready_s = time.perf_counter() - began
    working_s = _probe(deployment, began)
    _stop(deployment, staying)
    deployment.file.write_text(text)
    return ready_s, working_s


def _started(deployment: Deployment, number: int) -> Worker:
    """A worker that is ready, which is among the deployment's."""
    log = deployment.file.parent / f"worker-{number}.log"
    log.unlink(missing_ok=True)
    worker = Worker(deployment.file, number)
    deployment.workers = [*deployment.workers, worker]
    deployment.wait_for("the worker", lambda: _times_ready(worker), PATIENCE_S)
    return worker


def _stop(deployment: Deployment, worker: Worker) -> None:
    deployment.workers = [each for each in deployment.workers if each is not worker]
    worker.stop()


def _probe(deployment: Deployment, began: float) -> float:
    """Seconds from then until the embeddings of a few new interactions are there."""
    deployment.preload(PROBE)
    _wait_for_all(deployment)
    return time.perf_counter() - began


def _wait_for_all(deployment: Deployment) -> None:
    # Some come twice when partitions move, so the newest are looked for and not counted.
    deployment.wait_for(
        "the embeddings", lambda: deployment.reader.has_all(max(0, deployment.at - CHUNK), deployment.at), PATIENCE_S
    )


def _wait_until_it_rests(worker: Worker, seconds: float = 3.0) -> None:
    """Wait until its disk has not grown for so long."""
    before = -1
    while before != (before := _bytes(worker)):
        time.sleep(seconds)


def _times_ready(worker: Worker) -> int:
    return worker.log.read_text().count(_READY)


def _folder(deployment: Deployment, number: int) -> Path:
    return deployment.file.parent / f"worker-{number}"


def _bytes(worker: Worker) -> int:
    return _size(worker.log.with_suffix(""))


def _changelog_bytes(deployment: Deployment) -> int:
    return sum(
        _size(folder) for folder in (deployment.file.parent / "broker").rglob("*-changelog-*") if folder.is_dir()
    )


def _size(folder: Path) -> int:
    """Bytes of the files below a folder, of which some may vanish meanwhile."""
    total = 0
    for file in folder.rglob("*"):
        try:
            total += file.stat().st_size if file.is_file() else 0
        except FileNotFoundError:
            continue
    return total
