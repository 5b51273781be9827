"""An upgrade of the software: this version goes on with the state that an earlier one has left.

The earlier one is taken from the history of the repository, so what is tried is its code and not a memory of it.
"""

from __future__ import annotations

import io
import subprocess
import tarfile
from dataclasses import dataclass
from pathlib import Path

from tests.integration.equality.checks import Report, assert_equal
from tests.integration.equality.scenarios import deploy
from tests.integration.equality.settings import Settings
from tests.integration.equality.streams import random_log
from tests.integration.equality.workers import REPOSITORY

#: The last commit before state and releases named their format.
BEFORE = "1e68dc0"
_PATIENCE_S = 600.0


@dataclass(frozen=True)
class Upgraded:
    """What came of it. refusal: the sentence with which this version refuses the state; empty if it goes on with it
    report: how it compares with a single pass, if it does
    """

    before: str
    embeddings_before: int
    refusal: str
    report: Report | None

    def line(self) -> str:
        """What is printed of it."""
        if self.report is None:
            return f"the state of {self.before} is refused: {self.refusal}"
        return (
            f"{self.embeddings_before:,} embeddings by {self.before}; {self.report.embeddings:,} in the end, and the "
            f"state, are those of a single pass (to {self.report.embedding_difference:.1e})"
        )


def software_upgrade(servers: str, folder: Path, prefix: str, *, before: str = BEFORE, count: int = 1000) -> Upgraded:
    """Let an earlier version work on the first half of a log, and this one on the rest.

    AssertionError if this version neither goes on as if nothing had happened nor refuses with a sentence.
    """
    code = unpacked(before, folder / "code")
    log = random_log(count, seed=53)
    deployment, oracle = deploy(servers, folder / "deployment", prefix, log, Settings())
    with deployment:
        oracle.take(log.records)
        deployment.produce(log.records[: len(log.records) // 2])
        earlier = deployment.start(code=code)  # it compiles its loops first, which takes a minute
        # What waits for the other half does not leave yet.
        deployment.wait_for(int(0.6 * count), _PATIENCE_S)
        earlier.stop()
        deployment.read()
        made_before = len(deployment.outputs.embeddings)
        deployment.produce(log.records[len(log.records) // 2 :])
        worker = deployment.start(plain=True)
        worker.expected_to_end = True
        deployment.wait_until(
            "this version goes on or refuses",
            lambda: not worker.running or len(deployment.outputs.embeddings) >= len(oracle.embeddings),
            _PATIENCE_S,
        )
        if not worker.running:
            (refusal,) = (line for line in worker.said().splitlines() if line.startswith("Error: "))
            assert worker.wait_for_end() == 1
            return Upgraded(before, made_before, refusal.removeprefix("Error: "), None)
        deployment.stop()
        return Upgraded(before, made_before, "", assert_equal(deployment, oracle))


def unpacked(commit: str, folder: Path) -> Path:
    """The repository as it was at a commit; CalledProcessError where the history does not reach back so far."""
    archive = subprocess.run(
        ["git", "archive", commit, "stream_tgat", "topologies"], cwd=REPOSITORY, capture_output=True, check=True
    )
    folder.mkdir(parents=True)
    with tarfile.open(fileobj=io.BytesIO(archive.stdout)) as files:
        files.extractall(folder, filter="data")
    return folder
