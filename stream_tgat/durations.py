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


def in_words(seconds: float) -> str:
    """A length of time, in the largest unit that it fills.

    >>> in_words(0.0304), in_words(2.5), in_words(10.4), in_words(100), in_words(90_000)
    ('30.4 ms', '2.5 s', '10 s', '2 min', '1 d')
    """
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds / size:.0f} {unit}"
    if seconds and seconds < 1:
        return f"{1000 * seconds:.3g} ms"
    return f"{seconds:.0f} s" if seconds >= 9.95 or seconds == round(seconds) else f"{seconds:.1f} s"
