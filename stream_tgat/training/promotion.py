"""Which release serves: the newest record on the compacted topic `models`, whose offset is the model's version.

Kept in the log and not in the store, so that all workers see the same order of promotions, and a version is comparable.
"""

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kafka.errors import KafkaError
from pydantic import ValidationError

from stream_tgat.brokers import producer
from stream_tgat.errors import ReleaseError, StreamTgatError, UnreachableStoreError
from stream_tgat.topology import Topology
from stream_tgat.training.folders import announced
from stream_tgat.training.kafka_log import read_topic, topic_range
from stream_tgat.training.registry import Release, ReleaseCard, ReleaseStore, check_fits
from stream_tgat.wire import ModelRecord, ReencodedRecord

if TYPE_CHECKING:
    from stream_tgat.nn.model import Model

HOW_TO_MAKE_ONE = (
    "make one with: faust -A stream_tgat train (from what is in the log), "
    "or: faust -A stream_tgat release init (untrained weights, so that neighbourhoods fill from the first day)"
)
SEND_TIMEOUT_S = 30.0
REENCODED_KEY = b"reencoded"
"""Of the one record on `models` that is no promotion; the name of a release begins with a year."""


@dataclass(frozen=True)
class Promotion:
    """A record on `models`. version: its offset, the version of the model."""

    version: int
    record: ModelRecord


def promote(topology: Topology, release: Release) -> Promotion:
    """Let a release serve from now on; returns once the log has it."""
    check_fits(release, topology)
    topic_range(topology, topology.topics.models)  # a broker may create what is missing, with settings of its own
    record = ModelRecord(release=release.name, store=announced(release.store), hash=release.hash)
    sender = producer(topology.kafka, acks="all", linger_ms=0)
    try:
        sent = sender.send(
            topology.topics.models,
            key=release.name.encode(),
            value=record.model_dump_json().encode(),
            headers=[("content-type", b"application/json")],
            partition=0,  # one order of promotions
        ).get(timeout=SEND_TIMEOUT_S)
    except KafkaError as problem:
        raise ReleaseError(
            f"Release {release.name} is in {release.store}, but could not be promoted on {topology.topics.models}: "
            f"{problem!r}; try again with: faust -A stream_tgat release promote {release.name}"
        ) from problem
    finally:
        sender.close(timeout=5)
    return Promotion(int(sent.offset), record)


def promotions(topology: Topology) -> list[Promotion]:
    """All promotions still on `models`, oldest first; returns when the end of the topic is reached.

    What is not a promotion is passed over: a stray record must not keep every worker from starting.
    """
    return promotions_in(read_topic(topology, topology.topics.models))


def promotions_in(messages: Iterable[Any]) -> list[Promotion]:
    """Those among records of `models` (any Kafka client's), in their order."""
    found = []
    for message in messages:
        if message.value is None or message.partition != 0:
            continue
        try:
            found.append(Promotion(message.offset, ModelRecord.model_validate_json(message.value)))
        except ValidationError:
            continue
    return found


def reencoded_in(messages: Iterable[Any]) -> ReencodedRecord | None:
    """The newest record among those of `models` that says whose peer embeddings all rows have."""
    found = None
    for message in messages:
        if message.key == REENCODED_KEY and message.value is not None:
            with suppress(ValidationError):
                found = ReencodedRecord.model_validate_json(message.value)
    return found


def serving_or_none(topology: Topology) -> Promotion | None:
    """The promotion that serves now, if there is one."""
    found = promotions(topology)
    return found[-1] if found else None


def serving(topology: Topology) -> Promotion:
    """The promotion that serves now; ReleaseError says how to make one where there is none."""
    found = serving_or_none(topology)
    if found is None:
        raise no_release(topology)
    return found


def no_release(topology: Topology) -> ReleaseError:
    """What to say where nothing was ever promoted."""
    return ReleaseError(f"No release on topic {topology.topics.models!r}: {HOW_TO_MAKE_ONE}")


def served_before(topology: Topology) -> Promotion:
    """The newest promotion of another release than the one that was promoted last; ReleaseError where there is none."""
    found = promotions(topology)
    if not found:
        raise no_release(topology)
    others = [each for each in found if each.record.release != found[-1].record.release]
    if not others:
        raise ReleaseError(
            f"Only {found[-1].record.release} was ever promoted on {topology.topics.models!r}, so there is nothing to "
            "go back to; see: faust -A stream_tgat release list"
        )
    return others[-1]


def load_promoted(topology: Topology, promotion: Promotion) -> "tuple[Model, ReleaseCard]":
    """The model of a promotion, checked against its hash and against the topology.

    Looked for in the store that the record names, then in the topology's own: machines may mount it elsewhere.
    """
    model, release = load_release(topology, promotion)
    return model, release.card


def load_release(topology: Topology, promotion: Promotion, any_heads: bool = False) -> "tuple[Model, Release]":
    """As `load_promoted`, with the release as it lies in its store. any_heads: as for `check_fits`"""
    model, release = _store_with(topology, promotion).load(promotion.record.release, promotion.record.hash)
    check_fits(release, topology, any_heads)
    return model, release


def promoted_card(topology: Topology, promotion: Promotion) -> ReleaseCard:
    """The card of a promotion's release, unchecked: to read, not to serve."""
    return _store_with(topology, promotion).find(promotion.record.release).card


def _store_with(topology: Topology, promotion: Promotion) -> ReleaseStore:
    """The store that holds a promotion's release; ReleaseError where none does."""
    name = promotion.record.release
    own = topology.releases.store
    # The topology's own may hold a user and password, which a record never does.
    addresses = {promotion.record.store: promotion.record.store} | {announced(own): own}
    stores = [ReleaseStore(address) for address in addresses.values()]
    holding, unreachable = None, None
    for store in stores:
        try:
            if name in store.names():
                holding = store
                break
        except UnreachableStoreError as problem:
            unreachable = problem
    if holding is None and unreachable is not None:
        raise unreachable
    if holding is None:
        places = " and ".join(store.address for store in stores)
        raise ReleaseError(
            f"Release {name} serves (offset {promotion.version} of {topology.topics.models}), but it is not in "
            f"{places}. Copy it there, promote another, or {HOW_TO_MAKE_ONE}"
        )
    return holding


@dataclass(frozen=True, eq=False)
class Loaded:
    """A promotion with its model (in evaluation mode) and its release."""

    promotion: Promotion
    model: "Model"
    release: Release


def newest_loadable(
    topology: Topology, found: Sequence[Promotion], any_heads: bool = False
) -> tuple[Loaded | None, list[tuple[Promotion, StreamTgatError]]]:
    """The newest of these promotions that can serve, which is what workers do, and why all newer ones cannot.

    A release that was promoted more than once is tried once.
    any_heads: what can serve but for its heads counts too: until they start anew, workers serve the heads before
    Raises UnreachableStoreError where a store cannot be asked.
    """
    refused: list[tuple[Promotion, StreamTgatError]] = []
    tried = set()
    for promotion in reversed(found):
        content = promotion.record.release, promotion.record.hash
        if content in tried:
            continue
        tried.add(content)
        try:
            return Loaded(promotion, *load_release(topology, promotion, any_heads)), refused
        except UnreachableStoreError:
            raise
        except StreamTgatError as problem:
            refused.append((promotion, problem))
        except OSError as problem:
            refused.append((promotion, ReleaseError(f"{content[0]}: {problem}")))
    return None, refused
