"""Is a model better than the best simple rule, on interactions that it has not learnt from? In one sentence.

Model and rules answer the same questions, by the figures that also decide about promotions (`retrain.metrics`). Which
rule is the best is decided by what was known before the first of these questions, as the model was trained: chosen
afterwards, the luckiest of several rules would look better than it is.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from stream_tgat.evaluation.bootstrap import Figure, Paired, figure_of, paired_replicates
from stream_tgat.evaluation.comparison import FEWEST_LINKS, Chance, ModelAnswers, link_questions
from stream_tgat.evaluation.head_figures import HeadAnswers, asked_in
from stream_tgat.evaluation.measured_part import MeasuredPart
from stream_tgat.evaluation.noninferiority import Difference, Noninferiority
from stream_tgat.evaluation.simple_rules import HEAD_RULES, Pasts, link_rules
from stream_tgat.topology import GateMetric, Head, Topology
from stream_tgat.training.card import RuleFigure, RulesNote, RulesVerdict
from stream_tgat.training.log import TrainingLog
from stream_tgat.training.metrics import unmeasured

_LINKS: GateMetric = "links.average_precision"

#: 95 % on both sides; no margin, as a rule costs nothing.
_TEST = Noninferiority(0.0, 0.975)


def beside_rules(answers: ModelAnswers, log: TrainingLog, part: MeasuredPart, topology: Topology) -> RulesNote:
    """Compare a model with the best simple rules.

    answers: of `ask`, with the seed of the topology's training, to this part of the log
    """
    found: list[_Pair] = []
    for metric in topology.retrain.metrics:
        if metric == _LINKS:
            found.append(_of_links(answers.links, log, part, topology.training.seed))
        else:
            found += _of_heads(metric, answers, log, part, topology)
    return _note(found)


def not_measured(why: str) -> RulesNote:
    """Where there is nothing to compare them on. why: in words, without a full stop"""
    return RulesNote(
        verdict="unmeasured", sentence=f"Whether it is better than a simple rule cannot be measured: {why}."
    )


@dataclass(frozen=True, eq=False)
class _Pair:
    """A model and the best rule, by a figure, with the answers of both. no_say: why it does not count, in words"""

    name: str
    rule: str
    paired: Paired
    answers: int
    no_say: str

    @property
    def sign(self) -> float:
        """−1 where less is better."""
        return -1.0 if self.paired.figure == "brier" else 1.0

    @property
    def is_number(self) -> bool:
        """Whether all that the model said is one."""
        return bool(np.isfinite(np.asarray(self.paired.score)).all())

    def values(self) -> tuple[float, float]:
        """The figure of the model, NaN where it is undefined, and that of the rule."""
        one, other = (
            figure_of(self.paired.figure, self.paired.truth, score) for score in (self.paired.score, self.paired.other)
        )
        return (one if self.is_number else math.nan), other


def _of_links(mine: HeadAnswers, log: TrainingLog, part: MeasuredPart, seed: int) -> _Pair:
    count = len(mine.truth) // 2
    earlier = link_questions(log, slice(max(part.first - part.count, 0), part.first), seed)
    asked = link_questions(log, slice(part.first, part.first + part.count), seed)
    truth = np.repeat([1.0, 0.0], len(earlier[0]))
    rules = link_rules(log, part)
    best = rules[
        _best([figure_of("average_precision", truth, rule.scores(log, *earlier)) for rule in rules], highest=True)
    ]
    few = f"{count:,} links, {FEWEST_LINKS:,} are needed" if count < FEWEST_LINKS else ""
    paired = Paired("average_precision", mine.truth, mine.probability, best.scores(log, *asked), mine.user)
    return _Pair(_LINKS, best.name, paired, count, few)


def _of_heads(
    metric: GateMetric, answers: ModelAnswers, log: TrainingLog, part: MeasuredPart, topology: Topology
) -> Iterator[_Pair]:
    figures: dict[GateMetric, Figure] = {
        "heads.auc": "auc",
        "heads.average_precision": "average_precision",
        "heads.brier": "brier",
    }
    figure, pasts = figures[metric], Pasts(log, part)
    for head in (head for head in topology.heads if head.name in answers.heads):
        mine = answers.heads[head.name]
        rule, scores = _best_rule(figure, head, log, part, pasts)
        true = int(mine.truth.sum())
        few = unmeasured(len(mine.truth), true)
        rarer, fewest = min(true, len(mine.truth) - true), topology.retrain.fewest_answers
        if not few and rarer < fewest:
            few = f"{rarer:,} answers of the rarer class, {fewest:,} are needed"
        paired = Paired(figure, mine.truth, mine.probability, scores, mine.user)
        yield _Pair(f"heads.{head.name}.{figure}", rule, paired, len(mine.truth), few)


def _best_rule(
    figure: Figure, head: Head, log: TrainingLog, part: MeasuredPart, pasts: Pasts
) -> tuple[str, NDArray[np.float64]]:
    """The best for a head by the answers complete when the part began, and what it says to those of the part."""
    labels = log.labels[head.label_name]
    past, asked = pasts.of(labels), log.interactions.time[labels.event]
    complete = asked <= labels.maturity.complete_at(part.begin)
    earlier = labels.select((labels.event < part.first) & (labels.known < part.begin) & complete)
    rules = [rule for rule in HEAD_RULES if rule.is_probability or figure != "brier"]
    values = [figure_of(figure, earlier.value, rule.scores(past, earlier.event)) for rule in rules]
    best = rules[_best(values, highest=figure != "brier")]
    return best.name, best.scores(past, asked_in(log, head, part).event)


def _best(values: Sequence[float], *, highest: bool) -> int:
    """Which is the best; the first of several, or where none is known."""
    found = np.array(values) if highest else -np.array(values)
    return 0 if np.isnan(found).all() else int(np.nanargmax(found))


def _note(found: Sequence[_Pair]) -> RulesNote:
    counting = [each for each in found if not each.no_say and each.is_number]
    moved = Chance(tuple(each.name for each in counting), paired_replicates([each.paired for each in counting]))
    figures = tuple(_figure(each, moved) for each in found)
    nowhere = [each.name for each in found if not each.no_say and not each.is_number]
    if nowhere:
        sentence = f"Worse than any simple rule: it gives no number for {', '.join(nowhere)}."
        return RulesNote(verdict="worse", sentence=sentence, figures=figures)
    aside = [f"{each.name} ({each.no_say})" for each in found if each.no_say]
    if not counting:
        none = "retrain.metrics names no figure that it has"
        return replace(not_measured(", ".join(aside) or none), figures=figures)
    gain = float(np.mean([each.gain for each in figures if not each.no_say and each.gain is not None]))
    mean = Difference(gain, moved.std_error({each.name: each.sign for each in counting}))
    verdict: RulesVerdict = "better" if _TEST.is_better(mean) else "worse" if _TEST.is_worse(mean) else "unknown"
    note = RulesNote(verdict, "", gain, _or_none(_TEST.low(mean)), _or_none(_TEST.high(mean)), figures)
    unsaid = f" Not measured: {', '.join(aside)}." if aside else ""
    return replace(note, sentence=_sentence(note, gain, [each.name for each in counting]) + unsaid)


def _figure(each: _Pair, moved: Chance) -> RuleFigure:
    model, rule = each.values()
    gain = each.sign * (model - rule)
    own = Difference(gain, moved.std_error({each.name: each.sign}))
    return RuleFigure(
        figure=each.name,
        answers=each.answers,
        model=_or_none(model),
        best_rule=each.rule,
        rule=_or_none(rule),
        gain=_or_none(gain),
        low=_or_none(_TEST.low(own)),
        high=_or_none(_TEST.high(own)),
        no_say=each.no_say,
    )


def _sentence(note: RulesNote, gain: float, figures: Sequence[str]) -> str:
    """Of the mean gain over some figures."""
    one = len(figures) == 1
    rules = "the best simple rule" if one else "the best simple rules"
    where = f"in {figures[0]}" if one else f"on average over {len(figures)} figures"
    interval = "too few users to tell what chance does"
    if note.low is not None and note.high is not None:
        interval = f"95 % interval of the difference {note.low:+.4f} to {note.high:+.4f}"
    if note.verdict == "unknown":
        told = f"Not shown to be better or worse than {rules}: {gain:+.4f} {where} ({interval})"
    else:
        told = f"{note.verdict.capitalize()} than {rules} by {abs(gain):.4f} {where} ({interval})"
    others = [("better", note.better), ("worse", note.worse)]
    but = " and ".join(f"{word} in {', '.join(of)}" for word, of in others if of and word != note.verdict)
    return f"{told}, but {but}." if but and not one else f"{told}."


def _or_none(value: float) -> float | None:
    return value if math.isfinite(value) else None
