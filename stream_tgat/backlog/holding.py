"""Which source rows wait for, when that lasts: the first thing that goes wrong where events alone move time.

One partition without events stops everything, and nothing else tells that from a stream that has nothing to do. It
knows watermarks and numbers of rows: no records, no Kafka.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

from stream_tgat.message_passing.progress import EVERYTHING, NOTHING
from stream_tgat.wire.packets import Source, SourceTopic

#: A watermark that stands still for so long while rows wait for it is worth a line, and the next after so long.
TOLD_AFTER_S: Final = 5.0
TOLD_AGAIN_S: Final = 600.0
_NAMED: Final = 3


def furthest_behind(watermarks: Mapping[Source, float]) -> tuple[Source, ...]:
    """The sources with the smallest watermark, in order; none where nobody is waited for."""
    smallest = min(watermarks.values(), default=EVERYTHING)
    return () if smallest == EVERYTHING else tuple(s for s, each in sorted(watermarks.items()) if each == smallest)


def what_holds(sources: Sequence[Source], watermark: float, *, by_the_clock: bool) -> str:
    """The sources that rows wait for, where these are, and what moves them: the end of a line.

    sources: furthest behind, at least one   watermark: of all of these   by_the_clock: time.clock is "wall"
    """
    # Node features come first, so where they are among them nothing else is to be done.
    nodes = [source for source in sources if source.topic is SourceTopic.NODES]
    held = nodes or sources
    named = ", ".join(map(str, held[:_NAMED]))
    if len(held) > _NAMED:
        named += f" and {len(held) - _NAMED} more"
    if nodes:
        return f"{named} (not read to the end yet)."
    if watermark == NOTHING:
        named += " (no record so far)."
    else:
        named += f" (come to {datetime.fromtimestamp(watermark, UTC).isoformat(timespec='milliseconds')})."
    if by_the_clock:
        return (
            f"{named} No fetch has seen its end since: does a worker read it, is its broker well, and is no "
            "transaction open there?"
        )
    return (
        f'{named} With time.clock = "event" only records there move time: send events or punctuation, or set '
        "time.idle_after_s."
    )


@dataclass
class Holding:
    """Compares, from time to time, what rows wait for with what it was.

    by_the_clock: time.clock is "wall"
    since: the sources that rows wait for, with the monotonic seconds since when their watermark stands still
    """

    by_the_clock: bool
    since: dict[Source, float] = field(default_factory=dict)
    _watermark: float = NOTHING
    _told: dict[Source, float] = field(default_factory=dict)

    def look(self, now: float, waiting: int, watermarks: Mapping[Source, float]) -> str | None:
        """Take note of how it is now; returns a line for the log, about each source rarely.

        now: monotonic seconds   waiting: rows whose time no watermark has reached
        watermarks: of each source as received; plus infinity for one that is not waited for
        """
        sources = furthest_behind(watermarks) if waiting else ()
        watermark = watermarks[sources[0]] if sources else NOTHING
        before = self.since if watermark == self._watermark else {}
        self._watermark = watermark
        self.since = {source: before.get(source, now) for source in sources}
        held = self.seconds(now)
        # Only those that the line is about count as told: once the nodes are read, the others are worth one.
        held = {source: s for source, s in held.items() if source.topic is SourceTopic.NODES} or held
        if all(now - self._told.get(source, NOTHING) < TOLD_AGAIN_S for source in held):
            return None
        self._told.update(dict.fromkeys(held, now))
        what = what_holds(tuple(held), watermark, by_the_clock=self.by_the_clock)
        return f"{waiting:,} rows have waited {max(held.values())} s for {what}"

    def seconds(self, now: float) -> dict[Source, int]:
        """For how long each source has held rows back, once that is long."""
        return {source: int(now - since) for source, since in self.since.items() if now - since >= TOLD_AFTER_S}
