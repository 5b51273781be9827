"""The gate: may a new model take over from the one that serves? A pure decision, told in words.

A new model is promoted if it is worse in no stated figure by more than a tolerance, both measured on the same newest
interactions. Worse means so beyond chance: by `doubt` standard errors of the difference more than the tolerance. With
few answers even that says little, so these have no say:

- a head with fewer answers of its rarer class than `fewest_answers`,
- the links, with fewer than FEWEST_LINKS of them.

If nothing has a say, the model that serves stays. Where none serves, or one that has learnt nothing, the first one
trained is promoted. A figure that can be measured and is not a number keeps a model from being promoted, always.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from stream_tgat.evaluation.releases.comparison import HeadSummary, ModelSummary
from stream_tgat.topology import GateMetric, Retrain

FEWEST_LINKS = 100

Opponent = Literal["none", "untrained", "trained"]
"""What serves: nothing that can be loaded, a model that has learnt nothing, or one that has."""


@dataclass(frozen=True)
class Compared:
    """A figure of both models. figure: as in "links.average_precision" or "heads.churn.auc"

    serving: NaN where it is undefined, or where there is nothing to compare with
    std_error: of the difference, 0 where it cannot be told
    no_say: why it does not decide, in words; empty if it does   measurable: whether there is anything to measure it on
    """

    figure: str
    new: float
    serving: float
    std_error: float = 0.0
    lower_is_better: bool = False
    no_say: str = ""
    measurable: bool = True

    @property
    def gain(self) -> float:
        """By how much the new model is better; NaN where a figure is undefined."""
        return self.serving - self.new if self.lower_is_better else self.new - self.serving


@dataclass(frozen=True)
class Decision:
    """Whether the new model may serve, and why, in a sentence without a full stop."""

    promote: bool
    reason: str


def compare(
    new: ModelSummary, serving: ModelSummary | None, std_errors: ModelSummary | None, rules: Retrain
) -> tuple[Compared, ...]:
    """The figures that the rules name, side by side; heads in their order.

    serving: None where none serves   std_errors: of each figure's difference, None where they are not known
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
                    0.0 if std_errors is None else _number_or_zero(std_errors.average_precision),
                    no_say=f"{new.links:,} links, {FEWEST_LINKS:,} are needed" if few else "",
                )
            )
        else:
            found += _of_heads(metric, new, serving, std_errors, rules.fewest_answers)
    return tuple(found)


def decide(figures: Sequence[Compared], opponent: Opponent, rules: Retrain) -> Decision:
    """Compare a new model with what serves. figures: of both, from `compare`"""
    undefined = [each.figure for each in figures if each.measurable and not math.isfinite(each.new)]
    if undefined:
        return Decision(False, f"the new model gives no number for {_list(undefined)}")
    if opponent == "none":
        return Decision(
            True, "there is nothing to compare it with, and all that can be measured of the new model is a number"
        )
    if opponent == "untrained":
        return Decision(
            True, "what serves has learnt nothing, and all that can be measured of the new model is a number"
        )
    judged = [each for each in figures if not each.no_say]
    aside = _aside(each for each in figures if each.no_say)
    if not judged:
        return Decision(False, f"there is too little to compare the two models on{aside}")
    # Of the serving model, what is not a number is worse than any.
    worse = [each for each in judged if each.gain + rules.doubt * each.std_error < -rules.tolerance]
    measure = f"worse by more than {rules.tolerance:g}{' and chance' if rules.doubt else ''}"
    if worse:
        return Decision(False, f"it is {measure} in {_list(map(_told, worse))}{aside}")
    return Decision(True, f"it is {measure} in nothing: {_list(map(_told, judged))}{aside}")


_HEAD_FIGURES: Mapping[GateMetric, Callable[[HeadSummary], float]] = {
    "heads.auc": lambda head: head.auc,
    "heads.average_precision": lambda head: head.average_precision,
    "heads.brier": lambda head: head.brier,
}


def _of_heads(
    metric: GateMetric,
    new: ModelSummary,
    serving: ModelSummary | None,
    std_errors: ModelSummary | None,
    fewest: int,
) -> Iterator[Compared]:
    figure, of = metric.removeprefix("heads."), _HEAD_FIGURES[metric]
    others, errors = ({head.head: head for head in each.heads} if each else {} for each in (serving, std_errors))
    for head in new.heads:
        few = head.rarer < fewest
        other, error = others.get(head.head), errors.get(head.head)
        yield Compared(
            f"heads.{head.head}.{figure}",
            of(head),
            math.nan if other is None else of(other),
            0.0 if error is None else _number_or_zero(of(error)),
            lower_is_better=metric == "heads.brier",
            no_say=f"{head.rarer:,} answers of the rarer class, {fewest:,} are needed" if few else "",
            measurable=head.rarer > 0 or (metric == "heads.brier" and head.answers > 0),
        )


def _number_or_zero(value: float) -> float:
    return value if math.isfinite(value) else 0.0


def _told(each: Compared) -> str:
    if not math.isfinite(each.serving):
        return f"{each.figure} {each.new:.4f} against none"
    spread = f" ± {each.std_error:.4f}" if each.std_error else ""
    return f"{each.figure} {each.new:.4f} against {each.serving:.4f} ({each.new - each.serving:+.4f}{spread})"


def _aside(figures: Iterable[Compared]) -> str:
    told = [f"{each.figure} ({each.no_say})" for each in figures]
    return f"; without a say: {_list(told)}" if told else ""


def _list(words: Iterable[str]) -> str:
    return ", ".join(words)
