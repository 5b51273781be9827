"""What a refit is worth, on the page: a table for each data set."""

import math
from dataclasses import replace

from research.experiments.queue import ResultRecord
from research.page.markdown import origin, table
from research.page.results import Results, place_of
from research.page.retraining import gain, with_error
from research.prequential.refit import RefitReport

HEADER = ("from day", "runs", "questions", "AUC measured", "AUC refitted", "gain")


def refit_section(results: Results) -> str:
    """Every data set with its command."""
    groups: dict[tuple[str, str], list[ResultRecord[RefitReport]]] = {}
    for record in results.refits:
        groups.setdefault((record.result.task, record.command), []).append(record)
    parts = []
    for _, records in sorted(groups.items(), key=lambda each: (place_of(each[0][0]), each[0][1])):
        reports = sorted((record.result for record in records), key=lambda each: (len(each.steps), each.steps))
        untimed = [replace(record, seconds=math.nan) for record in records]  # of adding up, not of training
        parts += [summary(reports[-1]), table(HEADER, map(_row, reports)), origin(untimed)]
    return "\n\n".join(parts)


def over_all(results: Results) -> RefitReport | None:
    """The report that is over the most steps, None for none."""
    return max((record.result for record in results.refits), key=lambda each: len(each.steps), default=None)


def summary(mean: RefitReport) -> str:
    """What is claimed: a gain or a loss only where its interval leaves zero out."""
    found = mean.gain
    verb = "gains" if found.low > 0 else "loses" if found.high < 0 else "neither gains nor loses for certain"
    return f"Over {len(mean.steps)} steps the refit {verb}: {gain(found)} points of AUC."


def _row(each: RefitReport) -> list[str]:
    when = f"{each.days[0]:.0f}" if len(each.steps) == 1 else "all"
    areas = [with_error(each.measured), with_error(each.refitted)]
    return [when, str(each.seeds), f"{each.questions:,}", *areas, gain(each.gain)]
