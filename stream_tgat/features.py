"""Turns the real fields of an interaction into its edge vector, the same way in training and in the stream.

A topology lists the fields under ``[[features]]``; a `FeatureEncoder` made from that list is a pure function of a
record's fields. Its definition and hash are stored in every release, so that a worker refuses weights that were trained
on other features. Knows nothing of Kafka, topics or graphs.
"""

import hashlib
import math
import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from typing import Annotated, Any, Literal

import numpy as np
import numpy.typing as npt
import orjson
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, model_validator

from stream_tgat.errors import shown

Float32 = npt.NDArray[np.float32]

_LARGEST = float(np.finfo(np.float32).max)
_NUMBERS = frozenset((int, float))
_TEXTS = frozenset((str, int))


class _Feature(BaseModel):
    """What every kind of feature has: the name of the field it reads."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)

    name: str = Field(min_length=1, description="The field of the interaction that is read.")


class NumberFeature(_Feature):
    """One number: ``clip((f(x) - offset) / scale)``, where f is sign(x)·log(1 + |x|) with `log1p`, else x."""

    kind: Literal["number"]
    log1p: bool = Field(default=False, description="Take sign(x)·log(1 + |x|) first, for amounts that span decades.")
    offset: float = Field(default=0.0, description="Subtracted after the logarithm.")
    scale: float = Field(default=1.0, gt=0, description="Divided by, after the offset.")
    clip: float | None = Field(default=None, gt=0, description="The result is kept within ±clip.")
    default: float | None = Field(default=None, description="Used where the field is missing or null.")

    @property
    def width(self) -> int:
        """How many numbers of the edge vector this feature fills."""
        return 1


class CategoryFeature(_Feature):
    """One-hot of a text or integer: over listed `values` and one slot for all others, or over `buckets` by CRC-32."""

    kind: Literal["category"]
    values: Annotated[tuple[str, ...], Field(strict=False)] | None = Field(
        default=None, description="Known values, in the order of their slots; a last slot is for any other value."
    )
    buckets: int | None = Field(default=None, ge=2, le=4096, description="Number of slots; crc32(utf-8) % buckets.")
    default: str | None = Field(default=None, description="Used where the field is missing or null.")

    @model_validator(mode="after")
    def _one_encoding(self) -> "CategoryFeature":
        if (self.values is None) == (self.buckets is None):
            raise ValueError(f"feature {self.name!r}: give either values or buckets, and not both")
        if self.values is not None and (not self.values or len(set(self.values)) < len(self.values)):
            raise ValueError(f"feature {self.name!r}: values must be a list of different texts that is not empty")
        return self

    @property
    def width(self) -> int:
        """How many numbers of the edge vector this feature fills."""
        return self.buckets if self.buckets is not None else len(self.values or ()) + 1


class FlagFeature(_Feature):
    """True or false (or 1 or 0) as 1.0 or 0.0."""

    kind: Literal["flag"]
    default: bool | None = Field(default=None, description="Used where the field is missing or null.")

    @property
    def width(self) -> int:
        """How many numbers of the edge vector this feature fills."""
        return 1


class VectorFeature(_Feature):
    """A list of exactly `size` numbers, taken as they are."""

    kind: Literal["vector"]
    size: int = Field(ge=1, le=4096)

    @property
    def width(self) -> int:
        """How many numbers of the edge vector this feature fills."""
        return self.size


Feature = Annotated[NumberFeature | CategoryFeature | FlagFeature | VectorFeature, Field(discriminator="kind")]
_FEATURES: TypeAdapter[tuple[Feature, ...]] = TypeAdapter(tuple[Feature, ...])


class FeatureEncoder:
    """Edge vectors of records.

    >>> minor, text = FlagFeature(kind="flag", name="minor"), VectorFeature(kind="vector", name="text", size=2)
    >>> encoder = FeatureEncoder([minor, text])
    >>> vectors, errors = encoder.encode([{"minor": True, "text": [0.5, -1]}, {"minor": 7, "text": [0, 0]}])
    >>> vectors[0].tolist(), errors[1]
    ([1.0, 0.5, -1.0], "field 'minor' must be true, false, 1 or 0, not 7")
    """

    def __init__(self, features: Sequence[Feature]) -> None:
        self.features = tuple(features)
        names = [feature.name for feature in self.features]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"feature {twice[0]!r} is defined twice; each field can be read once")
        self.width = sum(feature.width for feature in self.features)
        self._columns: list[tuple[str, Any, _Column]] = []
        start = 0
        for feature in self.features:
            column = _COLUMNS[feature.kind](feature, slice(start, start + feature.width))
            self._columns.append((feature.name, getattr(feature, "default", None), column))
            start += feature.width

    def definition(self) -> dict[str, Any]:
        """What this encoder does, as plain JSON values; equal definitions encode equally."""
        return {"version": 1, "features": [feature.model_dump(mode="json") for feature in self.features]}

    @property
    def hash(self) -> str:
        """SHA-256 of the definition, in hex: the same on every machine and in every process."""
        return hashlib.sha256(orjson.dumps(self.definition(), option=orjson.OPT_SORT_KEYS)).hexdigest()

    @property
    def column_names(self) -> list[str]:
        """A readable name for each number of the edge vector, in order: [E]."""
        return list(chain.from_iterable(_column_names(feature) for feature in self.features))

    def encode(self, records: Sequence[Mapping[str, Any]]) -> tuple[Float32, list[str | None]]:
        """Edge vectors of `records` ([n] mappings with at least the fields that the features name).

        Returns (float32 [n, E], [n] errors). An error says which field is wrong and how; its vector is all zero.
        """
        vectors = np.zeros((len(records), self.width), np.float32)
        errors: list[str | None] = [None] * len(records)
        if not records:
            return vectors, errors
        for name, default, column in self._columns:
            values = [record.get(name) for record in records]
            if default is not None:
                values = [default if value is None else value for value in values]
            if not column.fill(values, vectors):
                _fill_one_by_one(name, column, values, records, vectors, errors)
        for row, error in enumerate(errors):
            if error is not None:
                vectors[row] = 0.0
        return vectors, errors


class _Column(ABC):
    """Encodes one field of many records into its columns of the edge vectors."""

    def __init__(self, feature: Any, columns: slice) -> None:
        self.feature = feature
        self.columns = columns

    @abstractmethod
    def fill(self, values: list[Any], vectors: Float32) -> bool:
        """Encode all values at once into vectors[:, columns]; False where at least one of them is not plainly right."""

    @abstractmethod
    def plain(self, value: Any) -> Any:
        """The value in the plain Python type that `fill` takes; ValueError says what is wrong with it."""


class _NumberColumn(_Column):
    def fill(self, values: list[Any], vectors: Float32) -> bool:
        if not _NUMBERS.issuperset(map(type, values)):
            return False
        numbers = _as_array(values)
        if not np.isfinite(numbers).all():
            return False
        if self.feature.log1p:
            numbers = np.copysign(np.log1p(np.abs(numbers)), numbers)
        with np.errstate(over="ignore"):
            numbers = (numbers - self.feature.offset) / self.feature.scale
        if self.feature.clip is not None:
            numbers = np.clip(numbers, -self.feature.clip, self.feature.clip)
        if not (np.abs(numbers) <= _LARGEST).all():
            return False
        vectors[:, self.columns.start] = numbers
        return True

    def plain(self, value: Any) -> float:
        if isinstance(value, bool | np.bool) or not isinstance(value, int | float | np.integer | np.floating):
            raise ValueError(f"must be a number, not {shown(value)}")
        number = _as_float(value)
        if not math.isfinite(number):
            raise ValueError(f"must be a finite number, not {number}")
        return number


class _CategoryColumn(_Column):
    def __init__(self, feature: CategoryFeature, columns: slice) -> None:
        super().__init__(feature, columns)
        self._slots = {value: slot for slot, value in enumerate(feature.values or ())}

    def fill(self, values: list[Any], vectors: Float32) -> bool:
        types = set(map(type, values))
        if not _TEXTS.issuperset(types):
            return False
        texts = values if int not in types else [str(value) for value in values]
        if self.feature.buckets is not None:
            try:
                slots = [zlib.crc32(text.encode()) % self.feature.buckets for text in texts]
            except UnicodeEncodeError:
                return False
        else:
            other = len(self._slots)
            slots = [self._slots.get(text, other) for text in texts]
        vectors[np.arange(len(values)), self.columns.start + np.array(slots)] = 1.0
        return True

    def plain(self, value: Any) -> str:
        if isinstance(value, bool | np.bool) or not isinstance(value, str | int | np.integer):
            raise ValueError(f"must be a string or an integer, not {shown(value)}")
        text = str(value)
        try:
            text.encode()
        except UnicodeEncodeError:
            raise ValueError("must be valid Unicode; it holds a lone surrogate") from None
        return text


class _FlagColumn(_Column):
    def fill(self, values: list[Any], vectors: Float32) -> bool:
        # 1.0 == True, so membership alone would let floats in.
        if not {bool, int}.issuperset(map(type, values)) or not {0, 1}.issuperset(values):
            return False
        vectors[:, self.columns.start] = values
        return True

    def plain(self, value: Any) -> int:
        if isinstance(value, bool | int | np.bool | np.integer) and value in (0, 1):
            return int(value)
        raise ValueError(f"must be true, false, 1 or 0, not {shown(value)}")


class _VectorColumn(_Column):
    def fill(self, values: list[Any], vectors: Float32) -> bool:
        numbers: npt.NDArray[np.floating[Any]]
        if {np.ndarray}.issuperset(map(type, values)):
            # As a decoder that parses many at once gives them.
            if {(np.dtype(np.float32), (self.feature.size,))} != {(each.dtype, each.shape) for each in values}:
                return False
            numbers = np.array(values)
        else:
            if not {list}.issuperset(map(type, values)) or not {self.feature.size}.issuperset(map(len, values)):
                return False
            if not _NUMBERS.issuperset(map(type, chain.from_iterable(values))):
                return False
            numbers = _as_array(values)
        if not (np.abs(numbers) <= _LARGEST).all():
            return False
        vectors[:, self.columns] = numbers
        return True

    def plain(self, value: Any) -> list[float]:
        if not isinstance(value, list | tuple | np.ndarray):
            raise ValueError(f"must be a list of {self.feature.size} numbers, not {shown(value)}")
        if len(value) != self.feature.size:
            raise ValueError(f"must have {self.feature.size} numbers, but has {len(value)}")
        numbers = []
        for position, element in enumerate(value):
            if isinstance(element, bool | np.bool) or not isinstance(element, int | float | np.integer | np.floating):
                raise ValueError(f"must hold only numbers, but element {position} is {shown(element)}")
            number = _as_float(element)
            if not abs(number) <= _LARGEST:
                raise ValueError(f"must hold only finite numbers of float32, but element {position} is {number}")
            numbers.append(number)
        return numbers


_COLUMNS: dict[str, Callable[[Any, slice], _Column]] = {
    "number": _NumberColumn,
    "category": _CategoryColumn,
    "flag": _FlagColumn,
    "vector": _VectorColumn,
}


def _fill_one_by_one(
    name: str,
    column: _Column,
    values: list[Any],
    records: Sequence[Mapping[str, Any]],
    vectors: Float32,
    errors: list[str | None],
) -> None:
    """The slow way, taken when a batch holds an odd value: the first error of each record is kept."""
    for row, value in enumerate(values):
        if errors[row] is not None:
            continue
        if value is None:
            errors[row] = f"field {name!r} is null" if name in records[row] else f"field {name!r} is missing"
            continue
        try:
            plain = column.plain(value)
        except ValueError as problem:
            errors[row] = f"field {name!r} {problem}"
            continue
        if not column.fill([plain], vectors[row : row + 1]):
            errors[row] = f"field {name!r} is too large for a float32 edge feature: {shown(value)}"


def _column_names(feature: Feature) -> list[str]:
    if isinstance(feature, VectorFeature):
        return [f"{feature.name}[{position}]" for position in range(feature.size)]
    if isinstance(feature, CategoryFeature):
        if feature.values is not None:
            return [*(f"{feature.name}={value}" for value in feature.values), f"{feature.name}=(other)"]
        return [f"{feature.name}#{bucket}" for bucket in range(feature.width)]
    return [feature.name]


def _as_array(values: list[Any]) -> npt.NDArray[np.float64]:
    """Float64 of a list of numbers, or of lists of numbers; NaN for all where an integer is beyond any float."""
    try:
        return np.array(values, np.float64)
    except OverflowError:
        return np.full(len(values), np.nan)


def _as_float(value: Any) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf
