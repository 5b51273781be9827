"""Records of topics `embeddings`, `latest` and `alerts` as dataclasses."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeVar

import msgpack
import orjson

from stream_tgat.client.making import Kind, Vector, made
from stream_tgat.errors import SettingsError
from stream_tgat.schema_registry import MAGIC, RegisteredValues

_T = TypeVar("_T")
_Output = TypeVar("_Output", "Embedding", "Alert")

#: Repeats of a record come soon after it, if at all: so many ids are remembered.
_REMEMBERED: Final = 100_000


class Record(Protocol):
    """A consumed record of any Kafka client: kafka-python's, aiokafka's, or one made by hand."""

    @property
    def value(self) -> bytes | None:
        """Its bytes."""


@dataclass(frozen=True)
class Embedding:
    """A record of `embeddings`: a node just before one of its interactions.

    predictions: by head, empty for items   late: a later interaction of the node had been embedded before
    """

    id: str
    interaction: str
    node: str
    kind: Kind | None
    peer: str
    timestamp: float
    embedding: Vector
    predictions: dict[str, float]
    model: int
    late: bool = False


@dataclass(frozen=True)
class LatestEmbedding:
    """A record of `latest`: a node just after its newest interaction, of which there were so many.

    predictions: by head, as they were said last; empty for items   complete: False if another record is to follow
    """

    node: str
    kind: Kind | None
    timestamp: float
    interactions: int
    predictions: dict[str, float]
    complete: bool
    model: int
    embedding: Vector


@dataclass(frozen=True)
class Because:
    """A past interaction that an alert rests on, with its attention weight."""

    interaction: str
    peer: str
    time: float
    weight: float


@dataclass(frozen=True)
class Alert:
    """A record of `alerts`: a prediction about a user crossed its threshold."""

    id: str
    interaction: str
    node: str
    kind: Kind | None
    peer: str
    head: str
    probability: float
    threshold: float
    timestamp: float
    model: int
    because: tuple[Because, ...] = ()


def read_embeddings(records: Iterable[Record], schemas: RegisteredValues | None = None) -> Iterator[Embedding]:
    """Embeddings of records of topic `embeddings`, in their order; repeats are left out.

    schemas: what Avro is read with; JSON and MessagePack need none
    """
    return _read(Embedding, records, schemas)


def read_latest(records: Iterable[Record], schemas: RegisteredValues | None = None) -> Iterator[LatestEmbedding]:
    """Nodes of records of topic `latest`, in their order; of one node the last one counts.

    schemas: as for `read_embeddings`
    """
    return (_made(LatestEmbedding, record.value, schemas) for record in records if record.value is not None)


def read_alerts(records: Iterable[Record], schemas: RegisteredValues | None = None) -> Iterator[Alert]:
    """Alerts of records of topic `alerts`, in their order; repeats are left out.

    schemas: as for `read_embeddings`
    """
    return _read(Alert, records, schemas)


def _read(kind: type[_Output], records: Iterable[Record], schemas: RegisteredValues | None) -> Iterator[_Output]:
    seen: OrderedDict[str, None] = OrderedDict()
    for record in records:
        if record.value is None:
            continue
        content = _made(kind, record.value, schemas)
        if content.id in seen:
            continue
        seen[content.id] = None
        if len(seen) > _REMEMBERED:
            seen.popitem(last=False)
        yield content


def _made(kind: type[_T], value: bytes, schemas: RegisteredValues | None) -> _T:
    """A JSON object begins with a brace, Avro with the zero byte of a registry's wire format, and no MessagePack so."""
    content: dict[str, Any]
    if value[:1] == b"{":
        content = orjson.loads(value)
    elif not value.startswith(MAGIC):
        content = msgpack.unpackb(value)
    elif schemas is not None:
        content = schemas.record(value)
    else:
        raise SettingsError(
            "this record is Avro: say where its schemas are, "
            "as in read_embeddings(records, RegisteredValues(SchemaRegistry('http://localhost:8081')))"
        )
    return made(kind, {"kind": None} | content)
