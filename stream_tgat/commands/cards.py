"""The card of a release as a table, and those of two side by side; it knows the card and how a terminal shows it."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.markup import escape
from rich.padding import Padding
from rich.table import Table

if TYPE_CHECKING:
    from rich.console import Console

    from stream_tgat.training.registry import GateNote, Release, RulesNote

FIGURES = {"auc": "AUC", "average_precision": "AP", "brier": "Brier"}
"""As tables call them."""

_METRICS = "metrics"
_SERVING = "serving metrics"
_NUMBERS = (_METRICS, _SERVING)
#: What a release is, where the other sections are what came of it.
_IS = ("release", "model", "features", "log")
#: What is never the same, and what has a section of its own.
_TOLD_APART = ("created", "hash", "features hash")
#: Longer values do not stand beside each other in 80 columns.
_LONG = 22
#: So many differences of a section are named in a sentence.
_NAMED = 6
_Place = tuple[str, str]
"""Section and name of an entry."""


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
    for feature in card.features.get("features", ()):
        said = {key: value for key, value in feature.items() if key != "name" and value is not None}
        found.append(
            Entry("features", feature["name"], ", ".join(f"{key} {_plain(each)}" for key, each in said.items()))
        )
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
    headings = ("figure", "answers", "model", "rule", "difference, 95 %", "best simple rule")
    table = Table(*headings, box=None, pad_edge=False)
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


def show_difference(out: Console, one: Release, other: Release) -> None:
    """Two cards side by side, within 80 columns: all metrics, of the rest what differs, and last a sentence."""
    out.print(f"A  [bold]{one.name}[/]\nB  [bold]{other.name}[/]")
    left, right = _by_place(one), _by_place(other)
    places = [place for place in _in_both_orders(left, right) if place[0] in _NUMBERS or _differs(left, right, place)]
    for section in dict.fromkeys(section for section, _ in places):
        rows = [(name, left.get((section, name)), right.get((section, name))) for of, name in places if of == section]
        out.print()
        out.print(_section_table(section, [row for row in rows if not _is_long(row)]))
        for name, mine, theirs in filter(_is_long, rows):
            out.print(escape(name))
            for side, entry in (("A", mine), ("B", theirs)):
                out.print(Padding(f"{side}: {escape(entry.value if entry else '-')}", (0, 0, 0, 2)), soft_wrap=False)
    out.print(f"\n{_in_a_sentence(places)}", soft_wrap=False, markup=False)


def _in_a_sentence(places: Sequence[_Place]) -> str:
    """What differs of what a release is, and not of what came of it."""
    names: dict[str, list[str]] = {}
    for section, name in places:
        if section in _IS and name not in _TOLD_APART:
            names.setdefault(section, []).append(name)
    if not names:
        return "They differ in nothing but what they reached."
    told = ", ".join(f"{section} ({_few(each)})" for section, each in names.items())
    return f"B differs from A in {told}."


def _few(names: Sequence[str]) -> str:
    """Names, or how many there are: those of many stand in the table above."""
    return ", ".join(names) if len(names) <= _NAMED else f"{len(names)} of them"


_Row = tuple[str, Entry | None, Entry | None]


def _section_table(section: str, rows: Sequence[_Row]) -> Table:
    is_long = section not in _NUMBERS and not rows
    table = Table(section, *(() if is_long else ("A", "B")), box=None, pad_edge=False)
    if section in _NUMBERS:
        table.add_column("B - A")
    table.columns[0].overflow = "fold"
    for column in table.columns[1:]:
        column.justify = "right"
    for name, mine, theirs in rows:
        numbers = mine.number if mine else None, theirs.number if theirs else None
        change = "" if numbers[0] is None or numbers[1] is None else f"{numbers[1] - numbers[0]:+.4f}"
        values = (escape(each.value) if each else "-" for each in (mine, theirs))
        table.add_row(escape(name), *values, *([change] if section in _NUMBERS else []))
    return table


def _is_long(row: _Row) -> bool:
    """Whether its values need lines of their own."""
    return any(len(entry.value) > _LONG for entry in row[1:] if entry)


def _differs(left: Mapping[_Place, Entry], right: Mapping[_Place, Entry], place: _Place) -> bool:
    mine, theirs = left.get(place), right.get(place)
    return (mine.value if mine else None) != (theirs.value if theirs else None)


def _by_place(release: Release) -> dict[_Place, Entry]:
    return {(entry.section, entry.name): entry for entry in entries(release)}


def _in_both_orders(left: Mapping[_Place, Entry], right: Mapping[_Place, Entry]) -> list[_Place]:
    """Places of both, section by section as on the left."""
    sections = list(dict.fromkeys(section for section, _ in (*left, *right)))
    return sorted(dict.fromkeys((*left, *right)), key=lambda place: sections.index(place[0]))


def _number(value: float | None) -> str:
    return "undefined" if value is None else f"{value:.4f}"


def _plain(value: object) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def _utc(seconds: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(seconds))
