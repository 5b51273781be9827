"""The table: state per partition that lives in RocksDB and in a changelog topic.

It takes keys and values as bytes and many of them at a time. A commit goes through the fence, then to the changelog as
one record batch, then to RocksDB as one write batch: whatever is in RocksDB is in the changelog, and both move from one
commit to the next, never between. What several partitions commit together travels together. Commits are made under a
tenure, which ends with the first failure.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import faust

from stream_tgat.errors import DamagedStateError, FencedError, ForeignWriterError, StateError
from stream_tgat.rocks import Change, RocksOptions
from stream_tgat.transport.changelog import Changelog
from stream_tgat.transport.store import BulkStore, PartitionStore
from stream_tgat.transport.tenure import Tenure

CHANGELOG_TOPIC = {
    # Old values are what recovery reads in vain: small segments, compacted early.
    "segment.bytes": str(64 * 2**20),
    "min.cleanable.dirty.ratio": "0.1",
    # A record batch is one commit, and compaction must be able to keep it whole.
    "compression.type": "producer",
}
MAX_COMMIT_BYTES = 8 * 2**20
BATCH_HEADROOM_BYTES = 2**20


class BulkTable(faust.Table):
    """A Faust table for state that is read and written in bulk, by partition.

    Made by `Application.bulk_table`. The mapping interface (`table[key]`) still reads, for Faust's web pages; writing
    through it is refused.
    """

    def __init__(
        self,
        app: Any,
        *,
        name: str,
        max_commit_bytes: int = MAX_COMMIT_BYTES,
        rocks_options: RocksOptions | None = None,
        **options: Any,
    ) -> None:
        self._rocks_options = rocks_options
        self._open: set[int] = set()
        # Why a commit failed; the partition is closed until it is recovered.
        self._broken: dict[int, BaseException] = {}
        self._tenures: dict[int, Tenure] = {}
        self.damaged = 0
        """Times that the local state of a partition was damaged, set aside and recovered from the changelog."""
        config = {
            **CHANGELOG_TOPIC,
            "max.message.bytes": str(max_commit_bytes + BATCH_HEADROOM_BYTES),
            **options.pop("extra_topic_configs", {}),
        }
        super().__init__(app, name=name, key_type=bytes, value_type=bytes, extra_topic_configs=config, **options)
        self.max_commit_bytes = max_commit_bytes
        self.changelog = Changelog(app, self.changelog_topic_name, max_commit_bytes)

    async def on_start(self) -> None:
        """Create the changelog and wait until the brokers know it; only then does the worker join its group.

        A group that assigns partitions before leaves the changelog out: the sources would be ours without their state.
        """
        await super().on_start()
        await self.app.outbox.partitions(self.changelog_topic_name)

    def store(self, partition: int) -> PartitionStore:
        """The local state of a partition. What is written to it directly is not in the changelog."""
        return PartitionStore(self.data, partition)

    def check(self, partition: int) -> None:
        """Raise FencedError unless this worker may commit to the partition now.

        Raises StateError if nobody may before it is recovered again: its store may be behind the changelog.
        """
        what = f"table {self.name}, partition {partition}"
        self.app.fence.check(what)
        if partition in self._broken:
            reason = self._broken[partition]
            raise StateError(
                f"{what}: a commit failed ({reason!r}), so the local state may be behind the changelog. Start the "
                "worker again: it recovers what is missing, and nothing is lost."
            ) from reason
        if partition not in self._open:
            raise FencedError(f"{what}: owned by another worker or not recovered")

    def tenure(self, partitions: Collection[int]) -> Tenure:
        """The right to commit to these partitions; from now on nobody else has it.

        Whoever asks for it reads the state anew, behind it. Raises StateError for a partition that was not recovered
        since a commit to it failed.
        """
        for partition in partitions:
            if partition in self._broken:
                self.check(partition)
            held = self._tenures.get(partition)
            if held is not None:
                held.end(FencedError(f"table {self.name}, partition {partition}: its state was opened anew"))
        made = Tenure(partitions, self._commit, f"table {self.name}")
        self._tenures.update(dict.fromkeys(partitions, made))
        return made

    async def _commit(self, changes: Mapping[int, Sequence[Change]]) -> None:
        """Through the fence, to the changelog as one batch for each partition, to RocksDB as one batch for each.

        Raises FencedError, with nothing written, when a partition may belong to someone else, and FullDiskError when
        there is no room; if someone else has written to a changelog already, the worker stops: ForeignWriterError.
        After any other failure the changelogs may have what the stores lack: only recovery opens the partitions again.
        """
        with self.app.fence.passing(f"table {self.name}, partitions {sorted(changes)}"):
            for partition in changes:
                self.check(partition)
            self.data.check_room()
            damage = None
            try:
                offsets = await self.app.fence.guard(self.changelog.append(changes))
                for partition, mine in changes.items():
                    try:
                        self.data.write(partition, mine, offsets[partition])
                    except DamagedStateError as error:
                        # Set aside, and closed until it is recovered, which it waits for already. The others are well.
                        damage = error
            except BaseException as error:
                self._broken.update(dict.fromkeys(changes, error))
                if isinstance(error, ForeignWriterError):
                    # What the log now amounts to is only known after reading it again, in a new start.
                    await self.app.crash(error)
                raise
        self.app.progress()
        if damage is not None:
            raise damage

    def open_partition(self, partition: int, changelog_end: int) -> None:
        """Called after recovery: the partition is complete up to the changelog's end."""
        self.changelog.resume(partition, changelog_end)
        self._broken.pop(partition, None)
        self._open.add(partition)

    def on_damage(self, partition: int) -> None:
        """Called, from any thread, when the local state of a partition was set aside: it must be recovered anew.

        Until then nothing can be read or committed. Recovery follows a rebalance, so one is asked for.
        """
        self.damaged += 1
        if partition in self._open:
            self._open.discard(partition)
            self.changelog.forget(partition)
            self.app.rejoin()

    def close_partitions(self) -> None:
        """Called when partitions are handed over: none may be committed to until it is recovered again."""
        for partition in self._open:
            self.changelog.forget(partition)
        self._open.clear()
        for tenure in self._tenures.values():
            tenure.end(FencedError(f"table {self.name}: the partitions were handed over"))
        self._tenures.clear()

    def on_key_set(self, key: Any, value: Any) -> None:  # noqa: ARG002
        """Refuse `table[key] = value`, which is slow and not atomic."""
        raise TypeError(f"table {self.name}: use commit({{partition: changes}}) instead of assigning to a key")

    def on_key_del(self, key: Any) -> None:  # noqa: ARG002
        """Refuse `del table[key]`, which is slow and not atomic."""
        raise TypeError(f"table {self.name}: use commit({{partition: changes}}) instead of deleting a key")

    def _new_store(self) -> BulkStore:
        return BulkStore(
            self._store or self.app.conf.store,
            self.app,
            self,
            table_name=self.name,
            key_type=self.key_type,
            key_serializer=self.key_serializer,
            value_serializer=self.value_serializer,
            value_type=self.value_type,
            loop=self.loop,
            options={},
            rocks_options=self._rocks_options,
            on_damage=self.on_damage,
        )
