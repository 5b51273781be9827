"""What trials have shown, kept beside the documents: a line of JSON for each."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

from tests.faults.trial import RetrainResult

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "reliability"
SOAK = FOLDER / "soak.json"
_TRIALS = FOLDER / "trials.jsonl"


def append_outcome(outcome: RetrainResult) -> None:
    """Add one trial."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    with _TRIALS.open("a") as to:
        to.write(json.dumps(dataclasses.asdict(outcome)) + "\n")


def read_outcomes() -> list[RetrainResult]:
    """All of them, in the order in which they were played."""
    if not _TRIALS.exists():
        return []
    return [RetrainResult(**json.loads(line)) for line in _TRIALS.read_text().splitlines()]
