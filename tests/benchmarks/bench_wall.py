"""Latency and CPU time by the clock, without punctuation; the wait for late events is in the latency."""

from __future__ import annotations

from figures import Figure
from path import steadily

RATES = (500.0, 2600.0)
SECONDS, WARM_UP_S = 10.0, 4.0


def run() -> list[Figure]:
    return steadily("wall", RATES, SECONDS, WARM_UP_S, clock="wall")
