"""Pictures of the page for the documentation, from a real run: `make screenshots` runs the demo and looks at it.

While the stream is live it takes the views that move, and afterwards the story of a user with an alert that came true,
the map and the models. It needs Chromium (Debian package chromium).
"""

from __future__ import annotations

import argparse
import io
import json
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from PIL import Image
from playwright.sync_api import Browser, sync_playwright

ROOT = Path(__file__).resolve().parent.parent
WIDTH, HEIGHT = 1400, 900
#: For one answer or one picture; a machine may be crowded.
PATIENCE_S = 300.0
#: A stream is looked at once so many alerts were raised, and so few records are not in the state yet.
MANY_ALERTS, CLOSE = 30, 1000
_ALL_IS_REPLAYED = "The page stays at"
_GRAPH = "document.querySelector('canvas')?.graph"
#: So many of a view's pixels are shown below each other, at most.
TALLEST = 1300


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=ROOT / "docs", help="where to (default: docs)")
    parser.add_argument("--address", help="of a service that runs already, with a stream that is live; no demo then")
    parser.add_argument("--households", type=int, default=500)
    parser.add_argument("--rate", type=float, default=40.0)
    options = parser.parse_args()
    # The demo ends with whoever has started it.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    if chromium is None:
        print("error: no Chromium is installed; on Debian or Ubuntu: sudo apt-get install chromium", file=sys.stderr)
        return 1
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        if options.address:
            pictures = Pictures(browser, options.address, options.out)
            pictures.live(lambda: False)
            pictures.of_what_was()
            return 0
        with demo(options.households, options.rate) as running:
            pictures = Pictures(browser, running.wait_for(r"http://127\.0\.0\.1:\d+"), options.out)
            pictures.live(running.is_over)
            running.wait_for(_ALL_IS_REPLAYED)
            pictures.of_what_was()
    return 0


class Pictures:
    """Looks at a service, and saves what it sees."""

    def __init__(self, browser: Browser, address: str, out: Path) -> None:
        self._address, self._out = address.rstrip("/"), out
        context = browser.new_context(viewport={"width": WIDTH, "height": HEIGHT}, color_scheme="light")
        context.set_default_timeout(1e3 * PATIENCE_S)
        self._page = context.new_page()
        #: Addresses of requests that are not answered yet; those of a view that was left are broken off.
        self._open: list[str] = []
        self._page.on("request", lambda request: self._open.append(request.url))
        for done in ("requestfinished", "requestfailed"):
            self._page.on(done, lambda request: self._open.remove(request.url))

    def live(self, is_over: Callable[[], bool]) -> None:
        """Those of the stream as it moves: once the worker has caught up and has raised some alerts.

        is_over: whether nothing more will come
        """
        self._until(lambda: bool(self._get("/livez")["ready"]), is_over)
        # A page that is looked at makes the service ask how far workers are behind; this one draws little meanwhile.
        self._page.goto(f"{self._address}/#/now")
        if not self._until(self._is_live, is_over):
            raise SystemExit("the worker has not caught up with the log before the stream ended; lower --rate")
        self._go("#/graph")
        self._until(lambda: bool(self._page.evaluate(f"{_GRAPH}?.layout.nodes > 400")), is_over)
        self._page.wait_for_timeout(4000)
        self._save("graph", HEIGHT)
        self._go("#/now")
        self._until(self._is_measured, is_over)
        self._page.wait_for_timeout(6000)
        self._save("now", 1200)

    def of_what_was(self) -> None:
        """The story of a user, the map, and the models."""
        # Where a machine is crowded, whoever measures the models comes a while after the stream.
        deadline = time.monotonic() + PATIENCE_S
        self._until(self._is_measured, lambda: time.monotonic() > deadline)
        # The map first: a node's way is shown on it.
        for name, view, tallest in (
            ("map", "#/map", HEIGHT),
            ("node", f"#/node/user/{urllib.parse.quote(self._user(), safe='')}", TALLEST),
            ("models", "#/models", TALLEST),
        ):
            self._go(view)
            self._save(name, tallest)

    def _user(self) -> str:
        """One whose alert came true and stands as high as can be on the user's page; the surest of these."""
        came_true = self._get("/v1/alerts?came_true=true&limit=500")["alerts"]
        places: list[tuple[int, float, str]] = []
        for user in {each["user"] for each in came_true}:
            alerts = self._get(f"/v1/alerts?user={urllib.parse.quote(user, safe='')}")["alerts"]
            for place, each in enumerate(alerts):
                if each["came_true"]:
                    places.append((place, -each["probability"] / each["threshold"], user))
        if not places:
            raise SystemExit("no alert has come true so far")
        return min(places)[-1]

    def _go(self, view: str) -> None:
        """Show a view, until all that it has asked for has come and is drawn."""
        self._page.evaluate(f"location.hash = {json.dumps(view)}")
        self._page.wait_for_timeout(2000)
        while any(not request.endswith("/v1/events") for request in self._open):
            self._page.wait_for_timeout(200)
        self._page.wait_for_timeout(3000)

    def _save(self, name: str, tallest: int) -> None:
        height = min(int(self._page.evaluate("document.documentElement.scrollHeight")), tallest)
        taken = self._page.screenshot(full_page=True, clip={"x": 0, "y": 0, "width": WIDTH, "height": height})
        file = self._out / f"page-{name}.png"
        # 256 colours are enough for a page, and a third of the bytes; those of which there is little are kept.
        image = (
            Image.open(io.BytesIO(taken))
            .convert("RGB")
            .quantize(256, Image.Quantize.MAXCOVERAGE, kmeans=2, dither=Image.Dither.NONE)
        )
        image.save(file, optimize=True)
        print(f"{file}: {file.stat().st_size / 1024:.0f} KiB")

    def _get(self, path: str) -> Any:
        with urllib.request.urlopen(self._address + path, timeout=PATIENCE_S) as answer:  # noqa: S310
            return json.load(answer)

    def _is_live(self) -> bool:
        """Whether the worker follows the stream closely, by the pulse that the page shows too."""
        with urllib.request.urlopen(f"{self._address}/v1/events", timeout=PATIENCE_S) as events:  # noqa: S310
            pulse = json.loads(next(line for line in events if line.startswith(b"data: "))[len(b"data: ") :])
        behind = sum(each["behind"] for each in pulse["sources"])
        return bool(pulse["sources"] and pulse["alerts"] >= MANY_ALERTS and behind + pulse["unread"] < CLOSE)

    def _is_measured(self) -> bool:
        """Whether answers are known by which predictions of all heads are measured."""
        report = self._get("/v1/quality")["report"]
        return report is not None and all(head["overall"]["auc"] is not None for head in report["heads"])

    def _until(self, condition: Callable[[], bool], is_over: Callable[[], bool]) -> bool:
        """Wait until something holds, or nothing more will come; whether it holds."""
        while not (holds := _holds(condition)) and not is_over():
            self._page.wait_for_timeout(1000)
        return holds


def _holds(condition: Callable[[], bool]) -> bool:
    """Whether it holds; no, while the service is not there yet."""
    try:
        return condition()
    except OSError:
        return False


class RunningDemo:
    """The demo, and what it has said so far. However crowded the machine is, it is waited for while it runs."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self._said: list[str] = []
        self._reader = threading.Thread(target=self._read, name="demo's output", daemon=True)
        self._reader.start()

    def wait_for(self, pattern: str) -> str:
        """What it says that matches, once it does."""
        while True:
            has_ended = not self._reader.is_alive()
            for line in tuple(self._said):
                if found := re.search(pattern, line):
                    return found.group(0)
            if has_ended:
                raise SystemExit("the demo has ended early")
            time.sleep(0.2)

    def is_over(self) -> bool:
        """Whether all has been replayed; SystemExit where it has ended before."""
        if self._process.poll() is not None:
            raise SystemExit("the demo has ended early")
        return any(_ALL_IS_REPLAYED in line for line in tuple(self._said))

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            print(line, end="", flush=True)
            self._said.append(line)


@contextmanager
def demo(households: int, rate: float) -> Iterator[RunningDemo]:
    """The demo while it runs."""
    command = [sys.executable, str(ROOT / "deploy" / "demo.py"), "--stay", "--households", str(households)]
    with subprocess.Popen([*command, "--rate", str(rate)], stdout=subprocess.PIPE, cwd=ROOT, text=True) as process:
        try:
            yield RunningDemo(process)
        finally:
            process.terminate()


if __name__ == "__main__":
    sys.exit(main())
