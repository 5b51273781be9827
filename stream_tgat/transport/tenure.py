"""Tenure: the right to commit to partitions, from one opening of their state to the first failure.

What a worker computes rests on all that it has computed before: once a step between reading and acknowledging has
failed, nobody can say what memory and the log still have in common. So whoever opens the state of its partitions gets
a tenure with it, everything is committed through it, and whatever fails under it ends it for good. The next one is
given out with the state as it is stored, and only for partitions whose store is as far as their changelog.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TypeVar

from stream_tgat.errors import FencedError
from stream_tgat.rocks import Change

T = TypeVar("T")


class Tenure:
    """Commits of some partitions; made by `BulkTable.tenure`."""

    def __init__(
        self,
        partitions: Collection[int],
        commit: Callable[[Mapping[int, Sequence[Change]]], Awaitable[None]],
        what: str,
    ) -> None:
        self.partitions = frozenset(partitions)
        self._commit = commit
        self._what = what
        self._ended_by: BaseException | None = None

    @property
    def is_over(self) -> bool:
        """Whether something has failed; memory must be dropped and opened anew."""
        return self._ended_by is not None

    def end(self, reason: BaseException) -> None:
        """Refuse all further commits. What ended it first is what it tells."""
        self._ended_by = self._ended_by or reason

    @contextmanager
    def at_stake(self) -> Iterator[None]:
        """Whatever is raised inside ends the tenure; once it is over, what ended it is raised at once."""
        if isinstance(self._ended_by, Exception):
            raise self._ended_by
        if self._ended_by is not None:
            raise self._refusal()
        try:
            yield
        except BaseException as error:
            self.end(error)
            raise

    async def commit(self, changes: Mapping[int, Sequence[Change]]) -> None:
        """Commit changes to partitions: to each of them all or nothing.

        Raises FencedError, with nothing written, when the tenure is over or a partition may belong to someone else.
        One commit of a partition at a time. A commit that has begun goes to its end, also when its caller is cancelled.
        """
        if self.is_over or not changes.keys() <= self.partitions:
            raise self._refusal()
        with self.at_stake():
            await to_its_end(self._commit(changes))

    def _refusal(self) -> FencedError:
        why = f"given up after {self._ended_by!r}" if self.is_over else f"held for {sorted(self.partitions)} only"
        return FencedError(f"{self._what}: the right to commit was {why}; the state is opened anew first")


async def to_its_end(work: Awaitable[T]) -> T:
    """Await work that must not be torn: a cancellation takes effect when the work has ended."""
    task = asyncio.ensure_future(work)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError as request:
            cancelled = request
    if cancelled is not None:
        if not task.cancelled():
            task.exception()
        raise cancelled
    return task.result()
