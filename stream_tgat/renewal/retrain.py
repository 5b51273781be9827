"""One retraining from end to end: read the log, train, compare with what serves, keep the release, promote it or not.

Whoever calls it sees to it that there is but one at a time, and is told how far it is; nothing here writes to a
terminal.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial

from stream_tgat.evaluation.beside_rules import beside_rules
from stream_tgat.evaluation.comparison import FEWEST_LINKS, ModelAnswers, ModelSummary, ask, chance
from stream_tgat.evaluation.measured_part import MeasuredPart, part_for_both
from stream_tgat.nn.model import Model
from stream_tgat.renewal import gate
from stream_tgat.renewal.gate import Best, Compared, Comparison, GateDecision, Opponent, compare, decide, flaw
from stream_tgat.renewal.opponents import Opponents, opponents
from stream_tgat.topology import Topology
from stream_tgat.training import pipeline
from stream_tgat.training.epochs import TrainingCallbacks
from stream_tgat.training.fitting import HeadSettings
from stream_tgat.training.links import LinkSettings
from stream_tgat.training.log_part import LogPart, ReadingProgress, Wanted, read_part
from stream_tgat.training.promotion import promote, promotions
from stream_tgat.training.registry import GateNote, Release, ReleaseCard, ReleaseStore, RulesNote, new_card, now
from stream_tgat.training.window import Window


@dataclass(frozen=True)
class RetrainRequest:
    """What is to be done.

    seed: None for that of the topology   log: None for the newest part, as the topology says
    dry_run: write nothing, neither a release nor a promotion
    """

    seed: int | None = None
    log: Wanted | None = None
    dry_run: bool = False


@dataclass(frozen=True)
class RetrainCallbacks:
    """Whom to tell how far it is. Every call is optional.

    on_log: what was read   on_measure: (which of the models, questions done, questions in all)
    training: of the model that is measured   refitting: of the one that serves, on all of the log
    before_promotion: called when all else is done; raises to keep the new release from being promoted
    """

    on_read: ReadingProgress = field(default=lambda *_: None)
    on_log: Callable[[LogPart], None] = field(default=lambda _: None)
    training: TrainingCallbacks = field(default_factory=TrainingCallbacks)
    refitting: TrainingCallbacks = field(default_factory=TrainingCallbacks)
    on_measure: Callable[[str, int, int], None] = field(default=lambda *_: None)
    before_promotion: Callable[[], None] = field(default=lambda: None)


@dataclass(frozen=True)
class RetrainResult:
    """What came of it.

    release, store: of the new model; None in a dry run   promoted: whether it serves   version: as which, None if not
    measured: the release that figures and gate speak of, where the new one was refitted after it; else None
    passed: what the gate said, also in a dry run   reason: why, in words
    rules: the new model beside the best simple rules   compared: the figures that the gate looked at
    new, serving: all figures; serving is None where none was compared
    serving_release: the other's name   part: what both were measured on   interactions: read
    learnt_until: unix seconds, of the new model as it serves, or would
    notes: what went otherwise than asked, in words   seconds: by the clock, all in all
    """

    release: str | None
    store: str | None
    measured: str | None
    promoted: bool
    version: int | None
    passed: bool
    reason: str
    rules: RulesNote
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


def retrain_once(
    topology: Topology, asked: RetrainRequest | None = None, watcher: RetrainCallbacks | None = None
) -> RetrainResult:
    """Train a model on the log and let it serve if the gate says so; see `gate` for the rules.

    Raises StreamTgatError where no model comes of it: too short a log, a training that went astray, a store or broker
    that cannot be used. What serves then goes on serving, as it does for whatever else happens here.
    """
    asked, watcher, begun = asked or RetrainRequest(), watcher or RetrainCallbacks(), time.monotonic()
    part = read_part(topology, asked.log or newest_part(topology), watcher.on_read)
    watcher.on_log(part)
    seed = topology.training.seed if asked.seed is None else asked.seed
    trained = _train(topology, part, seed, watcher)
    meeting = _meet(topology, trained.model, trained.learnt_until, part, watcher)
    release, measured, version, refitted = None, None, None, None
    while not asked.dry_run:
        if meeting.decision.promote and topology.retrain.refit and refitted is None:
            refitted = _refit(topology, trained, part, meeting, seed, watcher)
        if _newest_version(topology) == meeting.opponents.newest_version:
            break
        # Who was promoted in the meantime was not compared, and is not to be undone by chance.
        meeting = _meet(topology, trained.model, trained.learnt_until, part, watcher)
    if not asked.dry_run:
        store = ReleaseStore(topology.releases.store)
        card = _card(topology, part, trained, meeting, seed)
        release = store.save(trained.model, card)
        if meeting.decision.promote and refitted is not None and not refitted.problem:
            measured = release
            update = {"created": now(), "measured": measured.name, "learnt_until": refitted.learnt_until}
            release = store.save(refitted.model, card.model_copy(update=update))
        if meeting.decision.promote:
            version = _promote(topology, store, release, watcher)
    return RetrainResult(
        release=None if release is None else release.name,
        store=None if release is None else release.store,
        measured=None if measured is None else measured.name,
        promoted=version is not None,
        version=version,
        passed=meeting.decision.promote,
        reason=meeting.decision.reason,
        rules=meeting.rules,
        compared=meeting.comparison.figures,
        new=meeting.new,
        serving=meeting.theirs,
        serving_release=meeting.opponents.serving_name,
        part=meeting.part,
        interactions=len(part.log.interactions),
        learnt_until=trained.learnt_until if release is None else release.card.learnt_until or trained.learnt_until,
        seed=seed,
        notes=(*part.missing, *meeting.opponents.notes, *_of_refit(refitted)),
        seconds=time.monotonic() - begun,
    )


def newest_part(topology: Topology) -> Wanted:
    """What the topology says to learn from."""
    wanted = topology.retrain
    return Wanted(window=Window(wanted.window_s, wanted.window_interactions or None))


@dataclass(frozen=True)
class _Recipe:
    """How a model is trained, but for the part of the log."""

    topology: Topology
    links: LinkSettings
    heads: HeadSettings


def _recipe(topology: Topology, seed: int) -> _Recipe:
    """All but what is held out for the comparison is learnt from."""
    training = topology.training.model_copy(update={"test_share": topology.retrain.held_out})
    apart = topology.model_copy(update={"training": training})
    links = pipeline.limited(pipeline.link_settings(apart), None, seed)
    return _Recipe(apart, links, replace(pipeline.head_settings(apart), seed=seed))


def _train(topology: Topology, part: LogPart, seed: int, watcher: RetrainCallbacks) -> pipeline.Trained:
    recipe = _recipe(topology, seed)
    return pipeline.train(recipe.topology, part.log, recipe.links, recipe.heads, watcher.training)


@dataclass(frozen=True, eq=False)
class _Refit:
    """A model that has learnt from all of the log. problem: why it must not serve, in words; empty if it may"""

    model: Model
    learnt_until: float
    problem: str


def _refit(
    topology: Topology,
    trained: pipeline.Trained,
    read: LogPart,
    meeting: "_Meeting",
    seed: int,
    watcher: RetrainCallbacks,
) -> _Refit:
    """Nothing is left to measure it on, but what it has learnt it must not answer worse than a model that has not."""
    recipe = _recipe(topology, seed)
    made = pipeline.refit(recipe.topology, read.log, trained, recipe.links, recipe.heads, watcher.refitting)
    answers = _ask(topology, "refitted", made.model, read, meeting.part, watcher)
    return _Refit(made.model, made.learnt_until, flaw(_compared(topology, answers, meeting.mine), topology.retrain))


def _of_refit(refitted: _Refit | None) -> Iterator[str]:
    if refitted is not None and refitted.problem:
        yield (
            "the measured model is taken, and not its refit on all of the log, which did not answer as well what it "
            f"had learnt: {refitted.problem}"
        )


@dataclass(frozen=True, eq=False)
class _Meeting:
    """The new model and the one that serves, measured on the same interactions, and what the gate says."""

    opponents: Opponents
    part: MeasuredPart
    mine: ModelAnswers
    theirs: ModelSummary | None
    comparison: Comparison
    rules: RulesNote
    decision: GateDecision

    @property
    def new(self) -> ModelSummary:
        """Figures of the new model."""
        return self.mine.summary()


def _meet(topology: Topology, model: Model, learnt_until: float, read: LogPart, watcher: RetrainCallbacks) -> _Meeting:
    others = opponents(topology, promotions(topology))
    serving, best = others.serving, others.best
    part = part_for_both(
        read.log.interactions.time, learnt_until, None if serving is None else serving.release, FEWEST_LINKS
    )
    mine = _ask(topology, "new", model, read, part, watcher)
    theirs = None if serving is None else _ask(topology, "serving", serving.model, read, part, watcher)
    comparison = _compared(topology, mine, theirs)
    held_against = None
    if best is not None:
        their_best = _ask(topology, "best", best.model, read, part, watcher)
        held_against = Best(others.best_name or best.release.name, _compared(topology, mine, their_best))
    rules = beside_rules(mine, read.log, part, topology)
    decision = decide(comparison, _opponent(others), topology.retrain, held_against)
    decision = gate.beside_rules(decision, rules, topology.retrain)
    return _Meeting(others, part, mine, None if theirs is None else theirs.summary(), comparison, rules, decision)


def _ask(
    topology: Topology, which: str, model: Model, read: LogPart, part: MeasuredPart, watcher: RetrainCallbacks
) -> ModelAnswers:
    """The topology's seed, whatever training's is: the same part of the log asks every model the same."""
    return ask(model, read.log, part, topology.heads, topology.training.seed, partial(watcher.on_measure, which))


def _compared(topology: Topology, mine: ModelAnswers, theirs: ModelAnswers | None) -> Comparison:
    if theirs is None:
        return compare(mine.summary(), None, None, topology.retrain)
    return compare(mine.summary(), theirs.summary(), chance(mine, theirs), topology.retrain)


def _newest_version(topology: Topology) -> int:
    found = promotions(topology)
    return found[-1].version if found else -1


def _opponent(others: Opponents) -> Opponent:
    if others.serving is None:
        return "none"
    return "untrained" if others.serving.release.card.is_untrained else "trained"


def _card(topology: Topology, part: LogPart, trained: pipeline.Trained, meeting: _Meeting, seed: int) -> ReleaseCard:
    others = meeting.opponents
    is_best = meeting.decision.better or _opponent(others) != "trained"
    return new_card(
        topology,
        trained.model.config,
        manifest=part.manifest,
        topic_ids=part.topic_ids,
        log_since=part.since,
        metrics={**trained.figures(), **meeting.new.by_name()},
        serving_metrics=None if meeting.theirs is None else meeting.theirs.by_name(),
        parent=others.serving_name,
        seed=seed,
        learnt_until=trained.learnt_until,
        best=None if is_best else others.best_name or others.serving_name,
        rules=meeting.rules,
        gate=GateNote(
            passed=meeting.decision.promote,
            reason=meeting.decision.reason,
            serving=others.serving_name,
            begin=meeting.part.begin,
            end=meeting.part.end,
            interactions=meeting.part.count,
            note=meeting.part.note,
        ),
    )


def _promote(topology: Topology, store: ReleaseStore, release: Release, watcher: RetrainCallbacks) -> int:
    """Promote what the store gives back, if it can serve: not what was in memory when it was written."""
    _, kept = store.load(release.name, release.hash)
    watcher.before_promotion()
    return promote(topology, kept).version
