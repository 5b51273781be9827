"""How often the brokers are asked for records.

What a fetch sets off costs much the same whatever is in it, so rare and large ones are cheaper than many small ones,
and later. Two are kept so far apart that what the last one has set off takes no more than its share of a core.
"""

from __future__ import annotations

from typing import Final

#: Part of a core that may be in use while there is no backlog, as long as fetches stay within their bounds.
SHARE: Final = 0.2
#: Bounds of the time between two fetches: below it nothing is gained for latency, and above it nothing for CPU.
SHORTEST_S: Final = 0.008
LONGEST_S: Final = 0.04
#: A fetch of so many bytes is followed by the next at once: there is a backlog.
FULL_BYTES: Final = 512 * 1024


class Pacer:
    """When the next fetch may be sent. It knows no clock; all times are in seconds."""

    def __init__(self) -> None:
        self._begins = float("-inf")
        self._cpu_s = 0.0

    def wait_s(self, now: float) -> float:
        """How long the next fetch has to wait; not positive if it may be sent."""
        return self._begins - now

    def fetched(self, now: float, cpu_s: float, size: int) -> None:
        """Take note of a fetch that has brought records. cpu_s: of this process so far   size: bytes of the records"""
        spent_s, self._cpu_s = cpu_s - self._cpu_s, cpu_s
        self._begins = now if size >= FULL_BYTES else now + min(max(spent_s / SHARE, SHORTEST_S), LONGEST_S)
