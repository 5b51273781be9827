"""Rehearses what operators do, with real brokers and workers, and tells what it costs.

    make rehearse                                        all of it
    make rehearse REHEARSE="'rolling static'" RATE=200   one of them, with less traffic
    make rehearse REHEARSE="'rolling static'" WORKERS=2  with two workers, which leaves more of a core to each

Each ends by comparing all embeddings, alerts and the state with a single pass over the log; a difference is an error.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "deploy"))
os.environ.setdefault("OMP_NUM_THREADS", "1")

from broker import Broker

from tests.rehearsals.blue_green import blue_green
from tests.rehearsals.rolling_upgrade import rolling_upgrade
from tests.rehearsals.software_upgrade import software_upgrade

#: Arguments: servers, a folder, interactions a second, workers.
Rehearsal = Callable[[str, Path, float, int], list[str]]
#: Traffic ends with the rehearsal, which takes as long as workers take to start.
_TRAFFIC_S = 400.0


def rolling(servers: str, folder: Path, rate: float, workers: int, *, static: bool) -> list[str]:
    """Workers are replaced one by one."""
    rolled = rolling_upgrade(servers, folder, "rolling-", static=static, workers=workers, rate=rate, seconds=_TRAFFIC_S)
    report = rolled.report
    equal = (
        f"{rolled.rate:.0f} interactions/s; {report.embeddings:,} embeddings and {report.rows:,} rows are those of a "
        f"single pass (to {report.embedding_difference:.1e}); {report.repeats:,} embeddings came twice"
    )
    return [*(each.line() for each in rolled.replaced), equal]


REHEARSALS: dict[str, Rehearsal] = {
    "rolling static": lambda servers, folder, rate, workers: rolling(servers, folder, rate, workers, static=True),
    "rolling dynamic": lambda servers, folder, rate, workers: rolling(servers, folder, rate, workers, static=False),
    "software upgrade": lambda servers, folder, *_: [software_upgrade(servers, folder, "").line()],
    "blue-green": lambda servers, folder, rate, _: [
        blue_green(servers, folder, "", rate=rate, seconds=_TRAFFIC_S).line()
    ],
}


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="make rehearse", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of: {', '.join(REHEARSALS)} (all by default)")
    parser.add_argument("--rate", type=float, default=500.0, help="interactions a second")
    parser.add_argument("--workers", type=int, default=3, help="that are replaced")
    options = parser.parse_args()
    unknown = sorted(set(options.names) - set(REHEARSALS))
    if unknown:
        parser.error(f"no rehearsal {', '.join(map(repr, unknown))}; there are: {', '.join(REHEARSALS)}")
    for name in options.names or REHEARSALS:
        began = time.monotonic()
        with (
            tempfile.TemporaryDirectory(prefix="rehearse-", ignore_cleanup_errors=True) as folder,
            Broker(Path(folder) / "broker") as broker,
        ):
            lines = REHEARSALS[name](broker.bootstrap_servers, Path(folder), options.rate, options.workers)
        print(f"{name} ({time.monotonic() - began:.0f} s)", *lines, sep="\n  ", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
