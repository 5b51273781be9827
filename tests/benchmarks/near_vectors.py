"""How the catalog finds near vectors, beside libraries with a graph index.

    PYTHONPATH=. python tests/benchmarks/near_vectors.py 1000000

Not among `make bench`, as it needs what the product does not: `pip install usearch hnswlib`. What is not installed is
left out. Vectors are clustered, as embeddings are: a thousand centres, and each vector near one. Times are CPU time of
this process on one thread; memory is what it grew by.
"""

from __future__ import annotations

import importlib.util
import os
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from threadpoolctl import threadpool_limits

from stream_tgat.query.catalog import Vectors

WIDTH, CENTRES, NEAREST, ASKED, CHANGED = 64, 1000, 10, 50, 200


class Index(Protocol):
    """Vectors by number."""

    def add(self, numbers: np.ndarray, vectors: np.ndarray) -> None: ...
    def near(self, vector: np.ndarray) -> Iterable[int]: ...
    def change(self, number: int, vector: np.ndarray) -> None: ...


class Product:
    """One product with all of them, as the catalog does it."""

    def __init__(self, _: int) -> None:
        self._vectors = Vectors(WIDTH)

    def add(self, numbers: np.ndarray, vectors: np.ndarray) -> None:
        for number, vector in zip(numbers.tolist(), vectors, strict=True):
            self._vectors.put(str(number), vector)

    def near(self, vector: np.ndarray) -> Iterable[int]:
        return [int(each.id) for each in self._vectors.near(vector[None], NEAREST)[0]]

    def change(self, number: int, vector: np.ndarray) -> None:
        self._vectors.put(str(number), vector)


class Usearch:
    def __init__(self, _: int) -> None:
        from usearch.index import Index

        self._index = Index(ndim=WIDTH, metric="cos", dtype="f16")

    def add(self, numbers: np.ndarray, vectors: np.ndarray) -> None:
        self._index.add(numbers, vectors, threads=1)

    def near(self, vector: np.ndarray) -> Iterable[int]:
        return self._index.search(vector, NEAREST, threads=1).keys.tolist()

    def change(self, number: int, vector: np.ndarray) -> None:
        self._index.remove(number)
        self._index.add(number, vector)


class Hnswlib:
    def __init__(self, count: int) -> None:
        import hnswlib

        self._index: Any = hnswlib.Index(space="cosine", dim=WIDTH)
        self._index.init_index(count, M=16, ef_construction=128, allow_replace_deleted=True)
        self._index.set_ef(64)

    def add(self, numbers: np.ndarray, vectors: np.ndarray) -> None:
        self._index.add_items(vectors, numbers, num_threads=1)

    def near(self, vector: np.ndarray) -> Iterable[int]:
        return self._index.knn_query(vector, NEAREST, num_threads=1)[0][0].tolist()

    def change(self, number: int, vector: np.ndarray) -> None:
        self._index.add_items(vector, number, num_threads=1)


def clustered(count: int, centres: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """Vectors f4[count, WIDTH] around some of the centres."""
    vectors = centres[random.integers(0, CENTRES, count)]
    vectors += 0.4 * random.standard_normal((count, WIDTH), dtype=np.float32)
    return vectors


def resident_mb() -> float:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


def cpu_s(work: Callable[[], object]) -> float:
    began = time.process_time()
    work()
    return time.process_time() - began


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    random = np.random.default_rng(0)
    centres = random.standard_normal((CENTRES, WIDTH), dtype=np.float32)
    vectors, asked = clustered(count, centres, random), clustered(ASKED, centres, random)
    numbers = np.arange(count)
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    exact = [set(np.argpartition(-(unit @ each), NEAREST)[:NEAREST].tolist()) for each in asked]
    del unit
    print(f"{count:,} vectors of width {WIDTH}, {NEAREST} nearest, CPU time on one thread")
    for name, needs, make in (
        ("one product", "numpy", Product),
        ("usearch, float16", "usearch", Usearch),
        ("hnswlib, M 16", "hnswlib", Hnswlib),
    ):
        if importlib.util.find_spec(needs) is None:
            print(f"{name:18} not installed: pip install {needs}")
            continue
        before, index = resident_mb(), make(count)
        build_s = cpu_s(lambda index=index: index.add(numbers, vectors))
        grown = resident_mb() - before
        found: list[set[int]] = []
        search_s = cpu_s(lambda index=index, found=found: found.extend(set(index.near(each)) for each in asked))
        recall = np.mean([len(one & other) / NEAREST for one, other in zip(found, exact, strict=True)])
        moved = clustered(CHANGED, centres, random)
        change_s = cpu_s(lambda index=index, moved=moved: [index.change(n, each) for n, each in enumerate(moved)])
        print(
            f"{name:18} build {build_s:7.1f} s   search {1e3 * search_s / ASKED:7.2f} ms   recall {recall:.3f}   "
            f"change one {1e3 * change_s / CHANGED:.3f} ms   memory {grown:6.0f} MB",
            flush=True,
        )
        del index


if __name__ == "__main__":
    with threadpool_limits(limits=1):
        main()
