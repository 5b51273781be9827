"""When a model is trained anew: a pure decision from what the log, the releases and the live figures say."""

from collections.abc import Mapping
from dataclasses import dataclass

from stream_tgat.topology import Retrain

TopicAndPartition = tuple[str, int]
"""A topic and one of its partitions."""


@dataclass(frozen=True)
class LastTraining:
    """The newest release that was trained from the log, promoted or not.

    release: its name   created: unix seconds
    ends: of the topics of interactions, by topic and partition: what it was trained on ends there
    """

    release: str
    created: float
    ends: Mapping[TopicAndPartition, int]


@dataclass(frozen=True)
class CardAndLiveAuc:
    """AUC of a head, on its release's card and live. rarer: live answers of the rarer class"""

    head: str
    card_auc: float
    live: float
    rarer: int


def due(
    rules: Retrain,
    last: LastTraining | None,
    now: float,
    ends: Mapping[TopicAndPartition, int],
    heads: tuple[CardAndLiveAuc, ...] = (),
) -> str:
    """Why a retraining is due, in words; empty if it is not.

    now: unix seconds   ends: of these topics now   heads: those of the model that serves
    """
    if last is None:
        return "no model was trained from the log so far"
    age = now - last.created
    if age < rules.rest_s:
        return ""
    if rules.every_s is not None and age >= rules.every_s:
        return f"{last.release} was trained {_duration(age)} ago, and every = {rules.every!r}"
    since = sum(max(end - last.ends.get(place, 0), 0) for place, end in ends.items())
    if rules.after_interactions and since >= rules.after_interactions:
        return f"{since:,} interactions have come since {last.release} was trained"
    if not rules.auc_drop:
        return ""
    for head in heads:
        if head.rarer >= rules.fewest_answers and head.live < head.card_auc - rules.auc_drop:
            return (
                f"the live AUC of {head.head} is {head.live:.3f}, {head.card_auc - head.live:.3f} below the "
                f"{head.card_auc:.3f} of its card"
            )
    return ""


def _duration(seconds: float) -> str:
    for length, unit in ((86_400, "days"), (3_600, "hours"), (60, "minutes")):
        if seconds >= 2 * length:
            return f"{seconds / length:.1f} {unit}"
    return f"{seconds:.0f} seconds"
