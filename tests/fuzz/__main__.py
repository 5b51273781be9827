"""Coverage-guided fuzzing of everything that reads foreign bytes: `make fuzz MINUTES=m`.

Each target runs for its share of the time, in a process of its own; what breaks one is left in .fuzz/ and printed.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

_ROOT = Path(__file__).resolve().parents[2]
_KEPT = _ROOT / ".fuzz"


def main() -> int:
    """The command line; 1 when something broke."""
    parser = argparse.ArgumentParser(prog="make fuzz", description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--minutes", type=float, default=5.0, help="for all targets together")
    parser.add_argument("--target", help=argparse.SUPPRESS)
    options, _ = parser.parse_known_args()
    if options.target is not None:
        _fuzz(options.target)
    from tests.fuzz.targets import TARGETS

    broken = []
    for name, (_, example) in TARGETS.items():
        corpus = _KEPT / name.replace(", ", "-").replace(" ", "-")
        corpus.mkdir(parents=True, exist_ok=True)
        (corpus / "example").write_bytes(example)
        seconds = max(1, round(60 * options.minutes / len(TARGETS)))
        command = [sys.executable, "-m", "tests.fuzz", "--target", name, str(corpus), f"-max_total_time={seconds}"]
        command += ["-max_len=4096", "-verbosity=0", "-print_final_stats=1", f"-artifact_prefix={corpus}/broke-"]
        done = subprocess.run(command, cwd=_ROOT, capture_output=True, text=True, check=False)
        tried = [line.split()[-1] for line in done.stderr.splitlines() if "number_of_executed_units" in line]
        print(
            f"{name}: {'held' if done.returncode == 0 else 'BROKE'}, {tried[0] if tried else 'no'} inputs", flush=True
        )
        if done.returncode != 0:
            broken.append(name)
            print((done.stdout + done.stderr)[-3000:])
    return 1 if broken else 0


def _fuzz(name: str) -> None:
    import atheris

    with atheris.instrument_imports(include=["stream_tgat"]):
        from tests.fuzz.targets import TARGETS
    atheris.Setup([sys.argv[0], *(each for each in sys.argv[1:] if each not in {"--target", name})], TARGETS[name][0])
    atheris.Fuzz()


if __name__ == "__main__":
    sys.exit(main())
