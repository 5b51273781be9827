"""Calibration: bins against scikit-learn's, the error by hand, and a plot that is the same twice."""

import sys

import numpy as np
import pytest
from sklearn.calibration import calibration_curve

from stream_tgat.errors import DataError
from stream_tgat.evaluation.reliability_plot import draw_reliability, require_plots
from stream_tgat.training.reliability import Reliability, reliability


def test_bins_are_scikit_learns_quantile_bins():
    random = np.random.default_rng(0)
    probability = random.beta(1, 20, 997)
    truth = (random.random(997) < probability).astype(float)
    found = reliability(truth, probability)
    observed, predicted = calibration_curve(truth, probability, n_bins=10, strategy="quantile")
    np.testing.assert_allclose(found.observed, observed)
    np.testing.assert_allclose(found.predicted, predicted)
    assert sum(found.count) == 997
    assert max(found.count) - min(found.count) <= 1


def test_error_is_the_mean_distance_by_answers():
    # Two bins: three answers of 10 %, none true; one answer of 90 %, true.
    found = reliability([0, 0, 0, 1], [0.1, 0.1, 0.1, 0.9], bins=2)
    assert found.count == (3, 1)
    assert found.error == pytest.approx((3 * 0.1 + 0.1) / 4)
    assert reliability([0, 1, 0, 1], [0.5] * 4).error == pytest.approx(0.0)


def test_equal_probabilities_share_a_bin():
    found = reliability([0, 1, 1, 1], [0.3] * 4)
    assert (found.count, found.observed) == ((4,), (0.75,))


def test_nothing_answered_has_no_error():
    assert np.isnan(reliability([], []).error)


def test_plot_is_an_svg_that_is_the_same_for_the_same_answers(tmp_path):
    found = Reliability((3, 1), (0.1, 0.9), (0.0, 1.0))
    files = [draw_reliability("a b/c", found, [0.1, 0.1, 0.1, 0.9], tmp_path / str(n)) for n in (1, 2)]
    assert [file.name for file in files] == ["reliability-a_b_c.svg"] * 2
    content = files[0].read_text()
    assert "<svg" in content
    assert "a b/c: expected calibration error 0.100" in content
    assert content == files[1].read_text()


def test_missing_matplotlib_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setattr("stream_tgat.evaluation.reliability_plot.find_spec", lambda _: None)
    with pytest.raises(DataError, match=r"pip install 'stream-tgat\[plots\]'"):
        require_plots()
