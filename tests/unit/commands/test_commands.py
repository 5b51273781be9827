"""What all commands share: they are there, teach by example, keep their pace and tell errors in a line."""

from __future__ import annotations

import logging
import os
import subprocess
import sys

import click
import pytest
from click.testing import CliRunner

import stream_tgat
from stream_tgat.commands import commands
from stream_tgat.commands.base import Command
from stream_tgat.commands.replay import Pace
from stream_tgat.commands.replayer import partition_of
from stream_tgat.commands.tail import alert_row, embedding_row
from stream_tgat.errors import DataError
from stream_tgat.topology import Kafka, Topology

TOPOLOGY = Topology(name="test", kafka=Kafka(bootstrap_servers="127.0.0.1:1"))


def test_every_command_teaches_by_an_example() -> None:
    made = {command.name: command for command in commands(TOPOLOGY)}
    assert list(made) == [
        "topology",
        "topics",
        "replay",
        "tail",
        "inspect",
        "serve",
        "train",
        "evaluate",
        "retrain",
        "release",
        "status",
        "dead-letters",
        "plan",
    ]
    for name, command in made.items():
        result = CliRunner().invoke(command, ["--help"])
        assert result.exit_code == 0, result.output
        # On a line of its own, not wrapped into the text.
        assert any(
            line.startswith("    ") and f"faust -A stream_tgat {name}" in line for line in result.output.split("\n")
        )


@pytest.mark.parametrize(
    "arguments",
    [["topics", "check"], ["tail", "alerts"], ["tail", "embeddings", "--json"], ["status"], ["dead-letters", "list"]],
)
def test_command_without_a_broker_ends_with_one_line(arguments: list[str]) -> None:
    name, *rest = arguments
    command = next(command for command in commands(TOPOLOGY) if command.name == name)
    result = CliRunner().invoke(command, rest)
    assert result.exit_code == 1
    assert result.output.startswith("Error: no Kafka broker answers at 127.0.0.1:1 (Connection refused)")
    assert len(result.output.splitlines()) == 1


@pytest.mark.slow
def test_version_needs_no_topology() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "stream_tgat", "--version"], capture_output=True, text=True, check=True
    )
    assert done.stdout == f"stream-tgat {stream_tgat.__version__}\n"


@pytest.mark.slow
@pytest.mark.parametrize("program", [["faust", "-A", "stream_tgat"], ["stream_tgat"]])
def test_command_line_without_a_topology_says_in_a_line_how_to_choose_one(program: list[str]) -> None:
    command = [sys.executable, "-m", *program, "topics", "check"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith("Error: No topology chosen. Set STREAM_TGAT_TOPOLOGY")
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.slow
@pytest.mark.parametrize("address", ["::1:9092", "localhost:99999"])
@pytest.mark.parametrize("command", [["topics", "check"], ["worker"]])
def test_address_that_is_none_is_told_in_a_line(address: str, command: list[str]) -> None:
    environment = os.environ | {"KAFKA_BOOTSTRAP_SERVERS": address, "STREAM_TGAT_TOPOLOGY": "groceries"}
    done = subprocess.run(
        [sys.executable, "-m", "faust", "-A", "stream_tgat", *command],
        capture_output=True,
        text=True,
        check=False,
        env=environment,
    )
    assert done.returncode == 1
    assert done.stderr.startswith(f"Error: '{address}' is not the address of a broker")
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.slow
@pytest.mark.parametrize("command", [[], ["worker"], ["release", "init"]])
def test_help_needs_no_topology_and_says_what_a_worker_needs(command: list[str]) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "faust", "-A", "stream_tgat", *command, "--help"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "Usage: " in done.stdout
    if command != ["release", "init"]:
        assert "STREAM_TGAT_TOPOLOGY names the deployment" in done.stdout
        assert "\n    faust -A stream_tgat train " in done.stdout


def test_our_errors_become_a_line_and_others_stay_what_they_are() -> None:
    @click.command(cls=Command)
    @click.argument("kind")
    def fails(kind: str) -> None:
        raise DataError("what and what to do") if kind == "ours" else ZeroDivisionError

    ours = CliRunner().invoke(fails, ["ours"])
    assert (ours.exit_code, ours.output) == (1, "Error: what and what to do\n")
    theirs = CliRunner().invoke(fails, ["theirs"])
    assert isinstance(theirs.exception, ZeroDivisionError)
    assert logging.getLogger("kafka").level == logging.NOTSET


@pytest.mark.parametrize(
    ("pace", "due"),
    [(Pace(), 0.0), (Pace(rate=50), 2.0), (Pace(speed=60), 5.0), (Pace(rate=50, speed=600), 2.0), (Pace(50, 60), 5.0)],
)
def test_record_is_due_by_the_slower_of_rate_and_speed(pace: Pace, due: float) -> None:
    assert pace.due_s(100, 300.0) == due


def test_partition_is_that_of_crc32() -> None:
    # CRC-32 of "123456789" is its check value, 0xCBF43926.
    assert partition_of(b"123456789", 1 << 16) == 0x3926
    assert partition_of(b"123456789", 8) == 6


def test_embedding_row_says_when_who_and_how_probable() -> None:
    row = embedding_row(
        {
            "timestamp": 86_400.0,
            "node": "ann [x]",
            "kind": "user",
            "embedding": [0.5, -1.0, 0.25, 0.0, 9.0],
            "predictions": {"ban": 0.91},
            "model": 3,
            "late": True,
        }
    )
    text = click.unstyle(_plain(row))
    assert text == "1970-01-02 00:00:00  user ann [x]  +0.50 -1.00 +0.25 +0.00 … (5)  ban █ 0.910  model 3  late"


def test_alert_row_lists_its_reasons() -> None:
    row = alert_row(
        {
            "timestamp": 86_400.0,
            "node": "ann",
            "head": "ban",
            "probability": 0.75,
            "threshold": 0.5,
            "because": [
                {"peer": "tea", "time": 86_340.0, "weight": 0.6, "interaction": "x"},
                {"peer": "jam", "time": 0.0, "weight": 0.05, "interaction": "y"},
            ],
        }
    )
    assert _plain(row).split("\n") == [
        "1970-01-02 00:00:00  ban  ann  ▇ 0.750 (threshold 0.50)",
        "      60%  tea  1 min before",
        "       5%  jam  1 d before",
    ]


def _plain(markup: str) -> str:
    from rich.text import Text

    return Text.from_markup(markup).plain
