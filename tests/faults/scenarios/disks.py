"""Disks of workers that are lost, damaged or full."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from tests.faults.scenarios.register import scenario
from tests.faults.trial import Trial, UnavailableError
from tests.integration.equality.damage import KINDS
from tests.integration.equality.streams import random_log

_DISK_BYTES = 256 << 20


@scenario
def lost_disk(trial: Trial) -> None:
    """A worker is killed and its whole folder of state is gone, three times."""
    trial.begin(random_log(900, seed=trial.outcome.seed), 45, "a")
    for _ in range(3):
        trial.pause(3.0, 9.0)
        with trial.fault():
            trial.wanted["a"].kill()
            shutil.rmtree(trial.deployment.data("a"))
    trial.finish()


@scenario
def damaged_disk(trial: Trial) -> None:
    """Files of a stopped worker's state are cut, lost or have bits turned, in another way in each partition."""
    trial.begin(random_log(900, seed=trial.outcome.seed), 25, "a")
    trial.until_said("a", "Worker ready")
    trial.pause(5.0, 10.0)
    with trial.fault():
        worker = trial.leave("a")
        worker.stop()
        folders = sorted(trial.deployment.data("a").glob("**/tables/graph-?.db"))
        for kind, n in zip(KINDS, trial.random.permutation(len(folders)), strict=True):
            if list(folders[n].glob("*.sst")):
                kind(folders[n])
    trial.start("a")
    trial.finish()
    set_aside = list(trial.deployment.data("a").glob("**/*.damaged-*"))
    assert set_aside, "nothing was found damaged"


@scenario
def full_disk(trial: Trial) -> None:
    """The disk of the state is full for a while: the worker stops before any damage, and goes on when there is room."""
    trial.deploy(random_log(900, seed=trial.outcome.seed))
    disk = trial.deployment.data("a")
    _mount(trial, disk)
    trial.start("a")
    trial.flow(50)
    ballast = disk / "ballast"
    for _ in range(2):
        trial.until_said("a", "Worker ready")
        trial.pause(2.0, 6.0)
        with trial.fault():
            _fill(ballast)
            trial.pause(12.0)
            ballast.unlink()
    trial.finish()
    assert "Traceback" not in (trial.folder / "worker-a.log").read_text(errors="replace")


def _mount(trial: Trial, folder: Path) -> None:
    """Give a folder a small file system of its own, for as long as the trial lasts."""
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={_DISK_BYTES}", "tmpfs", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise UnavailableError(f"a small file system cannot be mounted here ({done.stderr.strip()})")
    trial.cleanup.callback(subprocess.run, ["umount", "--lazy", str(folder)], check=False)


def _fill(file: Path) -> None:
    block = os.urandom(1 << 16)
    with file.open("wb", buffering=0) as to:
        try:
            while True:
                to.write(block)
        except OSError:
            return  # It is full, which is what was wanted.
