"""The private names of Faust and aiokafka that the repairs rest on: all in one place, and looked for at the start.

These libraries are pinned, but nothing holds an installation to the pins. A version that has moved one of these names
must end with a sentence, not go on without a repair.
"""

from collections.abc import Iterable, Iterator
from importlib import import_module
from importlib.metadata import version
from typing import Final, NamedTuple

from stream_tgat.errors import StreamTgatError


class PrivateNames(NamedTuple):
    """A class of a library, by where it is defined, and its private names that are used. distribution: on PyPI"""

    distribution: str
    module: str
    owner: str
    names: tuple[str, ...]


USED: Final = (
    PrivateNames(
        "aiokafka",
        "aiokafka.consumer.consumer",
        "AIOKafkaConsumer",
        (
            "_coordinator",
            "_fetch_max_wait_ms",
            "_fetch_min_bytes",
            "_fetcher",
            "_isolation_level",
            "_max_poll_records",
            "_subscription",
        ),
    ),
    PrivateNames(
        "aiokafka",
        "aiokafka.consumer.fetcher",
        "Fetcher",
        (
            "_fetch_max_wait_ms",
            "_fetch_min_bytes",
            "_get_actions_per_node",
            "_in_flight",
            "_records",
        ),
    ),
    PrivateNames("aiokafka", "aiokafka.consumer.group_coordinator", "GroupCoordinator", ("_do_heartbeat",)),
    PrivateNames("aiokafka", "aiokafka.consumer.subscription_state", "TopicPartitionState", ("_position",)),
    PrivateNames("aiokafka", "aiokafka.producer.message_accumulator", "MessageAccumulator", ("_compression_type",)),
    PrivateNames("aiokafka", "aiokafka.producer.producer", "AIOKafkaProducer", ("_message_accumulator",)),
    PrivateNames(
        "faust-streaming",
        "faust.app.base",
        "App",
        (
            "_consumer",
            "_consumer_wait_empty",
            "_fetcher",
            "_new_producer_transport",
            "_new_transport",
            "_new_web",
            "_on_agent_error",
        ),
    ),
    PrivateNames(
        "faust-streaming",
        "faust.assignor.partition_assignor",
        "PartitionAssignor",
        ("_compress", "_decompress", "_url"),
    ),
    PrivateNames(
        "faust-streaming",
        "faust.stores.rocksdb",
        "Store",
        (
            "_db_for_partition",
            "_dbs",
            "_open_for_partition",
        ),
    ),
    PrivateNames(
        "faust-streaming",
        "faust.tables.base",
        "Collection",
        (
            "_new_store",
            "_store",
        ),
    ),
    PrivateNames(
        "faust-streaming",
        "faust.tables.manager",
        "TableManager",
        (
            "_recovery",
            "_update_channels",
        ),
    ),
    PrivateNames(
        "faust-streaming",
        "faust.tables.recovery",
        "Recovery",
        (
            "_add",
            "_build_highwaters",
            "_build_offsets",
            "_is_changelog_tp",
            "_resume_streams",
            "_seek_offsets",
            "_set_recovery_ended",
            "_verify_remaining",
            "_wait",
        ),
    ),
    PrivateNames("faust-streaming", "faust.transport.conductor", "Conductor", ("_tp_index",)),
    PrivateNames(
        "faust-streaming",
        "faust.transport.consumer",
        "Consumer",
        (
            "_acked",
            "_acked_index",
            "_active_partitions",
            "_commit_every",
            "_committed_offset",
            "_drain_messages",
            "_gap",
            "_get_active_partitions",
            "_is_changelog_tp",
            "_n_acked",
            "_new_offset",
            "_on_partitions_revoked",
            "_paused_partitions",
            "_read_offset",
            "_unacked_messages",
        ),
    ),
    PrivateNames("faust-streaming", "faust.transport.consumer", "ThreadDelegateConsumer", ("_getmany",)),
    PrivateNames(
        "faust-streaming",
        "faust.transport.drivers.aiokafka",
        "AIOKafkaConsumerThread",
        (
            "_consumer",
            "_create_worker_consumer",
            "_ensure_consumer",
            "_fetch_records",
        ),
    ),
    PrivateNames(
        "faust-streaming",
        "faust.transport.drivers.aiokafka",
        "Consumer",
        (
            "_new_consumer_thread",
            "_thread",
            "_to_message",
        ),
    ),
    PrivateNames("faust-streaming", "faust.transport.drivers.aiokafka", "ConsumerRebalanceListener", ("_thread",)),
    PrivateNames(
        "faust-streaming",
        "faust.transport.drivers.aiokafka",
        "Producer",
        (
            "_ensure_producer",
            "_settings_extra",
        ),
    ),
    PrivateNames(
        "mode-streaming",
        "mode.services",
        "Service",
        (
            "_stopped",
            "_tasks",
        ),
    ),
    PrivateNames("mode-streaming", "mode.threads", "ServiceThread", ("_stopped_set",)),
    PrivateNames(
        "mode-streaming",
        "mode.worker",
        "Worker",
        (
            "_gather_all",
            "_install_signal_handlers_unix",
            "_schedule_shutdown",
            "_sentinel_task",
        ),
    ),
)


def require_private_names(used: Iterable[PrivateNames] = USED) -> None:
    """Raise StreamTgatError if the installed libraries lack one of these names."""
    for each in used:
        missing = [name for name in each.names if name not in _known(each)]
        if missing:
            raise StreamTgatError(
                f"{each.distribution} {version(each.distribution)} has no {each.module}.{each.owner}."
                f"{missing[0]}, on which this version of stream_tgat rests. Install the versions that it was "
                "tested with: pip install -r requirements.lock, or those of its metadata."
            )


def _known(each: PrivateNames) -> set[str]:
    """Names of a class: what it and its parents define, annotate, or set in `__init__`."""
    owner = getattr(import_module(each.module), each.owner, None)
    return set() if owner is None else set(_names_of(owner))


def _names_of(owner: type) -> Iterator[str]:
    for kind in owner.__mro__:
        yield from vars(kind)
        yield from vars(kind).get("__annotations__", ())
        code = getattr(vars(kind).get("__init__"), "__code__", None)
        yield from code.co_names if code is not None else ()
