"""Tables, origins and figures as Markdown."""

import math
from collections.abc import Iterable, Sequence
from typing import Any

from research.experiments.queue import ResultRecord


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table, its first column on the left and the others on the right."""
    lines = [header, ["---", *["---:"] * (len(header) - 1)], *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def origin(records: Sequence[ResultRecord[Any]]) -> str:
    """Which commands made some results, on what, and how long it took."""
    commands = "\n".join(dict.fromkeys(record.command for record in records))
    machines = dict.fromkeys((record.device, record.machine) for record in records)
    said = ", ".join(f"{_device(device)} ({machine})" for device, machine in machines)
    timed = [record.seconds for record in records if not math.isnan(record.seconds)]
    took = f"; {_duration(sum(timed))} for {len(timed)} {_runs(len(timed))}" if timed else ""
    return f"Made on {said}{took}, by\n\n```sh\n{commands}\n```"


def figure(file: str, says: str) -> str:
    """A picture that lies beside the page. says: what is to be seen in it."""
    return f"![{says}]({file})"


def _device(device: str) -> str:
    return "a CPU" if device == "cpu" else "a GPU"


def _runs(count: int) -> str:
    return "run" if count == 1 else "runs"


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
