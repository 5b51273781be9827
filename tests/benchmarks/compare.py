"""Two versions of the package in turns: `make compare A=COMMIT B=COMMIT BENCH=NAME`.

A figure of this minute says little beside one of an hour ago: the machine is another one then. So A and B take turns,
A B, B A, A B, …, each run in a process of its own, and only the ratios within a turn are looked at.

The benchmarks are those of this folder for both; only the package is the commit's. A commit that they cannot drive
(something that they use had another name) is measured by its own: `OWN=yes`, which wants the same figures in both.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
TREES = ROOT / ".cache" / "compare"

sys.path[:0] = [str(HERE)]
from figures import Figure, ratio_of_pairs, short  # noqa: E402


def main() -> int:
    """Measure, then show a line for each figure; 1 if a run failed."""
    parser = argparse.ArgumentParser(prog="make compare", description=__doc__.split("\n\n")[0])
    parser.add_argument("a", help="a commit, or . for the files as they are here")
    parser.add_argument("b", help="the same")
    parser.add_argument("names", nargs="+", metavar="NAME")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--own", action="store_true", help="each commit's own benchmarks")
    options = parser.parse_args()
    trees = [tree_of(options.a), tree_of(options.b)]
    failed = 0
    for name in options.names:
        runs: list[list[dict[str, Figure]]] = [[], []]
        for turn in range(options.turns):
            for which in (0, 1) if turn % 2 == 0 else (1, 0):
                print(f"{name}, turn {turn + 1} of {options.turns}: {'AB'[which]}", file=sys.stderr, flush=True)
                own = trees[which] / "tests" / "benchmarks" if options.own else HERE
                found = _runner(own).run_apart(name, trees[which])
                if found is None:
                    print(f"{name} failed with {'AB'[which]}")
                    failed = 1
                    break
                runs[which].append({figure.name: figure for figure in found})
        show(name, *runs)
    return failed


def _runner(folder: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location("runner", folder / "__main__.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def show(name: str, a: list[dict[str, Figure]], b: list[dict[str, Figure]]) -> None:
    """A line for each figure that both have: medians, and the ratio B / A with its interval."""
    turns = min(len(a), len(b))
    print(f"{name}: {'A':>38} {'B':>10}   B / A, median and interval over {turns} turns")
    for key in a[0] if turns else ():
        if key not in b[0]:
            continue
        before = [run[key].value for run in a[:turns]]
        after = [run[key].value for run in b[:turns]]
        figure, middle = b[0][key], len(before) // 2
        medians = f"{short(sorted(before)[middle]):>10} {short(sorted(after)[middle]):>10}"
        if min(before) <= 0:
            print(f"  {key:32} {medians}   {figure.unit}")
            continue
        ratio, low, high, sure = ratio_of_pairs(before, after)
        sign = "" if low <= 1.0 <= high else ("  better" if (ratio > 1) == figure.more_is_better else "  worse")
        print(f"  {key:32} {medians}   {figure.unit:9} x {ratio:.3f} ({low:.3f} to {high:.3f}, {sure:.0%}){sign}")


def tree_of(commit: str) -> Path:
    """A folder with the package as it was at a commit, its loops compiled; kept, so the next time it is there."""
    if commit == ".":
        return ROOT
    found = subprocess.run(
        ["git", "rev-parse", "--verify", f"{commit}^{{commit}}"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if found.returncode != 0:
        raise SystemExit(f"error: there is no commit {commit!r}: {found.stderr.strip()}")
    tree = TREES / found.stdout.strip()[:12]
    if not (tree / "compiled").exists():
        tree.mkdir(parents=True, exist_ok=True)
        archive = subprocess.run(["git", "archive", found.stdout.strip()], cwd=ROOT, check=True, capture_output=True)
        subprocess.run(["tar", "-x", "-C", str(tree)], input=archive.stdout, check=True)
        (tree / ".cache").mkdir(exist_ok=True)
        (tree / ".cache" / "kafka").symlink_to(ROOT / ".cache" / "kafka")
        take_over_machine_code(tree)
        environment = {**os.environ, "PYTHONPATH": str(tree)}
        subprocess.run([sys.executable, "deploy/warm.py"], cwd=tree, env=environment, check=True, stdout=sys.stderr)
        (tree / "compiled").touch()
    return tree


def take_over_machine_code(tree: Path) -> None:
    """Copy what numba has compiled here, if none of its loops is different there: they call each other.

    numba knows a file by its time and size.
    """
    compiled = [*ROOT.glob("stream_tgat/**/__pycache__/*.nb[ic]")]
    sources = {path.parent.parent / f"{path.name.split('.')[0]}.py" for path in compiled}
    there = {source: tree / source.relative_to(ROOT) for source in sources}
    if any(not copy.exists() or copy.read_bytes() != source.read_bytes() for source, copy in there.items()):
        return
    for source, copy in there.items():
        shutil.copystat(source, copy)
    for path in compiled:
        into = tree / path.relative_to(ROOT)
        into.parent.mkdir(exist_ok=True)
        shutil.copy2(path, into)


if __name__ == "__main__":
    sys.exit(main())
