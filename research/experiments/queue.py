"""Long experiments as lists of runs: each result is kept when its run is done, and only what is missing is run.

A killed command is started again and goes on with the run that it was in: a graph network's training from its last
checkpoint, anything else from its beginning. So does one with more runs than before. The results of a table are the
lines of one file, `TABLE.jsonl`: each holds a key and a `ResultRecord`, which is the result and how it came about. Two
commands may fill one table at the same time.
"""

import json
import platform
import re
import shutil
import time as clock
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import asdict, dataclass
from fcntl import LOCK_EX, flock
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import torch
from pydantic import TypeAdapter, ValidationError

from stream_tgat.errors import DataError

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    T = TypeVar("T", bound=DataclassInstance)
else:
    T = TypeVar("T")


@dataclass(frozen=True)
class Run(Generic[T]):
    """key: names the result; everything that changes the result belongs into it   work: makes the result

    device: that the work uses, "cpu" or torch's name of another, such as "cuda"
    scratch: a folder that the work may leave behind to go on from if it is killed; it goes when the result is kept
    """

    key: str
    work: Callable[[], T]
    device: str = "cpu"
    scratch: Path | None = None


@dataclass(frozen=True)
class ResultOrigin:
    """Where results come from. command: makes them again."""

    command: str = ""


@dataclass(frozen=True)
class ResultRecord(Generic[T]):
    """A result and its origin. machine: the processor's or the GPU's name   seconds: the run took, by the clock."""

    command: str
    device: str
    machine: str
    seconds: float
    result: T


def key_of(*parts: str) -> str:
    """The key that names a run by its parts, such that a folder can be called so; empty ones are left out."""
    return "-".join(re.sub(r"[^a-z0-9.+]+", "_", part.lower()).strip("_") for part in parts if part)


def fill(
    table: Path,
    kind: type[T],
    runs: Iterable[Run[T]],
    on_run: Callable[[str, bool], None] = lambda *_: None,
    origin: ResultOrigin = ResultOrigin(),
) -> list[T]:
    """The results of all runs, in their order; those without a line in the table's file are run first.

    table: path of the file, without its suffix   kind: the dataclass of a result
    on_run: is told each key before its turn, and whether the result is there already   origin: of those that are run
    Raises DataError for a line that is no record of such a result.
    """
    lines = _TableLines(table)
    results = []
    for run in runs:
        there = lines.find(run.key) is not None
        on_run(run.key, there)
        if not there:
            start = clock.perf_counter()
            result = run.work()
            seconds = round(clock.perf_counter() - start, 1)
            lines.append(run.key, ResultRecord(origin.command, run.device, machine(run.device), seconds, result))
        if run.scratch is not None:
            _remove(run.scratch)
        results.append(_record(table, run.key, lines.find(run.key), kind).result)
    return results


def read_records(table: Path, kind: type[T]) -> list[ResultRecord[T]]:
    """All records of a table, by their keys; none if there is no such file. Raises as `fill` does."""
    return [_record(table, key, content, kind) for key, content in sorted(_TableLines(table).all().items())]


class _TableLines:
    """The lines of a table, by key; of several with one key the first counts. Reads on where others append."""

    def __init__(self, table: Path) -> None:
        self._file = file_of(table)
        self._found: dict[str, Any] = {}
        self._read = 0

    def find(self, key: str) -> Any:
        """What the file has of a key by now, None for nothing."""
        return self.all().get(key)

    def all(self) -> dict[str, Any]:
        """Everything by key."""
        if self._file.exists():
            with self._file.open("rb") as opened:
                opened.seek(self._read)
                new = opened.read()
            whole = new[: new.rfind(b"\n") + 1]  # a kill may leave the beginning of a line
            for line in whole.splitlines():
                content = _parsed(self._file, line)
                self._found.setdefault(content.pop("key"), content)
            self._read += len(whole)
        return self._found

    def append(self, key: str, record: ResultRecord[Any]) -> None:
        """One line, behind whatever others have appended meanwhile; the remains of a killed writer go."""
        self._file.parent.mkdir(parents=True, exist_ok=True)
        with self._file.open("a+b") as opened:
            flock(opened, LOCK_EX)
            opened.seek(self._read)
            opened.truncate(self._read + opened.read().rfind(b"\n") + 1)
            opened.write(json.dumps({"key": key, **asdict(record)}).encode() + b"\n")


def file_of(table: Path) -> Path:
    """Where the lines of a table are."""
    return table.with_name(f"{table.name}.jsonl")


def _parsed(file: Path, line: bytes) -> dict[str, Any]:
    try:
        content = json.loads(line)
    except ValueError as problem:
        raise DataError(f"{file}: a line is no JSON; delete it to have it made again: {line[:60]!r}") from problem
    if not isinstance(content, dict) or not isinstance(content.get("key"), str):
        raise DataError(f"{file}: a line has no key; delete it to have it made again: {line[:60]!r}")
    return content


def _record(table: Path, key: str, content: Any, kind: type[T]) -> ResultRecord[T]:
    try:
        return TypeAdapter(ResultRecord[kind]).validate_python(content)  # type: ignore[valid-type]
    except ValidationError as problem:
        raise DataError(
            f"{file_of(table)}: the line with the key {key!r} holds no {kind.__name__}; delete it to have it made "
            f"again: {problem}"
        ) from problem


def machine(device: str) -> str:
    """The name of the processor, or of the GPU, that a device of torch stands for."""
    if device != "cpu":
        return torch.cuda.get_device_name(device)
    told = Path("/proc/cpuinfo")
    lines = told.read_text().splitlines() if told.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def scratch_of(table: Path, key: str) -> Path:
    """Where a run whose result goes into a table keeps what it needs to go on."""
    return table / "unfinished" / key


def _remove(scratch: Path) -> None:
    """With the folders around it, if nothing else is in there."""
    shutil.rmtree(scratch, ignore_errors=True)
    with suppress(OSError):
        scratch.parent.rmdir()
        scratch.parent.parent.rmdir()
