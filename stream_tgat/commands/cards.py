"""The card of a release as a table, and those of two side by side; it knows the card and how a terminal shows it."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rich.markup import escape
from rich.table import Table

if TYPE_CHECKING:
    from stream_tgat.training.registry import GateNote, Release, RulesNote

FIGURES = {"auc": "AUC", "average_precision": "AP", "brier": "Brier"}
"""As tables call them."""

_METRICS = "metrics"
_SERVING = "serving metrics"


@dataclass(frozen=True)
class Entry:
    """One thing that a card says. value: as shown   number: of a metric, to subtract"""

    section: str
    name: str
    value: str
    number: float | None = None


def entries(release: Release) -> list[Entry]:
    """All that a card says, in the order in which one wants to know it."""
    card = release.card
    learnt = "not noted" if card.learnt_until is None else _utc(card.learnt_until)
    made = {
        "created": f"{card.created:%Y-%m-%d %H:%M:%S}",
        "parent": card.parent or "none",
        "seed": "not noted" if card.seed is None else str(card.seed),
        "learnt until": learnt,
        **({"measured as": f"{card.measured}, which all figures are of"} if card.measured else {}),
        **({"best so far": card.best} if card.best else {}),
        "code version": card.code_version,
        "topology": card.topology,
        "topology hash": card.topology_hash[:12],
        "features hash": card.features_hash[:12],
        "hash": card.hash[:12],
    }
    found = [Entry("release", name, value) for name, value in made.items()]
    found += [Entry(_METRICS, name, _number(value), value) for name, value in sorted(card.metrics.items())]
    found += [Entry(_SERVING, name, _number(value), value) for name, value in sorted(card.serving_metrics.items())]
    if card.gate is not None:
        found += _gate(card.gate)
    if card.rules is not None:
        found += _rules(card.rules)
    found += [Entry("model", name, _plain(value)) for name, value in card.model.items()]
    for topic, parts in sorted(card.manifest.items()):
        for partition, (first, end) in sorted(parts.items(), key=lambda part: int(part[0])):
            found.append(Entry("log", f"{topic}/{partition}", f"{first:,} to {end:,}"))
    if card.log_since is not None:
        found.append(Entry("log", "left out before", _utc(card.log_since)))
    return found


def _gate(note: GateNote) -> list[Entry]:
    """What the gate said when the release was made."""
    told = {
        "decision": "passed" if note.passed else "not passed",
        "reason": note.reason,
        "compared with": note.serving or "nothing",
        "on": f"{note.interactions:,} interactions, {_utc(note.begin)} to {_utc(note.end)}",
        "which are": note.note,
    }
    return [Entry("gate", name, value) for name, value in told.items()]


def _rules(note: RulesNote) -> list[Entry]:
    """How the release compares with the best simple rules."""
    found = [Entry("simple rules", "in short", note.sentence)]
    for each in note.figures:
        beside = f"{_number(each.model)} against {_number(each.rule)} ({each.best_rule})"
        found.append(Entry("simple rules", each.figure, each.no_say or beside))
    return found


def rules_table(note: RulesNote) -> Table:
    """A model beside the best simple rules, figure by figure."""
    table = Table("figure", "answers", "model", "rule", "difference, 95 %", "best simple rule")
    for column in table.columns[1:5]:
        column.justify = "right"
    table.columns[0].overflow = table.columns[5].overflow = "fold"
    for each in note.figures:
        values = [_number(value) if value is not None else "-" for value in (each.model, each.rule)]
        interval = "-" if each.low is None or each.high is None else f"{each.low:+.3f} to {each.high:+.3f}"
        of, _, figure = each.figure.removeprefix("heads.").rpartition(".")
        table.add_row(f"{escape(of)} {FIGURES[figure]}", f"{each.answers:,}", *values, interval, each.best_rule)
    return table


def card_table(release: Release) -> Table:
    """What the release is, where it comes from, what it reached."""
    table = Table("", "", release.name, title_justify="left")
    section = ""
    for entry in entries(release):
        if section not in ("", entry.section):
            table.add_section()
        table.add_row("" if entry.section == section else entry.section, escape(entry.name), escape(entry.value))
        section = entry.section
    return table


def difference_table(one: Release, other: Release) -> Table:
    """Two cards side by side: all metrics with their difference, and of the rest what differs."""
    table = Table("", "", one.name, other.name, "difference")
    left, right = _by_place(one), _by_place(other)
    section = ""
    for place in _in_both_orders(left, right):
        mine, theirs = left.get(place), right.get(place)
        values = [each.value if each else "" for each in (mine, theirs)]
        if place[0] not in (_METRICS, _SERVING) and values[0] == values[1]:
            continue
        numbers = [each.number if each else None for each in (mine, theirs)]
        change = "" if numbers[0] is None or numbers[1] is None else f"{numbers[1] - numbers[0]:+.4f}"
        if section not in ("", place[0]):
            table.add_section()
        table.add_row("" if place[0] == section else place[0], escape(place[1]), *map(escape, values), change)
        section = place[0]
    return table


def _by_place(release: Release) -> dict[tuple[str, str], Entry]:
    return {(entry.section, entry.name): entry for entry in entries(release)}


def _in_both_orders(left: Mapping[tuple[str, str], Entry], right: Mapping[tuple[str, str], Entry]) -> list[Any]:
    """Places of both, section by section as on the left."""
    sections = list(dict.fromkeys(section for section, _ in (*left, *right)))
    return sorted(dict.fromkeys((*left, *right)), key=lambda place: sections.index(place[0]))


def _number(value: float | None) -> str:
    return "undefined" if value is None else f"{value:.4f}"


def _plain(value: object) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def _utc(seconds: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(seconds))
