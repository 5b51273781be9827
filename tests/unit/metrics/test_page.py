"""The documentation lists the metrics as they are."""

from __future__ import annotations

from pathlib import Path

import pytest

from stream_tgat.metrics import ALL
from stream_tgat.metrics.page import table, with_table

PAGE = Path(__file__).resolve().parents[3] / "docs" / "operations.md"


def test_page_is_current() -> None:
    page = PAGE.read_text()
    assert with_table(page) == page, "run: python -m stream_tgat.metrics docs/operations.md"


def test_every_metric_has_a_row_and_every_group_one_heading() -> None:
    text = table()
    assert all(text.count(f"| `{metric.name}` |") == 1 for metric in ALL)
    headings = [line for line in text.splitlines() if line.startswith("### ")]
    assert headings == [f"### {group}" for group in dict.fromkeys(metric.group for metric in ALL)]


def test_page_without_marks_is_refused() -> None:
    with pytest.raises(ValueError, match="metrics"):
        with_table("# Operations\n")
