"""The worker: the one place where Kafka, RocksDB and torch meet.

    faust -A stream_tgat worker

`create_app` declares topics, table and agents, which costs little and needs neither a broker nor a release: the other
commands go through it too. A worker checks the topics and loads the serving release before it starts.
"""

import asyncio
import logging
import os
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from stream_tgat import __version__
from stream_tgat.agents.checking import Checking, checked_topics
from stream_tgat.agents.cluster import Cluster
from stream_tgat.agents.metrics import Metrics
from stream_tgat.agents.registry_wait import registered_outputs
from stream_tgat.agents.throttle import Throttle
from stream_tgat.brokers import access_to, silence
from stream_tgat.commands import add_worker_option, register
from stream_tgat.commands.topics import TopicState, check_topics
from stream_tgat.housekeeping.observing import Lags, Observer
from stream_tgat.housekeeping.process_beside import QUERY_SERVICE, RENEWAL, ProcessBeside
from stream_tgat.housekeeping.propagation_topic import PropagationTopic
from stream_tgat.housekeeping.quality import QualityWatch
from stream_tgat.housekeeping.reporting import Reporter
from stream_tgat.housekeeping.state_folder import bind_folder, member_of, state_folder
from stream_tgat.housekeeping.timers import going_on
from stream_tgat.message_passing.source_roles import source_topics
from stream_tgat.message_passing.state_identity import TopicIds, commit_note
from stream_tgat.topology import STATE_TABLE, Kafka, Topology
from stream_tgat.transport.application import Application
from stream_tgat.transport.clients import credentials
from stream_tgat.transport.membership import instance_id
from stream_tgat.transport.options import TransportOptions
from stream_tgat.transport.outage import BrokerWatch
from stream_tgat.transport.private_names import require_private_names
from stream_tgat.transport.process import WorkerProcess
from stream_tgat.transport.web import show_life, show_readiness, shows

if TYPE_CHECKING:
    from stream_tgat.agents.ingest import Ingest
    from stream_tgat.agents.propagate import Propagate
    from stream_tgat.message_passing.release import ServingEngine
    from stream_tgat.query.endpoint import Endpoint
    from stream_tgat.wire import OutputSchemas

_log = logging.getLogger(__name__)

_FAUST_DATADIR: Final = "{conf.name}-data"


class StreamTgat(Application):
    """The application of one deployment."""

    def __init__(self, topology: Topology) -> None:
        self.topology = topology
        self.metrics = Metrics()
        # Whether this worker keeps a query service beside it: `worker --with-query`.
        self.with_query = False
        # Made by `prepare`; other commands do without.
        self._cluster: Cluster
        self._ingest: Ingest
        self._propagate: Propagate
        self._lags: Lags | None = None
        self._endpoint: Endpoint
        kafka, topics = topology.kafka, topology.topics
        access = access_to(kafka)
        super().__init__(
            topology.app_id,
            options=TransportOptions(linger_s=topology.serving.linger_ms / 1000),
            broker=[f"kafka://{server}" for server in access.servers],
            broker_credentials=credentials(access),
            datadir=state_folder(topology.serving.data_dir, topology.app_id),
            topic_partitions=kafka.partitions,
            topic_replication_factor=kafka.replication_factor,
            table_standby_replicas=topology.serving.standby_replicas,
            broker_session_timeout=kafka.session_timeout_s,
            broker_heartbeat_interval=min(1.0, kafka.session_timeout_s / 6),
            # New partitions of `interactions` hold everything back until somebody reads them.
            consumer_metadata_max_age_ms=10_000,
            producer_metadata_max_age_ms=10_000,
            Worker=WorkerProcess,
        )
        self.broker_watch = BrokerWatch(self, partial(silence, kafka), begin_anew=self.begin_anew)
        self.table = self.bulk_table(STATE_TABLE, partitions=kafka.partitions)
        self.agent(self.raw_topic(*source_topics(topology)), name="ingest")(self._run_ingest)
        self.agent(self.raw_topic(topics.propagation), name="propagate")(self._run_propagate)
        self._checking = Checking(self, topology, self.metrics)
        self.agent(self.raw_topic(*checked_topics(topology)), name="checking")(self._checking.run)
        # Renewal goes with partition 0; the lease sees to it that one works where two believe that they have it.
        self._renewal = ProcessBeside(RENEWAL, "renews the model", lambda: 0 in self._propagate.committed_offsets)
        self._service = ProcessBeside(QUERY_SERVICE, "answers questions", lambda: self.with_query)
        self.page("/livez")(show_life)
        self.page("/readyz")(show_readiness)

    async def _run_ingest(self, stream: Any) -> None:
        """Split interactions into half-edges."""
        await self._ingest.run(stream)

    async def _run_propagate(self, stream: Any) -> None:
        """Compute embeddings, and send what is made of them."""
        await self._propagate.run(stream)

    def worker_init(self) -> None:
        """Called by Faust's command line, the last time when it has read its options."""
        super().worker_init()
        wanted = os.environ.get("F_DATADIR", _FAUST_DATADIR)
        if wanted != _FAUST_DATADIR:
            # --datadir: Faust passes it on in this variable, but only after it has made the application.
            self.conf.datadir = state_folder(Path(wanted), self.topology.app_id)

    def prepare(self, wait: Callable[[Kafka], None], tell: Callable[[str], None]) -> None:
        """Check the topics, load the serving release, and wire the agents; a StreamTgatError says what is missing.

        wait: returns when the brokers are there   tell: is given a line while the schema registry is not
        """
        # torch is imported here and not above: commands that need no model start without it.
        from stream_tgat.compiled import is_compiled
        from stream_tgat.housekeeping.releases import start_serving

        topology = self.topology
        _log.info(
            "stream-tgat %s serves %s, with the brokers at %s and its state in %s",
            *(__version__, topology.name, topology.kafka.bootstrap_servers, self.conf.datadir),
        )
        require_private_names()
        wait(topology.kafka)
        found, ids = self._check_topics_and_folder()
        schemas = registered_outputs(topology, tell)
        serving = start_serving(topology, self.metrics)
        if not is_compiled():
            _log.info("Compiling (first start): the first events take half a minute longer, once on this machine")
        self._wire(serving, found, ids, schemas)

    def _check_topics_and_folder(self) -> tuple[Mapping[str, TopicState], TopicIds]:
        topology, folder = self.topology, Path(self.conf.datadir)
        read = (*source_topics(topology), *checked_topics(topology))
        found = check_topics(topology)
        ids = {name: state.id for name, state in found.items() if state.id is not None}
        bind_folder(folder, topology, ids)
        if topology.kafka.static_membership:
            names = [*read, topology.topics.propagation]
            self.conf.consumer_group_instance_id = instance_id(member_of(folder), names)
        for name in read:
            self.note_commits(name, commit_note(topology, name, ids))
        return found, ids

    def _wire(
        self,
        serving: "ServingEngine",
        found: Mapping[str, TopicState],
        ids: TopicIds,
        schemas: "OutputSchemas | None",
    ) -> None:
        """Make the parts of a worker, and tell each of those that it works with."""
        from stream_tgat.agents.engine_thread import EngineThread
        from stream_tgat.agents.ingest import Ingest
        from stream_tgat.agents.propagate import Propagate
        from stream_tgat.agents.sources import Sources
        from stream_tgat.housekeeping.releases import ModelWatch
        from stream_tgat.message_passing.commit_sizes import check_micro_batch, largest_packet
        from stream_tgat.message_passing.packing import Packer

        # They bring web servers of their own, which only a worker has use for.
        from stream_tgat.metrics.exposition import Exposition
        from stream_tgat.query.endpoint import Endpoint

        topology, metrics, layout = self.topology, self.metrics, serving.layout
        check_micro_batch(topology, layout, self.table.max_commit_bytes)
        most = largest_packet(topology, layout, self.table.max_commit_bytes)
        throttle = Throttle(topology.serving.window_bytes, topology.serving.max_pending)
        cluster = self._cluster = Cluster(topology.kafka)
        partitions = {name: state.partitions for name, state in found.items()}
        engine = EngineThread(topology, serving, partitions, ids, schemas, self.table.max_commit_bytes)
        sources = Sources(topology, cluster, ids)
        propagate = self._propagate = Propagate(self, topology, self.table, engine, sources, throttle, metrics)
        packer = Packer(topology, layout, topology.kafka.partitions, most)
        self._ingest = Ingest(self, topology, packer, throttle, propagate, metrics)
        lags = self._lags = Lags(self, self._ingest, metrics)
        quality = QualityWatch(topology.topics.quality, cluster)
        observer = Observer(self, lags, propagate, engine, self._renewal, quality, __version__)
        self.page("/metrics")(shows(Exposition(observer.samples).page))
        self._endpoint = Endpoint(topology, propagate, self._why_no_answers)
        self._read_and_listen()

        topic = PropagationTopic(topology, cluster, propagate, throttle)
        models = ModelWatch(topology, serving.next_offset, cluster, propagate, metrics)
        reporter = Reporter(self, topology, propagate, lags, metrics)
        self.timer(10.0)(reporter.report)
        self.timer(1.0)(reporter.look)
        self.timer(0.5)(going_on(topic.look, "The group's offsets could not be read", logging.INFO))
        self.timer(60.0)(going_on(topic.delete_done, "Records that are done with could not be deleted"))
        self.timer(5.0)(going_on(propagate.look_at_sources, "The sources could not be looked at"))
        self.timer(1.0)(going_on(models.look, "The promotions could not be looked at"))
        self.timer(10.0)(going_on(quality.look, "The live quality could not be looked at", logging.INFO))
        self.timer(1.0)(self._service.look)
        if topology.retrain.has_trigger:
            self.timer(1.0)(self._renewal.look)

    def _read_and_listen(self) -> None:
        """Say where each topic is read from, and who learns which partitions are this worker's."""
        topology = self.topology
        for listener in (self._propagate, self._ingest, self._checking):
            self.add_listener(listener)
        self.read_from(topology.topics.propagation, self._propagate.start_offset)
        for source in source_topics(topology):
            self.read_from(source, self._ingest.start_offset)
        for checked in checked_topics(topology):
            self.read_from(checked, self._checking.start_offset)
            # The stream computes with none of it; training and monitoring read what is left.
            self.pass_over_lost(checked)

    async def on_start(self) -> None:
        """Connect what is not Faust's, then start."""
        if self.topology.kafka.wait_for_brokers_s:
            self.broker_watch.start()
        await self._cluster.start()
        # Before the group is joined, which is told the address.
        self.advertised = await self._endpoint.start()
        await super().on_start()

    async def on_stop(self) -> None:
        """Commit what is left, while the processes beside this one stop too."""
        beside = asyncio.gather(self._renewal.stop(), self._service.stop())
        try:
            await super().on_stop()
        finally:
            await beside

    async def on_shutdown(self) -> None:
        """Disconnect what is not Faust's, when all else has stopped."""
        await super().on_shutdown()
        await self._endpoint.stop()
        await self._cluster.stop()
        if not self.crashed:
            _log.info("Stopped, as asked")

    def begin_anew(self, reason: str) -> None:
        """Replace the process; those beside it end with it."""
        self._renewal.kill()
        self._service.kill()
        super().begin_anew(reason)

    def why_not_ready(self) -> str | None:
        """Why this worker is not ready; None if it is recovered, caught up, and hears a broker."""
        return self._why_no_answers() or (
            None if self._lags is None else self._lags.why_behind(self.topology.serving.ready_within_s)
        )

    def _why_no_answers(self) -> str | None:
        """Why this worker may not speak for its partitions; None if it may, also while it is behind: answers say so."""
        return self.broker_watch.silence or super().why_not_ready()


def create_app(topology: Topology) -> StreamTgat:
    """The application of a deployment, with the commands beside `worker`."""
    register(topology)
    app = StreamTgat(topology)
    add_worker_option(
        "--with-query", "Keep a query service beside this worker: faust serve.", partial(setattr, app, "with_query")
    )
    return app
