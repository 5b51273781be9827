"""The newest values that were received: each comes once from every partition, and counts once."""

from typing import Final

#: So many are remembered: what some cycles of ingest sent, which one partition may read before the other.
_MOST: Final = 256


class Heard:
    """The newest byte strings. One thread at a time."""

    def __init__(self) -> None:
        self._known: dict[bytes, None] = {}

    def is_new(self, value: bytes) -> bool:
        """Whether a value is not among them; from now on it is."""
        if value in self._known:
            return False
        self._known[value] = None
        if len(self._known) > _MOST:
            del self._known[next(iter(self._known))]
        return True
