"""Lengths of time as people write them: "90m", "24h", "7d"."""

import re

_UNITS = {"s": 1.0, "m": 60.0, "h": 3_600.0, "d": 86_400.0, "w": 604_800.0}
_FORM = re.compile(r"(\d+(?:\.\d+)?) ?([smhdw])", re.ASCII)


def seconds_of(text: str) -> float:
    """Seconds of a number with its unit: s, m (minutes), h, d or w. ValueError says what is wrong.

    >>> seconds_of("90m"), seconds_of("1.5 d")
    (5400.0, 129600.0)
    """
    match = _FORM.fullmatch(text.strip())
    if match is None or float(match[1]) == 0.0:
        raise ValueError(f'{text!r} is no length of time; write a number and its unit (s, m, h, d or w), such as "24h"')
    return float(match[1]) * _UNITS[match[2]]
