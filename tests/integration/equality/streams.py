"""Logs of interactions to replay: small random ones with every oddity, and the real ones."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from math import inf, nextafter
from pathlib import Path
from typing import Any

import numpy as np
import orjson

from stream_tgat.datasets.stream import StreamRecord

START = 1_500_000_000.0
WIKIPEDIA = Path(__file__).resolve().parents[4] / "shared" / "datasets" / "wikipedia"

RANDOM_FEATURES = """
[[features]]
name = "amount"
kind = "number"
log1p = true

[[features]]
name = "kind"
kind = "category"
values = ["view", "buy"]

[[features]]
name = "vector"
kind = "vector"
size = 2
"""

GROCERY_FEATURES = "".join(
    f'[[features]]\nname = "{name}"\nkind = "number"\nlog1p = true\n'
    for name in ("quantity", "value", "discount", "coupon", "basket_items", "basket_value")
) + (
    '[[features]]\nname = "private_brand"\nkind = "flag"\n[[features]]\nname = "hour"\nkind = "category"\nbuckets = 4\n'
)


@dataclass(frozen=True)
class Record:
    """One record for a partition of `interactions`; without value it is a punctuation."""

    partition: int
    value: bytes | None
    headers: tuple[tuple[str, bytes], ...] = ()


@dataclass(frozen=True)
class Log:
    """What one test produces.

    features: the [[features]] of the topology   node_features: F   nodes: (key, value) of the topic `nodes`
    records: of `interactions`, in the order in which they are produced   bipartite: users and items are apart
    """

    records: tuple[Record, ...]
    partitions: int
    features: str = ""
    node_features: int = 0
    nodes: tuple[tuple[bytes, bytes], ...] = ()
    bipartite: bool = True
    allowed_lateness_s: float = 0.0

    def with_records(self, records: Iterable[Record]) -> Log:
        """The same topology with other records."""
        return replace(self, records=tuple(records))


def punctuation(time: float, partitions: int) -> list[Record]:
    """Tells every partition that nothing before `time` will follow."""
    return [Record(p, None, (("watermark", repr(float(time)).encode()),)) for p in range(partitions)]


def random_log(
    count: int,
    *,
    partitions: int = 4,
    seed: int = 0,
    users: int = 12,
    items: int = 8,
    bipartite: bool = True,
    node_features: int = 3,
    jitter_s: float = 5.0,
    punctuation_every: int = 40,
    ids: int | None = None,
    repeats: bool = False,
) -> Log:
    """A log of few nodes with many ties in time, ids given and not, some dead letters, and disorder within `jitter_s`.

    Where users and items share their ids, some interactions are self-loops. Half of the nodes have features.
    ids: how many different ones are given; None for all
    repeats: every fifth record that has an id comes again within `jitter_s`, byte for byte, mostly in another partition
    """
    random = np.random.default_rng(seed)
    # Whole seconds with many repeats, so that many interactions of one node share their time.
    times = START + np.cumsum(random.choice([0.0, 0.0, 0.5, 1.0, 30.0], count))
    moments = times + random.uniform(0.0, 0.99, count) * jitter_s
    coming = np.arange(count)
    if repeats:
        again = coming[(coming % 5 == 0) & (coming % 3 > 0)]
        coming = np.concatenate([coming, again])
        moments = np.concatenate([moments, times[again] + random.uniform(0.0, 0.99, len(again)) * jitter_s])
    arrival = coming[np.argsort(moments, kind="stable")]
    latest_first = np.minimum.accumulate(times[arrival][::-1])[::-1]
    records: list[Record] = []
    written: dict[int, bytes] = {}
    known: set[tuple[Any, ...]] = set()
    for n, at in enumerate(arrival):
        if n % punctuation_every == punctuation_every - 1:
            records += punctuation(latest_first[n], partitions)
        if at in written:
            records.append(Record(int(random.integers(partitions)), written[at]))
            continue
        value: dict[str, Any] = {
            "user": f"a{random.integers(users)}",
            "item": f"{'b' if bipartite else 'a'}{random.integers(items)}",
            "timestamp": float(times[at]),
            "amount": round(float(random.exponential(20.0)), 2),
            "kind": str(random.choice(["view", "buy", "else"])),
            "vector": [round(float(x), 4) for x in random.normal(size=2)],
        }
        if n % 90 == 45:
            # What cannot be used, and takes an offset nevertheless.
            unusable = orjson.dumps({**value, "vector": [1.0]}) if n % 180 == 45 else b"not an interaction"
            records.append(Record(int(random.integers(partitions)), unusable))
        if at % 3:
            # Descending, so that the order of ids is not that of arrival.
            value["id"] = f"x{count - at if ids is None else at % ids:06d}"
            if ids is not None:
                alike = (value["id"], value["user"], value["item"], value["timestamp"])
                value["id"] += f"-{at}" if alike in known else ""
                known.add(alike)
        written[at] = orjson.dumps(value)
        records.append(Record(int(random.integers(partitions)), written[at]))
    records += end_of(float(times[-1]), partitions)
    nodes = []
    if node_features:
        names = [("user", f"a{n}") for n in range(0, users, 2)] + [
            ("item", f"b{n}") for n in range(0, items, 2) if bipartite
        ]
        for kind, name in names:
            vector = [round(float(x), 4) for x in random.normal(size=node_features)]
            nodes.append((name.encode(), orjson.dumps({"node": name, "kind": kind, "features": vector})))
    return Log(tuple(records), partitions, RANDOM_FEATURES, node_features, tuple(nodes), bipartite, jitter_s)


def shifted(records: Iterable[Record], part: int) -> tuple[Record, ...]:
    """The records of a random log, after those of all parts with a lower number and with ids of their own."""
    later = part * 100_000.0

    def move(record: Record) -> Record:
        headers = tuple((name, repr(float(value) + later).encode()) for name, value in record.headers)
        try:
            value = orjson.loads(record.value or b"")
        except orjson.JSONDecodeError:
            return replace(record, headers=headers)
        value["timestamp"] += later
        if "id" in value:
            value["id"] += f"-{part}"
        return replace(record, value=orjson.dumps(value), headers=headers)

    return tuple(map(move, records))


def end_of(time: float, partitions: int) -> list[Record]:
    """The punctuation after a last interaction at `time`: without it the last ones would wait."""
    return punctuation(nextafter(time, inf), partitions)


def wikipedia_log(count: int, *, partitions: int = 8) -> Log:
    """The first edits of Wikipedia: no edge features, no node features, 1,000 pages. Raises FileNotFoundError."""
    with gzip.open(WIKIPEDIA / "events.csv.gz", "rt") as text:
        lines = list(islice(text, 1, count + 1))
    records: list[Record] = []
    time = 0.0
    for n, line in enumerate(lines):
        user, item, seconds = line.split(",")[:3]
        earlier, time = time, START + float(seconds)
        if n and n % 500 == 0 and time > earlier:
            records += punctuation(time, partitions)
        value = {"user": user, "item": item, "timestamp": time}
        records.append(Record(zlib.crc32(user.encode()) % partitions, orjson.dumps(value)))
    records += end_of(time, partitions)
    return Log(tuple(records), partitions)


def grocery_log(count: int, *, partitions: int = 8) -> Log:
    """The first purchases of some households: baskets are many interactions at one time; items have text vectors."""
    from research.datasets.groceries import load_groceries

    # A household of the sample has more than 30 purchases.
    data = load_groceries(households=max(count // 30, 10))
    interactions = list(_first(data.stream(), count))
    sold = {orjson.loads(each.value)["item"] for each in interactions if each.value is not None}
    assert sum(each.value is not None for each in interactions) == count
    nodes = []
    for each in data.nodes():
        content = orjson.loads(each.value or b"{}")
        if content["node"] in sold:
            nodes.append((content["node"].encode(), orjson.dumps(content)))
    width = len(orjson.loads(nodes[0][1])["features"])
    return Log(tuple(_placed(interactions, partitions)), partitions, GROCERY_FEATURES, width, tuple(nodes))


def _first(stream: Iterable[StreamRecord], count: int) -> Iterator[StreamRecord]:
    """Interactions and punctuation up to the `count`-th interaction, and a punctuation behind it."""
    time = 0.0
    for each in stream:
        if each.topic != "interactions":
            continue
        if each.value is not None:
            if count == 0:
                break
            count -= 1
            time = each.time
        yield each
    after = nextafter(time, inf)
    yield StreamRecord("interactions", None, None, after, (("watermark", repr(after).encode()),))


def _placed(stream: Sequence[StreamRecord], partitions: int) -> Iterator[Record]:
    for each in stream:
        if each.key is None:
            yield from (Record(p, None, each.headers) for p in range(partitions))
        else:
            yield Record(zlib.crc32(each.key) % partitions, each.value, each.headers)
