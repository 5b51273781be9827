"""All that was measured of a release, as one value and as JSON."""

from dataclasses import dataclass
from pathlib import Path

import orjson

from stream_tgat.disk import replacing
from stream_tgat.evaluation.head_figures import HeadFigures
from stream_tgat.evaluation.link_figures import LinkRow
from stream_tgat.evaluation.measured_part import MeasuredPart
from stream_tgat.training.card import RulesNote


@dataclass(frozen=True)
class ReleaseReport:
    """release: its name   data: what it was measured on   interactions, nodes: in all of the data

    seed: of negatives and bootstrap   labels: {name: labels in the part}   rules: beside the best simple rules, by the
    figures and negatives that decide about promotions
    """

    release: str
    topology: str
    data: str
    interactions: int
    nodes: int
    part: MeasuredPart
    seed: int
    labels: dict[str, int]
    links: tuple[LinkRow, ...]
    heads: tuple[HeadFigures, ...]
    rules: RulesNote


def write_report(file: Path, report: ReleaseReport) -> None:
    """As JSON; a figure that is undefined is null."""
    with replacing(file) as partial:
        partial.write_bytes(orjson.dumps(report, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE))
