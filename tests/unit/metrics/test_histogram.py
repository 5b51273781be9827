"""A histogram that takes arrays counts as one that takes values one by one."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from stream_tgat.metrics import Histogram

BOUNDS = (0.01, 0.1, 1.0)
VALUES = st.lists(st.one_of(st.sampled_from([*BOUNDS, math.nan]), st.floats(-1.0, 10.0)), max_size=30)


@given(batches=st.lists(VALUES, max_size=4))
def test_buckets_hold_what_is_not_above_their_bound(batches: list[list[float]]) -> None:
    at_once, singly = Histogram(BOUNDS), Histogram(BOUNDS)
    for batch in batches:
        at_once.observe_all(np.array(batch, np.float64))
        for value in batch:
            if not math.isnan(value):
                singly.observe(value)
    known = [value for batch in batches for value in batch if not math.isnan(value)]
    expected = [(str(bound), sum(value <= bound for value in known)) for bound in BOUNDS] + [("+Inf", len(known))]
    assert list(at_once.buckets()) == list(singly.buckets()) == expected
    assert math.isclose(at_once.sum, sum(known), abs_tol=1e-9)
    assert at_once.count == len(known)
