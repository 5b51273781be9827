"""What an interaction costs by the model's shape, fitted: CPU of engine, worker and broker, bytes of log, state, disk.

With SAVE=yes the coefficients go to stream_tgat/capacity.json, from which `faust -A stream_tgat plan` answers. CPU time
per interaction and bytes hardly depend on what runs beside; how many cores that had stands in the file.
"""

from __future__ import annotations

import json
import os
import platform
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np
import torch
from figures import Figure, load
from load import WIDTH, graph
from path import Live, path
from processes import machine_busy_s
from scipy.optimize import nnls

from stream_tgat import capacity
from stream_tgat.commands.plan import capacity_shape
from stream_tgat.engine import Engine, both_halves, settle
from stream_tgat.nn.model import Model, ModelConfig
from stream_tgat.nn.threads import use_one_thread
from stream_tgat.storage.stores import RocksStore
from stream_tgat.topology import Topology

#: (E, D, K, L) of the engine's runs; T is min(100, D).
SHAPES = (
    (8, 32, 10, 1), (8, 32, 10, 2), (8, 64, 20, 1), (8, 64, 20, 2), (8, 128, 20, 2), (8, 128, 5, 2), (64, 64, 5, 3),
    (WIDTH, 172, 20, 1), (WIDTH, 172, 20, 2), (WIDTH, 64, 20, 2),
)  # fmt: skip
WARM_UP, COUNT, BATCH = 3_000, 5_000, 256
#: (D, partitions, workers) of the whole path's runs, the first two of which are at two rates.
PATHS = ((WIDTH, 8, 1), (64, 8, 1), (64, 32, 1), (64, 8, 4))
PRELOADED, RATE, FAST, SECONDS, WARM_UP_S = 12_000, 500.0, 2_000.0, 6.0, 3.0
FEATURES = {"name": "features", "kind": "vector", "size": WIDTH}
#: That of the benchmarks, with the bytes of its interactions.
WIDE = Topology.model_validate(
    {"name": "x", "model": {"hidden": WIDTH, "time_dim": 100}, "features": [FEATURES], "serving": {"device": "cpu"}}
)
WIDE_BYTES = 1_300
ENGINE_TERMS = ("", " · L", " · L·D²/1000", " · L·K·(E+D+T)/1000")
STATE_TERMS = ("", " · E", " · (L-1)", " · (L-1)·D")
RATES_OF_PAGE, NODES_OF_PAGE = (1_000, 10_000, 100_000, 1_000_000), 1e6
ROOT = Path(__file__).resolve().parents[2]
PAGE, RESULTS = ROOT / "docs" / "capacity.md", ROOT / "benchmarks" / "results.json"
FILE = Path(capacity.__file__).with_name("capacity.json")


def run() -> list[Figure]:
    use_one_thread()
    began, busy, own = time.perf_counter(), machine_busy_s(), sum(os.times()[:4])
    engines = [of_engine(*shape) for shape in SHAPES]
    paths = [of_path(*each, fast=number < 2) for number, each in enumerate(PATHS)]
    beside = machine_busy_s() - busy - (sum(os.times()[:4]) - own) - sum(each["seconds"] for each in paths)
    found = fitted(engines, paths, max(0.0, beside / (time.perf_counter() - began)))
    if os.environ.get("BENCH_SAVE"):
        FILE.write_text(json.dumps(asdict(found), indent=2) + "\n")
        write_page(found)
    figures = [
        Figure(f"capacity_engine_{'_'.join(map(str, shape))}_us", each["us"], "us")
        for shape, each in zip(SHAPES, engines, strict=True)
    ]
    for shape, each in zip(PATHS, paths, strict=True):
        for name in each.keys() & {"us", "broker_us", "cores", "broker_cores", "rounds_per_s"}:
            unit = "us" if name.endswith("us") else "cores" if name.endswith("cores") else "/s"
            figures.append(Figure(f"capacity_{'_'.join(map(str, shape))}_{name}", each[name], unit))
    return [*figures, Figure("capacity_engine_error", 100 * found.engine_error, "%")]


def shape_of(edge: int, hidden: int, neighbours: int, layers: int, time_dim: int) -> capacity.Shape:
    """Of an engine alone, which knows no records."""
    return capacity.Shape(edge, hidden, time_dim, neighbours, 20, layers, 0.0, 0.0, 0, 0)


def of_engine(edge: int, hidden: int, neighbours: int, layers: int) -> dict[str, float]:
    """CPU time of one thread for an interaction, and bytes: written to the changelog, kept in a row, on the disk."""
    torch.manual_seed(0)
    config = ModelConfig(
        edge_features=edge,
        hidden=hidden,
        time_dim=min(100, hidden),
        neighbours=neighbours,
        candidates=20,
        layers=layers,
    )
    known, total = graph(), WARM_UP + COUNT
    ids = np.char.add(b"interactions/0/", np.char.zfill(np.arange(total).astype("S12"), 12))
    users, items = (np.array(nodes[:total]).astype("S9") for nodes in (known.users, known.items))
    features = np.random.default_rng(1).standard_normal((total, edge), dtype=np.float32)
    stream = both_halves(users, items, ids, known.time[:total], features)
    engine = Engine(Model(config), 1, cache_bytes=1 << 30)
    with tempfile.TemporaryDirectory() as folder:
        store = RocksStore(folder)
        engine.open(0, store)
        seconds = written = 0.0
        for at in range(0, total, BATCH):
            batch = stream.take(slice(2 * at, 2 * min(total, at + BATCH)))
            began = time.process_time()
            engine.append(0, batch)
            settle(engine, 0, len(batch))
            changes = engine.take_changes(0)
            store.write(changes)
            engine.committed(0)
            if at >= WARM_UP:
                seconds += time.process_time() - began
                written += sum(len(key) + len(value or b"") for key, value in changes)
        # Of each node the newest 20 rows are kept.
        rows = np.minimum(np.unique(stream.node, return_counts=True)[1], 20).sum()
        state = sum(len(key) + len(value) for key, value in store.scan(b""))
        store.close()
        disk = size_of(Path(folder), "*")
    measured = total - WARM_UP // BATCH * BATCH - (BATCH if WARM_UP % BATCH else 0)
    return {"us": 1e6 * seconds / measured, "changelog": written / measured, "row": state / rows, "disk": disk / state}


def of_path(hidden: int, partitions: int, workers: int, *, fast: bool) -> dict[str, float]:
    """Cores of all workers and of the broker at a rate, and their rounds; bytes of the log for those of records.

    fast: at a higher rate too, and with that what each interaction more takes, in microseconds
    """
    rates = (RATE, FAST) if fast else (RATE,)
    most = PRELOADED + int(sum(rates) * (SECONDS + WARM_UP_S)) + 1
    with path(most, partitions=partitions, hidden=hidden) as deployment, deployment.working(workers):
        # All have their partitions before the first interaction comes.
        deployment.wait_for("the workers", lambda: all("Worker ready" in w.log.read_text() for w in deployment.workers))
        deployment.preload(PRELOADED)
        deployment.wait_for_all()
        lives = [deployment.live(rate, SECONDS, WARM_UP_S) for rate in rates]
        topics = ("interactions", "embeddings")
        of_log = {topic: size_of(deployment.file.parent, f"{topic}-[0-9]*/*.log") for topic in topics}
        each = deployment.at
    slow, quick = lives[0], lives[-1]

    def cores(live: Live, name: str) -> float:
        return live.usage.of[name] / live.usage.seconds

    found = {
        "cores": cores(slow, "worker"),
        "broker_cores": cores(slow, "broker"),
        "rounds_per_s": slow.chains / workers,
        "interaction": of_log["interactions"] / each,
        "embedding": of_log["embeddings"] / each / 2,
        "seconds": sum(sum(live.usage.of.values()) for live in lives),
    }
    if fast:
        more = FAST - RATE
        found["us"] = 1e6 * (cores(quick, "worker") - cores(slow, "worker")) / more
        found["broker_us"] = 1e6 * (cores(quick, "broker") - cores(slow, "broker")) / more
    return found


def size_of(folder: Path, pattern: str) -> int:
    """Bytes of files."""
    return sum(file.stat().st_size for file in folder.rglob(pattern) if file.is_file())


def fitted(engines: list[dict[str, float]], paths: list[dict[str, float]], beside: float) -> capacity.Coefficients:
    """Coefficients that are not negative, and come nearest to what was measured, relative to it."""
    shapes = [shape_of(*shape, min(100, shape[1])) for shape in SHAPES]
    engine, error = fit([each.engine_terms for each in shapes], [each["us"] for each in engines])
    changelog, _ = fit([each.state_terms for each in shapes], [each["changelog"] for each in engines])
    row, _ = fit([each.state_terms for each in shapes], [each["row"] for each in engines])
    wide, narrow = paths[:2]
    of_wide, of_narrow = (of_path_shape(hidden, each) for (hidden, *_), each in zip(PATHS[:2], paths[:2], strict=True))
    # What an interaction takes of the worker beside its engine, by the bytes that go through.
    beside_engine = [
        each["us"] - float(np.dot(engine, shape.engine_terms)) for each, shape in ((wide, of_wide), (narrow, of_narrow))
    ]
    path_terms = [(1.0, shape.wire_kb) for shape in (of_wide, of_narrow)]
    (path_us, path_us_per_kb), _ = fit(path_terms, beside_engine)
    # What is left then is of the rounds: of each worker, each partition that comes up, and each packet.
    terms = [
        (1e-6 * each["rounds_per_s"] * partitions, 1e-6 * each["rounds_per_s"] * partitions * workers, float(workers))
        for (_, partitions, workers), each in zip(PATHS, paths, strict=True)
    ]
    of_interactions = [1e-6 * RATE * each for each in (wide["us"], *[narrow["us"]] * (len(paths) - 1))]
    (partition_us, packet_us, base), _ = fit(
        terms, [each["cores"] - taken for each, taken in zip(paths, of_interactions, strict=True)]
    )
    broker_us = (wide["broker_us"] + narrow["broker_us"]) / 2
    (broker_partition_us, broker_packet_us, broker_base), _ = fit(
        terms, [each["broker_cores"] - 1e-6 * RATE * broker_us for each in paths]
    )
    return capacity.Coefficients(
        measured=time.strftime("%Y-%m-%d"),
        machine=f"{len(os.sched_getaffinity(0))} cores, {platform.machine()}, Python {platform.python_version()}",
        beside_cores=round(beside, 2),
        engine_us=engine,
        engine_error=round(error, 3),
        path_us=path_us,
        path_us_per_kb=path_us_per_kb,
        rounds_per_s=float(np.mean([each["rounds_per_s"] for each in paths])),
        partition_us=partition_us,
        packet_us=packet_us,
        base_cores=base,
        broker_us=broker_us,
        broker_partition_us=broker_partition_us,
        broker_packet_us=broker_packet_us,
        broker_base_cores=broker_base,
        changelog_bytes=changelog,
        row_bytes=row,
        log_factor=wide["embedding"] / of_wide.embedding_bytes,
        disk_factor=float(np.median([each["disk"] for each in engines])),
    )


def fit(terms: Sequence[tuple[float, ...]], values: Sequence[float]) -> tuple[tuple[float, ...], float]:
    """The coefficients, and the largest relative error that is left."""
    scaled = np.array(terms) / np.array(values)[:, None]
    found, _ = nnls(scaled, np.ones(len(values)))
    return tuple(float(each) for each in found), float(np.abs(scaled @ found - 1).max())


def of_path_shape(hidden: int, measured: dict[str, float]) -> capacity.Shape:
    """The shape of a run of the whole path, whose interactions have the bytes that the log has of them."""
    topology = Topology.model_validate(
        {
            "name": "x",
            "model": {"hidden": hidden, "time_dim": 100},
            "features": [FEATURES],
            "serving": {"device": "cpu"},
        }
    )
    return capacity_shape(topology, measured["interaction"])


def write_page(of: capacity.Coefficients) -> None:
    """The coefficients and the plans of docs/capacity.md, between its marks."""
    small = Topology.model_validate({"name": "x", "features": [{"name": "price", "kind": "number"}]})
    shapes = (
        ("D 64, E 1, K 20, L 2", capacity_shape(small, 200)),
        ("D 172, E 172, K 20, L 2", capacity_shape(WIDE, WIDE_BYTES)),
    )
    rows = [
        "| model | rate | workers | their cores | brokers of 4 cores | partitions | brokers' disk a day | network |"
    ]
    rows.append("|---|---|---|---|---|---|---|---|")
    for name, shape in shapes:
        for rate in RATES_OF_PAGE:
            try:
                made = capacity.plan(shape, capacity.Load(rate, NODES_OF_PAGE, 3), of)
            except ValueError as problem:
                rows.append(f"| {name} | {rate:,}/s | {problem} | | | | | |")
                continue
            network = made.wire_bytes_per_s + made.replicated_bytes_per_s
            rows.append(
                f"| {name} | {rate:,}/s | {made.workers:,} | {made.worker_cores:,.1f} | {made.brokers:,} | "
                f"{made.partitions:,} | {made.log_bytes_per_day / 1e9:,.0f} GB | {network / 1e6:,.0f} MB/s |"
            )
    found = [
        f"Measured {of.measured} on {of.machine}; others used {of.beside_cores:g} of the cores meanwhile.",
        "",
        "| what | found |",
        "|---|---|",
        f"| engine, µs | {_terms(of.engine_us, ENGINE_TERMS)}; within {of.engine_error:.0%} of each run |",
        f"| a worker beside it, µs | {of.path_us:.3g} + {of.path_us_per_kb:.3g} · kB |",
        f"| rounds of a worker | {of.rounds_per_s:.3g} a second |",
        f"| in each, µs | {of.partition_us:.3g} for a partition of its own + {of.packet_us:.3g} for a packet |",
        f"| a worker before the first interaction | {of.base_cores:.3g} cores |",
        f"| brokers, µs | {of.broker_us:.3g} an interaction |",
        f"| … in each round | {of.broker_partition_us:.3g} for a partition + {of.broker_packet_us:.3g} for a packet |",
        f"| … for each worker | {of.broker_base_cores:.3g} cores |",
        f"| changelog, bytes an interaction | {_terms(of.changelog_bytes, STATE_TERMS)} |",
        f"| state, bytes a row | {_terms(of.row_bytes, STATE_TERMS)}; on disk {of.disk_factor:.3g} times that |",
        f"| embeddings in the log | {of.log_factor:.3g} times their bytes |",
    ]
    text = PAGE.read_text()
    for mark, lines in (("coefficients", found), ("plans", rows), ("checked", checked(of))):
        begin, end = f"<!-- {mark} -->\n", "\n<!-- end -->"
        before, _, rest = text.partition(begin)
        text = before + begin + "\n".join(lines) + end + rest.partition(end)[2]
    PAGE.write_text(text)


def checked(of: capacity.Coefficients) -> list[str]:
    """Rows of what many workers took in the last run of that benchmark, beside what the equations say of it."""
    shape = capacity_shape(WIDE, WIDE_BYTES)
    rows = ["| rate | workers | measured, µs | by the equations, µs | of what was measured |", "|---|---|---|---|---|"]
    found = load(RESULTS.read_text())
    for count in (1, 2, 4):
        for kind in ("in_all", "each"):
            figure = found.get(f"workers_{count}_{kind}_worker_us")
            if figure is None or (count, kind) == (2, "each"):  # two at 250/s each are 500/s in all
                continue
            rate, partitions = (float(str(figure.context[name])) for name in ("rate", "partitions"))
            said = 1e6 * of.worker_cores(shape, rate, count, int(partitions)) / rate
            rows.append(f"| {rate:,.0f}/s | {count} | {figure.value:,.0f} | {said:,.0f} | {said / figure.value:.0%} |")
    return rows


def _terms(values: Sequence[float], names: Sequence[str]) -> str:
    return " + ".join(f"{value:.3g}{name}" for value, name in zip(values, names, strict=True) if value)
