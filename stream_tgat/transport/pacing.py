"""How often the brokers are asked for records.

What a fetch sets off costs much the same whatever is in it, so rare and large ones are cheaper than many small ones,
and later. Two are kept so far apart that what the last one has set off takes no more than its share of a core, but no
further than records may linger.
"""

from __future__ import annotations

from typing import Final

#: Part of a core that may be in use while there is no backlog, as long as records need not linger longer for it.
SHARE: Final = 0.2
#: Below this time between two fetches nothing is gained for latency.
SHORTEST_S: Final = 0.008
#: A fetch of so many bytes is followed by the next at once: there is a backlog.
FULL_BYTES: Final = 512 * 1024


class Pacer:
    """When the next fetch may be sent. It knows no clock; all times are in seconds.

    linger_s: the longest time between two fetches
    """

    def __init__(self, linger_s: float) -> None:
        self._linger_s = linger_s
        self._begins = float("-inf")
        self._cpu_s = 0.0

    def wait_s(self, now: float) -> float:
        """How long the next fetch has to wait; not positive if it may be sent."""
        return self._begins - now

    def fetched(self, now: float, cpu_s: float, size: int) -> None:
        """Take note of a fetch that has brought records. cpu_s: of this process so far   size: bytes of the records"""
        spent_s, self._cpu_s = cpu_s - self._cpu_s, cpu_s
        wait_s = min(max(spent_s / SHARE, SHORTEST_S), self._linger_s)
        self._begins = now if size >= FULL_BYTES else now + wait_s
