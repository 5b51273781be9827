"""Event times: unix seconds as float64, or ISO 8601, and what is a plausible one."""

import math
import re
from datetime import UTC, datetime, tzinfo

from stream_tgat.errors import WireError

# The extended form of ISO 8601 only: "20240101" could as well be a number that was quoted by mistake.
_EXTENDED = re.compile(r"\d{4}-\d\d-\d\d(?:[Tt ].+)?", re.ASCII)
_YEAR_S = 365.25 * 86_400


def parse_time(value: object, zone: tzinfo = UTC) -> float:
    """Unix seconds of a number, or of a string in ISO 8601. WireError says what is wrong.

    zone: of a string without offset; an hour that clocks go through twice is the first, one that they leave out is none

    >>> parse_time("1970-01-02T01:00:00+01:00"), parse_time("1970-01-01 00:00:01.5"), parse_time(3)
    (86400.0, 1.5, 3.0)
    """
    if isinstance(value, float):
        seconds = float(value)
    elif type(value) is int:
        try:
            seconds = float(value)
        except OverflowError:
            seconds = math.inf
    elif type(value) is str:
        return _parse_iso(value, zone)
    else:
        raise WireError(f"must be unix seconds or an ISO 8601 string, not {_kind_of(value)}")
    if not math.isfinite(seconds):
        raise WireError(f"must be a finite number of seconds, not {seconds}")
    return seconds + 0.0  # there is one zero: -0.0 would be another name of the same interaction


def check_plausible(seconds: float, now: float, max_ahead_s: float) -> float:
    """`seconds` if it lies in 1970 or later and at most `max_ahead_s` ahead of `now`, all in unix seconds."""
    if seconds < 0.0:
        raise WireError(f"is before 1970 ({seconds:g} s)")
    if seconds > now + max_ahead_s:
        raise WireError(
            f"is {_duration(seconds - now)} ahead of the clock, more than max_ahead_s = {max_ahead_s:g} allows"
            f"{_unit_hint(seconds, now)}"
        )
    return seconds


def _parse_iso(text: str, zone: tzinfo) -> float:
    if not _EXTENDED.fullmatch(text):
        raise WireError(f"must be unix seconds or an ISO 8601 string such as 2024-01-31T12:00:00Z, not {text[:40]!r}")
    try:
        moment = datetime.fromisoformat(text.upper())  # RFC 3339 allows t and z
    except ValueError as problem:
        raise WireError(f"is not a valid ISO 8601 time: {text[:40]!r} ({problem})") from None
    if moment.tzinfo is None:
        local, moment = moment, moment.replace(tzinfo=zone)
        if zone is not UTC and moment.astimezone(UTC).astimezone(zone).replace(tzinfo=None) != local:
            raise WireError(f"is no time in {zone}, where clocks are put forward over it: {text[:40]!r}")
    return moment.timestamp()


def _unit_hint(seconds: float, now: float) -> str:
    for factor, unit in ((1e3, "milliseconds"), (1e6, "microseconds"), (1e9, "nanoseconds")):
        if abs(seconds / factor - now) < 50 * _YEAR_S:
            return f"; is it in {unit}? Seconds are expected"
    return ""


def _duration(seconds: float) -> str:
    if seconds >= _YEAR_S:
        years = seconds / _YEAR_S
        return f"{years:,.1f} years" if years < 1e6 else "over a million years"
    if seconds >= 86_400:
        return f"{seconds / 86_400:.1f} days"
    return f"{seconds:.0f} s"


def _kind_of(value: object) -> str:
    return {type(None): "null", bool: "true or false", list: "a list", dict: "an object", bytes: "bytes"}.get(
        type(value), f"a {type(value).__name__}"
    )
