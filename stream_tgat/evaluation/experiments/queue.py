"""Long experiments as lists of runs: each result is kept when its run is done, and only what is missing is run.

A killed command is started again and goes on with the run that it was in; so does one with more runs than before.
"""

import json
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from pydantic import TypeAdapter, ValidationError

from stream_tgat.errors import DataError

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    T = TypeVar("T", bound=DataclassInstance)
else:
    T = TypeVar("T")


@dataclass(frozen=True)
class Run(Generic[T]):
    """key: names the result's file; everything that changes the result belongs into it   work: makes the result."""

    key: str
    work: Callable[[], T]


def fill(
    folder: Path, kind: type[T], runs: Iterable[Run[T]], on_run: Callable[[str, bool], None] = lambda *_: None
) -> list[T]:
    """The results of all runs, in their order; those without a file in the folder are run first.

    kind: the dataclass of a result   on_run: is told each key before its turn, and whether the result is there already
    Raises DataError for a file that is no such result.
    """
    folder.mkdir(parents=True, exist_ok=True)
    results = []
    for run in runs:
        file = folder / f"{run.key}.json"
        on_run(run.key, file.exists())
        if not file.exists():
            _write(file, run.work())
        results.append(_read(file, kind))
    return results


def _write(file: Path, result: Any) -> None:
    """Completely or not at all: a file that exists is a run that is done."""
    partial = file.with_suffix(".partial")
    partial.write_text(json.dumps(asdict(result), indent=1) + "\n")
    partial.replace(file)


def _read(file: Path, kind: type[T]) -> T:
    try:
        return TypeAdapter(kind).validate_python(json.loads(file.read_text()))
    except (ValidationError, ValueError) as problem:
        raise DataError(f"{file} holds no {kind.__name__}; delete it to have it made again: {problem}") from problem
