"""The gate: may a new model take over from the one that serves? A pure decision, told in words.

A new model is promoted if it is shown not to be worse, on the same newest interactions, which neither has learnt from:

- on average over the stated figures the lower bound of the difference is above −`margin`, and
- in no figure is it worse: there the whole interval is below zero, and not within the margin.

Both against the model that serves and against the best one of the last months, so that small losses do not add up. What
the data leave open is kept (or promoted, with `when_unsure`), and how many answers would tell is said. With few answers
even an interval says little, so these have no say:

- a head with fewer answers of its rarer class than `fewest_answers`,
- the links, with fewer than FEWEST_LINKS of them.

A model that is worse than the best simple rules, which need no model, is kept as well (or promoted, with
`when_worse_than_rules`), whatever it is beside the one that serves.

If nothing has a say, the model that serves stays. Where none serves, or one that has learnt nothing, the first one
trained is promoted. A figure that can be measured and is not a number keeps a model from being promoted, always.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from stream_tgat.evaluation.comparison import FEWEST_LINKS, Chance, HeadSummary, ModelSummary
from stream_tgat.evaluation.noninferiority import Difference, Noninferiority, Verdict
from stream_tgat.topology import GateMetric, Retrain
from stream_tgat.training.card import RulesNote

Opponent = Literal["none", "untrained", "trained"]
"""What serves: nothing that can be loaded, a model that has learnt nothing, or one that has."""


@dataclass(frozen=True)
class Compared:
    """A figure of both models. figure: as in "links.average_precision" or "heads.churn.auc"

    serving: NaN where it is undefined, or where there is nothing to compare with
    std_error: of the difference, NaN where it cannot be told   answers: that it is measured on
    no_say: why it does not decide, in words; empty if it does   measurable: whether there is anything to measure it on
    """

    figure: str
    new: float
    serving: float
    std_error: float = math.nan
    answers: int = 0
    lower_is_better: bool = False
    no_say: str = ""
    measurable: bool = True

    @property
    def gain(self) -> float:
        """By how much the new model is better; NaN where a figure is undefined."""
        return self.serving - self.new if self.lower_is_better else self.new - self.serving

    @property
    def decides(self) -> bool:
        """Whether both models have it, and it has a say."""
        return not self.no_say and math.isfinite(self.gain)


@dataclass(frozen=True)
class Comparison:
    """Figures of two models side by side.

    std_error: of the mean gain of those that decide, NaN where it is not known
    """

    figures: tuple[Compared, ...]
    std_error: float = math.nan

    @property
    def deciding(self) -> tuple[Compared, ...]:
        """Those that both models have, and that have a say."""
        return tuple(each for each in self.figures if each.decides)

    @property
    def mean(self) -> Difference:
        """Of the gains of those that decide."""
        gains = [each.gain for each in self.deciding]
        return Difference(math.fsum(gains) / len(gains) if gains else math.nan, self.std_error)


@dataclass(frozen=True)
class Best:
    """The best release of the last months, where another one serves: its name, and the new model compared with it."""

    release: str
    comparison: Comparison


@dataclass(frozen=True)
class GateDecision:
    """Whether the new model may serve, and why, in a sentence without a full stop.

    better: whether it is shown to be better than the best release so far, which it then is itself
    """

    promote: bool
    reason: str
    better: bool = False


def compare(new: ModelSummary, serving: ModelSummary | None, moved: Chance | None, rules: Retrain) -> Comparison:
    """The figures that the rules name, side by side; heads in their order.

    serving: None where none serves   moved: how far chance moves the differences; None where it is not known
    """
    found: list[Compared] = []
    for metric in rules.metrics:
        if metric == "links.average_precision":
            few = new.links < FEWEST_LINKS
            found.append(
                Compared(
                    metric,
                    new.average_precision,
                    math.nan if serving is None else serving.average_precision,
                    math.nan if moved is None else moved.std_error({metric: 1.0}),
                    new.links,
                    no_say=f"{new.links:,} links, {FEWEST_LINKS:,} are needed" if few else "",
                )
            )
        else:
            found += _of_heads(metric, new, serving, moved, rules.fewest_answers)
    made = Comparison(tuple(found))
    signs = {each.figure: -1.0 if each.lower_is_better else 1.0 for each in made.deciding}
    return Comparison(made.figures, math.nan if moved is None else moved.std_error(signs))


def decide(found: Comparison, opponent: Opponent, rules: Retrain, best: Best | None = None) -> GateDecision:
    """Compare a new model with what serves. found: from `compare`   best: None where the best one serves"""
    undefined = _undefined(found)
    if undefined:
        return GateDecision(False, undefined)
    if opponent == "none":
        return GateDecision(
            True, "there is nothing to compare it with, and all that can be measured of the new model is a number"
        )
    if opponent == "untrained":
        return GateDecision(
            True, "what serves has learnt nothing, and all that can be measured of the new model is a number"
        )
    aside = _aside(each for each in found.figures if each.no_say)
    if not any(not each.no_say for each in found.figures):
        return GateDecision(False, f"there is too little to compare the two models on{aside}")
    if not found.deciding:
        # Of the serving model, what is not a number is worse than any.
        told = _list(_in_words(each) for each in found.figures if not each.no_say)
        return GateDecision(True, f"what serves gives no number for anything that has a say: {told}{aside}")
    verdict, reason = _judged(found, rules)
    test = _test_of(rules)
    better = test.is_better((best.comparison if best else found).mean)
    if best is not None and verdict is not Verdict.WORSE and best.comparison.deciding:
        theirs, why = _judged(best.comparison, rules)
        if theirs is not Verdict.NOT_WORSE:
            verdict, reason = theirs, f"against {best.release}, the best release of the last {rules.best_of}, {why}"
    promote = verdict is Verdict.NOT_WORSE or (verdict is Verdict.UNKNOWN and rules.when_unsure == "promote")
    return GateDecision(promote, reason + aside, promote and better)


def beside_rules(decision: GateDecision, found: RulesNote, rules: Retrain) -> GateDecision:
    """The decision with what is known of the new model beside the best simple rules."""
    if not decision.promote or found.verdict != "worse" or rules.when_worse_than_rules == "promote":
        return decision
    return GateDecision(False, f"it is worse than the best simple rules, or else it would serve: {decision.reason}")


def flaw(found: Comparison, rules: Retrain) -> str:
    """What is certainly wrong with a new model, in words; empty where there is nothing, or nothing to tell it by."""
    if _undefined(found) or not found.deciding:
        return _undefined(found)
    verdict, reason = _judged(found, rules)
    return reason if verdict is Verdict.WORSE else ""


def _undefined(found: Comparison) -> str:
    undefined = [each.figure for each in found.figures if each.measurable and not math.isfinite(each.new)]
    return f"the new model gives no number for {_list(undefined)}" if undefined else ""


def _test_of(rules: Retrain) -> Noninferiority:
    return Noninferiority(rules.margin, rules.confidence)


def _judged(found: Comparison, rules: Retrain) -> tuple[Verdict, str]:
    """What is to be said of a new model beside another."""
    test, every, mean = _test_of(rules), found.deciding, found.mean
    verdict = test.judge([Difference(each.gain, each.std_error) for each in every], mean)
    over = f"{_number(mean)} on average over {_list(map(_in_words, every))}"
    if verdict is Verdict.NOT_WORSE:
        return verdict, f"it is not worse by more than {rules.margin:g}: {over}"
    if verdict is Verdict.WORSE:
        worse = [each for each in every if test.is_worse(Difference(each.gain, each.std_error))]
        return verdict, f"it is worse in {_list(map(_in_words, worse))}" if worse else f"it is worse: {over}"
    return verdict, (
        f"it cannot be told whether it is worse by more than {rules.margin:g}: {over}; {_needed(found, test)}"
    )


def _needed(found: Comparison, test: Noninferiority) -> str:
    """How many answers would tell, of the figure that chance moves most."""
    times = test.times_the_answers(found.std_error)
    if not math.isfinite(times):
        return "too few users to tell what chance does"
    vaguest = max(found.deciding, key=lambda each: each.std_error if math.isfinite(each.std_error) else math.inf)
    return (
        f"{times:.1f} times the answers would tell, such as {math.ceil(times * vaguest.answers):,} instead of "
        f"{vaguest.answers:,} for {vaguest.figure}"
    )


_HEAD_FIGURES: Mapping[GateMetric, Callable[[HeadSummary], float]] = {
    "heads.auc": lambda head: head.auc,
    "heads.average_precision": lambda head: head.average_precision,
    "heads.brier": lambda head: head.brier,
}


def _of_heads(
    metric: GateMetric,
    new: ModelSummary,
    serving: ModelSummary | None,
    moved: Chance | None,
    fewest: int,
) -> Iterator[Compared]:
    figure, of = metric.removeprefix("heads."), _HEAD_FIGURES[metric]
    others = {head.head: head for head in serving.heads} if serving else {}
    for head in new.heads:
        few = head.rarer < fewest
        other, name = others.get(head.head), f"heads.{head.head}.{figure}"
        yield Compared(
            name,
            of(head),
            math.nan if other is None else of(other),
            math.nan if moved is None else moved.std_error({name: 1.0}),
            head.answers,
            lower_is_better=metric == "heads.brier",
            no_say=f"{head.rarer:,} answers of the rarer class, {fewest:,} are needed" if few else "",
            measurable=head.rarer > 0 or (metric == "heads.brier" and head.answers > 0),
        )


def _in_words(each: Compared) -> str:
    if not math.isfinite(each.serving):
        return f"{each.figure} {each.new:.4f} against none"
    change = Difference(each.new - each.serving, each.std_error)
    return f"{each.figure} {each.new:.4f} against {each.serving:.4f} ({_number(change)})"


def _number(each: Difference) -> str:
    """With its standard error."""
    return (
        f"{each.gain:+.4f} ± {each.std_error:.4f}" if math.isfinite(each.std_error) else f"{each.gain:+.4f} ± unknown"
    )


def _aside(figures: Iterable[Compared]) -> str:
    told = [f"{each.figure} ({each.no_say})" for each in figures]
    return f"; without a say: {_list(told)}" if told else ""


def _list(words: Iterable[str]) -> str:
    return ", ".join(words)
