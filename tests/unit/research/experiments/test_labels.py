"""The command for predictions about the user refuses what it cannot do, before it reads much."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from research.__main__ import main
from research.experiments import labels


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["oulad"], "give the folder with the data"),
        (["oulad", "--folder", "."], "cannot be read"),
        (["jodie"], "give the folder with the data, or the file"),
        (["wikipedia"], "'wikipedia' is not one of 'oulad', 'groceries', 'jodie'"),
    ],
)
def test_command_says_what_is_missing(arguments: list[str], message: str, tmp_path: Path) -> None:
    with CliRunner().isolated_filesystem(tmp_path):
        result = CliRunner().invoke(main, ["labels", *arguments])
    assert result.exit_code != 0
    assert message in result.output
    assert labels.command.name == "labels"
