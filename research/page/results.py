"""All that the queue has kept in a folder, by the kind of result."""

from dataclasses import dataclass, field
from pathlib import Path

from research.experiments.ablations import AblationReport
from research.experiments.attention import AttentionReport
from research.experiments.gate import GateReport
from research.experiments.labels import LabelComparison
from research.experiments.queue import Record, read_records
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
    """Records, each kind in the order of its files, and the folder for figures."""

    folder: Path
    links: list[Record[MethodReport]]
    ablations: list[Record[AblationReport]]
    attention: list[Record[AttentionReport]]
    statistics: list[Record[Statistics]]
    labels: list[Record[LabelReport]] = field(default_factory=list)
    label_comparisons: list[Record[LabelComparison]] = field(default_factory=list)
    retraining: list[Record[StepReport]] = field(default_factory=list)
    ages: list[Record[AgeReport]] = field(default_factory=list)
    staleness: list[Record[StalenessReport]] = field(default_factory=list)
    fidelity: list[Record[MethodReport]] = field(default_factory=list)
    refits: list[Record[RefitReport]] = field(default_factory=list)
    gates: list[Record[GateReport]] = field(default_factory=list)


def read_results(folder: Path) -> Results:
    """Everything below a folder; DataError for a file that is no record."""
    return Results(
        folder,
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
