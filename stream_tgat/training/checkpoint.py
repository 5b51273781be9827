"""A training that can be killed: all that it needs to go on, in one file that is always whole.

    checkpoint.safetensors    weights, best weights, Adam's moments; in its metadata, as JSON, the place and the epochs
    epochs.jsonl              the epochs' figures, for people and plots

Nothing is unpickled. The file is written beside and then renamed, so that a kill leaves the old one or the new one.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import orjson
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from stream_tgat.disk import replacing
from stream_tgat.errors import DataError
from stream_tgat.training.epochs import Epoch, epoch_from, write_epochs

CHECKPOINT_FILE = "checkpoint.safetensors"
LOG_FILE = "epochs.jsonl"


@dataclass(frozen=True, eq=False)
class TrainingSnapshot:
    """A training at a moment.

    epochs: those that are over   best: which of them, −1 if none   done: batches of the epoch under way
    total: the sum of their losses   seconds: spent on them
    weights, best_weights: state dictionaries of the model   optimiser: {parameter's place: {name: moment}}
    """

    epochs: tuple[Epoch, ...]
    best: int
    done: int
    total: float
    seconds: float
    weights: Mapping[str, Tensor]
    best_weights: Mapping[str, Tensor] | None
    optimiser: Mapping[int, Mapping[str, Tensor]]


class Checkpoint:
    """A folder of one training. every_batches: how often to save within an epoch, besides its end."""

    def __init__(self, folder: Path, every_batches: int = 100) -> None:
        self.folder, self.every_batches = folder, every_batches
        self.file = folder / CHECKPOINT_FILE

    def save(self, identity: str, snapshot: TrainingSnapshot) -> None:
        """Replace what was saved. identity: of the training, see `load`."""
        tensors = {f"weights.{name}": value for name, value in snapshot.weights.items()}
        tensors |= {f"best.{name}": value for name, value in (snapshot.best_weights or {}).items()}
        tensors |= {
            f"optimiser.{place}.{name}": value
            for place, moments in snapshot.optimiser.items()
            for name, value in moments.items()
        }
        place = {
            "identity": identity,
            "epochs": [asdict(epoch) for epoch in snapshot.epochs],
            "best": snapshot.best,
            "done": snapshot.done,
            "total": snapshot.total,
            "seconds": snapshot.seconds,
        }
        detached = {name: value.detach().cpu().contiguous() for name, value in tensors.items()}
        with replacing(self.file) as partial:
            save_file(detached, partial, {"place": orjson.dumps(place).decode()})
        write_epochs(self.folder / LOG_FILE, snapshot.epochs)

    def load(self, identity: str) -> TrainingSnapshot | None:
        """What was saved; None where nothing was.

        A checkpoint with another identity (other data, settings or model) is refused, as going on from it would give
        weights that no uninterrupted run has.
        """
        if not self.file.exists():
            return None
        try:
            with safe_open(self.file, framework="pt") as content:
                place: dict[str, Any] = orjson.loads((content.metadata() or {})["place"])
                tensors = {name: content.get_tensor(name) for name in content.keys()}  # noqa: SIM118 it is no mapping
        except (SafetensorError, OSError, KeyError, ValueError) as problem:
            raise DataError(
                f"{self.file} is not a readable checkpoint: {problem}; delete it to start over"
            ) from problem
        if place["identity"] != identity:
            raise DataError(
                f"{self.file} belongs to another training (its data, settings or model differ); "
                "choose another folder, or delete it to start over"
            )
        best = _under("best.", tensors)
        optimiser: dict[int, dict[str, Tensor]] = {}
        for name, value in _under("optimiser.", tensors).items():
            number, moment = name.split(".", 1)
            optimiser.setdefault(int(number), {})[moment] = value
        epochs = tuple(epoch_from(each) for each in place["epochs"])
        return TrainingSnapshot(
            epochs,
            place["best"],
            place["done"],
            place["total"],
            place["seconds"],
            _under("weights.", tensors),
            best or None,
            optimiser,
        )


def _under(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): value for name, value in tensors.items() if name.startswith(prefix)}
