"""Runs the benchmarks: `python tests/benchmarks [NAME…]`, which is `make bench BENCH="NAME…"`.

A benchmark is a file `bench_<name>.py` in this folder with a function `run() -> list[Figure]`. Each run is a process of
its own, so that one cannot warm up, or crowd the memory of, the next. What comes out is held against the results that
are committed; `--save` writes it to `benchmarks/results.json`.
"""

from __future__ import annotations

import argparse
import ast
import importlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
RESULTS = ROOT / "benchmarks" / "results.json"
PAGE = ROOT / "docs" / "performance.md"
#: What others may have of the two cores while a figure is measured that is to be kept.
QUIET_CORES = 0.25
#: Not among those that run when none is named: they do not say how fast a worker is.
LONG = {"asked", "beside", "delay", "metrics", "neighbours", "recovery", "renewal"}

sys.path[:0] = [str(HERE)]
import page  # noqa: E402
from distance import distances  # noqa: E402
from figures import Figure, dump, load, of_runs, short, verdict  # noqa: E402
from processes import machine_busy_s  # noqa: E402


def main() -> int:
    """Run what was asked for; 1 when a benchmark failed."""
    known = {path.stem.removeprefix("bench_"): path for path in sorted(HERE.glob("bench_*.py"))}
    about = "\n".join(f"  {name:10} {_about(path)}" for name, path in known.items())
    parser = argparse.ArgumentParser(
        prog="make bench",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        description="Measure speed, latency and memory, and compare with the committed results.",
        epilog=f'benchmarks (make bench BENCH="NAME…"; all but {", ".join(sorted(LONG))} by default):\n{about}\n\n'
        "variables of make:\n"
        "  RUNS=3        run each so many times; the median counts, and what they differ by is the noise\n"
        "  SAVE=yes      write benchmarks/results.json and the tables of docs/performance.md\n"
        "  RATES=500     for live: only these rates, in interactions a second\n"
        "  WORKERS=1     for workers: only so many of them\n"
        "  GB=1          for recovery: so much state\n\n"
        "Two versions: make compare A=COMMIT B=COMMIT BENCH=NAME",
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="`list` tells what there is")
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--save", action="store_true")
    parser.add_argument("--only", help=argparse.SUPPRESS)
    parser.add_argument("--into", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--tree", type=Path, default=ROOT, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.only:
        dump(_measure(options.only, options.tree), options.into)
        return 0
    if options.names == ["list"]:
        print(about)
        return 0
    unknown = sorted(set(options.names) - set(known))
    if unknown:
        parser.error(f"no benchmark {', '.join(unknown)}; there are: {', '.join(known)}")
    if options.save:
        os.environ["BENCH_SAVE"] = "yes"  # for what a benchmark writes besides
    committed, failed, found = _committed(), [], {}
    for name in options.names or [name for name in known if name not in LONG]:
        print(f"{name} …", flush=True)
        began = time.monotonic()
        runs = [run for run in (run_apart(name, options.tree) for _ in range(options.runs)) if run is not None]
        if len(runs) < options.runs:
            failed.append(name)
        medians = of_runs(runs)
        if options.save and medians:
            _save({figure.name: figure for figure in medians})
        for figure in medians:
            found[figure.name] = figure
            print(_line(figure, committed.get(figure.name)))
        print(f"  ({time.monotonic() - began:.0f} s)", flush=True)
    print(*distances({**committed, **found}, found), sep="\n")
    if options.save:
        print(f"results in {RESULTS.relative_to(ROOT)} and {PAGE.relative_to(ROOT)}")
    elif found:
        print("nothing was written; SAVE=yes writes benchmarks/results.json")
    if failed:
        print(f"failed: {', '.join(failed)}")
    return 1 if failed else 0


def run_apart(name: str, tree: Path = ROOT) -> list[Figure] | None:
    """One run in a process of its own, of the package as it is in `tree`; None if it failed, with its message shown."""
    with tempfile.TemporaryDirectory() as folder:
        into = Path(folder) / "results.json"
        command = [sys.executable, str(HERE), "--only", name, "--into", str(into), "--tree", str(tree)]
        # In a group of its own: it hears of an interrupt once, from us, and has the time to stop what it has started.
        environment = {**os.environ, "PYTHONPATH": str(tree)}
        with subprocess.Popen(command, cwd=tree, env=environment, start_new_session=True) as process:
            try:
                status = process.wait()
            except KeyboardInterrupt:
                process.send_signal(signal.SIGINT)
                process.wait()
                raise
        return list(load(into.read_text()).values()) if status == 0 else None


def _measure(name: str, tree: Path) -> list[Figure]:
    sys.path[:0] = [str(HERE), str(ROOT / "deploy"), str(tree)]
    # Two cores for everything, load and broker included, wherever it runs.
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:2])
    began, busy, own = time.perf_counter(), machine_busy_s(), sum(os.times()[:4])
    figures: list[Figure] = importlib.import_module(f"bench_{name}").run()
    beside = machine_busy_s() - busy - (sum(os.times()[:4]) - own)
    # Of the whole run; a figure that knows it of its own time says that.
    context = {"benchmark": name, "beside_cores": round(max(0.0, beside / (time.perf_counter() - began)), 2)}
    return [Figure(f.name, f.value, f.unit, f.more_is_better, {**context, **f.context}, (f.value,)) for f in figures]


def _about(path: Path) -> str:
    """The first sentence of what a file says of itself."""
    return (ast.get_docstring(ast.parse(path.read_text())) or "").split("\n\n")[0].replace("\n", " ")


def _committed() -> dict[str, Figure]:
    """The results of the last commit; what lies in the folder may be of this very tree."""
    shown = subprocess.run(
        ["git", "show", f"HEAD:{RESULTS.relative_to(ROOT)}"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    return load(shown.stdout) if shown.returncode == 0 else {}


def _line(now: Figure, before: Figure | None) -> str:
    line = f"  {now.name:32} {short(now.value):>10} {now.unit:9}"
    if len(now.runs) > 1:
        line += f" {short(min(now.runs))} to {short(max(now.runs))} in {len(now.runs)} runs;"
    if before is None:
        return f"{line} not measured before"
    low, high = before.span
    ratio = now.value / before.value if before.value else float("nan")
    return f"{line} x {ratio:.2f} of {short(before.value)} ({short(low)} to {short(high)}): {verdict(now, before)}"


def _save(found: dict[str, Figure]) -> None:
    """Replace what was measured before, and leave all others; what had not the cores for itself is told and left."""
    crowded = {n: f for n, f in found.items() if float(str(f.context.get("beside_cores", 0))) > QUIET_CORES}
    if crowded:
        most = max(float(str(f.context["beside_cores"])) for f in crowded.values())
        print(f"  others had up to {most:.2f} cores, and {QUIET_CORES} is the most; not saved: {', '.join(crowded)}")
    found = {name: figure for name, figure in found.items() if name not in crowded}
    together = (load(RESULTS.read_text()) if RESULTS.exists() else {}) | found
    dump(sorted(together.values(), key=lambda f: str(f.context["benchmark"])), RESULTS)
    page.write(PAGE, together)


if __name__ == "__main__":
    # Whoever ends it has brokers, workers and load stopped too.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
