"""How a training went: figures of its epochs, who is told of them, and their log on disk."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

import orjson

from stream_tgat.disk import replacing


@dataclass(frozen=True)
class Epoch:
    """One epoch's figures. loss: mean of a positive and its negatives; seconds: training only, without validation.

    average_precision, accuracy: on validation, NaN where there is nothing to validate on
    """

    number: int
    loss: float
    average_precision: float
    accuracy: float
    seconds: float = field(default=0.0, compare=False)


@dataclass(frozen=True)
class LinkResult:
    """All epochs, and which of them the model now holds (−1: the last, as there was nothing to validate on)."""

    epochs: tuple[Epoch, ...]
    best: int


@dataclass
class TrainingCallbacks:
    """Whom to tell how far it is. Every call is optional.

    on_batch: (epoch, batches done, batches in all, loss)   on_epoch: (epoch's figures)
    """

    on_batch: Callable[[int, int, int, float], None] = field(default=lambda *_: None)
    on_epoch: Callable[[Epoch], None] = field(default=lambda _: None)

    def and_also(self, other: "TrainingCallbacks") -> "TrainingCallbacks":
        """Tell both."""

        def on_batch(epoch: int, done: int, total: int, loss: float) -> None:
            self.on_batch(epoch, done, total, loss)
            other.on_batch(epoch, done, total, loss)

        def on_epoch(epoch: Epoch) -> None:
            self.on_epoch(epoch)
            other.on_epoch(epoch)

        return TrainingCallbacks(on_batch, on_epoch)


def write_epochs(file: Path, epochs: Sequence[Epoch]) -> None:
    """One line of JSON per epoch, replacing what was there; NaN is null."""
    with replacing(file) as partial:
        partial.write_bytes(b"".join(orjson.dumps(asdict(epoch), option=orjson.OPT_APPEND_NEWLINE) for epoch in epochs))


def read_epochs(file: Path) -> tuple[Epoch, ...]:
    """What `write_epochs` wrote."""
    return tuple(epoch_from(orjson.loads(line)) for line in file.read_bytes().splitlines())


def epoch_from(values: dict[str, float | None]) -> Epoch:
    """An epoch from its JSON, where null stands for NaN."""
    figures = {name: float("nan") if value is None else value for name, value in values.items() if name != "number"}
    return Epoch(int(values["number"] or 0), **figures)
