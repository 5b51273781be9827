"""No bytes make a decoder raise what its callers do not expect, or end the process."""

from __future__ import annotations

import zlib
from itertools import islice

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fuzz.targets import TARGETS, mutations


@pytest.mark.parametrize("name", TARGETS)
def test_example_is_taken(name: str) -> None:
    target, example = TARGETS[name]
    assert target(example) is not None


@pytest.mark.parametrize("name", TARGETS)
def test_mutated_example_is_taken_or_refused(name: str) -> None:
    target, example = TARGETS[name]
    slow = name in {"topology", "model card", "weights"}
    for data in islice(mutations(example, np.random.default_rng(zlib.crc32(name.encode()))), 40 if slow else 2000):
        target(data)


@given(st.sampled_from([name for name in TARGETS if name not in {"model card", "weights"}]), st.binary(max_size=200))
def test_any_bytes_are_taken_or_refused(name: str, data: bytes) -> None:
    TARGETS[name][0](data)
