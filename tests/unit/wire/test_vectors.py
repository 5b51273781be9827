"""Vectors parsed by machine code: bit for bit what orjson and NumPy make of the same text, or left to them."""

from __future__ import annotations

import random

import numpy as np
import orjson
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from stream_tgat.wire.vectors import parse_lists

LARGEST = float(np.finfo(np.float32).max)
ODD = [
    *("-0", "0", "-0.0", "0.0", "-0e3", "0E-9", "1E5", "1e-5", "01", "-01", "00", "1.", "+1", ".5", "-", "1e", "1e+"),
    *("0x1", "1_0", "NaN", "Infinity", "true", "null", "", " ", "1 2", "1\x00", "1\xa0", '"1"', "[1"),
    *("1e400", "1e99999999", "1e-400", "3.4028236e38", "18446744073709551616", "9007199254740993"),
]


def by_others(text: str, size: int) -> np.ndarray[tuple[int], np.dtype[np.float32]] | None:
    """What the JSON parser and NumPy make of it; None where it is no list of `size` numbers of float32."""
    try:
        values = orjson.loads(f"[{text}]")
    except orjson.JSONDecodeError:
        return None
    if len(values) != size or not all(type(value) in (int, float) for value in values):
        return None
    numbers = np.array(values, np.float64)
    return numbers.astype(np.float32) if (np.abs(numbers) <= LARGEST).all() else None


def check(texts: list[str], size: int) -> int:
    """Compare, and return how many were parsed."""
    numbers, is_plain = parse_lists([text.encode() for text in texts], size)
    for text, got, plain in zip(texts, numbers, is_plain.tolist(), strict=True):
        wanted = by_others(text, size)
        if plain:
            assert wanted is not None, text
            assert got.tobytes() == wanted.tobytes(), text
    return int(is_plain.sum())


def halfway(draw: random.Random) -> str:
    """A whole number exactly between two neighbouring float64, where rounding is hardest, or next to it."""
    between = (draw.getrandbits(52) | 1 << 52) * 2 + 1
    return str((between << draw.randrange(9)) + draw.randrange(-1, 2))


def test_numbers_of_every_length_and_exponent_are_rounded_as_others_do() -> None:
    draw = random.Random(1)
    makers = [
        lambda: repr(draw.gauss(0, 1)),
        lambda: repr(draw.uniform(-1, 1) * 10 ** draw.uniform(-30, 38)),
        lambda: str(draw.randrange(-(2**66), 2**66)),
        lambda: f"{draw.uniform(-1e6, 1e6):.{draw.randrange(20)}f}",
        lambda: f"{draw.gauss(0, 1):.{draw.randrange(19)}e}",
        lambda: repr(float(np.float32(draw.gauss(0, 1)))),
        lambda: halfway(draw),
    ]
    texts = [draw.choice(makers)() for _ in range(20_000)]
    check(texts, 1)


def test_numbers_as_producers_write_them_are_not_left_to_others() -> None:
    draw = random.Random(2)
    numbers = [draw.gauss(0, 1) * 10 ** draw.randrange(-9, 9) for _ in range(2_000)]
    texts = [f"{number!r},{round(number, 6)!r},{float(np.float32(number))!r}" for number in numbers]
    assert check(texts, 3) == len(texts)


@settings(deadline=None)  # the first one may compile
@given(
    st.lists(
        st.lists(
            st.one_of(
                st.floats(allow_nan=False, allow_infinity=False).map(repr),
                st.integers(-(2**70), 2**70).map(str),
                st.sampled_from(ODD),
                st.from_regex(r"\A-?[0-9]{0,22}(\.[0-9]{0,22})?([eE][+-]?[0-9]{0,3})?\Z"),
                st.text("0123456789.eE+- \t\n\r", max_size=12),
            ),
            min_size=1,
            max_size=4,
        ).map(",".join),
        max_size=4,
    )
)
@example(["1,2", "1,2,3", "1", "", "1,2,", ",1", "1,,2"])
def test_any_text_is_read_as_others_do_or_left_to_them(texts: list[str]) -> None:
    # What stands between the brackets of a list that holds no other has none itself.
    check([text.replace("]", "") for text in texts], 2)


@pytest.mark.parametrize("text", ODD)
def test_odd_text_is_read_as_others_do_or_left_to_them(text: str) -> None:
    check([text], 1)


def test_plain_lists_are_read_beside_others_whatever_the_white_space() -> None:
    numbers, is_plain = parse_lists([b" 1,\t2.5 ", b"x", b"-1e2\n,\r0"], 2)
    assert is_plain.tolist() == [True, False, True]
    assert numbers[[0, 2]].tolist() == [[1.0, 2.5], [-100.0, 0.0]]
