"""A first topology from what records look like: for somebody to correct, so every choice says what it rests on.

Fields are chosen by their names, their types and how many different values they have. Knows no Kafka.
"""

from __future__ import annotations

import re
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from stream_tgat.errors import DataError, WireError
from stream_tgat.topology import RESERVED_FIELDS, InputFormat, Topology
from stream_tgat.wire import parse_time

_USER: Final = (
    "user",
    "customer",
    "client",
    "account",
    "member",
    "buyer",
    "sender",
    "author",
    "person",
    "reader",
    "visitor",
    "who",
)
_ITEM: Final = (
    "item",
    "product",
    "sku",
    "article",
    "song",
    "track",
    "movie",
    "page",
    "merchant",
    "receiver",
    "target",
    "subject",
)
_NAMES: Final = {"user": _USER, "item": _ITEM}
_TIME: Final = ("timestamp", "time", "created", "occurred", "at", "ts", "date", "when")
_ID: Final = ("event_id", "eventid", "interaction_id", "message_id", "uuid", "id")
_KIND: Final = ("type", "kind", "event", "action", "op")
_UNITS: Final = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
_PLAIN: Final = re.compile(r"[A-Za-z_]\w*", re.ASCII)
# 2000 to 2100: a number in there is taken for a time, where its name speaks of one.
_FROM_S, _TO_S = 946_684_800.0, 4_102_444_800.0
_FEW: Final = 20
_BUCKETS: Final = 32
_WIDE: Final = 100.0
_OFTEN_AGAIN: Final = 0.1
#: A field whose values are more different than that names records, not nodes.
_OF_A_NODE: Final = 0.9
_MOST_FEATURES: Final = 12
_HEAD: Final = """\
# Made from {count:,} records. Look at each choice; topologies/template.toml explains every key.
name = "{name}"
"""
_TAIL: Final = """\
# What is to be predicted of a user comes on topic `labels`; a head learns the label of its name.
# [[heads]]
# name = "returns"
# threshold = 0.5
"""


@dataclass
class _Field:
    """What the records have at one path. values: of all records in which it is there"""

    path: tuple[str, ...]
    values: list[Any] = field(default_factory=list)
    in_each: bool = False

    @property
    def name(self) -> str:
        return self.path[-1]

    @property
    def expression(self) -> str:
        """The path in JMESPath."""
        text = ".".join(part if _PLAIN.fullmatch(part) else f'"{part}"' for part in self.path)
        return f"$each.{text}" if self.in_each else text

    @property
    def types(self) -> set[type]:
        return set(map(type, self.values))

    @property
    def is_id(self) -> bool:
        return self.types <= {str, int} and all(value != "" for value in self.values)

    def distinct(self) -> int:
        return len(set(map(str, self.values)))

    def score(self, names: Sequence[str]) -> float:
        """How well the path speaks of one of these: the earlier in the list, and the nearer its end, the better."""
        best = 0.0
        for depth, part in enumerate(reversed(self.path)):
            words = re.findall(r"[a-z]+", re.sub(r"([a-z])([A-Z])", r"\1_\2", part).lower())
            for rank, name in enumerate(names):
                if name in words or (name == part.lower()):
                    best = max(best, 10.0 - 2 * depth - rank / len(names))
        return best


@dataclass(frozen=True)
class RecordFormat:
    """What records are in. registry: the URL of where their schemas are, if these are in a registry"""

    name: InputFormat
    registry: str = ""


@dataclass(frozen=True)
class Draft:
    """A topology to correct. text: of its file   topology: what it means"""

    text: str
    topology: Topology


def draft(
    records: Sequence[Mapping[str, Any]], name: str, topic: str | None, form: RecordFormat | None = None
) -> Draft:
    """A topology for records like these. topic: where they lie, None for a file of the contract's topic

    form: what they are in; None for what says so itself

    DataError where nothing in them can be a user, an item or a time; it says which.
    """
    if not records:
        raise DataError("there are no records to look at")
    each = _list_of_objects(records)
    fields = [found for found in _fields(records, each) if not found.in_each or each]
    lines = sum(len(_at(record, each) or ()) for record in records) if each else len(records)
    whole = [found for found in fields if len(found.values) >= (lines if found.in_each else len(records)) * 0.9]
    time, unit, other_times = _time(whole)
    user = _best(whole, _USER, _ITEM, "who acted", {time.path})
    item = _best(whole, _ITEM, _USER, "on what", {time.path, user.path})
    used = {time.path, user.path, item.path}
    # What several records share names none of them.
    names = [f for f in whole if f.is_id and not f.in_each and f.path not in used and f.distinct() == len(f.values)]
    key = next((f for f in names if f.name.lower() in _ID), None) or next(
        (f for f in names if f.name.lower().endswith("id")), None
    )
    if key is not None:
        used.add(key.path)
    features = list(_features([f for f in fields if f.path not in used], len(records), lines))
    parts = [
        _HEAD.format(count=len(records), name=name),
        _graph(user, item, topic, key is not None, bool(each)),
        f"[schema_registry]\nurl = {_quoted(form.registry)}\n" if form and form.registry else "",
        _input(
            topic,
            form,
            each,
            _where(fields),
            {"id": key, "user": user, "item": item, "timestamp": time},
            {"id": [f for f in names if f not in other_times], "timestamp": other_times},
            unit,
            features,
        ),
        _model(user, item, lines, _again(records, each, user, item)),
        *(feature.text for feature in features),
        _TAIL,
    ]
    text = "\n".join(part for part in parts if part)
    return Draft(text, Topology.model_validate(tomllib.loads(text)))


def _list_of_objects(records: Sequence[Mapping[str, Any]]) -> tuple[str, ...] | None:
    """The list whose elements may each be an interaction: one of objects that speaks of items, in most records."""
    found: Counter[tuple[str, ...]] = Counter()
    for record in records:
        for path, value in _walk(record, into_lists=False):
            if isinstance(value, list) and value and all(isinstance(one, dict) for one in value):
                keys = {key for one in value for key in one}
                if any(_Field((key,)).score(_ITEM) for key in keys):
                    found[path] += 1
    return next((path for path, count in found.most_common(1) if count * 2 > len(records)), None)


def _walk(value: Any, path: tuple[str, ...] = (), *, into_lists: bool = True) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Paths of a record to what is not an object."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _walk(inner, (*path, str(key)), into_lists=into_lists)
    elif value is not None:
        yield path, value


def _fields(records: Iterable[Mapping[str, Any]], each: tuple[str, ...] | None) -> list[_Field]:
    found: dict[tuple[bool, tuple[str, ...]], _Field] = {}
    for record in records:
        for path, value in _walk(record):
            if path == each:
                for element in value:
                    for inner, one in _walk(element):
                        found.setdefault((True, inner), _Field(inner, in_each=True)).values.append(one)
            else:
                found.setdefault((False, path), _Field(path)).values.append(value)
    return list(found.values())


def _at(record: Mapping[str, Any], path: tuple[str, ...] | None) -> Any:
    value: Any = record
    for key in path or ():
        value = value.get(key) if isinstance(value, Mapping) else None
    return value


def _time(fields: Sequence[_Field]) -> tuple[_Field, str, list[_Field]]:
    """The field of time, its unit, and other fields that might be it: of that unit, as there is one for all."""
    found = [(f.score(_TIME), f, unit) for f in fields if not f.in_each and (unit := _unit(f)) is not None]
    found = [each for each in found if each[0]] or [each for each in found if each[1].types == {str}]
    if not found:
        raise DataError(
            "no field of all records is plainly a time (a number of this century, or ISO 8601): give the topology "
            'yourself, perhaps with timestamp = "$timestamp", the time at which a record was written'
        )
    _, best, unit = max(found, key=lambda each: each[0])
    return best, unit, [field for _, field, of in found if of == unit and field is not best]


def _unit(found: _Field) -> str | None:
    """What a field of time is in; None if it is none."""
    if found.types == {str}:
        try:
            return "s" if all(_FROM_S < parse_time(value) < _TO_S for value in found.values) else None
        except WireError:
            return None
    if not found.types <= {int, float}:
        return None
    low, high = min(found.values), max(found.values)
    return next((unit for unit, per in _UNITS.items() if low / per > _FROM_S and high / per < _TO_S), None)


def _best(
    fields: Sequence[_Field], names: Sequence[str], of_other: Sequence[str], role: str, used: set[tuple[str, ...]]
) -> _Field:
    """The field that says who acted, or on what: by its name, else the one of most values among those that come again.

    of_other: names of the other one
    """
    ids = [f for f in fields if f.is_id and f.path not in used]
    # Of what is equally well named, an id rather than a name, and what tells more apart.
    scored = [(f.score(names), f.name.lower().endswith("id"), f.distinct(), f) for f in ids if f.score(names)]
    guesses = [f for f in ids if 2 < f.distinct() < _OF_A_NODE * len(f.values) and not f.score(of_other)]
    if not scored and guesses:
        return max(guesses, key=_Field.distinct)
    if not scored:
        known = ", ".join(f.expression for f in ids[:10]) or "none"
        raise DataError(f"no field says by its name {role}; what could be an id: {known}. Give the topology yourself")
    return max(scored, key=lambda each: each[:3])[3]


@dataclass(frozen=True)
class _DraftedFeature:
    """A feature to take, or to propose where some records lack it: those would be refused."""

    name: str
    source: _Field
    text: str
    is_proposed: bool


def _features(fields: Sequence[_Field], records: int, lines: int) -> Iterator[_DraftedFeature]:
    names: set[str] = set(RESERVED_FIELDS)
    count = 0
    for found in fields:
        of = lines if found.in_each else records
        kind = None if found.score(_TIME) and _unit(found) else _kind(found)
        if kind is None or count >= _MOST_FEATURES:
            continue
        name = found.name if found.name not in names else "_".join(found.path)
        if name in names:
            continue
        names.add(name)
        count += 1
        missing = of - len(found.values)
        keys = f'[[features]]\nname = "{name}"\n{kind[1]}'
        if missing:
            note = f"# Missing in {missing / of:.0%} of what was read, which is refused without a default:\n"
            keys = "".join(f"# {line}\n" for line in [*keys.splitlines(), f"default = {kind[2]}"])
            yield _DraftedFeature(name, found, f"{kind[0]}{note}{keys}", is_proposed=True)
        else:
            yield _DraftedFeature(name, found, f"{kind[0]}{keys}", is_proposed=False)


def _kind(found: _Field) -> tuple[str, str, str] | None:
    """A comment, the keys of a feature, and a default; None for what is none, such as what is always the same."""
    types = found.types
    if found.distinct() < 2:
        return None
    if types == {bool}:
        return "", 'kind = "flag"\n', "false"
    if types <= {int, float} and types:
        numbers = np.array(found.values, np.float64)
        low, high, middle = numbers.min(), numbers.max(), np.median(np.abs(numbers))
        # Years, for one, are large and not wide.
        wide = low >= 0 and high > 10 * low and (high > _WIDE * max(float(middle), 1e-9) or high > 1_000)
        comment = f"# From {low:g} to {high:g}, half of them up to {middle:g}.\n"
        keys = 'kind = "number"\n' + ("log1p = true              # the span is wide\n" if wide else "")
        return comment, keys, f"{float(np.median(numbers)):g}"
    if types == {str}:
        count = Counter(found.values)
        if len(count) <= _FEW:
            values = ", ".join(_quoted(value) for value, _ in count.most_common())
            return f"# {len(count)} different values.\n", f'kind = "category"\nvalues = [{values}]\n', '""'
        if len(count) < len(found.values) * 0.5:
            return (
                f"# {len(count):,} different values, shared out among buckets.\n",
                f'kind = "category"\nbuckets = {_BUCKETS}\n',
                '""',
            )
        return None
    if types != {list} or not all(found.values) or len(set(map(len, found.values))) > 1:
        return None
    are_numbers = all(type(one) in (int, float) for value in found.values for one in value)
    size = len(found.values[0])
    return ("", f'kind = "vector"\nsize = {size}\n', str([0.0] * size)) if are_numbers else None


def _graph(user: _Field, item: _Field, topic: str | None, has_id: bool, has_each: bool) -> str:
    users, items = set(map(str, user.values)), set(map(str, item.values))
    shared = len(users & items) / max(min(len(users), len(items)), 1)
    longest = max(len(value.encode()) for value in users | items) + 1
    place = 0 if has_id else len(topic or "interactions") + len("/99999/") + 12 + (3 if has_each else 0)
    size = max(40, -(-max(longest, place) // 8) * 8)
    lines = ["[graph]"]
    if shared > 0.1:
        lines += [f"# {shared:.0%} of the ids are both users and items: one kind of node.", "bipartite = false"]
    if size > 40:
        lines += ["# The longest id, of a node or of an interaction by its place, in bytes.", f"max_id_bytes = {size}"]
    return "\n".join(lines) + "\n" if len(lines) > 1 else ""


def _input(
    topic: str | None,
    form: RecordFormat | None,
    each: tuple[str, ...] | None,
    where: str,
    roles: Mapping[str, _Field | None],
    others: Mapping[str, Sequence[_Field]],
    unit: str,
    features: Sequence[_DraftedFeature],
) -> str:
    lines = ["[input.interactions]"]
    if topic is not None:
        lines.append(f"topics = [{_quoted(topic)}]")
    if form is not None:
        lines.append(f"format = {_quoted(form.name)}")
    lines += [where] if where else []
    if each:
        lines += ["# Each element of this list is an interaction.", f"each = {_quoted(_Field(each).expression)}"]
    for name, found in roles.items():
        also = " or ".join(other.expression for other in others.get(name, ())[:3])
        if found is None:
            lines.append("# No field is called an id, so the interaction is called by its place in the topic.")
            lines += [f"# Different in each record: {also}."] if also else []
        elif name == "id" and each:
            of_line = f"join('-', [to_string({found.expression}), to_string($index)])"
            lines += [
                "# The record's id with the line's place, so that equal lines stay two.",
                f"id = {_quoted(of_line)}",
            ]
        elif found.expression != name:
            shown = f"{found.distinct():,} different" if name in ("user", "item") else f"such as {found.values[0]!r}"
            if name in _NAMES and not found.score(_NAMES[name]):
                shown += ": a guess, as no name says it"
            shown += f"; also a time: {also}" if also else ""
            lines.append(f"{name} = {_quoted(found.expression)}".ljust(40) + f" # {shown}")
    if unit != "s":
        lines.append(f'time_unit = "{unit}"')
    moved = [each for each in features if each.source.expression != each.name]
    if moved:
        lines += ["", "[input.interactions.fields]"]
        lines += [
            f"{'# ' if each.is_proposed else ''}{_key(each.name)} = {_quoted(each.source.expression)}" for each in moved
        ]
    return "\n".join(lines) + "\n" if len(lines) > 1 else ""


def _where(fields: Sequence[_Field]) -> str:
    """What might be said of which records are interactions."""
    for found in fields:
        values = Counter(map(str, found.values))
        if found.score(_KIND) and found.types == {str} and 1 < len(values) <= _FEW and not found.in_each:
            (most, _), *_ = values.most_common()
            told = ", ".join(f"{value} {count:,}" for value, count in values.most_common(5))
            condition = _quoted(f"{found.expression} == '{most}'")
            return f"# Not all of these may be interactions: {told}. Then:\n# where = {condition}"
    return ""


def _again(records: Sequence[Mapping[str, Any]], each: tuple[str, ...] | None, user: _Field, item: _Field) -> float:
    """The share of interactions whose two ends have met before among these."""
    pairs: Counter[tuple[str, str]] = Counter()
    for record in records:
        for element in (_at(record, each) or ()) if each else (record,):
            ends = (_at(element if end.in_each else record, end.path) for end in (user, item))
            pairs[tuple(map(str, ends))] += 1  # type: ignore[index]
    return 1 - len(pairs) / max(pairs.total(), 1)


def _model(user: _Field, item: _Field, lines: int, again: float) -> str:
    """K and layers, from how often nodes come. lines: how many interactions there are   again: see `_again`"""
    times = np.array(list(Counter(map(str, user.values)).values()))
    met = np.array(list(Counter(map(str, item.values)).values()))
    factor = lines / max(len(user.values), 1)
    most = float(np.quantile(times, 0.9)) * factor
    neighbours = next((k for k in (5, 10, 20) if most <= k), 20)
    layers = 2 if met.mean() > 1.5 else 1
    pairs = f"# {again:.0%} of the interactions are of two that have met before.\npair_features = true\n"
    return (
        f"[model]\n# {len(times):,} users, 9 of 10 with at most {most:.0f} interactions; a longer log has more.\n"
        f"neighbours = {neighbours}\ncandidates = {max(neighbours, 20)}\n"
        f"# {len(met):,} items with {met.mean():.1f} interactions each: "
        + (
            "those of others who met them tell something.\n"
            if layers == 2
            else "hardly anybody meets what others met.\n"
        )
        + f"layers = {layers}\n{pairs if again >= _OFTEN_AGAIN else ''}"
    )


def _quoted(text: str) -> str:
    """A text of TOML."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    shown = "".join(c if c.isprintable() else f"\\u{ord(c):04x}" for c in escaped)
    return f'"{shown}"'


def _key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else _quoted(name)
