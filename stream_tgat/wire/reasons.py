"""Reasons of dead letters by kind: what was wrong, without the value that was wrong in this one."""

import re
from typing import Final

_FOUND: Final = re.compile(r", (?:not|but) .*", re.DOTALL)
_QUOTED: Final = re.compile(r"(field |column |header )?(['\"]).*?\2", re.DOTALL)
_MEASURED: Final = re.compile(r"-?\d[\d,.]*(?:e[+-]?\d+)?(?= (?:bytes|cells|days|s|years)\b)")
_COUNTED: Final = re.compile(r"\b(byte|char|character|column|element|line) [\dA-F]+\b")


def kind_of_reason(reason: str) -> str:
    """The reason as it is the same for all records with which the same is wrong.

    >>> kind_of_reason("field 'price' must be a number, not 'x'")
    "field 'price' must be a number"
    >>> kind_of_reason("field 'user' is 48 bytes long; at most 47 are allowed (graph.max_id_bytes)")
    "field 'user' is … bytes long; at most 47 are allowed (graph.max_id_bytes)"
    """
    kind = _QUOTED.sub(lambda found: found[0] if found[1] else "…", _FOUND.sub("", reason))
    return _COUNTED.sub(r"\1 …", _MEASURED.sub("…", kind))
