"""Which records of a file a worker would refuse, and what that says when there are many of them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice

from rich.console import Console

from stream_tgat.commands.records import Read, RecordFile
from stream_tgat.datasets.stream import StreamRecord
from stream_tgat.topology import Topology
from stream_tgat.wire import Candidate, InputTopic, Judge, kind_of_reason

_EXAMPLES = 3
_SHOWN = 300


@dataclass(frozen=True, slots=True)
class RowVerdict:
    """What would become of a row. where: of it, as messages begin   reason: why it is bad, None where it is good"""

    where: str
    record: StreamRecord | None
    reason: str | None


def judged(file: RecordFile, topology: Topology, *, allow_late: bool, together: int = 256) -> Iterator[RowVerdict]:
    """The rows of a file with a verdict each.

    allow_late: an interaction before one above it in time is good   together: rows that are read before the first is
    judged, which is faster
    """
    judge = Judge(topology)
    newest = float("-inf")
    rows = iter(file)
    while chunk := list(islice(rows, together)):
        now = time.time()
        for row, reason in zip(chunk, _reasons(judge, chunk, now), strict=True):
            told = reason
            if told is None and row.record is not None and row.record.topic == "interactions":
                if row.record.time < newest and not allow_late:
                    told = (
                        f"field 'timestamp' is {newest - row.record.time:g} s before that of a row above; "
                        "sort by time, or say --allow-late"
                    )
                newest = max(newest, row.record.time)
            yield RowVerdict(file.where(row.number), row.record, told)


def _reasons(judge: Judge, rows: list[Read], now: float) -> list[str | None]:
    reasons: list[str | None] = [row.reason if row.record is None else None for row in rows]
    places: dict[InputTopic, list[int]] = {}
    for at, row in enumerate(rows):
        if row.record is not None:
            places.setdefault(row.record.topic, []).append(at)
    for topic, found in places.items():
        records = [record for at in found if (record := rows[at].record) is not None]
        candidates = [Candidate(record.value, record.headers, record.key) for record in records]
        for at, reason in zip(found, judge.reasons(topic, candidates, now), strict=True):
            reasons[at] = reason
    return reasons


@dataclass
class Tally:
    """Bad records by kind of reason. count: of all records, good and bad   bad: of those   kinds: count, examples"""

    count: int = 0
    bad: int = 0
    kinds: dict[str, tuple[int, list[str]]] = field(default_factory=dict)

    def add(self, where: str, reason: str | None) -> None:
        """Count a record. reason: why it is bad, None if it is good"""
        self.count += 1
        if reason is None:
            return
        self.bad += 1
        kind = kind_of_reason(reason)
        count, examples = self.kinds.get(kind, (0, []))
        if count < _EXAMPLES:
            examples.append(f"{where}: {reason}")
        self.kinds[kind] = count + 1, examples

    def show(self, out: Console) -> None:
        """Each kind with its count and its first examples, the most frequent kind first; of one of a kind, that one."""
        for kind, (count, examples) in sorted(self.kinds.items(), key=lambda each: -each[1][0]):
            if count == 1:
                out.print(f"{count:>9,}  {shortened(examples[0])}", markup=False)
                continue
            out.print(f"{count:>9,}  {shortened(kind)}", markup=False)
            for example in examples:
                out.print(f"{'':11}{shortened(example)}", markup=False, style="dim")


def shortened(text: str) -> str:
    """A text that may quote a whole record, as one line."""
    line = " ".join(text.split())
    return line if len(line) <= _SHOWN else f"{line[: _SHOWN - 1]}…"
