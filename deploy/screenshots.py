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
import subprocess
import sys
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
PATIENCE_S = 1800.0
#: So many of a view's pixels are shown below each other, at most.
TALLEST = 1300


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=ROOT / "docs", help="where to (default: docs)")
    parser.add_argument("--address", help="of a service that runs already, with a stream that is live; no demo then")
    parser.add_argument("--households", type=int, default=800)
    parser.add_argument("--rate", type=float, default=60.0)
    options = parser.parse_args()
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    if chromium is None:
        print("error: no Chromium is installed; on Debian or Ubuntu: sudo apt-get install chromium", file=sys.stderr)
        return 1
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        if options.address:
            pictures = Pictures(browser, options.address, options.out)
            pictures.live()
            pictures.of_what_was()
            return 0
        with demo(options.households, options.rate) as (address, wait_for_end):
            pictures = Pictures(browser, address, options.out)
            pictures.live()
            wait_for_end()
            pictures.of_what_was()
    return 0


class Pictures:
    """Looks at a service, and saves what it sees."""

    def __init__(self, browser: Browser, address: str, out: Path) -> None:
        self._address, self._out = address.rstrip("/"), out
        context = browser.new_context(viewport={"width": WIDTH, "height": HEIGHT}, color_scheme="light")
        self._page = context.new_page()

    def live(self) -> None:
        """Those of the stream as it moves, once it does."""
        self._until(lambda: bool(self._get("/v1/alerts?limit=30")["raised"] >= 30))
        self._page.goto(f"{self._address}/#/graph")
        self._until(lambda: bool(self._page.evaluate("document.querySelector('canvas').graph.layout.nodes > 400")))
        self._page.wait_for_timeout(4000)
        self._save("graph", "#/graph", HEIGHT, go=False)
        self._page.evaluate("location.hash = '#/now'")
        self._page.wait_for_timeout(9000)
        self._save("now", "#/now", 1200, go=False)

    def of_what_was(self) -> None:
        """The story of a user, the map, and the models."""
        # The map first: a node's way is shown on it.
        self._save("map", "#/map", HEIGHT)
        self._save("node", f"#/node/user/{urllib.parse.quote(self._user(), safe='')}", TALLEST)
        self._save("models", "#/models", TALLEST)

    def _user(self) -> str:
        """One whose alert came true, and of whom there is most to see."""
        alerts = self._get("/v1/alerts?came_true=true&limit=500")["alerts"]
        if not alerts:
            raise SystemExit("no alert has come true so far")
        count = {each["user"]: 0.0 for each in alerts}
        for each in alerts:
            count[each["user"]] += each["probability"] / each["threshold"]
        return str(max(count, key=count.__getitem__))

    def _save(self, name: str, view: str, tallest: int, *, go: bool = True) -> None:
        if go:
            self._page.goto(f"{self._address}/{view}")
            self._page.wait_for_timeout(8000)
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
        with urllib.request.urlopen(self._address + path, timeout=30) as answer:  # noqa: S310
            return json.load(answer)

    def _until(self, condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not _holds(condition):
            if time.monotonic() > deadline:
                raise SystemExit("what was waited for has not come")
            time.sleep(1)


def _holds(condition: Callable[[], bool]) -> bool:
    """Whether it holds; no, while the service is not there yet."""
    try:
        return condition()
    except OSError:
        return False


@contextmanager
def demo(households: int, rate: float) -> Iterator[tuple[str, Any]]:
    """The demo while it runs: the page's address, and what waits until all has been replayed."""
    command = [sys.executable, str(ROOT / "deploy" / "demo.py"), "--stay", "--households", str(households)]
    process = subprocess.Popen([*command, "--rate", str(rate)], stdout=subprocess.PIPE, cwd=ROOT, text=True)
    assert process.stdout is not None
    said = process.stdout

    def wait_for(pattern: str) -> str:
        for line in said:
            print(line, end="", flush=True)
            if found := re.search(pattern, line):
                return found.group(0)
        raise SystemExit("the demo has ended early")

    try:
        yield wait_for(r"http://127\.0\.0\.1:\d+"), lambda: wait_for("The page stays at")
    finally:
        process.terminate()
        process.wait(60)


if __name__ == "__main__":
    sys.exit(main())
