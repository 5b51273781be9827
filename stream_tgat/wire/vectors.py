"""Lists of numbers as JSON writes them, many at once, parsed by machine code that runs without Python's lock.

Most bytes of an interaction with a vector are that vector's numbers, and a Python object for each of them costs more
than all else that is done with the record. What is parsed here is, bit for bit, what a JSON parser and NumPy make of
the same text; whatever is not plainly a list of so many numbers is left to them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from stream_tgat.compiled import compiled, compiled_with_arrays

_U = np.uint64
_LARGEST: Final = float(np.finfo(np.float32).max)
#: Powers of ten that float64 holds exactly.
_TENS: Final = np.array([10.0**k for k in range(23)])
#: Exponents beyond it are left to others.
_MOST: Final = 64


def _power_of_five(q: int) -> int:
    """The 128 most significant bits of 5^q, rounded down, or up where q is negative (Lemire 2021, section 5)."""
    power: int = 5 ** abs(q)
    if q >= 0:
        shift = 128 - power.bit_length()
        return power << shift if shift >= 0 else power >> -shift
    bits = (power - 1).bit_length()
    if q >= -27:
        return (1 << (bits + 127)) // power + 1
    reciprocal = (1 << (2 * bits + 128)) // power + 1
    return reciprocal >> (reciprocal.bit_length() - 128)


#: u8[2 * _MOST + 1, 2], the high and the low half of 5^q.
_FIVES: Final = np.array(
    [[_power_of_five(q) >> 64, _power_of_five(q) & (2**64 - 1)] for q in range(-_MOST, _MOST + 1)], np.uint64
)


@compiled
def _high_product(a: Any, b: Any) -> Any:
    """The upper 64 bits of a·b."""
    low, thirty_two = _U(0xFFFFFFFF), _U(32)
    a0, a1, b0, b1 = a & low, a >> thirty_two, b & low, b >> thirty_two
    middle = a1 * b0 + ((a0 * b0) >> thirty_two)
    return a1 * b1 + (middle >> thirty_two) + ((a0 * b1 + (middle & low)) >> thirty_two)


@compiled
def _bits(mantissa: Any, exponent: int, fives: Any) -> Any:
    """Bits of the float64 nearest to mantissa·10^exponent, for a mantissa above 0; 0 where that cannot be told.

    The algorithm of Eisel and Lemire (Lemire, Number parsing at a gigabyte per second, 2021).
    """
    w, zeros = mantissa, 0
    for step in (32, 16, 8, 4, 2, 1):
        if w >> _U(64 - step) == _U(0):
            w <<= _U(step)
            zeros += step
    row = exponent + _MOST
    high, low = _high_product(w, fives[row, 0]), w * fives[row, 0]
    if high & _U(0x1FF) == _U(0x1FF):
        more = _high_product(w, fives[row, 1])
        low += more
        if more > low:
            high += _U(1)
    if low == _U(0xFFFFFFFFFFFFFFFF):
        return _U(0)
    upper = high >> _U(63)
    shift = upper + _U(9)
    found = high >> shift
    power = ((217706 * exponent) >> 16) + 63 + np.int64(upper) - zeros + 1023
    # Halfway between two floats: to the even one.
    if low <= _U(1) and -4 <= exponent <= 23 and found & _U(3) == _U(1) and found << shift == high:
        found &= ~_U(1)
    found = (found + (found & _U(1))) >> _U(1)
    if found >= _U(1) << _U(53):
        found = _U(1) << _U(52)
        power += 1
    if power <= 0 or power >= 2047:
        return _U(0)
    return (found & ~(_U(1) << _U(52))) | (_U(power) << _U(52))


@compiled_with_arrays
def _parse(text: Any, ends: Any, tens: Any, fives: Any, out: Any, is_plain: Any) -> None:
    """Lists in text, u1, each ended by "]" at `ends`, i8[n], into out, f4[n, size], if plain; so is_plain, bool[n]."""
    bits = np.zeros(1, np.uint64)
    as_float = bits.view(np.float64)
    at = 0
    for row in range(out.shape[0]):
        end, column, good = ends[row], 0, True
        while good and column < out.shape[1]:
            while at < end and (text[at] == 32 or 9 <= text[at] <= 10 or text[at] == 13):
                at += 1
            is_negative = text[at] == 45
            if is_negative:
                at += 1
            mantissa, digits, exponent, begin = _U(0), 0, 0, at
            while 48 <= text[at] <= 57:
                mantissa = mantissa * _U(10) + _U(text[at] - 48)
                digits += digits > 0 or mantissa != _U(0)
                at += 1
            if at == begin or (at - begin > 1 and text[begin] == 48):
                good = False
                break
            is_whole = True
            if text[at] == 46:
                is_whole = False
                at += 1
                begin = at
                while 48 <= text[at] <= 57:
                    mantissa = mantissa * _U(10) + _U(text[at] - 48)
                    digits += digits > 0 or mantissa != _U(0)
                    at += 1
                exponent = begin - at
                if exponent == 0:
                    good = False
                    break
            if text[at] == 101 or text[at] == 69:
                is_whole = False
                at += 1
                is_down = text[at] == 45
                if is_down or text[at] == 43:
                    at += 1
                power, begin = 0, at
                while 48 <= text[at] <= 57 and at - begin < 5:
                    power = power * 10 + (text[at] - 48)
                    at += 1
                if at == begin:
                    good = False
                    break
                exponent += -power if is_down else power
            if digits > 19:
                good = False
                break
            number = 0.0
            if mantissa == _U(0):
                # A whole zero has no sign.
                is_negative = is_negative and not is_whole
            elif mantissa <= _U(1) << _U(53) and -22 <= exponent <= 22:
                # Both are exact, so the result is rounded once.
                number = np.float64(mantissa)
                number = number / tens[-exponent] if exponent < 0 else number * tens[exponent]
            elif -_MOST <= exponent <= _MOST:
                bits[0] = _bits(mantissa, exponent, fives)
                number = as_float[0]
                if number == 0.0:
                    good = False
                    break
            else:
                good = False
                break
            if number > _LARGEST:
                good = False
                break
            out[row, column] = -number if is_negative else number
            while at < end and (text[at] == 32 or 9 <= text[at] <= 10 or text[at] == 13):
                at += 1
            column += 1
            if column < out.shape[1]:
                if text[at] != 44:
                    good = False
                    break
                at += 1
        is_plain[row] = good and at == end
        at = end + 1


def parse_lists(lists: Sequence[bytes], size: int) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
    """The numbers of `lists`, each the text between the brackets of a JSON list that holds no other.

    Returns float32 [n, size], and bool [n]: True where a list has exactly `size` finite numbers of float32, and nothing
    in it is unusual; its row says nothing otherwise.

    >>> numbers, is_plain = parse_lists([b"1, -2.5e1", b"1", b"1,x"], 2)
    >>> numbers[0].tolist(), is_plain.tolist()
    ([1.0, -25.0], [True, False, False])
    """
    numbers, is_plain = np.zeros((len(lists), size), np.float32), np.zeros(len(lists), np.bool_)
    if lists:
        ends = np.cumsum(np.fromiter(map(len, lists), np.int64, len(lists)) + 1) - 1
        text = np.frombuffer(b"]".join(lists) + b"]", np.uint8)
        _parse(text, ends, _TENS, _FIVES, numbers, is_plain)
    return numbers, is_plain
