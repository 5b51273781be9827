"""How a RocksDB of raw bytes is opened, by a worker and by a store of its own. Knows neither rows nor Kafka."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from rocksdict import BlockBasedOptions, Cache, DBRecoveryMode, Options, Rdict, ReadOptions, WriteBatch

from stream_tgat.disk import told_if_full
from stream_tgat.errors import DamagedStateError, FullDiskError, StateError

#: How RocksDB begins what it says of files that are not what it wrote, or that the disk no longer gives back.
_DAMAGE = ("Corruption:", "IO error: No such file or directory")
_UNREADABLE = "Input/output error"


Change = tuple[bytes, bytes | None]
"""A key and its new value; None deletes the key."""


@dataclass(frozen=True)
class RocksOptions:
    """How the databases of a worker are opened."""

    cache_bytes: int = 128 * 2**20
    """Blocks kept in memory, over all partitions."""
    write_buffer_bytes: int = 16 * 2**20
    """Size of one table of recent writes; each partition has up to three."""
    block_bytes: int = 16 * 2**10
    """Size of what is read at once: the rows of a node lie side by side, and are read together."""
    first_level_files: int = 8
    """So many tables of recent writes are on the disk before they are merged with all that is there: half the merging
    of RocksDB's own four, for a look into four more filters."""
    max_open_files: int = 256
    bloom_bits: float = 10.0


def open_database(path: Path | str, wanted: RocksOptions, cache: Cache) -> Rdict:
    """Open or create a database. cache: of blocks, shared by all that are given it; RocksDB's own would be one each.

    Raises DamagedStateError if files are not what was written, FullDiskError if there is no room, StateError if it
    cannot be opened for another reason.
    """
    folder = Path(path)
    if any(folder.glob("*.sst")) and not (folder / "CURRENT").exists():
        # RocksDB would take it for a new one.
        raise DamagedStateError(f"{folder}: the file CURRENT is missing")
    blocks = BlockBasedOptions()
    blocks.set_block_cache(cache)
    blocks.set_block_size(wanted.block_bytes)
    # Most reads are for nodes that have never been seen.
    blocks.set_bloom_filter(wanted.bloom_bits, block_based=False)
    options = Options(raw_mode=True)
    options.create_if_missing(True)
    options.set_max_open_files(wanted.max_open_files)
    options.set_write_buffer_size(wanted.write_buffer_bytes)
    options.set_max_write_buffer_number(3)
    options.set_level_zero_file_num_compaction_trigger(wanted.first_level_files)
    # Each database has one thread that writes.
    options.set_allow_concurrent_memtable_write(False)
    options.set_block_based_table_factory(blocks)
    # Without paranoid checks some damage is passed over; a read checks what it reads against its checksum in any case.
    options.set_paranoid_checks(True)
    # A log that was torn by a loss of power is applied up to the tear. A batch is there as a whole or not at all, and
    # each holds the offset of the changelog that it reaches, from which recovery goes on.
    options.set_wal_recovery_mode(DBRecoveryMode.point_in_time())
    try:
        with told_if_full(folder):
            database = Rdict(str(path), options=options)
    except FullDiskError:
        raise
    except Exception as problem:
        # RocksDB's errors come as bare exceptions.
        if is_damage(problem) and folder.is_dir():
            raise DamagedStateError(f"{folder}: {first_line(problem)}") from problem
        raise StateError(f"{folder} cannot be opened: {_explained(problem)}") from problem
    reading = ReadOptions()
    reading.set_verify_checksums(True)
    database.set_read_options(reading)
    return database


def entries(database: Rdict, prefix: bytes, start: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Keys from `start` on that begin with a prefix, in order, with their values, as they are when the first is asked.

    rocksdict's own `items` end without a word where a block cannot be read, as if there were no more.
    """
    place = database.iter()
    try:
        place.seek(start)
        while place.valid():
            key = place.key()
            if not key.startswith(prefix):
                return
            yield key, place.value()
            place.next()
        place.status()
    finally:
        # A traceback keeps what is in this frame, and an iterator the lock of a database that is closed.
        del place


def batch_of(changes: Iterable[Change]) -> WriteBatch:
    """These changes, in order, as what is written at once: all or none of them are there after a crash."""
    batch = WriteBatch(raw_mode=True)
    put, delete = batch.put, batch.delete
    for key, value in changes:
        if value is None:
            delete(key)
        else:
            put(key, value)
    return batch


def is_damage(problem: Exception) -> bool:
    """Whether an error of RocksDB says that what is on the disk is not what was written."""
    return str(problem).startswith(_DAMAGE) or _UNREADABLE in str(problem)


def first_line(problem: Exception) -> str:
    """What RocksDB says, without its advice."""
    return str(problem).splitlines()[0].strip() if str(problem) else repr(problem)


def _explained(problem: Exception) -> str:
    said = first_line(problem)
    if "lock" in said:
        return f"another process has it open ({said}). Stop that, or give this worker a folder of its own: --datadir"
    if "Permission denied" in said:
        return f"{said}. Correct the owner and the permissions of the folder"
    return said
