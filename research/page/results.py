"""All that experiments have kept in a folder, by the kind of result."""

from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Self

from research.experiments.ablations import AblationReport
from research.experiments.attention import AttentionReport
from research.experiments.gate import GateReport
from research.experiments.labels import LabelComparison
from research.experiments.queue import ResultRecord, read_records
from research.experiments.statistics import Statistics
from research.labels import LabelReport
from research.prequential import AgeReport, StepReport
from research.prequential.refit import RefitReport
from research.prequential.staleness import StalenessReport
from stream_tgat.evaluation.link_prediction import MethodReport

ORDER = ("collegemsg", "wikipedia", "oulad", "groceries", "bitcoin_otc", "online_retail")
"""In which data sets stand on the page; others follow by name."""


@dataclass(frozen=True)
class Results:
    """Records, each kind in the order of its keys. folder: for figures"""

    folder: Path
    links: list[ResultRecord[MethodReport]]
    ablations: list[ResultRecord[AblationReport]]
    attention: list[ResultRecord[AttentionReport]]
    statistics: list[ResultRecord[Statistics]]
    labels: list[ResultRecord[LabelReport]] = field(default_factory=list)
    label_comparisons: list[ResultRecord[LabelComparison]] = field(default_factory=list)
    retraining: list[ResultRecord[StepReport]] = field(default_factory=list)
    ages: list[ResultRecord[AgeReport]] = field(default_factory=list)
    staleness: list[ResultRecord[StalenessReport]] = field(default_factory=list)
    fidelity: list[ResultRecord[MethodReport]] = field(default_factory=list)
    refits: list[ResultRecord[RefitReport]] = field(default_factory=list)
    gates: list[ResultRecord[GateReport]] = field(default_factory=list)

    def of(self, data_set: str) -> Self:
        """Those of one data set."""
        mine: dict[str, Any] = {
            each.name: [record for record in getattr(self, each.name) if data_set_of(record.result) == data_set]
            for each in fields(self)
            if each.name != "folder"
        }
        return replace(self, **mine)

    def measured(self) -> list[str]:
        """The data sets on which something was measured, in the page's order; to be counted is not enough."""
        every = {
            data_set_of(record.result)
            for each in fields(self)
            if each.name not in ("folder", "statistics")
            for record in getattr(self, each.name)
        }
        return sorted(every - {""}, key=place_of)


def data_set_of(result: Any) -> str:
    """The data set that a result is about; nothing for a simulation."""
    match result:
        case MethodReport() | AblationReport():
            return result.test.task
        case Statistics():
            return result.name
        case GateReport():
            return ""
        case _:
            return str(result.task)


def read_results(folder: Path, figures: Path) -> Results:
    """Everything in a folder; figures: folder that they go into. DataError for a line that is no record."""
    return Results(
        figures,
        read_records(folder / "links", MethodReport),
        read_records(folder / "ablations", AblationReport),
        read_records(folder / "attention", AttentionReport),
        read_records(folder / "statistics", Statistics),
        read_records(folder / "labels", LabelReport),
        read_records(folder / "label-comparisons", LabelComparison),
        read_records(folder / "retraining", StepReport),
        read_records(folder / "retraining-ages", AgeReport),
        read_records(folder / "staleness", StalenessReport),
        read_records(folder / "fidelity", MethodReport),
        read_records(folder / "refit", RefitReport),
        read_records(folder / "gate", GateReport),
    )


def place_of(data_set: str) -> tuple[int, str]:
    """Sorts data sets as the page has them."""
    return (ORDER.index(data_set) if data_set in ORDER else len(ORDER)), data_set
