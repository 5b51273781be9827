"""The traces that interactions belong to, remembered by origin until their embeddings leave, and a while longer.

They are no part of the state: what waits in a worker that is killed leaves without its trace.
"""

from typing import Final

from stream_tgat.message_passing.heard import Heard
from stream_tgat.wire.formats import Headers, header
from stream_tgat.wire.traces import TRACES, Trace, decode_traces

#: Interactions whose trace is remembered; their embeddings leave within this many later ones.
REMEMBERED: Final = 65_536


class Traces:
    """One thread at a time."""

    def __init__(self, remembered: int = REMEMBERED) -> None:
        self._remembered = remembered
        self._of: dict[int, Trace] = {}
        self._heard = Heard()

    def hear(self, headers: Headers | None) -> None:
        """Take note of what stands in the headers of a record of `propagation`."""
        value = header(headers, TRACES)
        if value is None or not self._heard.is_new(value):
            return
        self._of.update(decode_traces(value))
        while len(self._of) > self._remembered:
            del self._of[next(iter(self._of))]

    def of(self, origin: int) -> Trace | None:
        """The trace of the record that an interaction came in."""
        return self._of.get(origin)
