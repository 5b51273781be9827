"""The time encoding against values computed with sixty digits, over spans from a millisecond to a year."""

import numpy as np
import pytest
import torch

from stream_tgat.nn.time_encoding import TimeEncoding
from tests.parity.fixtures import Arrays, arrays

CASES = ["omega32_d8", "omega32_d50", "omega64_d8"]


@pytest.fixture(scope="module")
def truth() -> Arrays:
    return arrays("time_encoding")


def encoding(omega: np.ndarray, phase: np.ndarray | None) -> TimeEncoding:
    """An encoding of exactly these frequencies; a phase means the peers' cosine, none the paper's Bochner."""
    made = TimeEncoding(len(omega) * (2 if phase is None else 1), bochner=phase is None)
    widened = torch.from_numpy(omega.astype(np.float64))
    with torch.no_grad():
        if phase is None:
            made.log_omega.copy_(widened.log())
        else:
            made.omega.copy_(widened)
            assert made.phase is not None
            made.phase.copy_(torch.from_numpy(phase))
    return made


def error(made: TimeEncoding, span: np.ndarray, expected: np.ndarray, dtype: torch.dtype) -> float:
    with torch.inference_mode():
        got = made(torch.from_numpy(span), dtype)
    assert got.dtype == dtype
    assert got.shape == expected.shape
    return float(np.abs(got.double().numpy() - expected).max())


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-6), (torch.float64, 5e-8)])
def test_cosine_with_phase(truth: Arrays, case: str, dtype: torch.dtype, tolerance: float) -> None:
    made = encoding(truth[case], truth["phase_" + case.split("_")[1]])
    assert error(made, truth["dt"], truth["cos_" + case], dtype) <= tolerance


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-6), (torch.float64, 5e-8)])
def test_bochner(truth: Arrays, case: str, dtype: torch.dtype, tolerance: float) -> None:
    assert error(encoding(truth[case], None), truth["dt"], truth["bochner_" + case], dtype) <= tolerance


def test_difference_of_absolute_times(truth: Arrays) -> None:
    span = truth["pair_now"] - truth["pair_past"]
    omega, phase = truth["omega32_d8"], truth["phase_d8"]
    assert error(encoding(omega, phase), span, truth["pair_cos_omega32_d8"], torch.float32) <= 1e-6
    assert error(encoding(omega, None), span, truth["pair_bochner_omega32_d8"], torch.float32) <= 1e-6


def test_initial_frequencies_are_the_papers(truth: Arrays) -> None:
    for made in (TimeEncoding(16, bochner=True), TimeEncoding(8, bochner=False)):
        np.testing.assert_allclose(made.frequencies().detach().numpy(), truth["omega64_d8"], rtol=1e-13)
