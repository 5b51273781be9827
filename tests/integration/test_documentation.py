"""README and guide do what they say: their blocks are executed, and what they and the other pages name exists."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import click
import numpy as np
import orjson
import pytest
from broker import Broker
from kafka.admin import KafkaAdminClient
from pydantic import BaseModel

from stream_tgat.commands import commands
from stream_tgat.topology import Topology, load_topology
from stream_tgat.wire.models import Alert, Embedding, Interaction, Label, NodeFeatures
from tests.integration.equality.received import records_of

ROOT = Path(__file__).resolve().parents[2]
README = ROOT / "README.md"
GUIDE = ROOT / "docs" / "guide.md"
TOPICS = ROOT / "docs" / "topics.md"
PAGES = tuple(sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "research").glob("*.md")]))
SOURCES = sorted(path for folder in ("stream_tgat", "deploy") for path in (ROOT / folder).rglob("*.py"))
TOPOLOGIES = sorted((ROOT / "topologies").glob("*.toml"))
START = 1_714_550_400.0  # the day of the README's example
INTERACTIONS = 2_000
PATIENCE_S = 240


@dataclass(frozen=True)
class Block:
    """A fenced block of a page. before: the paragraph that leads to it."""

    language: str
    text: str
    before: str


def blocks_of(page: Path) -> list[Block]:
    found = []
    text = page.read_text()
    for match in re.finditer(r"^```(\w+)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        before = text[: match.start()].rstrip().rpartition("\n\n")[2]
        found.append(Block(match[1], match[2], before))
    return found


def code_of(page: Path) -> str:
    """Everything that is set as code: spans, fenced blocks, indented lines."""
    text = page.read_text()
    fenced = "\n".join(block.text for block in blocks_of(page) if block.language != "mermaid")
    prose = re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)
    indented = "\n".join(re.findall(r"^ {4}(\S.*)$", prose, re.MULTILINE))
    return "\n".join([fenced, indented, *re.findall(r"`([^`]+)`", prose)])


# The README, executed


def a_shop(folder: Path) -> int:
    """events.jsonl and labels.jsonl as the README wants them: two months of a shop. Returns how many events."""
    random = np.random.default_rng(5)
    times = START - 60 * 86_400 + np.sort(random.random(INTERACTIONS)) * 60 * 86_400
    # Some customers return what they order by app: something to learn, and labels of both classes.
    customers = ["ann", *(f"customer-{n}" for n in range(59))]
    with (folder / "events.jsonl").open("wb") as events, (folder / "labels.jsonl").open("wb") as labels:
        for seconds in times.tolist():
            customer = int(random.integers(len(customers)))
            channel = str(random.choice(["web", "app", "store"]))
            stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))
            event = {
                "user": customers[customer],
                "item": f"item-{(customer * 3 + int(random.integers(12))) % 40}",
                "timestamp": stamp,
                "price": round(float(random.gamma(2.0, 20.0)), 2),
                "channel": channel,
            }
            events.write(orjson.dumps(event) + b"\n")
            returned = customer % 3 == 0 and channel == "app" and bool(random.random() < 0.8)
            if random.random() < 0.5:
                label = {"node": customers[customer], "label": "returns", "value": returned, "timestamp": stamp}
                labels.write(orjson.dumps(label) + b"\n")
    return INTERACTIONS


@pytest.fixture
def environment(broker: Broker, tmp_path: Path) -> Iterator[dict[str, str]]:
    """The reader's shell: our commands are found, and a Kafka without topics answers."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    yield {**os.environ, "PATH": path, "KAFKA_BOOTSTRAP_SERVERS": broker.bootstrap_servers, "COLUMNS": "120"}
    admin = KafkaAdminClient(bootstrap_servers=broker.bootstrap_servers)
    try:
        own = {*vars(Topology(name="shop").topics).values(), "stream-tgat-shop-graph-changelog"}
        admin.delete_topics([topic for topic in admin.list_topics() if topic in own])
    finally:
        admin.close()


def session_of(blocks: list[Block]) -> str:
    """The bash blocks one after the other, as somebody types them who looks at the result of one before the next."""
    lines = ["set -e", "trap '[ -z \"$!\" ] || { kill $! && wait $!; } || true' EXIT"]
    for number, block in enumerate(blocks):
        lines += [block.text, f"touch done-{number}", f"while [ ! -e go-{number} ]; do sleep 0.1; done"]
        if block.text.rstrip().endswith("&"):
            lines.insert(-2, 'echo "$!" > worker.pid')
    return "\n".join(lines)


class Session:
    """A shell that goes through the blocks; ends with everything it has started."""

    def __init__(self, blocks: list[Block], folder: Path, environment: dict[str, str]) -> None:
        self.folder = folder
        self._output = folder / "session.log"
        with self._output.open("wb") as output:
            self._shell = subprocess.Popen(
                ["bash", "-c", session_of(blocks)],
                cwd=folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def wait_for_block(self, number: int) -> str:
        """Wait until block `number` has been executed; what has been shown so far."""
        deadline = time.monotonic() + PATIENCE_S
        while not (self.folder / f"done-{number}").exists():
            assert self._shell.poll() is None, f"block {number} failed:\n{self.shown()}"
            assert time.monotonic() < deadline, f"block {number} does not end:\n{self.shown()}"
            time.sleep(0.1)
        return self.shown()

    def go_on_from_block(self, number: int) -> None:
        (self.folder / f"go-{number}").touch()

    def shown(self) -> str:
        return self._output.read_text(errors="replace")

    def end(self) -> None:
        """End the shell, which ends the worker, and see that both are gone."""
        worker = self.folder / "worker.pid"
        if self._shell.poll() is None:
            self._shell.terminate()
        try:
            self._shell.wait(30)
        except subprocess.TimeoutExpired:
            os.killpg(self._shell.pid, signal.SIGKILL)
            self._shell.wait()
            raise
        if worker.exists():
            assert not Path(f"/proc/{worker.read_text().strip()}").exists(), "the worker outlives its shell"


@pytest.mark.timeout(600)
def test_readme_and_guide_from_the_topology_to_mended_dead_letters(
    environment: dict[str, str], broker: Broker, tmp_path: Path
) -> None:
    blocks = [*blocks_of(README), *blocks_of(GUIDE)]
    for block in blocks:
        if block.language == "toml":
            # The first block of a file is the file, what comes later is added to it.
            (name,) = re.findall(r"`(\w+\.toml)`", block.before)
            with (tmp_path / name).open("a") as file:
                file.write(f"{block.text}\n")
    count = a_shop(tmp_path)
    session = Session([block for block in blocks if block.language == "bash"], tmp_path, environment)
    try:
        bash = sum(block.language == "bash" for block in blocks)
        for number in range(bash):
            session.wait_for_block(number)
            if (tmp_path / "worker.pid").exists():
                wait_for_embeddings(broker, 2 * count, session)
            session.go_on_from_block(number)
        shown = session.shown()
    finally:
        session.end()
    assert "Traceback" not in shown
    assert f"sent {count:,} records" in shown
    assert len(re.findall(r"… \(\d+\).*model \d+$", shown, re.MULTILINE)) == 10, "tail shows ten embeddings"
    assert re.search(rf"on \d+ of {count:,} interactions", shown), shown
    assert orjson.loads((tmp_path / "runs" / "figures.json").read_bytes())["part"]["unseen"] is True
    assert re.search(r"user ann, partition \d: \d+ interactions", shown), shown
    assert re.search(r"^returns: [\d,]{3,5} answers, of which", shown, re.MULTILINE), "status shows the head's answers"
    values = [
        orjson.loads(record.value)
        for records in records_of(broker.bootstrap_servers, "embeddings").values()
        for record in records
    ]
    assert len({value["id"] for value in values}) == 2 * count
    assert {tuple(value["predictions"]) for value in values} == {("returns",), ()}
    assert not any(records_of(broker.bootstrap_servers, "dead-letters").values())


def wait_for_embeddings(broker: Broker, count: int, session: Session) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while sum(map(len, records_of(broker.bootstrap_servers, "embeddings").values())) < count:
        assert time.monotonic() < deadline, session.shown()
        time.sleep(0.5)


def test_readme_example_of_an_event_is_one() -> None:
    blocks = blocks_of(README)
    (event,) = [block for block in blocks if block.language == "json"]
    topology = next(block for block in blocks if block.language == "toml")
    content = orjson.loads(event.text)
    Interaction.model_validate(content)
    encoder = Topology.model_validate(tomllib.loads(topology.text)).encoder
    assert encoder.encode([content])[1] == [None]
    assert {feature.name for feature in encoder.features} <= content.keys()


# What the pages name exists


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_make_targets_that_a_page_names_exist(page: Path) -> None:
    makefile = (ROOT / "Makefile").read_text()
    targets = set(re.findall(r"^([a-z-]+):", makefile, re.MULTILINE))
    assert set(re.findall(r"^make ([a-z-]+)", code_of(page), re.MULTILINE)) <= targets


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_of_a_page_lead_somewhere(page: Path) -> None:
    links = re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text())
    broken = [link for link in links if "://" not in link and not (page.parent / link).exists()]
    assert not broken


def anchors_of(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub and the site make them."""
    prose = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    titles = [re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", title) for title in re.findall(r"^#+ (.+)$", prose, re.MULTILINE)]
    return {re.sub(r"[^\w -]", "", title.lower()).strip().replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_anchors_that_a_page_links_to_are_headings(page: Path) -> None:
    wrong = []
    for path, anchor in re.findall(r"\]\(([^)#:]*)#([^)]+)\)", page.read_text()):
        file = (page.parent / path).resolve() if path else page
        if file.suffix == ".md" and anchor not in anchors_of(file):
            wrong.append(f"{path}#{anchor}")
    assert not wrong


WRITTEN_LATER = ("runs/", "benchmarks/results.json")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_files_that_a_page_names_exist(page: Path) -> None:
    names = set(re.findall(r"(?<![\w./<-])((?:[\w-]+/)+[\w.-]*|[\w-]+\.py)(?![\w<])", code_of(page)))
    known = {path.name for path in ROOT.glob("*")} | {path.name for path in (ROOT / "stream_tgat").iterdir()}
    wrong = []
    for name in names:
        first = name.split("/")[0]
        if first not in known or name.startswith(WRITTEN_LATER):
            continue
        if not ((ROOT / name).exists() or (ROOT / "stream_tgat" / name).exists()):
            wrong.append(name)
    assert not wrong


def test_table_of_topics_lists_the_topics_and_their_fields() -> None:
    rows = re.findall(r"^\| `([a-z-]+)` \| ([^|]+) \| (.+) \|$", TOPICS.read_text(), re.MULTILINE)
    topics = {name.replace("_", "-") for name in vars(Topology(name="x").topics)}
    assert sorted(name for name, _, _ in rows) == sorted(topics)
    models: dict[str, type[BaseModel]] = {
        "interactions": Interaction, "nodes": NodeFeatures, "labels": Label, "embeddings": Embedding, "alerts": Alert,
    }  # fmt: skip
    for name, you, text in rows:
        if name not in models:
            continue
        fields = models[name].model_fields
        named = set(re.findall(r"`(\w+)`", text))
        assert named <= fields.keys(), name
        if "produce" in you:
            assert {field for field, info in fields.items() if info.is_required()} <= named, name


def test_keys_of_the_topology_that_the_pages_name_exist() -> None:
    fields = {name: info.annotation for name, info in Topology.model_fields.items()}
    sections = {name: kind for name, kind in fields.items() if isinstance(kind, type) and issubclass(kind, BaseModel)}
    for page in PAGES:
        for section, key in re.findall(r"^([a-z]+)\.([a-z_]+)\b(?!\()", code_of(page), re.MULTILINE):
            if section in sections and key not in ("py", "toml"):
                assert key in sections[section].model_fields, f"{page.name}: {section}.{key}"


# Commands


@dataclass(frozen=True)
class Example:
    """A command line that somebody is told to type."""

    where: str
    line: str


def helps(command: click.Command, name: str) -> Iterator[tuple[str, str]]:
    yield name, command.help or ""
    if isinstance(command, click.Group):
        for each in command.commands.values():
            yield from helps(each, f"{name} {each.name}")


def examples() -> list[Example]:
    """Whole lines in the help of commands, and in the pages."""
    found = []
    for command in commands(Topology(name="x")):
        for name, text in helps(command, str(command.name)):
            found += [Example(f"--help of {name}", line) for line in example_lines(text)]
    for page in PAGES:
        found += [Example(page.name, line) for line in example_lines(code_of(page))]
    return found


def example_lines(text: str) -> list[str]:
    return re.findall(r"^\s*((?:\w+=\S+ )*faust -A stream_tgat .+?)\s*(?:[|&#].*)?$", text, re.MULTILINE)


def parse(arguments: list[str]) -> None:
    """Take arguments as click would, without running anything; raises UsageError."""
    name, *rest = arguments
    if name == "--datadir":
        _, name, *rest = rest  # Faust's own
    if name == "worker":
        return  # Faust's own
    command = {str(each.name): each for each in commands(Topology(name="x"))}.get(name)
    while isinstance(command, click.Group):
        name, *rest = rest
        command = command.commands.get(name)
    assert command is not None, f"there is no command {name}"
    command.make_context(name, rest)


@pytest.mark.parametrize("example", examples(), ids=lambda example: f"{example.where}: {example.line}")
def test_example_of_a_command_line_parses(example: Example, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    words = shlex.split(example.line)
    for setting in words[: words.index("faust")]:
        name, _, value = setting.partition("=")
        if name == "STREAM_TGAT_TOPOLOGY":
            assert load_topology(ROOT / "topologies" / f"{value}.toml")
    for word in words:
        if re.search(r"\.(jsonl|csv|parquet)(\.gz)?$", word):
            (tmp_path / word).touch()
    parse(words[words.index("stream_tgat") + 1 :])


def test_every_command_shows_an_example() -> None:
    for command in commands(Topology(name="x")):
        for name, text in helps(command, str(command.name)):
            assert f"faust -A stream_tgat {name}" in text, f"--help of {name} has no example"


def test_commands_that_messages_and_comments_tell_to_run_exist() -> None:
    known = {str(command.name): command for command in commands(Topology(name="x"))}
    for path in [*SOURCES, *TOPOLOGIES, *PAGES]:
        for name, second in re.findall(r"faust -A stream_tgat ([a-z][a-z-]*)(?: ([a-z]+))?", path.read_text()):
            assert name in {*known, "worker"}, f"{path.name}: faust -A stream_tgat {name}"
            command = known.get(name)
            if isinstance(command, click.Group) and second:
                assert second in command.commands, f"{path.name}: faust -A stream_tgat {name} {second}"
