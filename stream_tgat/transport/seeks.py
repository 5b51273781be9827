"""Which seek of each partition was the last: what was asked for before it is stale when it comes."""

from collections.abc import Iterable

from faust.types import TP


class Seeks:
    """A number for each partition that is sought, another one each time."""

    def __init__(self) -> None:
        self._count = 0
        self._last: dict[TP, int] = {}

    def note(self, tps: Iterable[TP]) -> None:
        """These partitions are sought now."""
        self._count += 1
        self._last.update(dict.fromkeys(tps, self._count))

    def forget(self, tps: Iterable[TP]) -> None:
        """What comes of these partitions is stale until they are sought again."""
        for tp in tps:
            self._last.pop(tp, None)

    def last(self, tp: TP) -> int | None:
        """The last seek of a partition; None before the first."""
        return self._last.get(tp)

    def all(self) -> dict[TP, int]:
        """The last seek of each."""
        return self._last.copy()
