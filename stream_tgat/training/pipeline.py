"""From a log to a trained model with its figures: encoder, heads, and an honest look at the newest part.

One function without Kafka and without files, so that the command, the tests and the experiments train alike.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import torch

from stream_tgat.errors import DataError
from stream_tgat.graph.splits import Split, chronological_split
from stream_tgat.nn.model import Model
from stream_tgat.topology import Topology
from stream_tgat.training.checkpoint import Checkpoint
from stream_tgat.training.epochs import LinkResult, TrainingCallbacks
from stream_tgat.training.fine_tuning import FineTuned, FineTuning, LinkLesson, fine_tune
from stream_tgat.training.fitting import PENALTIES
from stream_tgat.training.heads import HeadResult, HeadSettings, embed_events, head_tasks, train_heads
from stream_tgat.training.links import LinkSettings, TrainingSampling, evaluate_links, spread, train_links
from stream_tgat.training.log import LabelSet, TrainingLog
from stream_tgat.training.metrics import BinaryMetrics, binary_metrics
from stream_tgat.training.negatives import RandomNegatives
from stream_tgat.training.scoring import TemporalGraph
from stream_tgat.training.shape import model_config

FEWEST_INTERACTIONS = 20

LEAST_LEARNT = 0.5
"""Share of the interactions that training and validation have at least, however late answers are complete."""


@dataclass(frozen=True)
class LinkMetrics:
    """Link prediction with one random negative each. part: "validation" or "test"."""

    part: str
    count: int
    average_precision: float
    accuracy: float


@dataclass(frozen=True, eq=False)
class Trained:
    """A trained model (in evaluation mode, on the CPU) and how it came out.

    head_metrics: {head: on the test part, or on validation where there is no test part}, `head_part` says which
    learnt_until: unix seconds, before which all lies that had a say in the model
    tuned: what answers taught the encoder
    """

    model: Model
    links: LinkResult
    link_metrics: tuple[LinkMetrics, ...]
    heads: tuple[HeadResult, ...]
    head_part: str
    head_metrics: Mapping[str, BinaryMetrics]
    learnt_until: float
    tuned: FineTuned = field(default_factory=FineTuned)

    def figures(self) -> dict[str, float]:
        """All metrics by name, for the release's card."""
        figures: dict[str, float] = {"links.best_epoch": self.links.best}
        if self.tuned.aucs:
            figures |= {"fine_tuning.best_epoch": self.tuned.best, "fine_tuning.auc_before": self.tuned.before}
            figures["fine_tuning.auc"] = max(self.tuned.before, *self.tuned.aucs)
        for part in self.link_metrics:
            figures[f"links.{part.part}.average_precision"] = part.average_precision
            figures[f"links.{part.part}.accuracy"] = part.accuracy
        for head in self.heads:
            found = self.head_metrics[head.name]
            at = f"heads.{head.name}.{self.head_part}"
            figures |= {
                f"{at}.count": found.count,
                f"{at}.base_rate": found.base_rate,
                f"{at}.auc": found.auc,
                f"{at}.average_precision": found.average_precision,
                f"heads.{head.name}.threshold": head.threshold,
            }
        return figures


def link_settings(topology: Topology) -> LinkSettings:
    """As the topology's [training] says."""
    wanted = topology.training
    return LinkSettings(
        epochs=wanted.epochs,
        batch_size=wanted.batch_size,
        negatives=wanted.negatives,
        historical_share=wanted.historical_share,
        learning_rate=wanted.learning_rate,
        averaging=wanted.averaging,
        patience=wanted.patience,
        epoch_events=wanted.epoch_interactions or None,
        neighbour_dropout=wanted.neighbour_dropout,
        sampling=_training_sampling(topology),
        seed=wanted.seed,
    )


def _training_sampling(topology: Topology) -> TrainingSampling:
    wanted = topology.training
    if wanted.sampling == "auto":
        return "uniform" if wanted.neighbour_dropout > 0 else "recent"
    return wanted.sampling


def head_settings(topology: Topology) -> HeadSettings:
    """As the topology's [training] says."""
    wanted = topology.training
    return HeadSettings(
        epochs=wanted.head_epochs,
        learning_rate=wanted.head_learning_rate,
        penalties=PENALTIES if wanted.head_penalty == "auto" else wanted.head_penalty,
        validation_share=wanted.head_validation_share,
        alert_budget=wanted.alert_budget,
        precision=wanted.precision or None,
        seed=wanted.seed,
    )


def fine_tuning(topology: Topology) -> FineTuning:
    """As the topology's [training] says."""
    wanted = topology.training
    return FineTuning(epochs=wanted.fine_tuning_epochs, seed=wanted.seed)


def untrained(topology: Topology, seed: int) -> Model:
    """A model with random weights from a seed; its heads say one half and never alert."""
    torch.manual_seed(seed)
    model = Model(model_config(topology)).eval()
    model.thresholds.fill_(1.0)
    return model


def train(
    topology: Topology,
    log: TrainingLog,
    links: LinkSettings,
    heads: HeadSettings,
    progress: TrainingCallbacks | None = None,
    device: str = "cpu",
    checkpoint: Checkpoint | None = None,
) -> Trained:
    """Train a model on a log.

    The encoder learns links from the oldest part, stops early by the middle one; then answers may teach it too. It and
    the heads have only labels known before the newest part begins. What that part says is in the metrics and in nothing
    else.
    checkpoint: where the encoder's training goes on if it was killed
    """
    count = len(log.interactions)
    if count < FEWEST_INTERACTIONS:
        raise DataError(
            f"The log holds {count} usable interactions, and training needs at least {FEWEST_INTERACTIONS}; skipped "
            f"records: {_skipped_in_words(log.skipped) or 'none'}. Untrained weights do without: "
            "faust -A stream_tgat release init"
        )
    share = topology.training
    split = _split(log, 1.0 - share.validation_share - share.test_share, share.validation_share)
    model = untrained(topology, links.seed).to(device)
    graph = TemporalGraph.of(log.interactions, log.node_features, torch.device(device))
    result = train_links(model, graph, split.train, split.validation, links, progress, checkpoint=checkpoint)
    begin = _begin_of_test(log, split)
    before = {name: _between(log, labels, -np.inf, begin) for name, labels in log.labels.items()}
    labels = {head.name: before[head.label_name] for head in topology.heads}
    cutoff = min(begin, float(log.interactions.time[-1]))
    asked = head_tasks(graph, [labels[name] for name in model.config.head_names], cutoff, heads.validation_share)
    lesson = LinkLesson(spread(split.train, None), RandomNegatives(log.interactions, links.seed), links.negatives)
    tuning = replace(fine_tuning(topology), seed=links.seed)
    tuned = fine_tune(model, graph, asked, tuning, lesson, _after(len(result.epochs), progress))
    link_metrics = _link_metrics(model, graph, split, links, result, tuned)
    model, graph = model.cpu(), TemporalGraph.of(log.interactions, log.node_features)
    trained = train_heads(model, graph, labels, cutoff, heads)
    head_part, head_metrics = _head_metrics(topology, log, model, graph, trained, begin)
    _let_topology_choose_thresholds(topology, model)
    learnt_until = min(begin, float(np.nextafter(log.interactions.time[-1], np.inf)))
    return Trained(model.eval(), result, link_metrics, tuple(trained), head_part, head_metrics, learnt_until, tuned)


@dataclass(frozen=True, eq=False)
class Refitted:
    """A model that has learnt from all of a log (in evaluation mode, on the CPU). learnt_until: as of `Trained`."""

    model: Model
    learnt_until: float


def refit(
    topology: Topology,
    log: TrainingLog,
    trained: Trained,
    links: LinkSettings,
    heads: HeadSettings,
    progress: TrainingCallbacks | None = None,
    device: str = "cpu",
) -> Refitted:
    """Train anew by the recipe of a trained model, on all of the log, with what was held out for that one.

    The encoder learns from every link, for as many epochs as validation chose then; heads from every answer known, as
    ever. trained: on an older part of this log, with these settings
    """
    time = log.interactions.time
    count, end = len(time), float(time[-1])
    model = untrained(topology, links.seed).to(device)
    graph = TemporalGraph.of(log.interactions, log.node_features, torch.device(device))
    epochs = trained.links.best + 1 if trained.links.best >= 0 else len(trained.links.epochs)
    fixed = replace(links, epochs=epochs)
    train_links(model, graph, slice(0, count), slice(count, count), fixed, progress)
    labels = {head.name: log.labels[head.label_name] for head in topology.heads}
    asked = head_tasks(graph, [labels[name] for name in model.config.head_names], end, heads.validation_share)
    lesson = LinkLesson(spread(slice(0, count), None), RandomNegatives(log.interactions, links.seed), links.negatives)
    tuning = replace(fine_tuning(topology), seed=links.seed, epochs=trained.tuned.best + 1, by_validation=False)
    fine_tune(model, graph, asked, tuning, lesson, _after(epochs, progress))
    model = model.cpu()
    train_heads(model, TemporalGraph.of(log.interactions, log.node_features), labels, end, heads)
    _let_topology_choose_thresholds(topology, model)
    return Refitted(model.eval(), float(np.nextafter(end, np.inf)))


def limited(settings: LinkSettings, epochs: int | None, seed: int | None) -> LinkSettings:
    """The settings with what the command line overrides."""
    return replace(
        settings,
        epochs=settings.epochs if epochs is None else epochs,
        seed=settings.seed if seed is None else seed,
    )


def _link_metrics(
    model: Model, graph: TemporalGraph, split: Split, settings: LinkSettings, result: LinkResult, tuned: FineTuned
) -> tuple[LinkMetrics, ...]:
    """Validation as measured after the best epoch, anew where answers have taught the encoder since; the test part is
    looked at here for the first time.
    """
    metrics = []
    negatives = RandomNegatives(graph.history.interactions, settings.seed)
    if split.validation.stop > split.validation.start and result.best >= 0:
        best = result.epochs[result.best]
        count = split.validation.stop - split.validation.start
        figures = (best.average_precision, best.accuracy)
        if tuned.best >= 0:
            figures = evaluate_links(model, graph, negatives, split.validation, settings)
        metrics.append(LinkMetrics("validation", count, *figures))
    if split.test.stop > split.test.start:
        figures = evaluate_links(model, graph, negatives, split.test, settings)
        metrics.append(LinkMetrics("test", split.test.stop - split.test.start, *figures))
    return tuple(metrics)


def _after(epochs: int, progress: TrainingCallbacks | None) -> TrainingCallbacks:
    """Whom to tell of epochs that come after so many."""
    told = progress or TrainingCallbacks()
    return TrainingCallbacks(lambda epoch, done, total, loss: told.on_batch(epochs + epoch, done, total, loss))


def _split(log: TrainingLog, train: float, validation: float) -> Split:
    """By time; where there is a test part, by shares of what is old enough for its answers to be complete.

    What is newer belongs to the test part too, with links to ask about. At most half of the log is kept from training
    and validation for the sake of late answers.
    """
    time = log.interactions.time
    split = chronological_split(time, train, validation)
    if split.test.start == len(time):
        return split
    delay = max((each.maturity.delay_s for each in log.labels.values() if len(each)), default=0.0)
    complete = int(np.searchsorted(time, time[-1] - delay, "right"))
    complete = max(complete, round(LEAST_LEARNT / (train + validation) * len(time)))
    found = chronological_split(time[: min(complete, len(time))], train, validation)
    return Split(found.train, found.validation, slice(found.test.start, len(time)))


def _begin_of_test(log: TrainingLog, split: Split) -> float:
    """Time at which the test part begins; +inf where there is none."""
    return float(log.interactions.time[split.test.start]) if split.test.start < len(log.interactions) else np.inf


def _between(log: TrainingLog, labels: LabelSet, begin: float, end: float) -> LabelSet:
    """Labels whose question lies in begin <= time < end."""
    time = log.interactions.time[labels.event]
    return labels.select((time >= begin) & (time < end))


def _tested(log: TrainingLog, labels: LabelSet, begin: float) -> LabelSet:
    """Labels of the test part whose question has its answers complete."""
    return _between(log, labels, begin, float(np.nextafter(labels.maturity.complete_until, np.inf)))


def _head_metrics(
    topology: Topology, log: TrainingLog, model: Model, graph: TemporalGraph, trained: list[HeadResult], begin: float
) -> tuple[str, dict[str, BinaryMetrics]]:
    """On the test part where it has complete answers; else on what heads were validated on, which flatters a little."""
    newest = {head.name: _tested(log, log.labels[head.label_name], begin) for head in topology.heads}
    if not any(len(labels) for labels in newest.values()):
        return "validation", {
            head.name: binary_metrics(head.validation_value, head.validation_probability) for head in trained
        }
    metrics = {}
    for at, (name, labels) in enumerate(newest.items()):
        inputs = embed_events(model, graph, labels.event)
        width = model.config.hidden
        with torch.inference_mode():
            probability = model.predict(inputs[:, :width], inputs[:, width:])[:, at]
        metrics[name] = binary_metrics(labels.value, probability.double().numpy())
    return "test", metrics


def _let_topology_choose_thresholds(topology: Topology, model: Model) -> None:
    for at, head in enumerate(topology.heads):
        if head.threshold is not None:
            model.thresholds[at] = head.threshold


def _skipped_in_words(skipped: Mapping[str, Mapping[str, int]]) -> str:
    return "; ".join(
        f"{topic}: {count} x {reason}" for topic, reasons in skipped.items() for reason, count in reasons.items()
    )
