"""Writes docs/reliability.md from the results."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

from research.page.markdown import table
from tests.faults.results import FOLDER, SOAK
from tests.faults.scenarios import SCENARIOS
from tests.faults.trial import RetrainResult

_PAGE = FOLDER.with_suffix(".md")
_INTRODUCTION = """# Reliability

Written by `make faults`: do not edit. Each trial runs workers against real Kafka brokers under steady traffic, lets
something go wrong at moments drawn from a seed, and then compares with one pass of one engine over the sorted log:
every embedding, prediction and alert (1e-5; ids, times and order exactly), the dead letters, and the state left in the
changelog and on disk, byte for byte but for peer embeddings (1e-5).

- **Recovery** is the time from the end of a fault to the first new embedding, in seconds.
- **Restarts** are workers that ended by themselves, as they do when they may have lost their partitions, and were
  started again by a supervisor, as systemd or Kubernetes does.
- **Repeats** are outputs that came again, under the same id and equal to 1e-5: Kafka delivers at least once.
"""


def write_page(outcomes: Sequence[RetrainResult]) -> Path:
    """The page of all trials; its path."""
    played = [each for each in outcomes if each.played]
    seconds = sum(each.seconds for each in outcomes)
    seeds = sorted({each.seed % 1000 for each in played})
    total = f"{len(played)} trials of {len({each.scenario for each in played})} scenarios"
    total += f" with the seeds {', '.join(map(str, seeds))}, {seconds / 60:.0f} minutes in all, "
    total += f"{sum(each.faults for each in played)} faults, "
    total += f"{sum(each.embeddings for each in played):,} embeddings compared: "
    failed = [each for each in played if each.failed]
    total += f"**{len(failed)} failed.**" if failed else "**all equal.**"
    parts = [_INTRODUCTION, total, _table(played)]
    if failed:
        parts += ["## Failed", "\n".join(f"- {each.scenario}, seed {each.seed}: {each.result}" for each in failed)]
    missing = {each.scenario: each.result for each in outcomes if not each.played}
    if missing:
        parts += ["## Not played", "\n".join(f"- {name}: {why}" for name, why in sorted(missing.items()))]
    if SOAK.exists():
        parts += ["## Under steady load", _soak(json.loads(SOAK.read_text()))]
    parts += ["## Scenarios", "\n".join(f"- **{each.name}**: {each.about}" for each in SCENARIOS.values())]
    _PAGE.write_text("\n\n".join(part.strip() for part in parts) + "\n")
    return _PAGE


def _soak(content: dict[str, Any]) -> str:
    header = ["", "median", "growth an hour", "95 % interval"]
    rows = [
        [
            f"{each['name']}{', ' if each['unit'] else ''}{each['unit']}",
            f"{each['level']:.4g}",
            f"{each['per_hour']:+.3g}",
            f"{each['low']:+.3g} to {each['high']:+.3g}",
        ]
        for each in content["slopes"]
    ]
    said = (
        f"`make soak MINUTES={content['minutes']:g} RATE={content['rate']:g}`: {content['sent']:,} interactions, "
        f"{content['received']:,} embeddings. Slopes are Theil and Sen's, after a fifth of the time."
    )
    return f"{said}\n\n{table(header, rows)}\n\n![Memory, handles, lag and CPU over time](reliability/soak.svg)"


def _table(outcomes: Sequence[RetrainResult]) -> str:
    header = ["scenario", "trials", "equal", "faults", "restarts", "embeddings", "alerts", "repeats"]
    header += ["largest difference", "recovery, median", "longest"]
    rows = []
    for name in SCENARIOS:
        trials = [each for each in outcomes if each.scenario == name]
        if not trials:
            continue
        recoveries = [seconds for each in trials for seconds in each.recoveries_s]
        rows.append(
            [
                name,
                str(len(trials)),
                str(sum(not each.failed for each in trials)),
                str(sum(each.faults for each in trials)),
                str(sum(each.restarts for each in trials)),
                f"{sum(each.embeddings for each in trials):,}",
                f"{sum(each.alerts for each in trials):,}",
                f"{sum(each.repeats for each in trials):,}",
                f"{max(each.difference for each in trials):.1e}",
                f"{median(recoveries):.1f}" if recoveries else "",
                f"{max(recoveries):.1f}" if recoveries else "",
            ]
        )
    return table(header, rows)
