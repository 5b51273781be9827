"""Plays scenarios in which something goes wrong, and compares what comes out with a single pass over the log.

    make faults SEED=3 MINUTES=60                         a random schedule from the seed, for so long
    make faults SEED=3 FAULTS="'killed workers' poison"   only these, once each
    make faults PAGE=1                                    write docs/reliability.md from all results so far

Every trial runs workers as a user would, against real brokers, and ends by comparing embeddings, alerts, dead letters
and the state that is left. Results go to docs/reliability/, one line of JSON each.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
import time
import traceback
import uuid
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "deploy"))
os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from rich.console import Console

from tests.faults.ground import Ground
from tests.faults.page import write_page
from tests.faults.results import append_outcome, read_outcomes
from tests.faults.scenarios import SCENARIOS, Scenario
from tests.faults.trial import RetrainResult, Trial, UnavailableError

console = Console(soft_wrap=True, highlight=False)


def main() -> int:
    """The command line; 1 when a trial ended with a difference."""
    parser = argparse.ArgumentParser(
        prog="make faults", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="SCENARIO", help=f"of: {', '.join(SCENARIOS)} (all by default)")
    parser.add_argument("--seed", type=int, default=0, help="of the schedule, the logs and the moments of faults")
    parser.add_argument("--minutes", type=float, help="begin trials for so long; without it, each scenario once")
    parser.add_argument("--length", type=float, default=1.0, help="how long traffic flows, times the usual")
    parser.add_argument("--keep", type=Path, help="keep logs and state of failed trials in this folder")
    parser.add_argument("--page", action="store_true", help="only write docs/reliability.md from the results")
    options = parser.parse_args()
    unknown = sorted(set(options.names) - set(SCENARIOS))
    if unknown:
        parser.error(f"no scenario {', '.join(map(repr, unknown))}; there are: {', '.join(SCENARIOS)}")
    if options.page:
        console.print(f"wrote {write_page(read_outcomes())}")
        return 0
    chosen = [SCENARIOS[name] for name in options.names] or [*SCENARIOS.values()]
    outcomes = play_all(chosen, options.seed, options.minutes, options.length, options.keep)
    console.print(f"wrote {write_page(read_outcomes())}")
    failed = [each for each in outcomes if each.failed]
    console.print(f"{len(outcomes)} trials, {len(failed)} failed" + "".join(f"\n  {each.scenario}" for each in failed))
    return 1 if failed else 0


def play_all(
    chosen: list[Scenario], seed: int, minutes: float | None, length: float, keep: Path | None
) -> list[RetrainResult]:
    """Every scenario once in an order drawn from the seed, and again with other draws while minutes are left."""
    deadline = time.monotonic() + 60 * minutes if minutes is not None else None
    outcomes: list[RetrainResult] = []
    turn = 0
    with Ground() as ground:
        while True:
            drawn = seed + 1000 * turn
            for n in np.random.default_rng(drawn).permutation(len(chosen)):
                if deadline is not None and time.monotonic() > deadline:
                    return outcomes
                outcome = play(chosen[n], drawn, ground, length, keep)
                append_outcome(outcome)
                outcomes.append(outcome)
                console.print(outcome.line())
            if deadline is None:
                return outcomes
            turn += 1


def play(scenario: Scenario, seed: int, ground: Ground, length: float, keep: Path | None = None) -> RetrainResult:
    """One trial, from topics to comparison."""
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="faults-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        brokers = ground.brokers(replicated=scenario.replicated)
        trial = Trial(scenario.name, seed, brokers, folder, f"f{uuid.uuid4().hex[:6]}-", length)
        try:
            scenario.play(trial)
        except UnavailableError as missing:
            trial.outcome.result = f"not played: {missing}"
        except Exception as error:  # noqa: BLE001 whatever it is, the other scenarios are played
            lines = str(error).splitlines() or [""]
            trial.outcome.result = f"FAILED: {type(error).__name__}: {lines[0]}"
            console.print(traceback.format_exc())
        finally:
            trial.close()
            ground.heal(trial.prefix, fresh=trial.outcome.failed)
        if keep is not None and trial.outcome.failed:
            shutil.copytree(folder, keep / f"{scenario.name}-{seed}".replace(" ", "-"), dirs_exist_ok=True)
        trial.outcome.seconds = time.monotonic() - started
        return trial.outcome


if __name__ == "__main__":
    sys.exit(main())
