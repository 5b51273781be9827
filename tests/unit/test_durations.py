import doctest

import pytest

from stream_tgat import durations
from stream_tgat.durations import seconds_of


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("5s", 5), ("90m", 90 * 60), ("24h", 86_400), ("7d", 7 * 86_400), ("2w", 14 * 86_400), (" 0.5 h ", 1_800)],
)
def test_number_with_a_unit_is_seconds(text: str, seconds: float) -> None:
    assert seconds_of(text) == seconds


@pytest.mark.parametrize("text", ["", "5", "h", "-1h", "0h", "1h30m", "1e3s", "1 month", "٣h", "nan s", "inf d"])
def test_anything_else_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(ValueError, match=r'is no length of time; .* such as "24h"'):
        seconds_of(text)


def test_examples_hold() -> None:
    assert doctest.testmod(durations).failed == 0
