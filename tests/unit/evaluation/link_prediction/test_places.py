"""Places drawn by a hash: of the right distribution."""

from collections import Counter
from itertools import combinations

import numpy as np

from stream_tgat.evaluation.link_prediction.places import uniform_places


def test_uniform_places_every_subset_is_equally_likely() -> None:
    rows = 20_000
    places, mask = uniform_places(np.full(rows, 5), 3, np.arange(rows).astype(np.uint64))
    assert mask.all()
    counts = Counter(map(tuple, places.tolist()))
    assert set(counts) == set(combinations(range(5), 3))
    expected = rows / 10
    chi_squared = sum((count - expected) ** 2 / expected for count in counts.values())
    assert chi_squared < 27.9  # 9 degrees of freedom, p = 0.001
