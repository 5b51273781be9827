"""What `retrain` does without `--now`: keep the model new for as long as it is left running.

It looks, again and again, whether rows wait for peer embeddings of the model that serves, whether a retraining is due,
and how good the serving model is. For the first two it takes the lease, so that one process in the whole cluster is at
it. All that must be remembered is in the log and in the release store, so whoever comes next, after whatever end, goes
on.
"""

import logging
import math
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Literal
from uuid import UUID

from kafka.errors import KafkaError

from stream_tgat.errors import StreamTgatError, UnreachableStoreError
from stream_tgat.monitoring.monitor import Monitor
from stream_tgat.monitoring.publishing import Publisher
from stream_tgat.renewal.lease import HeldError, Lease, LostError
from stream_tgat.renewal.reencoding import ReencodingCallbacks, SupersededError, look, reencode
from stream_tgat.renewal.retrain import RetrainCallbacks, retrain_once
from stream_tgat.renewal.schedule import CardAndLiveAuc, LastTraining, due
from stream_tgat.topology import Topology
from stream_tgat.training.card import ReleaseCard
from stream_tgat.training.epochs import Epoch, TrainingCallbacks
from stream_tgat.training.kafka_log import topic_ids, topic_range
from stream_tgat.training.log_part import LogPart
from stream_tgat.training.promotion import promoted_card, promotions
from stream_tgat.training.registry import ReleaseStore
from stream_tgat.training.served import ServedReleases
from stream_tgat.wire import QualityReport

_log = logging.getLogger(__name__)

Work = Literal["training", "re-encoding"]

LOOK_S = 5.0
_WAIT_S = 5.0


def follow(topology: Topology) -> None:
    """Renew the model for ever; whatever goes wrong is told in the log, and tried again."""
    _log.info("This process renews the model of %s", topology.name)
    while True:
        try:
            _Following(topology).run()
        except (StreamTgatError, KafkaError, OSError) as problem:
            _log.error("The model cannot be watched now: %s", problem or repr(problem))
        time.sleep(_WAIT_S)


class _Following:
    """What is done again and again."""

    def __init__(self, topology: Topology) -> None:
        self._topology = topology
        self._trainings = _Trainings(topology)
        self._serving: tuple[int, ReleaseCard] | None = None
        self._not_before = 0.0
        # Tells everybody what is begun, since nothing else is told until it is done.
        self._at_work: Callable[[Work], None] = lambda _: None
        # Where `models` ended when no peer embeddings were owed, and until when that needs no other look.
        self._looked_at, self._look_again_at = -1, 0.0

    def run(self) -> None:
        """For ever."""
        topology = self._topology
        with (
            Monitor(topology, ServedReleases(topology)) as monitor,
            Publisher(topology) as publisher,
        ):
            report = None

            def at_work(what: Work) -> None:
                publisher.publish(monitor.report().model_copy(update={"renewal": what}))

            self._at_work = at_work
            while True:
                self._try(self._reencode)
                self._try(partial(self._retrain, report))
                monitor.look(LOOK_S)
                report = monitor.report()
                publisher.publish(report)

    def _try(self, work: Callable[[], None]) -> None:
        """Do what is to be done, unless somebody else is at it; after a failure, not again for a while."""
        if time.time() < self._not_before:
            return
        try:
            work()
        except HeldError as held:
            _log.debug("%s", held)
        except SupersededError as newer:
            _log.info("Re-encoding is given up: %s", newer)
        except LostError as lost:
            _log.warning("%s", lost)
        except (StreamTgatError, KafkaError, OSError) as problem:
            self._not_before = time.time() + max(self._topology.retrain.rest_s, _WAIT_S)
            _log.error("The model could not be renewed: %s", problem or repr(problem))

    def _reencode(self) -> None:
        _, end = topic_range(self._topology, self._topology.topics.models)[0]
        if end == self._looked_at and time.time() < self._look_again_at:
            return
        found = look(self._topology)
        if found.ready is None:
            # What cannot be loaded now may be there later, with no new promotion to tell of it.
            pause = max(self._topology.retrain.rest_s, _WAIT_S) if found.refused else math.inf
            self._looked_at, self._look_again_at = end, time.time() + pause
            return
        with Lease(self._topology) as lease:
            ready = look(self._topology).ready  # whoever had the lease before may have done it
            if ready is None:
                return

            self._at_work("re-encoding")

            def check(*_: object) -> None:
                lease.check()

            def at_stage(what: str) -> None:
                _log.info("Re-encoding: %s", what)
                lease.check()

            record = reencode(self._topology, ready, told=ReencodingCallbacks(at_stage, check, check, check))
        _log.info(
            "All rows have peer embeddings of model %d: %d were sent, made of %d interactions%s",
            record.version,
            record.peer_embeddings,
            record.interactions,
            "; they may differ, as the log is cut at its beginning" if record.inexact else "",
        )

    def _retrain(self, report: QualityReport | None) -> None:
        if not self._due(report):
            return
        with Lease(self._topology) as lease:
            reason = self._due(report)  # whoever had the lease before may have done it
            if not reason:
                return
            _log.info("Retraining: %s", reason)
            self._at_work("training")
            outcome = retrain_once(self._topology, watcher=_watcher(lease))
        _log.info("Beside simple rules, on what it had not learnt from: %s", outcome.rules.sentence)
        if outcome.promoted:
            _log.info("Release %s serves as model %d: %s", outcome.release, outcome.version, outcome.reason)
        else:
            _log.warning("Release %s is kept, and does not serve: %s", outcome.release, outcome.reason)

    def _due(self, report: QualityReport | None) -> str:
        topology, topics = self._topology, self._topology.input_topics("interactions")
        ends = {(topic, p): end for topic in topics for p, (_, end) in topic_range(topology, topic).items()}
        last = self._trainings.newest(topic_ids(topology, topics))
        return due(topology.retrain, last, time.time(), ends, self._heads(report))

    def _heads(self, report: QualityReport | None) -> tuple[CardAndLiveAuc, ...]:
        """What the card of the serving model card_auc, beside what it keeps."""
        if report is None or report.model is None or not self._topology.retrain.auc_drop:
            return ()
        if self._serving is None or self._serving[0] != report.model:
            found = [each for each in promotions(self._topology) if each.version == report.model]
            if not found:
                return ()
            self._serving = report.model, promoted_card(self._topology, found[0])
        card, heads = self._serving[1], []
        for head in report.heads:
            live, card_auc = head.by_model.get(report.model), card.newest(f"heads.{head.head}", "auc")
            if card_auc is not None and live is not None and live.auc is not None and live.base_rate is not None:
                rarer = round(live.count * min(live.base_rate, 1.0 - live.base_rate))
                heads.append(CardAndLiveAuc(head.head, card_auc, live.auc, rarer))
        return tuple(heads)


class _Trainings:
    """The releases that were trained from the log; a card is read once."""

    def __init__(self, topology: Topology) -> None:
        self._store = ReleaseStore(topology.releases.store)
        self._topics = topology.input_topics("interactions")
        self._cards: dict[str, ReleaseCard] = {}

    def newest(self, ids: Mapping[str, UUID] | None = None) -> LastTraining | None:
        """The newest of them. ids: of topics now; what ends in another topic of the same name ends nowhere"""
        ids = ids or {}
        for name in reversed(self._store.names()):
            if name not in self._cards:
                try:
                    self._cards[name] = self._store.find(name).card
                except UnreachableStoreError:
                    raise  # an older card in its place would say that a training is due
                except StreamTgatError as problem:
                    _log.warning("Passed over: %s", problem)
                    continue
            card = self._cards[name]
            if card.manifest:
                ends = {
                    (topic, int(partition)): end
                    for topic in self._topics
                    if topic not in ids or card.topic_ids.get(topic, ids[topic]) == ids[topic]
                    for partition, (_, end) in card.manifest.get(topic, {}).items()
                }
                return LastTraining(name, card.created.timestamp(), ends)
        return None


def _watcher(lease: Lease) -> RetrainCallbacks:
    """Tells the log how far it is, and ends what is no longer ours to do."""

    def check(*_: object) -> None:
        lease.check()

    def on_epoch(epoch: Epoch) -> None:
        _log.info("Epoch %d: validation AP %.3f", epoch.number + 1, epoch.average_precision)

    refits = 0

    def on_refit(*_: object) -> None:
        nonlocal refits
        refits += 1
        if refits == 1:
            _log.info("The gate has passed; another model learns from all of the log, to serve")
        lease.check()

    return RetrainCallbacks(
        on_read=check,
        on_log=_tell_log,
        training=TrainingCallbacks(on_batch=check, on_epoch=on_epoch),
        refitting=TrainingCallbacks(on_batch=on_refit),
        on_measure=check,
        before_promotion=lease.check,
    )


def _tell_log(part: LogPart) -> None:
    _log.info("%d interactions were read", len(part.log.interactions))
    for unmatched in part.log.unmatched:
        _log.warning("Not used: %s", unmatched)
