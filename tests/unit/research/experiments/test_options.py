"""What is kept of a command line makes the same results again, wherever the data lie."""

from __future__ import annotations

from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from research.experiments.options import command_line, device_option


@click.command("table")
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--method", "names", multiple=True)
@click.option("--seeds", default=3)
@click.option("--width", default=64)
@click.option("--learning-rate", default=1e-3)
@click.option("--head", "heads", multiple=True, default=("a",))
@click.option("--activity", is_flag=True)
@click.option("--shuffle/--no-shuffle", default=True)
@click.option("--features", type=click.Path(path_type=Path))
@device_option
@click.option("--out", default=Path("here"), type=click.Path(path_type=Path))
def table(**_: object) -> None:
    click.echo(command_line())


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        (["/somewhere/wiki"], "$DATA/wiki"),
        (["/somewhere/wiki/", "--width", "64", "--out", "there", "--method", "TGAT", "--seeds", "1"], "$DATA/wiki"),
        (["wiki", "--activity", "--learning-rate", "0.01"], "$DATA/wiki --learning-rate 0.01 --activity"),
        (["wiki", "--device", "meta"], "$DATA/wiki"),
        (["wiki", "--no-shuffle", "--features", "/somewhere/else"], "$DATA/wiki --no-shuffle --features $DATA/else"),
        (["wiki", "--head", "b", "--head", "c d"], "$DATA/wiki --head b --head 'c d'"),
    ],
)
def test_command_keeps_what_changes_results(given: list[str], kept: str) -> None:
    found = CliRunner().invoke(table, given)
    assert found.output == f"python -m research table {kept}\n"


@pytest.mark.parametrize("name", ["cpux", "cuda:99"])
def test_device_that_is_not_there_is_refused_before_anything_is_made(name: str) -> None:
    found = CliRunner().invoke(table, ["wiki", "--device", name])
    assert found.exit_code == 2
    assert f"'{name}' cannot be used here" in found.output
