"""Long experiments as lists of runs: each result is kept when its run is done, and only what is missing is run.

A killed command is started again and goes on with the run that it was in: a graph network's training from its last
checkpoint, anything else from its beginning. So does one with more runs than before. A file holds a `Record`: the
result, and how it came about.
"""

import json
import platform
import re
import shutil
import time as clock
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Generic, TypeVar

import torch
from pydantic import TypeAdapter, ValidationError

from stream_tgat.disk import replacing
from stream_tgat.errors import DataError

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    T = TypeVar("T", bound=DataclassInstance)
else:
    T = TypeVar("T")


@dataclass(frozen=True)
class Run(Generic[T]):
    """key: names the result's file; everything that changes the result belongs into it   work: makes the result

    device: that the work uses, "cpu" or torch's name of another, such as "cuda"
    scratch: a folder that the work may leave behind to go on from if it is killed; it goes when the result is kept
    """

    key: str
    work: Callable[[], T]
    device: str = "cpu"
    scratch: Path | None = None


@dataclass(frozen=True)
class Origin:
    """Where results come from. command: makes them again."""

    command: str = ""


@dataclass(frozen=True)
class Record(Generic[T]):
    """A result and its origin. machine: the processor's or the GPU's name   seconds: the run took, by the clock."""

    command: str
    device: str
    machine: str
    seconds: float
    result: T


def key_of(*parts: str) -> str:
    """The key that names a run by its parts, as a file can be called; empty ones are left out."""
    return "-".join(re.sub(r"[^a-z0-9.+]+", "_", part.lower()).strip("_") for part in parts if part)


def fill(
    folder: Path,
    kind: type[T],
    runs: Iterable[Run[T]],
    on_run: Callable[[str, bool], None] = lambda *_: None,
    origin: Origin = Origin(),
) -> list[T]:
    """The results of all runs, in their order; those without a file in the folder are run first.

    kind: the dataclass of a result   on_run: is told each key before its turn, and whether the result is there already
    origin: of those that are run now
    Raises DataError for a file that is no record of such a result.
    """
    folder.mkdir(parents=True, exist_ok=True)
    results = []
    for run in runs:
        file = folder / f"{run.key}.json"
        on_run(run.key, file.exists())
        if not file.exists():
            start = clock.perf_counter()
            result = run.work()
            seconds = round(clock.perf_counter() - start, 1)
            _write(file, Record(origin.command, run.device, machine(run.device), seconds, result))
        if run.scratch is not None:
            _remove(run.scratch)
        results.append(read_record(file, kind).result)
    return results


def read_records(folder: Path, kind: type[T]) -> list[Record[T]]:
    """All records of a folder, by the names of their files; none if there is no such folder. Raises as `fill` does."""
    return [read_record(file, kind) for file in sorted(folder.glob("*.json"))]


def read_record(file: Path, kind: type[T]) -> Record[T]:
    """The record in a file; DataError if it holds no result of this kind."""
    try:
        return TypeAdapter(Record[kind]).validate_python(json.loads(file.read_text()))  # type: ignore[valid-type]
    except (ValidationError, ValueError) as problem:
        raise DataError(f"{file} holds no {kind.__name__}; delete it to have it made again: {problem}") from problem


def machine(device: str) -> str:
    """The name of the processor, or of the GPU, that a device of torch stands for."""
    if device != "cpu":
        return torch.cuda.get_device_name(device)
    told = Path("/proc/cpuinfo")
    lines = told.read_text().splitlines() if told.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def scratch_of(folder: Path, key: str) -> Path:
    """Where a run whose result goes into a folder keeps what it needs to go on."""
    return folder / "unfinished" / key


def _remove(scratch: Path) -> None:
    """With the folder around it, if nothing else is in there."""
    shutil.rmtree(scratch, ignore_errors=True)
    with suppress(OSError):
        scratch.parent.rmdir()


def _write(file: Path, record: Record[T]) -> None:
    """Completely or not at all: a file that exists is a run that is done."""
    with replacing(file) as partial:
        partial.write_text(json.dumps(asdict(record), indent=1) + "\n")
