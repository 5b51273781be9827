"""What the page and those who watch ask for: told from what the service has seen, without asking workers."""

from __future__ import annotations

import asyncio
import logging
import math
import threading
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final

import numpy as np
from kafka.errors import KafkaError
from pydantic import BaseModel

from stream_tgat.client import Alert
from stream_tgat.errors import StreamTgatError
from stream_tgat.query.catalog import Catalog
from stream_tgat.query.watching import watched
from stream_tgat.query.watching.alert_log import Judged
from stream_tgat.query.watching.broadcast import Broadcast
from stream_tgat.query.watching.lag import Behind, LagReader
from stream_tgat.query.watching.memory import Memory, News
from stream_tgat.query.watching.moments import RememberedMoment
from stream_tgat.query.watching.projection import Projection, Projections
from stream_tgat.topology import Kind, Topology
from stream_tgat.training.promotion import Promotion, promoted_card, promotions

_log = logging.getLogger(__name__)

_TICK_S: Final = 0.25
_PULSE_S: Final = 1.0
_LAG_S: Final = 2.0
_RELEASES_S: Final = 5.0


class Watching:
    """Watches one deployment. `run` it beside the answers, so that `news` is told."""

    def __init__(
        self,
        topology: Topology,
        memory: Memory,
        catalog: Catalog,
        unanswered: Callable[[], Awaitable[str | None]] | None = None,
        promoted: Callable[[], list[Promotion]] | None = None,
    ) -> None:
        """unanswered: why some nodes have nobody who answers for them   promoted: reads topic `models`"""
        self._unanswered = unanswered
        self._why: str | None = None
        self._promoted = promoted or (lambda: promotions(topology))
        self._topology = topology
        self._catalog = catalog
        self.memory = memory
        self.projections = Projections(memory.remembered)
        self.news = Broadcast()
        self._behind: Behind | None = None
        self._releases: watched.ReleaseList | None = None
        self._releases_at = -math.inf
        self._reading_releases = threading.Lock()

    # Answers

    def alerts(
        self, limit: int, user: str | None = None, head: str | None = None, came_true: bool | None = None
    ) -> watched.Alerts:
        """The newest alerts."""
        found = self.memory.alerts.newest(limit, user, head, came_true)
        return watched.Alerts(alerts=[_alert(each) for each in found], raised=self.memory.alerts.raised)

    def names(self, prefix: str, kind: Kind | None, limit: int) -> watched.Names:
        """Nodes whose ids begin with a text."""
        found = self.memory.remembered.names(prefix, kind, limit)
        return watched.Names(nodes=[watched.NodeRef(kind=each, id=node_id) for each, node_id in found])

    def history(self, kind: Kind, node_id: str, limit: int) -> watched.History:
        """What was said of a node."""
        moments = self.memory.remembered.moments(self.memory.name(kind, node_id), limit)
        span = self.memory.remembered.span()
        return watched.History(
            kind=kind,
            id=node_id,
            moments=self._as_json(moments),
            remembered_since=None if span is None else span[0],
        )

    def map(self, at: float | None, limit: int) -> watched.Map:
        """Nodes on a plane as of a time."""
        remembered, plane = self.memory.remembered, self.projections.newest()
        span = remembered.span()
        since, until = (None, None) if span is None else span
        heads = list(self._topology.head_names)
        if plane is None:
            return watched.Map(
                model=None,
                time=at,
                since=since,
                until=until,
                nodes=remembered.nodes,
                fitted_on=0,
                share=0.0,
                heads=heads,
                places=[],
            )
        found = remembered.as_of(math.inf if at is None else at, limit, plane.model)
        places = plane.place(found.vector).astype(np.float64).round(5).tolist()
        communities = plane.community(found.vector).tolist() if len(found.vector) else []
        return watched.Map(
            model=plane.model,
            time=at,
            since=since,
            until=until,
            nodes=remembered.nodes,
            fitted_on=plane.fitted_on,
            share=plane.share,
            heads=heads,
            places=[
                watched.Place(
                    kind=kind,
                    id=node_id,
                    x=x,
                    y=y,
                    time=float(found.time[n]),
                    community=communities[n],
                    predictions=self._by_head(found.predictions[n]),
                )
                for n, ((kind, node_id), (x, y)) in enumerate(zip(found.name, places, strict=True))
            ],
        )

    def releases(self) -> watched.ReleaseList:
        """All that was promoted, newest first; read anew after a few seconds."""
        with self._reading_releases:
            if self._releases is None or time.monotonic() - self._releases_at > _RELEASES_S:
                found = self._promoted()
                self._releases = watched.ReleaseList(
                    releases=[self._release(each, serves=each is found[-1]) for each in reversed(found)]
                )
                self._releases_at = time.monotonic()
        return self._releases

    def pulse(self) -> watched.Pulse:
        """How the stream does now."""
        speed, behind, memory = self.memory.flow.speed(), self._behind, self.memory
        return watched.Pulse(
            at=time.time(),
            interactions_per_s=speed.per_s,
            by_second=speed.by_second,
            latency_p50_ms=_ms(speed.latency_p50_s),
            latency_p99_ms=_ms(speed.latency_p99_s),
            latencies=speed.latencies,
            alerts=memory.alerts.raised,
            event_time=memory.event_time,
            model=memory.model,
            nodes=memory.remembered.nodes,
            unread=self._catalog.behind,
            sources=[]
            if behind is None
            else [
                watched.SourceState(
                    name=each.name, behind=each.behind, watermark=each.watermark, blocks=each.name in behind.blocking
                )
                for each in behind.sources
            ],
            waiting=0 if behind is None else behind.waiting,
            held=None if behind is None else behind.sentence,
            unanswered=self._why,
            readers=self.news.readers,
        )

    # News

    async def run(self) -> None:
        """Tell the readers of `news` what happens, for ever."""
        looking = asyncio.create_task(self._look_around())
        told_at = 0.0
        try:
            while True:
                await asyncio.sleep(_TICK_S)
                news = self.memory.news()
                if not self.news.readers:
                    continue
                self._tell(news)
                if time.monotonic() - told_at >= _PULSE_S:
                    told_at = time.monotonic()
                    self._send("pulse", self.pulse())
        finally:
            looking.cancel()
            with suppress(asyncio.CancelledError):
                await looking

    def _tell(self, news: News) -> None:
        if news.interactions:
            happened = [watched.Happened(user=each.user, item=each.item, time=each.time) for each in news.interactions]
            self._send("interactions", watched.Happenings(interactions=happened, left_out=news.left_out))
        for alert in news.alerts:
            self._send("alert", _alert(Judged(alert, None, None)))
        if news.report is not None:
            self._send("quality", news.report)

    def _send(self, kind: watched.EventKind, content: BaseModel) -> None:
        self.news.send(kind, content.model_dump_json())

    async def _look_around(self) -> None:
        """See, while anybody looks, how far workers are behind, and that there is a map before it is asked for."""
        lag: LagReader | None = None
        try:
            while True:
                if self.news.readers:
                    self._why = await self._unanswered() if self._unanswered is not None else None
                    try:
                        if lag is None:
                            lag = await asyncio.to_thread(LagReader, self._topology)
                        self._behind = await asyncio.to_thread(lag.look)
                    except (KafkaError, StreamTgatError) as problem:
                        _log.warning("How far workers are behind cannot be asked: %s", problem)
                        self._behind = None
                    await asyncio.to_thread(self.projections.newest)
                await asyncio.sleep(_LAG_S)
        finally:
            if lag is not None:
                lag.close()

    # Parts of answers

    def _by_head(self, said: np.ndarray) -> dict[str, float]:
        return {
            name: probability
            for name, probability in zip(self._topology.head_names, said.tolist(), strict=True)
            if math.isfinite(probability)
        }

    def _as_json(self, moments: list[RememberedMoment]) -> list[watched.Moment]:
        plane, told = self.projections.known, []
        before: RememberedMoment | None = None
        for each in moments:
            x, y = _place(plane, each)
            told.append(
                watched.Moment(
                    interaction=each.interaction,
                    peer=each.peer,
                    time=each.time,
                    predictions=self._by_head(each.predictions),
                    model=each.model,
                    late=each.late,
                    x=x,
                    y=y,
                    moved=None if before is None or before.model != each.model else _moved(before, each),
                )
            )
            before = each
        return told

    def _release(self, promotion: Promotion, *, serves: bool) -> watched.ReleaseInfo:
        name, version = promotion.record.release, promotion.version
        try:
            card = promoted_card(self._topology, promotion)
        except (StreamTgatError, OSError, ValueError) as problem:
            return watched.ReleaseInfo(
                version=version,
                release=name,
                serves=serves,
                created=None,
                parent=None,
                learnt_until=None,
                metrics={},
                decision=None,
                rules=None,
                problem=str(problem),
            )
        gate = card.gate
        return watched.ReleaseInfo(
            version=version,
            release=name,
            serves=serves,
            created=card.created.isoformat(),
            parent=card.parent,
            learnt_until=card.learnt_until,
            metrics={name: _or_none(value) for name, value in card.metrics.items()},
            decision=None
            if gate is None
            else watched.Decision(
                passed=gate.passed, reason=gate.reason, serving=gate.serving, interactions=gate.interactions
            ),
            rules=None if card.rules is None else card.rules.sentence,
            problem=None,
        )


def _alert(judged: Judged) -> watched.RaisedAlert:
    alert: Alert = judged.alert
    return watched.RaisedAlert(
        id=alert.id,
        user=alert.node,
        item=alert.peer,
        interaction=alert.interaction,
        head=alert.head,
        probability=alert.probability,
        threshold=alert.threshold,
        time=alert.timestamp,
        model=alert.model,
        because=[
            watched.Because(interaction=each.interaction, peer=each.peer, time=each.time, weight=each.weight)
            for each in alert.because
        ],
        came_true=judged.came_true,
        known_at=judged.known_at,
    )


def _place(plane: Projection | None, moment: RememberedMoment) -> tuple[float | None, float | None]:
    if plane is None or plane.model != moment.model:
        return None, None
    ((x, y),) = plane.place(moment.vector[None]).tolist()
    return x, y


def _moved(before: RememberedMoment, now: RememberedMoment) -> float:
    length = float(np.linalg.norm(before.vector) * np.linalg.norm(now.vector))
    return max(1.0 - float(before.vector @ now.vector) / length, 0.0) if length else 0.0


def _ms(seconds: float | None) -> float | None:
    return None if seconds is None else 1e3 * seconds


def _or_none(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None
