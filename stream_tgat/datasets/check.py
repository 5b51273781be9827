"""What is remarkable in interaction data, and what is wrong with it, before anything is learnt from it.

An error makes the data unusable; a warning means that something was probably not meant; a note is good to know.
"""

from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray
from rich.console import Group
from rich.table import Table
from rich.text import Text

from stream_tgat.errors import DataError

LONGEST_SPAN_S = 200 * 365.25 * 86400
"""A log that spans more than this is hardly in seconds."""


class Severity(StrEnum):
    """How bad a finding is."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


@dataclass(frozen=True)
class Finding:
    """Something found in `count` rows. first: of them, as "line 7" or "row 7"; empty where it is about all rows."""

    severity: Severity
    what: str
    count: int
    first: str
    meaning: str

    def told(self, name: str) -> str:
        """A sentence about it in the file `name`."""
        where = f"{name}, {self.first}" if self.first else name
        return f"{where}: {self.what} in {self.count} rows. {self.meaning}"


@dataclass(frozen=True)
class DataReport:
    """A check's result; printed with rich it is a table.

    nodes, sources, destinations: distinct ids   span_s: from the first to the last time, NaN without any
    """

    name: str
    rows: int
    nodes: int
    sources: int
    destinations: int
    features: int
    span_s: float
    findings: tuple[Finding, ...]

    @property
    def usable(self) -> bool:
        """Whether there is no error."""
        return all(each.severity is not Severity.ERROR for each in self.findings)

    def raise_errors(self) -> None:
        """DataError with the first error, if there is one."""
        for each in self.findings:
            if each.severity is Severity.ERROR:
                raise DataError(each.told(self.name))

    def __rich__(self) -> Group:
        """One line of sizes, then the findings, the worst first."""
        sizes = (
            f"{self.rows:,} interactions, {self.nodes:,} nodes ({self.sources:,} sources, {self.destinations:,} "
            f"destinations), {self.features} features, {self.span_s / 86400:,.1f} days"
        )
        table = Table(show_edge=False, pad_edge=False)
        for heading in ("", "found", "rows", "share", "first", "what it means"):
            table.add_column(heading, justify="right" if heading in ("rows", "share", "first") else "left")
        colours = {Severity.ERROR: "red", Severity.WARNING: "yellow", Severity.NOTE: "dim"}
        for each in self.findings:
            share = f"{each.count / self.rows:.2%}" if self.rows else ""
            severity = Text(each.severity.value, colours[each.severity])
            table.add_row(severity, each.what, f"{each.count:,}", share, each.first, each.meaning)
        return Group(Text(self.name, "bold"), Text(sizes), table if self.findings else Text("Nothing remarkable."))


def check_rows(
    name: str,
    source: NDArray[np.int64],
    destination: NDArray[np.int64],
    time: NDArray[np.float64],
    edge: NDArray[np.float32],
    feature_names: tuple[str, ...] = (),
    lines: NDArray[np.int64] | None = None,
) -> DataReport:
    """Check rows in the order in which they came.

    source, destination: [n], nodes; −1 where missing   time: [n], seconds, NaN where missing   edge: [n, E]
    feature_names: of the columns of `edge`; by default their numbers
    lines: of the file that the rows stand on; None where it has none, then rows are counted from 1
    """
    ends = np.concatenate([source, destination])
    known = time[np.isfinite(time)]
    names = feature_names or tuple(str(at) for at in range(edge.shape[1]))
    places = _Places(lines)
    found = [
        *_missing(places, source, destination, time, edge, names),
        *_order(places, time),
        *_repeats(places, source, destination, time),
        *_features(edge, names),
        *_ids(places, source, destination),
    ]
    worst_first = sorted((each for each in found if each.count), key=lambda each: list(Severity).index(each.severity))
    return DataReport(
        name=name,
        rows=len(time),
        nodes=len(np.unique(ends[ends >= 0])),
        sources=len(np.unique(source[source >= 0])),
        destinations=len(np.unique(destination[destination >= 0])),
        features=edge.shape[1],
        span_s=float(np.ptp(known)) if len(known) else float("nan"),
        findings=tuple(worst_first),
    )


def refuse_errors(
    name: str,
    source: NDArray[np.int64],
    destination: NDArray[np.int64],
    time: NDArray[np.float64],
    edge: NDArray[np.float32],
    lines: NDArray[np.int64] | None = None,
) -> None:
    """DataError with the first error of `check_rows`, without the time that its warnings and notes take."""
    names = tuple(str(at) for at in range(edge.shape[1]))
    for each in _missing(_Places(lines), source, destination, time, edge, names):
        if each.count:
            raise DataError(each.told(name))


@dataclass(frozen=True, eq=False)
class _Places:
    """Where rows are in their file. lines: see `check_rows`"""

    lines: NDArray[np.int64] | None

    def finding(self, severity: Severity, what: str, rows: NDArray[np.bool_], meaning: str) -> Finding:
        """What was found in these rows: [n]."""
        first = self._of(int(np.argmax(rows))) if rows.any() else ""
        return Finding(severity, what, int(rows.sum()), first, meaning)

    def _of(self, row: int) -> str:
        if self.lines is None:
            return f"row {row + 1}"
        return f"line {self.lines[row]}" if row < len(self.lines) else ""


def _missing(
    places: _Places,
    source: NDArray[np.int64],
    destination: NDArray[np.int64],
    time: NDArray[np.float64],
    edge: NDArray[np.float32],
    names: tuple[str, ...],
) -> list[Finding]:
    advice = "Remove these rows or fill them in."
    found = [
        Finding(Severity.ERROR, "no rows at all", int(not len(time)), "", "There is nothing to learn from."),
        places.finding(Severity.ERROR, "no source", source < 0, advice),
        places.finding(Severity.ERROR, "no destination", destination < 0, advice),
        places.finding(Severity.ERROR, "no finite time", ~np.isfinite(time), advice),
    ]
    for at, name in enumerate(names):
        wrong = ~np.isfinite(edge[:, at])
        found.append(
            places.finding(Severity.ERROR, f"feature {name} not finite", wrong, "Fill these in, or leave it out.")
        )
    return found


def _order(places: _Places, time: NDArray[np.float64]) -> list[Finding]:
    falls, ties = np.zeros((2, len(time)), np.bool_)
    falls[1:] = time[1:] < time[:-1]
    _, place, count = np.unique(time, return_inverse=True, return_counts=True)
    ties = (count[place] > 1) & np.isfinite(time) if len(time) else ties
    known = time[np.isfinite(time)]
    long = np.full(len(time), len(known) > 0 and np.ptp(known) > LONGEST_SPAN_S)
    return [
        places.finding(Severity.WARNING, "time before that of the row above", falls, "Loading sorts by time."),
        places.finding(
            Severity.WARNING, "time not in seconds?", long, "They span over 200 years: milliseconds, perhaps."
        ),
        places.finding(
            Severity.NOTE, "same time as another row", ties, "Such do not see each other; the file orders them."
        ),
    ]


def _repeats(
    places: _Places, source: NDArray[np.int64], destination: NDArray[np.int64], time: NDArray[np.float64]
) -> list[Finding]:
    again = np.zeros(len(time), np.bool_)
    if len(time):
        rows = np.column_stack([source.astype(np.float64), destination.astype(np.float64), time])
        _, first = np.unique(rows, axis=0, return_index=True)
        again[:] = True
        again[first] = False
    loops = (source == destination) & (source >= 0)
    return [
        places.finding(
            Severity.WARNING, "repeated row", again, "Source, destination and time of a row before: counts twice."
        ),
        places.finding(
            Severity.WARNING, "source is destination", loops, "With separate ids, say so; else a self-loop."
        ),
    ]


def _features(edge: NDArray[np.float32], names: tuple[str, ...]) -> list[Finding]:
    if len(edge) < 2:
        return []
    constant = [name for at, name in enumerate(names) if (edge[:, at] == edge[0, at]).all()]
    meaning = f"Says nothing; leave it out: {', '.join(constant[:5])}{', …' if len(constant) > 5 else ''}"
    return [Finding(Severity.WARNING, "feature that never changes", len(edge), "", meaning)] if constant else []


def _ids(places: _Places, source: NDArray[np.int64], destination: NDArray[np.int64]) -> list[Finding]:
    ends = np.concatenate([source, destination])
    used = np.unique(ends[ends >= 0])
    both = np.isin(source, destination[destination >= 0])
    found = [
        places.finding(Severity.NOTE, "source is elsewhere a destination", both, "One kind of nodes: not bipartite.")
    ]
    if len(used) and used[-1] + 1 > len(used):
        gaps = int(used[-1]) + 1 - len(used)
        found.append(Finding(Severity.NOTE, "ids not in use", gaps, "", "Numbers between used ones; rows of nothing."))
    return found
