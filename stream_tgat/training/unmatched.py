"""Labels that say nothing to anybody: of a head that there is not, or of a node that was not seen as a user.

Both may become usable, as heads come and go and events come late, so they are no dead letters; but they are counted and
named, because more often somebody has mistyped a name.
"""

import difflib
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

EXAMPLES = 3
"""Nodes that are named."""


@dataclass(frozen=True)
class Unmatched:
    """So many labels of one name. nodes: some of those that they are about, by name   why: in words, no full stop"""

    label: str
    count: int
    nodes: tuple[str, ...]
    why: str

    def __str__(self) -> str:
        """For a reader."""
        many = "1 label" if self.count == 1 else f"{self.count:,} labels"
        return f"{many} {self.label!r} (such as of {', '.join(map(repr, self.nodes))}): {self.why}"


def no_head(label: str, known: Iterable[str]) -> str:
    """Why a label says nothing: no head learns it; with the nearest that one does.

    >>> no_head("retruns", ["bans", "returns"])
    "no head learns 'retruns'; did you mean 'returns'?"
    """
    names = sorted(known)
    close = difflib.get_close_matches(label, names, n=1)
    if close:
        return f"no head learns {label!r}; did you mean {close[0]!r}?"
    return f"no head learns {label!r}; heads learn {', '.join(map(repr, names)) or 'nothing'}"


def without_head(found: Mapping[str, Counter[str]], known: Iterable[str]) -> list[Unmatched]:
    """found: {label: {node: how many}}, of labels that no head learns   known: those that one does"""
    names = list(known)
    return [
        Unmatched(label, nodes.total(), tuple(node for node, _ in nodes.most_common(EXAMPLES)), no_head(label, names))
        for label, nodes in sorted(found.items())
    ]


def without_question(
    label: str, nodes: Counter[str], users: Iterable[str], items: Iterable[str], where: str = ""
) -> Unmatched:
    """Labels of nodes that had no interaction as a user until then.

    nodes: how many of each   users, items: names of all that were seen as such   where: in which part of the log
    """
    seen, met = set(users), set(items)
    alike = {name.casefold().strip(): name for name in seen}
    some = [node for node, _ in nodes.most_common(EXAMPLES)]

    def hint(node: str) -> str:
        if node in seen:
            return f"{node!r} had no interaction until then{where}"
        if node in met:
            return f"{node!r} is an item, and heads are about users"
        other = alike.get(node.casefold().strip())
        return f"{node!r} was not seen{where}" + (f", did you mean {other!r}?" if other is not None else "")

    return Unmatched(label, nodes.total(), tuple(some), "; ".join(map(hint, some)))
