"""What the demo shows: a live panel of progress, speed, latency and alerts, and the summary at the end."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from live import Tally
from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

BARS = "▁▂▃▄▅▆▇█"


@dataclass
class Frame:
    """State of the live panel.

    stage: what is going on   expected: interactions in all   renewal: what the process that renews the model said last
    """

    stage: str
    expected: int
    renewal: str = ""
    speeds: deque[float] = field(default_factory=lambda: deque(maxlen=48))
    _last: tuple[float, int] = (0.0, 0)

    def sample(self, now: float, embeddings: int) -> None:
        """Note how many embeddings had come at monotonic second `now`; two make an interaction."""
        then, count = self._last
        if then and now - then < 0.5:
            return
        if then:
            self.speeds.append((embeddings - count) / 2 / (now - then))
        self._last = (now, embeddings)


def day(seconds: float) -> str:
    """A point of event time, as people write it."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%d %b %Y %H:%M")


def live_panel(frame: Frame, tally: Tally) -> RenderableType:
    """One frame of the live display."""
    done = tally.embeddings // 2
    numbers = Table.grid(padding=(0, 3))
    for _ in range(5):
        numbers.add_column(justify="left")
    now, p50, p99 = frame.speeds[-1] if frame.speeds else 0.0, tally.latency_ms(50, 4000), tally.latency_ms(99, 4000)
    numbers.add_row("interactions/s", "latency p50", "latency p99", "embeddings", "dead letters", style="dim")
    numbers.add_row(
        Text(f"{now:,.0f}", style="bold"),
        Text("–" if p50 is None else f"{p50:,.0f} ms", style="bold"),
        Text("–" if p99 is None else f"{p99:,.0f} ms", style="bold"),
        Text(f"{tally.embeddings:,}", style="bold"),
        Text(f"{tally.dead_letters:,}", style="bold"),
    )
    bar = Table.grid(padding=(0, 1), expand=True)
    bar.add_column(ratio=1)
    bar.add_column(justify="right")
    bar.add_row(
        ProgressBar(total=max(frame.expected, 1), completed=done), f"{done:,} / {frame.expected:,} interactions"
    )
    clock = Text(f"event time {day(tally.newest_event)}" if tally.newest_event else "waiting for the first embedding")
    return Panel(
        Group(
            bar,
            clock,
            Text(sparkline(frame.speeds), style="cyan"),
            numbers,
            Text(model_line(frame, tally), overflow="ellipsis", no_wrap=True, style="magenta"),
            alerts_table(tally),
        ),
        title=f"[bold]{frame.stage}",
        border_style="cyan",
    )


def model_line(frame: Frame, tally: Tally) -> str:
    """Which model made the newest embeddings, and what is being done about the next."""
    serving = f"model {max(tally.models)} serves" if tally.models else "no model serves so far"
    return f"{serving} · {frame.renewal}" if frame.renewal else serving


def sparkline(values: deque[float]) -> str:
    """Values as a row of bars of eight heights."""
    top = max(values, default=0.0) or 1.0
    return "".join(BARS[min(7, int(8 * value / top))] for value in values)


def alerts_table(tally: Tally) -> RenderableType:
    """The newest alerts and the past interactions that explain them."""
    table = Table(title=f"newest of {tally.alerts:,} alerts", title_justify="left", expand=True, box=None)
    table.add_column("when", no_wrap=True)
    table.add_column("household", no_wrap=True)
    table.add_column("new interest", no_wrap=True)
    table.add_column("because it bought", ratio=1)
    for alert in list(tally.newest_alerts):
        table.add_row(
            day(alert["timestamp"]),
            str(alert["node"]),
            f"{alert['head']} {alert['probability']:.0%} ≥ {alert['threshold']:.0%}",
            ", ".join(_reason(because, alert["timestamp"]) for because in alert["because"][:3]),
        )
    if not tally.newest_alerts:
        table.add_row("–", "", "", "")
    return table


def _reason(because: dict[str, Any], now: float) -> str:
    ago = (now - because["time"]) / 86_400
    return f"{str(because['peer']).title()} {ago:.0f} d ago ({because['weight']:.0%})"


def summary_panel(summary: dict[str, Any]) -> RenderableType:
    """The figures of the run, and how the predictions did once their labels were known."""
    figures = Table.grid(padding=(0, 3))
    for key in ("interactions", "embeddings", "alerts", "dead_letters"):
        figures.add_row(key.replace("_", " "), f"{summary[key]:,}")
    figures.add_row("throughput, catching up", f"{summary['events_per_s']:,.0f} interactions/s")
    live = _latency(summary["latency_p50_ms"], summary["latency_p99_ms"])
    figures.add_row("latency, live", f"{live} at {summary['live_rate_per_s']:,.0f} interactions/s")
    if summary["retrained"]:
        took = "took over without a stop" if summary["promoted"] else "was kept, and does not serve"
        figures.add_row(
            "retraining",
            f"{summary['retraining_s']:,.0f} s beside the stream; the new model {took}; mean AUC on the newest answers "
            f"{_score(summary['auc_before'])} before, {_score(summary['auc_after'])} after",
        )
        figures.add_row("because", (summary["decision"] or "").partition("; without a say")[0])
        meanwhile = _latency(summary["retraining_latency_p50_ms"], summary["retraining_latency_p99_ms"])
        figures.add_row("latency meanwhile", meanwhile)
    scores = Table(title="Predicted at the basket, scored when the label came 28 days later", title_justify="left")
    for column in ("head", "targets", "base rate", "AUC", "boosted trees", "trivial rule", "AP", "trees' AP"):
        scores.add_column(column, justify="left" if column == "head" else "right")
    for head, each in summary["heads"].items():
        scores.add_row(
            head,
            f"{each['targets']:,}",
            f"{each['base_rate']:.3f}",
            Text(_score(each["auc"]), style="bold"),
            _score(each["boosted_trees_auc"]),
            _score(each["trivial_auc"]),
            _score(each["average_precision"]),
            _score(each["boosted_trees_average_precision"]),
        )
    return Panel(Group(figures, Text(), scores), title="[bold]What happened", border_style="green")


def _latency(p50: float | None, p99: float | None) -> str:
    if p50 is None or p99 is None:
        return "not measured: no interaction came live in that time"
    return f"p50 {p50:,.0f} ms   p99 {p99:,.0f} ms"


def _score(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"
