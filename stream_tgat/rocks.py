"""How a RocksDB of raw bytes is opened, by a worker and by a store of its own. Knows neither rows nor Kafka."""

from dataclasses import dataclass
from pathlib import Path

from rocksdict import BlockBasedOptions, Cache, Options, Rdict


@dataclass(frozen=True)
class RocksOptions:
    """How the databases of a worker are opened."""

    cache_bytes: int = 128 * 2**20
    """Blocks kept in memory, over all partitions."""
    write_buffer_bytes: int = 16 * 2**20
    """Size of one table of recent writes; each partition has up to three."""
    max_open_files: int = 256
    bloom_bits: float = 10.0


def open_database(path: Path | str, wanted: RocksOptions, cache: Cache) -> Rdict:
    """Open or create a database. cache: of blocks, shared by all that are given it; RocksDB's own would be one each."""
    blocks = BlockBasedOptions()
    blocks.set_block_cache(cache)
    # Most reads are for nodes that have never been seen.
    blocks.set_bloom_filter(wanted.bloom_bits, block_based=False)
    options = Options(raw_mode=True)
    options.create_if_missing(True)
    options.set_max_open_files(wanted.max_open_files)
    options.set_write_buffer_size(wanted.write_buffer_bytes)
    options.set_max_write_buffer_number(3)
    options.set_block_based_table_factory(blocks)
    return Rdict(str(path), options=options)
