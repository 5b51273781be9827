"""Runs the benchmarks and writes `benchmarks/results.json`: `python tests/benchmarks [NAME…]`.

A benchmark is a file `bench_<name>.py` in this folder with a function `run() -> list[dict]`, each dict being
`{"name", "value", "unit", "context"}`. Each file runs in a process of its own, so that one cannot warm up, or crowd
the memory of, the next. With names, only those files run and the results of the others stay as they are.
"""

from __future__ import annotations

import argparse
import importlib
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
RESULTS = ROOT / "benchmarks" / "results.json"
FIELDS = {"name", "value", "unit", "context"}


def main() -> int:
    """Run what was asked for; 1 when a benchmark failed."""
    known = {path.stem.removeprefix("bench_"): path for path in sorted(HERE.glob("bench_*.py"))}
    parser = argparse.ArgumentParser(prog="make bench", description="Measure speed and memory.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of: {', '.join(known)} (all by default)")
    parser.add_argument("--only", help=argparse.SUPPRESS)
    parser.add_argument("--into", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.only:
        options.into.write_text(json.dumps(_measure(options.only)))
        return 0
    unknown = sorted(set(options.names) - set(known))
    if unknown:
        parser.error(f"no benchmark {', '.join(unknown)}; there are: {', '.join(known)}")
    failed = [name for name in options.names or known if not _run(name)]
    print(f"results in {RESULTS.relative_to(ROOT)}" + (f"; failed: {', '.join(failed)}" if failed else ""))
    return 1 if failed else 0


def _run(name: str) -> bool:
    """Run one file in its own process and put its results into the file of results."""
    print(f"{name} …", flush=True)
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        into = Path(folder) / "results.json"
        done = subprocess.run([sys.executable, str(HERE), "--only", name, "--into", str(into)], check=False, cwd=ROOT)
        if done.returncode != 0:
            return False
        results = json.loads(into.read_text())
    kept = json.loads(RESULTS.read_text()) if RESULTS.exists() else []
    kept = [result for result in kept if result["context"].get("benchmark") != name]
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps(kept + results, indent=2) + "\n")
    for result in results:
        context = ", ".join(f"{key}={value}" for key, value in result["context"].items() if key != "benchmark")
        print(f"  {result['name']:34} {result['value']:>12,.4g} {result['unit']:12} {context}")
    print(f"  ({time.monotonic() - start:.0f} s)", flush=True)
    return True


def _measure(name: str) -> list[dict[str, object]]:
    sys.path[:0] = [str(HERE), str(ROOT / "deploy"), str(ROOT)]
    results: list[dict[str, object]] = importlib.import_module(f"bench_{name}").run()
    for result in results:
        if set(result) != FIELDS or not isinstance(result["context"], dict):
            raise TypeError(f"bench_{name}: a result has the fields {sorted(FIELDS)}, context a dict; got {result}")
        result["context"] = {"benchmark": name, **result["context"]}
    return results


if __name__ == "__main__":
    sys.exit(main())
