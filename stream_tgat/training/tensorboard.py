"""A training's figures for TensorBoard, where that is installed: it is no dependency of this package."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from stream_tgat.errors import DataError
from stream_tgat.training.epochs import Epoch, TrainingCallbacks


@contextmanager
def tensorboard(folder: Path) -> Iterator[TrainingCallbacks]:
    """Who is told within writes the loss of each batch and the figures of each epoch into a folder."""
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError as problem:
        raise DataError("TensorBoard is not installed; get it with: pip install 'tensorboard>=2.18,<3'") from problem

    writer = SummaryWriter(str(folder))  # type: ignore[no-untyped-call,unused-ignore]

    def on_batch(epoch: int, done: int, total: int, loss: float) -> None:
        writer.add_scalar("batch/loss", loss, epoch * total + done)  # type: ignore[no-untyped-call,unused-ignore]

    def on_epoch(epoch: Epoch) -> None:
        for name in ("loss", "average_precision", "accuracy", "seconds"):
            writer.add_scalar(f"epoch/{name}", getattr(epoch, name), epoch.number)  # type: ignore[no-untyped-call,unused-ignore]

    try:
        yield TrainingCallbacks(on_batch, on_epoch)
    finally:
        writer.close()  # type: ignore[no-untyped-call,unused-ignore]
