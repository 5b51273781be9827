"""DyGLib's TGAT by its protocol: the options are the published ones, and a small one runs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from research.experiments.fidelity import DYGLIB, PROTOCOL, make, zero_featured
from stream_tgat.evaluation.link_prediction import NegativeKind, Part
from tests.unit.research.baselines.small import circles


def test_options_are_those_of_the_published_table() -> None:
    task = zero_featured(circles())
    assert task.node_features is not None
    assert task.node_features.shape == (24, 172)
    assert not task.node_features.any()
    model = DYGLIB.untrained(node_features=172)
    config = model.config
    assert (config.preset, config.layers, config.attention_heads, config.neighbours) == ("dyglib", 2, 2, 20)
    assert (config.node_features, config.hidden, config.time_dim, config.attention_dropout) == (172, 172, 100, 0.1)
    assert (config.activity, config.pair_features, config.sampling) == (False, False, "recent")
    assert not model.encoder.preset.bochner  # raw frequencies
    trained = DYGLIB.settings
    assert (trained.batch_size, trained.learning_rate, trained.patience, trained.shuffle) == (200, 1e-4, 20, False)
    assert (trained.negatives, trained.historical_share, trained.averaging) == (1, 0.0, 0.0)
    assert (PROTOCOL.kinds, PROTOCOL.batch_size) == ((NegativeKind.RANDOM,), 200)


def test_small_run_is_kept_with_its_figure_over_batches(tmp_path: Path) -> None:
    task = zero_featured(circles(200))
    small = replace(DYGLIB, width=8, time_width=8, neighbours=3, settings=replace(DYGLIB.settings, epochs=1))
    told: list[bool] = []
    for _ in range(2):
        (report,) = make(task, small, 1, tmp_path, lambda _, there: told.append(there))
    assert told == [False, True]
    assert report.test.pair().count == len(task.events(Part.TEST))
    assert 0.0 < report.test.pair().batch_average_precision <= 1.0
