"""One retraining from end to end: read the log, train, compare with what serves, keep the release, promote it or not.

Whoever calls it sees to it that there is but one at a time, and is told how far it is; nothing here writes to a
terminal.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

from stream_tgat.evaluation.releases.comparison import ModelAnswers, ModelSummary, ask, chance
from stream_tgat.evaluation.releases.part import MeasuredPart, part_for_both
from stream_tgat.nn.model import Model
from stream_tgat.renewal.gate import FEWEST_LINKS, Compared, Decision, Opponent, compare, decide
from stream_tgat.topology import Topology
from stream_tgat.training import pipeline
from stream_tgat.training.epochs import Progress
from stream_tgat.training.promotion import Loaded, newest_loadable, promote, promotions
from stream_tgat.training.reading import LogPart, ReadingProgress, Wanted, read_part
from stream_tgat.training.registry import GateNote, Release, ReleaseCard, ReleaseStore, new_card
from stream_tgat.training.window import Window


@dataclass(frozen=True)
class Asked:
    """What is to be done.

    seed: None for that of the topology   log: None for the newest part, as the topology says
    dry_run: write nothing, neither a release nor a promotion
    """

    seed: int | None = None
    log: Wanted | None = None
    dry_run: bool = False


@dataclass(frozen=True)
class Watcher:
    """Whom to tell how far it is. Every call is optional.

    on_log: what was read   on_measure: (which of the models, questions done, questions in all)
    before_promotion: called when all else is done; raises to keep the new release from being promoted
    """

    on_read: ReadingProgress = field(default=lambda *_: None)
    on_log: Callable[[LogPart], None] = field(default=lambda _: None)
    training: Progress = field(default_factory=Progress)
    on_measure: Callable[[str, int, int], None] = field(default=lambda *_: None)
    before_promotion: Callable[[], None] = field(default=lambda: None)


@dataclass(frozen=True)
class Outcome:
    """What came of it.

    release, store: of the new model; None in a dry run   promoted: whether it serves   version: as which, None if not
    passed: what the gate said, also in a dry run   reason: why, in words
    compared: the figures that the gate looked at   new, serving: all figures; serving is None where none was compared
    serving_release: the other's name   part: what both were measured on   interactions: read
    notes: what went otherwise than asked, in words   seconds: by the clock, all in all
    """

    release: str | None
    store: str | None
    promoted: bool
    version: int | None
    passed: bool
    reason: str
    compared: tuple[Compared, ...]
    new: ModelSummary
    serving: ModelSummary | None
    serving_release: str | None
    part: MeasuredPart
    interactions: int
    learnt_until: float
    seed: int
    notes: tuple[str, ...]
    seconds: float


def retrain_once(topology: Topology, asked: Asked | None = None, watcher: Watcher | None = None) -> Outcome:
    """Train a model on the log and let it serve if the gate says so; see `gate` for the rules.

    Raises StreamTgatError where no model comes of it: too short a log, a training that went astray, a store or broker
    that cannot be used. What serves then goes on serving, as it does for whatever else happens here.
    """
    asked, watcher, begun = asked or Asked(), watcher or Watcher(), time.monotonic()
    part = read_part(topology, asked.log or newest_part(topology), watcher.on_read)
    watcher.on_log(part)
    seed = topology.training.seed if asked.seed is None else asked.seed
    trained = _train(topology, part, seed, watcher)
    meeting = _meet(topology, trained, part, watcher)
    release, version = None, None
    if not asked.dry_run:
        # Who was promoted in the meantime was not compared, and is not to be undone by chance.
        while _newest_version(topology) != meeting.newest_version:
            meeting = _meet(topology, trained, part, watcher)
        store = ReleaseStore(topology.releases.store)
        release = store.save(trained.model, _card(topology, part, trained, meeting, seed))
        if meeting.decision.promote:
            version = _promote(topology, store, release, watcher)
    return Outcome(
        release=None if release is None else release.name,
        store=None if release is None else release.store,
        promoted=version is not None,
        version=version,
        passed=meeting.decision.promote,
        reason=meeting.decision.reason,
        compared=meeting.compared,
        new=meeting.new,
        serving=meeting.theirs,
        serving_release=meeting.serving_name,
        part=meeting.part,
        interactions=len(part.log.interactions),
        learnt_until=trained.learnt_until,
        seed=seed,
        notes=(*part.missing, *meeting.notes),
        seconds=time.monotonic() - begun,
    )


def newest_part(topology: Topology) -> Wanted:
    """What the topology says to learn from."""
    wanted = topology.retrain
    return Wanted(window=Window(wanted.window_s, wanted.window_interactions or None))


def _train(topology: Topology, part: LogPart, seed: int, watcher: Watcher) -> pipeline.Trained:
    """On all but what is held out for the comparison."""
    training = topology.training.model_copy(update={"test_share": topology.retrain.held_out})
    apart = topology.model_copy(update={"training": training})
    links = pipeline.limited(pipeline.link_settings(apart), None, seed)
    heads = replace(pipeline.head_settings(apart), seed=seed)
    return pipeline.train(apart, part.log, links, heads, watcher.training)


@dataclass(frozen=True, eq=False)
class _Meeting:
    """The new model and the one that serves, measured on the same interactions, and what the gate says.

    newest_version: of the promotions that were looked at, −1 for none   notes: what a reader should know, in words
    """

    newest_version: int
    serving: Loaded | None
    notes: tuple[str, ...]
    part: MeasuredPart
    new: ModelSummary
    theirs: ModelSummary | None
    compared: tuple[Compared, ...]
    decision: Decision

    @property
    def serving_name(self) -> str | None:
        """The release that serves."""
        return None if self.serving is None else self.serving.release.name


def _meet(topology: Topology, trained: pipeline.Trained, read: LogPart, watcher: Watcher) -> _Meeting:
    found = promotions(topology)
    serving, refused = newest_loadable(topology, found, any_heads=True)
    part = part_for_both(
        read.log.interactions.time, trained.learnt_until, None if serving is None else serving.release, FEWEST_LINKS
    )

    def answers_of(which: str, model: Model) -> ModelAnswers:
        def on_questions(done: int, total: int) -> None:
            watcher.on_measure(which, done, total)

        # The topology's seed, whatever training's is: the same part of the log asks every model the same.
        return ask(model, read.log, part, topology.heads, topology.training.seed, on_questions)

    mine = answers_of("new", trained.model)
    theirs = None if serving is None else answers_of("serving", serving.model)
    new, other = mine.summary(), None if theirs is None else theirs.summary()
    compared = compare(new, other, None if theirs is None else chance(mine, theirs), topology.retrain)
    return _Meeting(
        found[-1].version if found else -1,
        serving,
        (
            *(f"model {promotion.version} cannot serve: {problem}" for promotion, problem in refused),
            *_of_other_heads(topology, serving),
        ),
        part,
        new,
        other,
        compared,
        decide(compared, _opponent(serving), topology.retrain),
    )


def _of_other_heads(topology: Topology, serving: Loaded | None) -> Iterator[str]:
    if serving is not None and serving.release.card.config.head_names != topology.head_names:
        theirs = ", ".join(serving.release.card.config.head_names) or "none"
        yield f"{serving.release.name} has other heads ({theirs}): compared on the links and on the heads of both"


def _newest_version(topology: Topology) -> int:
    found = promotions(topology)
    return found[-1].version if found else -1


def _opponent(serving: Loaded | None) -> Opponent:
    if serving is None:
        return "none"
    return "untrained" if serving.release.card.is_untrained else "trained"


def _card(topology: Topology, part: LogPart, trained: pipeline.Trained, meeting: _Meeting, seed: int) -> ReleaseCard:
    return new_card(
        topology,
        trained.model.config,
        manifest=part.manifest,
        log_since=part.since,
        metrics={**trained.figures(), **meeting.new.by_name()},
        serving_metrics=None if meeting.theirs is None else meeting.theirs.by_name(),
        parent=meeting.serving_name,
        seed=seed,
        learnt_until=trained.learnt_until,
        gate=GateNote(
            passed=meeting.decision.promote,
            reason=meeting.decision.reason,
            serving=meeting.serving_name,
            begin=meeting.part.begin,
            end=meeting.part.end,
            interactions=meeting.part.count,
            note=meeting.part.note,
        ),
    )


def _promote(topology: Topology, store: ReleaseStore, release: Release, watcher: Watcher) -> int:
    """Promote what the store gives back, if it can serve: not what was in memory when it was written."""
    _, kept = store.load(release.name, release.hash)
    watcher.before_promotion()
    return promote(topology, kept).version
