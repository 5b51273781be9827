"""How the catalog finds near vectors, beside libraries with an index: build, search, recall, change and memory.

    make bench BENCH=neighbours              a million vectors of width 172, a quarter of an hour
    VECTORS=100000 make bench BENCH=neighbours

The libraries are not what the product needs, and are not in its requirements: `pip install usearch hnswlib faiss-cpu`.
One that is not installed is left out. Vectors are clustered, as embeddings are: a thousand centres, and each vector
near one. Each is measured in a process of its own; times are CPU time of one thread, memory is what it grew by.
"""

from __future__ import annotations

import importlib.util
import multiprocessing
import os
import time
from collections.abc import Callable, Iterable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from figures import Figure
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from stream_tgat.query.catalog import UnitVectors

COUNT = int(os.environ.get("VECTORS", "1000000"))
WIDTH, CENTRES, NEAREST, ASKED, CHANGED = 172, 1000, 10, 100, 200
#: Of graphs: neighbours of a vector, and how many are looked at when one is added and when one is searched for.
LINKS, TRIED_TO_ADD, TRIED_TO_FIND = 16, 64, 64
#: Of cells: vectors in one on average, how many train them, and how many are looked through.
CELL, TRAINING_SHARE, CELLS_SEARCHED = 500, 40, 16


class Index(Protocol):
    """Vectors by number."""

    def add(self, numbers: NDArray[np.int64], vectors: NDArray[np.float32]) -> None: ...
    def near(self, vector: NDArray[np.float32]) -> Iterable[int]: ...
    def change(self, number: int, vector: NDArray[np.float32]) -> None: ...


class Product:
    """One product with all of them, as the catalog does it."""

    def __init__(self, _: int) -> None:
        self._vectors = UnitVectors(WIDTH)

    def add(self, numbers: NDArray[np.int64], vectors: NDArray[np.float32]) -> None:
        for number, vector in zip(numbers.tolist(), vectors, strict=True):
            self._vectors.put(str(number), vector)

    def near(self, vector: NDArray[np.float32]) -> Iterable[int]:
        return [int(each.id) for each in self._vectors.near(vector[None], NEAREST)[0]]

    def change(self, number: int, vector: NDArray[np.float32]) -> None:
        self._vectors.put(str(number), vector)


class Usearch:
    def __init__(self, _: int) -> None:
        from usearch.index import Index

        options = {"connectivity": LINKS, "expansion_add": TRIED_TO_ADD, "expansion_search": TRIED_TO_FIND}
        self._index: Any = Index(ndim=WIDTH, metric="cos", dtype="f16", **options)

    def add(self, numbers: NDArray[np.int64], vectors: NDArray[np.float32]) -> None:
        self._index.add(numbers, vectors, threads=1)

    def near(self, vector: NDArray[np.float32]) -> Iterable[int]:
        found: list[int] = self._index.search(vector, NEAREST, threads=1).keys.tolist()
        return found

    def change(self, number: int, vector: NDArray[np.float32]) -> None:
        self._index.remove(number)
        self._index.add(number, vector)


class Hnswlib:
    def __init__(self, count: int) -> None:
        import hnswlib

        self._index: Any = hnswlib.Index(space="cosine", dim=WIDTH)
        self._index.init_index(count, M=LINKS, ef_construction=TRIED_TO_ADD, allow_replace_deleted=True)
        self._index.set_ef(TRIED_TO_FIND)

    def add(self, numbers: NDArray[np.int64], vectors: NDArray[np.float32]) -> None:
        self._index.add_items(vectors, numbers, num_threads=1)

    def near(self, vector: NDArray[np.float32]) -> Iterable[int]:
        found: list[int] = self._index.knn_query(vector, NEAREST, num_threads=1)[0][0].tolist()
        return found

    def change(self, number: int, vector: NDArray[np.float32]) -> None:
        self._index.add_items(vector, number, num_threads=1)


class FaissCells:
    """Cells around centres that are learnt of a part of the vectors; its graph index can remove nothing."""

    def __init__(self, count: int) -> None:
        import faiss

        faiss.omp_set_num_threads(1)
        self._index: Any = faiss.index_factory(WIDTH, f"IVF{count // CELL},Flat", faiss.METRIC_INNER_PRODUCT)
        self._index.set_direct_map_type(faiss.DirectMap.Hashtable)
        self._index.cp.max_points_per_centroid = TRAINING_SHARE
        self._index.nprobe = CELLS_SEARCHED

    def add(self, numbers: NDArray[np.int64], vectors: NDArray[np.float32]) -> None:
        unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
        self._index.train(unit)
        self._index.add_with_ids(unit, numbers)

    def near(self, vector: NDArray[np.float32]) -> Iterable[int]:
        found: list[int] = self._index.search(vector[None], NEAREST)[1][0].tolist()
        return found

    def change(self, number: int, vector: NDArray[np.float32]) -> None:
        place = np.array([number], np.int64)
        self._index.remove_ids(place)
        self._index.add_with_ids((vector / np.linalg.norm(vector))[None], place)


#: Name, the module that it needs, and what makes one for so many vectors.
WAYS: list[tuple[str, str, Callable[[int], Index]]] = [
    ("product", "numpy", Product),
    ("hnswlib", "hnswlib", Hnswlib),
    ("usearch", "usearch", Usearch),
    ("faiss_cells", "faiss", FaissCells),
]


def run() -> list[Figure]:
    figures: list[Figure] = []
    random, vectors = np.random.default_rng(1), made()
    asked = clustered(ASKED, random)
    exact = nearest(vectors, asked)
    del vectors
    for number, (name, needs, _) in enumerate(WAYS):
        if importlib.util.find_spec(needs) is None:
            print(f"  {name} is left out: its module {needs} is not installed", flush=True)
            continue
        here, there = multiprocessing.Pipe()
        process = multiprocessing.get_context("spawn").Process(target=measure, args=(number, asked, exact, there))
        process.start()
        there.close()
        found = here.recv()
        process.join()
        context = {"vectors": COUNT, "width": WIDTH, "nearest": NEAREST, "wall_s": round(found.pop("wall_s"), 1)}
        figures += [
            Figure(f"neighbours_{name}_{key}", value, key.rpartition("_")[2], key == "recall", context)
            for key, value in found.items()
        ]
        print(f"  {name:12}" + "   ".join(f"{key} {value:.4g}" for key, value in found.items()), flush=True)
    return figures


def measure(number: int, asked: NDArray[np.float32], exact: list[set[int]], pipe: Connection) -> None:
    """Measure one way, in a process of its own; what was found goes through the pipe."""
    with threadpool_limits(limits=1):
        _, _, make = WAYS[number]
        vectors, numbers = made(), np.arange(COUNT)
        before, began, index = resident_mb(), time.perf_counter(), make(COUNT)
        build_s = cpu_s(lambda: index.add(numbers, vectors))
        grown = resident_mb() - before
        found: list[set[int]] = []
        index.near(asked[0])
        search_s = cpu_s(lambda: found.extend(set(index.near(each)) for each in asked))
        moved = clustered(CHANGED, np.random.default_rng(2))
        change_s = cpu_s(lambda: [index.change(n, each) for n, each in enumerate(moved)])
    pipe.send(
        {
            "build_s": build_s,
            "search_ms": 1e3 * search_s / ASKED,
            "recall": float(np.mean([len(one & other) / NEAREST for one, other in zip(found, exact, strict=True)])),
            "change_ms": 1e3 * change_s / CHANGED,
            "memory_mb": grown,
            "wall_s": time.perf_counter() - began,
        }
    )


def made() -> NDArray[np.float32]:
    """The vectors, f4[COUNT, WIDTH]; the same each time."""
    return clustered(COUNT, np.random.default_rng(0))


def clustered(count: int, random: np.random.Generator) -> NDArray[np.float32]:
    """Vectors f4[count, WIDTH] around some of the centres."""
    centres = np.random.default_rng(3).standard_normal((CENTRES, WIDTH), dtype=np.float32)
    vectors = centres[random.integers(0, CENTRES, count)]
    for begin in range(0, count, 10_000):
        part = vectors[begin : begin + 10_000]
        part += 0.4 * random.standard_normal(part.shape, dtype=np.float32)
    return vectors


def nearest(vectors: NDArray[np.float32], asked: NDArray[np.float32]) -> list[set[int]]:
    """Of each that is asked for the numbers of those nearest to it, by cosine."""
    cosines = np.concatenate(
        [part @ asked.T / np.linalg.norm(part, axis=1)[:, None] for part in np.array_split(vectors, 100)]
    )
    return [set(np.argpartition(-of_one, NEAREST)[:NEAREST].tolist()) for of_one in cosines.T]


def resident_mb() -> float:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


def cpu_s(work: Callable[[], object]) -> float:
    began = time.process_time()
    work()
    return time.process_time() - began
