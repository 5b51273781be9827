"""How far the figures are from what cannot be had for less: a line for each that has a limit."""

from __future__ import annotations

from collections.abc import Mapping

from figures import Figure


def distances(known: Mapping[str, Figure], found: Mapping[str, Figure]) -> list[str]:
    """known: all figures, the newest of each   found: those of this run; only what has one of them in it is told"""
    lines = []
    for title, have, limits in _PAIRS:
        names = [*have, *limits]
        if not set(names) <= set(known) or not set(names) & set(found):
            continue
        value = sum(_us(known[name]) for name in have)
        floor = sum(_us(known[name]) for name in limits)
        parts = " + ".join(
            f"{_us(known[name]):.0f} {name.removeprefix('limit_').removesuffix('_us')}" for name in limits
        )
        lines.append(f"  {title:44} {value:6.0f} us, limit {parts} = {floor:.0f} us: x {value / floor:.1f}")
    return ["from the limit, for each interaction:", *lines] if lines else []


def _us(figure: Figure) -> float:
    """Microseconds for each; of a rate those at which it comes."""
    return 1e6 / figure.value if figure.unit == "/s" else figure.value


_MODEL = ("limit_flops_us", "limit_bytes_us")
_PAIRS = (
    ("engine, batches of 512", ("engine_512_per_s",), _MODEL),
    ("engine, batches of 32", ("engine_32_per_s",), _MODEL),
    ("worker in bulk: model and client", ("bulk_worker_us",), (*_MODEL, "limit_client_us")),
    ("worker at 500/s: model and client", ("live_500_worker_us",), (*_MODEL, "limit_client_us")),
    ("worker at 2,600/s: model and client", ("live_2600_worker_us",), (*_MODEL, "limit_client_us")),
    ("broker in bulk", ("bulk_broker_us",), ("limit_broker_us",)),
    ("broker at 500/s", ("live_500_broker_us",), ("limit_broker_us",)),
)
