"""What processes take of the machine: CPU time and memory, theirs and that of all others beside them."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

_TICK = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGESIZE")


def cpu_s(pid: int) -> float:
    """User and system time of a process so far, of all its threads."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICK


def resident_bytes(pid: int) -> int:
    """Memory of a process that is in use now."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE


def machine_busy_s() -> float:
    """CPU time that all processes, and the host's other guests, have had of the cores that we may use."""
    ours = {f"cpu{core}" for core in os.sched_getaffinity(0)}
    busy = 0
    for line in Path("/proc/stat").read_text().splitlines():
        name, *ticks = line.split()
        if name in ours:
            user, nice, system, _idle, _waiting, hard, soft, stolen = map(int, ticks[:8])
            busy += user + nice + system + hard + soft + stolen
    return busy / _TICK


@dataclass(frozen=True)
class Usage:
    """CPU seconds since something. of: by process, by its name in the measurement

    beside_cores: how many cores everything else has had meanwhile, on average
    """

    seconds: float
    of: Mapping[str, float]
    beside_cores: float

    def us(self, name: str, count: int) -> float:
        """Microseconds of a process for each of so many."""
        return 1e6 * self.of[name] / count


class Meter:
    """Measures processes from now on. pids: by a name for each; several may share one by a number behind it, as in
    worker-0 and worker-1."""

    def __init__(self, pids: Mapping[str, int]) -> None:
        self._pids = dict(pids)
        self._began = self._look()

    def _look(self) -> tuple[float, float, float, dict[str, float]]:
        taken: dict[str, float] = {}
        for name, pid in self._pids.items():
            shared = name.partition("-")[0]
            taken[shared] = taken.get(shared, 0.0) + cpu_s(pid)
        return time.perf_counter(), machine_busy_s(), time.process_time(), taken

    def usage(self) -> Usage:
        """What has been used since the beginning."""
        (began, busy, own, taken), (now, busy_now, own_now, taken_now) = self._began, self._look()
        of = {name: taken_now[name] - taken[name] for name in taken}
        beside = busy_now - busy - sum(of.values()) - (own_now - own)
        return Usage(now - began, of, max(0.0, beside / (now - began)))
