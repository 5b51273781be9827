"""The worker: the one place where Kafka, RocksDB and torch meet.

    faust -A stream_tgat worker

`create_app` declares topics, table and agents, which costs little and needs neither a broker nor a release: the other
commands go through it too. A worker checks the topics and loads the serving release before it starts.
"""

import asyncio
import gc
import logging
import os
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from aiokafka.errors import KafkaError

from stream_tgat import __version__
from stream_tgat.agents.checking import Checking, checked_topics
from stream_tgat.agents.cluster import Cluster
from stream_tgat.agents.holding import Holding
from stream_tgat.agents.metrics import Metrics
from stream_tgat.agents.observing import Lags, Observer
from stream_tgat.agents.process_beside import QUERY_SERVICE, RENEWAL, ProcessBeside
from stream_tgat.agents.quality import QualityWatch
from stream_tgat.agents.registry_wait import registered_outputs
from stream_tgat.agents.state_folder import bind_folder, member_of, state_folder
from stream_tgat.agents.telling import CatchingUp, Rates, how_far
from stream_tgat.agents.transactions import OpenTransactions
from stream_tgat.brokers import access_to, silence, wait_for_brokers
from stream_tgat.commands import add_worker_option, register
from stream_tgat.commands.topics import check_topics
from stream_tgat.errors import StreamTgatError
from stream_tgat.message_passing.source_roles import source_topics
from stream_tgat.message_passing.state_identity import commit_note
from stream_tgat.topology import STATE_TABLE, Kafka, Topology
from stream_tgat.transport.application import Application
from stream_tgat.transport.clients import credentials
from stream_tgat.transport.complaints import REPEATED
from stream_tgat.transport.membership import instance_id
from stream_tgat.transport.options import TransportOptions
from stream_tgat.transport.outage import BrokerWatch
from stream_tgat.transport.private_names import require_private_names
from stream_tgat.transport.process import WorkerProcess, end_quietly_on_signals, leave_if_asked, say
from stream_tgat.transport.web import STARTING, StartingPage, show_life, show_readiness

if TYPE_CHECKING:
    from stream_tgat.agents.ingest import Ingest
    from stream_tgat.agents.propagate import Propagate
    from stream_tgat.agents.releases import ModelWatch
    from stream_tgat.metrics.exposition import Exposition
    from stream_tgat.query.endpoint import Endpoint

_log = logging.getLogger(__name__)

METRICS_S = 10.0
SOURCES_S = 5.0
DELETE_S = 60.0
THROTTLE_S = 0.5
HOLDING_S = 1.0
MODELS_S = 1.0
RENEWAL_S = 1.0
QUALITY_S = 10.0
QUERY_S = 1.0
_FAUST_DATADIR = "{conf.name}-data"


class Worker(WorkerProcess):
    """Faust's worker, with our errors as one line and a non-zero exit instead of a traceback."""

    app: "StreamTgat"

    def execute_from_commandline(self) -> NoReturn:
        """Run the application until it is stopped; the last line is the reason, if it stops by itself.

        Where that is for want of a broker, the worker begins anew, and waits for one.
        """
        logging.setLogRecordFactory(_without_our_tracebacks)
        self.begin_log(self.app.topology.log.format)
        end_quietly_on_signals()
        try:
            self._prepare()
            leave_if_asked()
            super().execute_from_commandline()
        except StreamTgatError as error:
            self._begin_anew_without_brokers(error)
            say(f"Error: {error}", logging.ERROR)
            raise SystemExit(1) from None
        finally:
            if self.crash_reason is not None:
                self._begin_anew_without_brokers(self.crash_reason)
            if isinstance(self.crash_reason, StreamTgatError):
                say(f"Error: {self.crash_reason}", logging.ERROR)
        raise SystemExit(1)

    def _prepare(self) -> None:
        page = StartingPage()
        with page.shown(self.app.conf):
            self.app.prepare(partial(self._wait, page), partial(_tell, page))
        # What was loaded stays; and records are many small objects that die young, never in a cycle.
        gc.freeze()
        gc.set_threshold(100_000, 20, 100)
        # Three threads hand each other small pieces of work: the engine's gives way at once, not after 5 ms.
        sys.setswitchinterval(0.0002)

    def _wait(self, page: StartingPage, kafka: Kafka) -> None:
        """Wait for the brokers, and tell so on the page and in the log."""
        wait_for_brokers(kafka, partial(_tell, page))
        page.reason = STARTING
        self.app.broker_watch.meet()

    def _begin_anew_without_brokers(self, error: BaseException) -> None:
        if self.app.topology.kafka.wait_for_brokers_s and self.app.broker_watch.is_to_blame(error):
            self.app.begin_anew(str(error) or repr(error))


def _tell(page: StartingPage, line: str) -> None:
    page.reason = line
    _log.warning("%s", line)


def _without_our_tracebacks(*arguments: Any, **options: Any) -> logging.LogRecord:
    """A log record; an error of ours says all in its message, and the way it has taken through Faust says nothing."""
    record = logging.LogRecord(*arguments, **options)
    if record.exc_info and isinstance(record.exc_info[1], StreamTgatError):
        record.exc_info = None
    return record


class StreamTgat(Application):
    """The application of one deployment."""

    def __init__(self, topology: Topology) -> None:
        self.topology = topology
        self.metrics = Metrics()
        self._holding = Holding(by_the_clock=topology.time.clock == "wall")
        self._rates: Rates
        self._catching_up = CatchingUp(topology.serving.ready_within_s)
        self._lags: Lags | None = None
        self._exposition: Exposition | None = None
        self._ingest: Ingest
        self._propagate: Propagate
        self._cluster: Cluster
        self._models: ModelWatch
        self._quality: QualityWatch
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
            Worker=Worker,
        )
        self.broker_watch = BrokerWatch(self, partial(silence, kafka), begin_anew=self.begin_anew)
        self.table = self.bulk_table(STATE_TABLE, partitions=kafka.partitions)
        self.agent(self.raw_topic(*source_topics(topology)), name="ingest")(self._run_ingest)
        self.agent(self.raw_topic(topics.propagation), name="propagate")(self._run_propagate)
        self._checking = Checking(self, topology, self.metrics)
        self.agent(self.raw_topic(*checked_topics(topology)), name="checking")(self._checking.run)
        self.timer(METRICS_S)(self._report)
        self.timer(SOURCES_S)(self._look_at_sources)
        self.timer(DELETE_S)(self._delete_what_is_done)
        self.timer(THROTTLE_S)(self._look_at_backlog)
        self.timer(HOLDING_S)(self._look_at_holding)
        self.timer(MODELS_S)(self._look_at_models)
        self._transactions = OpenTransactions(self)
        self._renewal = ProcessBeside(RENEWAL, "renews the model")
        # Whether this worker keeps a query service beside it: `worker --with-query`.
        self.with_query = False
        self._endpoint: Endpoint
        self._service = ProcessBeside(QUERY_SERVICE, "answers questions")
        self.timer(QUERY_S)(self._look_at_service)
        if topology.retrain.has_trigger:
            self.timer(RENEWAL_S)(self._look_at_renewal)
        self.timer(QUALITY_S)(self._look_at_quality)
        self.page("/metrics")(show_metrics)
        self.page("/livez")(show_life)
        self.page("/readyz")(show_readiness)

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
        from stream_tgat.agents.ingest import Ingest
        from stream_tgat.agents.propagate import Propagate
        from stream_tgat.agents.releases import ModelWatch, start_serving
        from stream_tgat.agents.throttle import Throttle
        from stream_tgat.message_passing.commit_sizes import check_micro_batch, largest_packet
        from stream_tgat.message_passing.packing import Packer
        from stream_tgat.query.endpoint import Endpoint

        topology, topics = self.topology, self.topology.topics
        _log.info(
            "stream-tgat %s serves %s, with the brokers at %s and its state in %s",
            *(__version__, topology.name, topology.kafka.bootstrap_servers, self.conf.datadir),
        )
        require_private_names()
        wait(topology.kafka)
        ids = check_topics(topology)
        bind_folder(Path(self.conf.datadir), topology, ids)
        if topology.kafka.static_membership:
            read = [*source_topics(topology), *checked_topics(topology), topics.propagation]
            self.conf.consumer_group_instance_id = instance_id(member_of(Path(self.conf.datadir)), read)
        for name in (*source_topics(topology), *checked_topics(topology)):
            self.note_commits(name, commit_note(topology, name, ids))
        schemas = registered_outputs(topology, tell)
        serving = start_serving(topology, self.metrics)
        if not _has_compiled_loops():
            _log.info("Compiling (first start): the first events take half a minute longer, once on this machine")
        max_commit_bytes = self.table.max_commit_bytes
        check_micro_batch(topology, serving.layout, max_commit_bytes)
        max_packet_bytes = largest_packet(topology, serving.layout, max_commit_bytes)
        throttle = Throttle(topology.serving.window_bytes, topology.serving.max_pending)
        self._throttle = throttle
        self._cluster = Cluster(topology.kafka)
        self._quality = QualityWatch(topics.quality, self._cluster)
        self._propagate = Propagate(
            self,
            topology,
            serving.engine,
            serving.version,
            serving.layout,
            self.table,
            self._cluster,
            throttle,
            self.metrics,
            ids,
            schemas,
        )
        self._models = ModelWatch(topology, serving.next_offset, self._cluster, self._propagate, self.metrics)
        packer = Packer(topology, serving.layout, topology.kafka.partitions, max_packet_bytes)
        self._ingest = Ingest(self, topology, packer, throttle, self._propagate, self.metrics)
        self._rates = Rates(time.monotonic())
        self._lags = Lags(self, self._ingest, self.metrics)
        observer = Observer(self, self._lags, self._propagate, self._renewal, self._quality, __version__)
        # It brings a web server of its own, which only a worker has use for.
        from stream_tgat.metrics.exposition import Exposition

        self._exposition = Exposition(observer.samples)
        self._endpoint = Endpoint(topology, self._propagate, self._why_no_answers)
        self.add_listener(self._propagate)
        self.add_listener(self._ingest)
        self.add_listener(self._checking)
        self.read_from(topics.propagation, self._propagate.start_offset)
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

    def begin_anew(self, reason: str) -> None:
        """Replace the process; those beside it end with it."""
        self._renewal.kill()
        self._service.kill()
        super().begin_anew(reason)

    def why_not_ready(self) -> str | None:
        """Why this worker is not ready; None if it is recovered, caught up, and hears a broker."""
        return self.broker_watch.silence or super().why_not_ready() or self._why_behind()

    def _why_no_answers(self) -> str | None:
        """Why this worker may not speak for its partitions; None if it may, also while it is behind: answers say so."""
        return self.broker_watch.silence or super().why_not_ready()

    def _why_behind(self) -> str | None:
        """What is furthest behind, if that is by more than serving.ready_within_s."""
        if self._lags is None:
            return None
        unread = self._lags.unread()
        if unread is not None:
            return f"catching up: {unread.topic}/{unread.partition} has not been read yet"
        worst, limit_s = self._lags.worst(), self.topology.serving.ready_within_s
        if worst is None or worst[1].seconds <= limit_s:
            return None
        return f"catching up: {how_far(*worst)} (serving.ready_within_s = {limit_s:g})"

    def metrics_page(self, accept: str) -> tuple[bytes, str]:
        """What Prometheus reads, and its content type. accept: the header of the request"""
        assert self._exposition is not None, "pages are served once the worker is prepared"  # noqa: S101
        return self._exposition.page(accept)

    async def _run_ingest(self, stream: Any) -> None:
        """Split interactions into half-edges."""
        await self._ingest.run(stream)

    async def _run_propagate(self, stream: Any) -> None:
        """Compute embeddings, and send what is made of them."""
        await self._propagate.run(stream)

    async def _report(self) -> None:
        self.metrics.hanging_transactions = self._transactions.look(self.recovered)
        line = self._rates.look(time.monotonic(), self.metrics)
        if line:
            _log.info("%s", line)

    async def _look_at_sources(self) -> None:
        try:
            await self._propagate.look_at_sources()
        except KafkaError as problem:
            # Partitions are never taken away, so the last look holds until the brokers answer again.
            _log.warning("The sources could not be looked at: %r", problem, extra=REPEATED)

    async def _look_at_backlog(self) -> None:
        topic, mine = self.topology.topics.propagation, self._propagate.committed_offsets
        if len(mine) == self.topology.kafka.partitions:
            return
        try:
            committed = await self._cluster.committed(self.conf.id, topic)
        except KafkaError as problem:
            # The next look is half a second away, and until then the last one holds.
            _log.info("The group's offsets could not be read: %r", problem, extra=REPEATED)
            return
        for partition in range(self.topology.kafka.partitions):
            if partition not in mine:
                self._throttle.read(partition, committed.get(partition, 0))

    async def _look_at_holding(self) -> None:
        now, waiting = time.monotonic(), await self._propagate.waiting()
        self.metrics.due = max(self.metrics.pending - waiting, 0)
        line = self._holding.look(now, waiting, self._propagate.source_watermarks())
        self.metrics.held_back_s = {source: now - since for source, since in self._holding.since.items()}
        if line is not None:
            _log.warning("%s", line)
        news = None if self._lags is None else self._catching_up.look(now, self._lags.worst())
        if news is not None:
            is_warning, line = news
            _log.log(logging.WARNING if is_warning else logging.INFO, "%s", line)

    async def _look_at_models(self) -> None:
        try:
            await self._models.look()
        except KafkaError as problem:
            # The model that serves goes on; the next look is a second away.
            _log.warning("The promotions could not be looked at: %r", problem, extra=REPEATED)

    async def _look_at_renewal(self) -> None:
        # Whoever has partition 0; the lease sees to it that one works where two believe that they have it.
        await self._renewal.look(wanted=0 in self._propagate.committed_offsets)

    async def _look_at_service(self) -> None:
        await self._service.look(wanted=self.with_query)

    async def _look_at_quality(self) -> None:
        try:
            await self._quality.look()
        except KafkaError as problem:
            # Figures of a while ago are still figures; the next look is soon.
            _log.info("The live quality could not be looked at: %r", problem, extra=REPEATED)

    async def _delete_what_is_done(self) -> None:
        topic = self.topology.topics.propagation
        done = {partition: offset + 1 for partition, offset in self._propagate.committed_offsets.items() if offset >= 0}
        try:
            await self._cluster.delete_below(topic, done)
        except KafkaError as problem:
            # What stays longer than needed does no harm; the next attempt deletes it too.
            _log.warning("Records of %s that are done with could not be deleted: %r", topic, problem, extra=REPEATED)


def _has_compiled_loops() -> bool:
    """Whether numba keeps machine code beside our modules; elsewhere it is not looked for."""
    return "NUMBA_CACHE_DIR" in os.environ or any(Path(__file__).parent.rglob("*.nbi"))


async def show_metrics(view: Any, request: Any) -> Any:
    """The page that Prometheus reads."""
    page, content_type = view.app.metrics_page(request.headers.get("Accept", ""))
    return view.bytes(page, headers={"Content-Type": content_type})


def create_app(topology: Topology) -> StreamTgat:
    """The application of a deployment, with the commands beside `worker`."""
    register(topology)
    app = StreamTgat(topology)
    add_worker_option(
        "--with-query", "Keep a query service beside this worker: faust serve.", partial(setattr, app, "with_query")
    )
    return app
