"""The tables and the figure of docs/performance.md, from benchmarks/results.json.

What stands between `<!-- NAME -->` and `<!-- end -->` in the page is written here; all else there is prose.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
from distance import distances
from figures import Figure

SHARES = (5, 10, 25, 50, 75, 90, 100)
Figures = Mapping[str, Figure]

#: what, before, aim, the figures that say it now with how each is shown
_AIMS: Sequence[tuple[str, str, str, Sequence[tuple[str, str]]]] = (
    ("bulk, one worker", "4,500-5,800/s", "8,000/s", [("bulk_per_s", "{:,.0f}/s")]),
    ("… CPU of the worker", "187-221 µs", "125 µs", [("bulk_worker_us", "{:.0f} µs")]),
    ("500/s: CPU", "1,000-1,450 µs", "300 µs", [("live_500_worker_us", "{:,.0f} µs")]),
    (
        "… p50 / p99",
        "52 / 82-156 ms",
        "35 / 60 ms",
        [("live_500_p50_ms", "{:.0f}"), ("live_500_p99_ms", "{:.0f} ms")],
    ),
    ("2,600/s: CPU", "375-410 µs", "170 µs", [("live_2600_worker_us", "{:.0f} µs")]),
    ("… p99", "0.2-5 s", "60 ms", [("live_2600_p99_ms", "{:,.0f} ms")]),
    ("4,000/s: p99", "1.5-2.6 s", "120 ms", [("live_4000_p99_ms", "{:,.0f} ms")]),
    ("90 % of bulk: p99", "collapse", "250 ms", [("curve_90_p99_ms", "{:,.0f} ms")]),
    (
        "idle worker",
        "14 % of a core, 96 records/s",
        "2 %, 2 records/s",
        [("idle_worker_percent", "{:.1f} %"), ("idle_records_per_s", "{:.1f} records/s")],
    ),
    (
        "engine, batches of 512 / 128 / 32",
        "14,000 / 10,900 / 10,600 per s",
        "20,000 / 18,000 / 14,000",
        [("engine_512_per_s", "{:,.0f}"), ("engine_128_per_s", "{:,.0f}"), ("engine_32_per_s", "{:,.0f}")],
    ),
    ("… one event", "0.55 ms", "0.2 ms", [("engine_one_ms", "{:.2f} ms")]),
    ("training step", "0.19-0.22 s", "0.17 s", [("train_batch_s", "{:.2f} s")]),
)


def write(page: Path, figures: Figures) -> None:
    """Write what the figures say into the page, and the curve beside it."""
    # What was measured by other benchmarks than these is something to compare with, and not what holds now.
    figures = {name: figure for name, figure in figures.items() if "by" not in figure.context}
    text = page.read_text()
    writers: dict[str, Callable[[Figures], str]] = {
        "aims": _aims,
        "curve": _curve,
        "overload": _overload,
        "linger": _linger,
        "workers": _workers,
        "recovery": _recovery,
        "model": _model,
        "limits": _limits,
    }
    for name, writer in writers.items():
        found = writer(figures)
        if found:
            begin = rf"(<!-- {name} -->\n).*?(<!-- end -->)"
            text, count = re.subn(begin, lambda match, new=found: f"{match[1]}{new}\n{match[2]}", text, flags=re.DOTALL)
            if count != 1:
                raise ValueError(f"{page.name} has no place for {name}: <!-- {name} --> … <!-- end -->")
    page.write_text(text)
    if _has_curve(figures):
        draw(figures, page.parent / "performance" / "load.svg")


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _show(figures: Figures, name: str, form: str) -> str:
    """The median, and what the runs gave where there are several."""
    figure = figures.get(name)
    if figure is None:
        return "not measured"
    number = form.format(figure.value)
    if len(figure.runs) > 1:
        plain = re.sub(r"\}.*", "}", form)
        number += f" ({plain.format(min(figure.runs))}-{plain.format(max(figure.runs))})"
    return number


def _aims(figures: Figures) -> str:
    rows = [
        [what, before, " / ".join(_show(figures, name, form) for name, form in shown), aim]
        for what, before, aim, shown in _AIMS
    ]
    return _table(["", "before", "now", "aim"], rows)


def _has_curve(figures: Figures) -> bool:
    return all(f"curve_{share}_p50_ms" in figures for share in SHARES)


def _curve(figures: Figures) -> str:
    if not _has_curve(figures):
        return ""
    rows = []
    for share in SHARES:
        context = figures[f"curve_{share}_p50_ms"].context
        shown = [
            figures[f"curve_{share}_{name}"].value for name in ("p50_ms", "p99_ms", "worker_us", "broker_us", "load_us")
        ]
        rows.append([f"{share} %", f"{context['rate']:,}/s", *(f"{value:,.0f}" for value in shown)])
    head = ["of bulk", "rate", "p50, ms", "p99, ms", "worker, µs", "broker, µs", "load, µs"]
    picture = "![Latency and CPU over the load](performance/load.svg)"
    return f"{picture}\n\n{_table(head, rows)}\n\n{_conditions(figures['curve_50_p50_ms'])}"


def _overload(figures: Figures) -> str:
    names = ("latency_grows_ms_per_s", "latency_straight_r2", "memory_grows_mb", "recovered_s")
    if f"overload_{names[0]}" not in figures:
        return ""
    grows, straight, memory, recovered = (figures[f"overload_{name}"] for name in names)
    context = grows.context
    sentences = (
        f"Asked for {context['rate']:,}/s for 30 s where bulk is {context['bulk']:,}/s:",
        f"latency grew by {grows.value:,.0f} ms a second (R² of a straight line {straight.value:.2f}),",
        f"and memory by {memory.value:,.0f} MB beyond the {memory.context['before']} MB before it.",
        f"{recovered.value:.0f} s after the overload latency was as before:",
        f"below twice its p99 of {context['p99_before_ms']} ms.",
    )
    return f"{' '.join(sentences)}\n\n{_conditions(grows)}"


def _linger(figures: Figures) -> str:
    """A line for each `linger_ms` that was measured, the rates beside each other."""
    found = {
        (int(match[1]), int(match[2]))
        for match in (re.fullmatch(r"linger_(\d+)_(\d+)_worker_us", name) for name in figures)
        if match
    }
    if not found:
        return ""
    rates = sorted({rate for _, rate in found})
    head = ["`linger_ms`", *(f"{rate:,}/s: {what}" for rate in rates for what in ("p50 / p99, ms", "CPU, µs"))]
    rows = []
    for linger in sorted({linger for linger, _ in found}):
        row = [str(linger)]
        for rate in rates:
            prefix = f"linger_{linger}_{rate}"
            row.append(" / ".join(_show(figures, f"{prefix}_{name}_ms", "{:,.0f}") for name in ("p50", "p99")))
            row.append(_show(figures, f"{prefix}_worker_us", "{:,.0f}"))
        rows.append(row)
    return f"{_table(head, rows)}\n\n{_conditions(figures[f'linger_{rows[0][0]}_{rates[0]}_worker_us'])}"


def _workers(figures: Figures) -> str:
    rows = []
    for kind, title in (("bulk", "bulk"), ("in_all", "500/s in all"), ("each", "the same rate for each worker")):
        for count in (1, 2, 4):
            prefix = f"workers_{count}_{kind}"
            cpu = figures.get(f"{prefix}_worker_us")
            if cpu is None:
                continue
            rate = figures.get(f"{prefix}_per_s")
            shown = f"{rate.value:,.0f}/s" if rate else f"{cpu.context['rate']:,}/s"
            percentiles = [figures.get(f"{prefix}_{name}") for name in ("p50_ms", "p99_ms")]
            latency = ["–" if each is None else f"{each.value:,.0f}" for each in percentiles]
            broker = figures[f"{prefix}_broker_us"].value
            rows.append([title, str(count), shown, f"{cpu.value:,.0f}", f"{broker:,.0f}", *latency])
    if not rows:
        return ""
    return _table(["", "workers", "rate", "workers' CPU, µs", "broker, µs", "p50, ms", "p99, ms"], rows)


def _recovery(figures: Figures) -> str:
    if "recovery_disk_ready_s" not in figures:
        return ""
    rows = [
        [title, *(_show(figures, f"recovery_{name}_{kind}_s", "{:.1f}") for kind in ("ready", "working"))]
        for name, title in (
            ("disk", "a worker starts on its disk"),
            ("changelog", "a worker starts on an empty disk: all of the state"),
            ("takeover", "another worker takes over half of the state"),
            ("takeover_standby", "… of which it has a standby copy"),
        )
    ]
    context = figures["recovery_disk_ready_s"].context
    said = f"{context['state_gb']} GB of state on disk, of {context['interactions']:,} interactions; the changelog has "
    said += f"{context['changelog_gb']} GB."
    table = _table(["", "ready, s", "next embeddings, s"], rows)
    return f"{said}\n\n{table}\n\n{_conditions(figures['recovery_disk_ready_s'])}"


def fit(rates: Sequence[float], cores: Sequence[float]) -> tuple[float, float]:
    """The straight line cores = a + m · rate that fits best: (a, m)."""
    slope, intercept = np.polyfit(rates, cores, 1)
    return float(intercept), float(slope)


def _model(figures: Figures) -> str:
    if not _has_curve(figures):
        return ""
    # Beyond three quarters the worker is full, and batches grow instead of the number of chains.
    used = [figures[f"curve_{share}_worker_us"] for share in SHARES if share <= 75]
    rates = [float(str(each.context["rate"])) for each in used]
    cores = [1e-6 * each.value * rate for each, rate in zip(used, rates, strict=True)]
    chains = [float(str(each.context["chains_per_s"])) for each in used]
    mean = sum(chains) / len(chains)
    constant, each = fit(rates, cores)
    return (
        f"cores = F·(chains/s) + m·(rate) with F = {1e3 * constant / mean:.1f} ms and m = {1e6 * each:.0f} µs, at "
        f"{min(chains):.0f}-{max(chains):.0f} chains a second: {constant:.2f} cores before the first interaction. "
        f"Fitted to the curve from 5 % to 75 %."
    )


def _limits(figures: Figures) -> str:
    lines = distances(figures, figures)
    return "```text\n" + "\n".join(line.removeprefix("  ") for line in lines[1:]) + "\n```" if lines else ""


def _conditions(figure: Figure) -> str:
    context = figure.context
    beside = f", with {context['beside_cores']} cores used by others on average" if "beside_cores" in context else ""
    return f"Measured on {context['cores']} cores{beside}."


def draw(figures: Figures, into: Path) -> None:
    """Latency and CPU time over the load."""
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams["svg.hashsalt"] = "performance"
    from matplotlib import pyplot as plt

    def values(name: str) -> list[float]:
        return [figures[f"curve_{share}_{name}"].value for share in SHARES]

    figure, (above, below) = plt.subplots(2, 1, figsize=(7, 6), sharex=True, constrained_layout=True)
    for name, label in (("p50_ms", "p50"), ("p99_ms", "p99")):
        above.plot(SHARES, values(name), marker="o", label=label)
    above.set_yscale("log")
    above.set_ylabel("latency, ms")
    above.legend()
    for name, label in (("worker_us", "worker"), ("broker_us", "broker"), ("load_us", "load generator and reader")):
        below.plot(SHARES, values(name), marker="o", label=label)
    below.set_yscale("log")
    below.set_ylabel("CPU per interaction, µs")
    below.set_xlabel("load, % of bulk")
    below.legend()
    for each in (above, below):
        each.grid(alpha=0.3, which="both")
    into.parent.mkdir(exist_ok=True)
    figure.savefig(into, metadata={"Date": None})
    plt.close(figure)
