"""The release that serves: loaded when a worker starts, watched while it runs. One that is refused changes nothing."""

import asyncio
import logging
from collections.abc import Collection
from typing import Any, Protocol

from stream_tgat.agents.metrics import Metrics
from stream_tgat.engine import Engine
from stream_tgat.errors import ReleaseError, UnreachableStoreError
from stream_tgat.message_passing.release import Ready, ServingEngine, newest_that_can_serve, packet_layout
from stream_tgat.nn.device import chosen_device
from stream_tgat.nn.threads import use_one_thread
from stream_tgat.topology import Topology
from stream_tgat.training.folders import without_user
from stream_tgat.training.promotion import no_release, promotions, promotions_in, reencoded_in

_log = logging.getLogger(__name__)


def start_serving(topology: Topology, metrics: Metrics) -> ServingEngine:
    """Make an engine for the newest release that can serve; ReleaseError says how to make a release."""
    found = promotions(topology)
    if not found:
        raise no_release(topology)
    ready, refusals = newest_that_can_serve(topology, found)
    if ready is None:
        raise refusals[0]
    metrics.refused_releases += len(refusals)
    metrics.release = ready.name
    device = chosen_device(topology.serving.device)
    # Workers are the unit of parallelism; threads of several would only get in each other's way.
    use_one_thread()
    serving, model = topology.serving, ready.model
    engine = Engine(
        model.to(device),
        ready.version,
        id_bytes=topology.id_bytes,
        cache_bytes=serving.cache_bytes,
        alerts=ready.alerts,
        max_wait_s=serving.max_wait_s or None,
        device=device,
    )
    _log.info("Serving release %s as model %d on %s", ready.name, ready.version, device)
    return ServingEngine(ready.version, engine, packet_layout(topology, model), found[-1].version + 1)


class _Promotions(Protocol):
    """What is asked of the brokers: see `Cluster`."""

    async def ends(self, topic: str, partitions: Collection[int]) -> dict[int, int]: ...

    async def read(self, topic: str, partition: int, first: int, end: int) -> list[Any]: ...


class _Partitions(Protocol):
    """What is asked and told of the worker's partitions: see `Propagate`."""

    @property
    def named_model(self) -> int: ...

    def renew(self, ready: Ready) -> None: ...


class ModelWatch:
    """Notices promotions, and has the newest that can serve take over."""

    def __init__(
        self, topology: Topology, next_offset: int, cluster: _Promotions, partitions: _Partitions, metrics: Metrics
    ) -> None:
        """next_offset: of `models`, from which on promotions are new"""
        self._topology = topology
        self._next_offset = next_offset
        self._cluster = cluster
        self._partitions = partitions
        self._metrics = metrics
        self._newest = metrics.model

    async def look(self) -> None:
        """Look whether there is something new, and load it beside the stream; one look at a time.

        Raises ReleaseError if a partition was served elsewhere by a model that cannot be served here: it would wait
        for ever, while another worker could go on with it.
        """
        # Noted before the brokers are asked: what a state names now was promoted before.
        named, topic = self._partitions.named_model, self._topology.topics.models
        end = (await self._cluster.ends(topic, [0]))[0]
        if end > self._next_offset:
            records = await self._cluster.read(topic, 0, self._next_offset, end)
            try:
                ready, refusals = await asyncio.to_thread(newest_that_can_serve, self._topology, promotions_in(records))
            except UnreachableStoreError as problem:
                # It says nothing about the release, and the next look is a second away.
                _log.warning("A new promotion cannot be looked at yet: %s", problem)
                return
            self._next_offset = end
            self._metrics.refused_releases += len(refusals)
            note = reencoded_in(records)
            if note is not None:
                self._metrics.reencoded = note.version
                self._metrics.inexact_peer_embeddings += note.inexact
                _log.info("All rows have been given peer embeddings of model %d", note.version)
            if ready is not None:
                self._newest = ready.version
                self._partitions.renew(ready)
        if named > self._newest:
            raise ReleaseError(
                f"Model {named} has served a partition of this worker, but the newest on {topic!r} that can serve here "
                f"is {self._newest}, and models only follow newer ones. Restore the release in "
                f"{without_user(self._topology.releases.store)}, or promote one: faust -A stream_tgat release promote"
            )
