"""Figures for TensorBoard, or a word on how to get it."""

import importlib.util
import sys

import pytest

from stream_tgat.errors import DataError
from stream_tgat.training.epochs import Epoch
from stream_tgat.training.tensorboard import tensorboard


def test_without_the_package_it_says_how_to_get_it(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    with pytest.raises(DataError, match=r"pip install 'tensorboard"), tensorboard(tmp_path):
        pass


@pytest.mark.skipif(importlib.util.find_spec("tensorboard") is None, reason="tensorboard is not installed")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_figures_can_be_read_back(tmp_path):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    with tensorboard(tmp_path) as told:
        told.on_batch(0, 1, 2, 0.75)
        told.on_batch(1, 1, 2, 0.5)
        told.on_epoch(Epoch(0, 0.7, 0.9, 0.8, 3.0))
    read = EventAccumulator(str(tmp_path))
    read.Reload()
    assert [(event.step, event.value) for event in read.Scalars("batch/loss")] == [(1, 0.75), (3, 0.5)]
    assert read.Scalars("epoch/average_precision")[0].value == pytest.approx(0.9)
