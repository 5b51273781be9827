"""Edge vectors read back: the fields of an interaction, as far as its vector still tells them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stream_tgat.features import CategoryFeature, Feature, FlagFeature, NumberFeature


def fields_of(features: tuple[Feature, ...], vector: NDArray[np.float32]) -> dict[str, Any]:
    """The field that each feature reads, by name. vector: [E]

    A number comes back to float32's seven digits, and no larger than `clip` lets it; of a category whose value is not
    listed, or that lies in one of `buckets`, only that is known.

    >>> price = NumberFeature(kind="number", name="price", log1p=True)
    >>> channel = CategoryFeature(kind="category", name="channel", values=("web", "app"))
    >>> fields_of((price, channel), np.array([math.log1p(24.9), 0, 1, 0], np.float32))
    {'price': 24.9, 'channel': 'app'}
    """
    found, start = {}, 0
    for feature in features:
        part = vector[start : start + feature.width]
        found[feature.name] = _field(feature, part)
        start += feature.width
    return found


def _field(feature: Feature, part: NDArray[np.float32]) -> Any:
    if isinstance(feature, NumberFeature):
        number = float(part[0]) * feature.scale + feature.offset
        if feature.log1p:
            number = math.copysign(math.expm1(min(abs(number), 700.0)), number)
        return float(f"{number:.6g}")
    if isinstance(feature, FlagFeature):
        return bool(part[0])
    if isinstance(feature, CategoryFeature):
        slot = int(np.argmax(part))
        if not part[slot]:
            return None
        if feature.values is None:
            return f"#{slot}"
        return feature.values[slot] if slot < len(feature.values) else "(other)"
    return [float(f"{number:.6g}") for number in part.tolist()]
