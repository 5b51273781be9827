"""Each thing that a check of data finds, with its count and first row, and nothing where nothing is."""

import io

import numpy as np
import pytest
from rich.console import Console

from stream_tgat.datasets.check import Severity, check_rows
from stream_tgat.errors import DataError

SOURCE, DESTINATION, TIME = np.array([0, 1, 2, 0]), np.array([3, 4, 3, 4]), np.array([1.0, 2.0, 3.0, 4.0])
EDGE = np.array([[0.0, 5.0], [1.0, 6.0], [0.0, 7.0], [1.0, 8.0]], np.float32)


def found(source=SOURCE, destination=DESTINATION, time=TIME, edge=EDGE):
    report = check_rows(
        "data", np.array(source), np.array(destination), np.array(time, float), np.array(edge, np.float32)
    )
    return {each.what: (each.severity.value, each.count, each.first) for each in report.findings}


def test_data_in_order_has_no_findings_and_its_sizes():
    report = check_rows("data", SOURCE, DESTINATION, TIME, EDGE)
    assert report.findings == ()
    assert (report.rows, report.nodes, report.sources, report.destinations, report.features) == (4, 5, 3, 2, 2)
    assert report.span_s == 3.0
    assert report.usable


@pytest.mark.parametrize(
    ("changed", "what", "expected"),
    [
        ({"source": [0, -1, -1, 0]}, "no source", ("error", 2, "row 2")),
        ({"destination": [3, 4, 3, -1]}, "no destination", ("error", 1, "row 4")),
        ({"time": [1, np.nan, 3, np.inf]}, "no finite time", ("error", 2, "row 2")),
        ({"edge": [[0, 1], [1, np.nan], [0, 3], [1, 4]]}, "feature 1 not finite", ("error", 1, "row 2")),
        ({"time": [1, 5, 3, 4]}, "time before that of the row above", ("warning", 1, "row 3")),
        ({"time": [1, 2, 2, 2]}, "same time as another row", ("note", 3, "row 2")),
        ({"time": [0, 1, 2, 1e12]}, "time not in seconds?", ("warning", 4, "row 1")),
        ({"source": [0, 1, 0, 0], "time": [1, 2, 1, 4]}, "repeated row", ("warning", 1, "row 3")),
        ({"source": [0, 4, 2, 0]}, "source is destination", ("warning", 1, "row 2")),
        ({"edge": [[0, 1], [1, 1], [0, 1], [1, 1]]}, "feature that never changes", ("warning", 4, "")),
        ({"source": [0, 1, 2, 3]}, "source is elsewhere a destination", ("note", 1, "row 4")),
        ({"destination": [3, 9, 3, 9]}, "ids not in use", ("note", 5, "")),
    ],
)
def test_finding_has_its_severity_count_and_first_place(changed, what, expected):
    assert found(**changed)[what] == expected


def test_errors_come_first_and_are_raised_with_the_row():
    report = check_rows("data", np.array([0, 0]), np.array([0, 1]), np.array([1.0, np.nan]), EDGE[:2])
    assert report.findings[0].severity is Severity.ERROR
    assert not report.usable
    with pytest.raises(DataError, match="data, row 2: no finite time in 1 rows"):
        report.raise_errors()


def test_rows_of_a_file_with_lines_are_named_by_their_line():
    report = check_rows("data", SOURCE, DESTINATION, np.array([1, 3, 2, 4]), EDGE, lines=np.array([2, 3, 7, 8]))
    assert [each.first for each in report.findings] == ["line 7"]


def test_report_prints_as_a_table():
    console = Console(width=160, record=True, file=io.StringIO())
    console.print(check_rows("data", SOURCE, DESTINATION, np.array([1.0, 3.0, 2.0, 4.0]), EDGE))
    text = console.export_text()
    assert "4 interactions, 5 nodes (3 sources, 2 destinations), 2 features" in text
    assert "time before that of the row above" in text
    assert "25.00%" in text
    console.print(check_rows("data", SOURCE, DESTINATION, TIME, EDGE))
    assert "Nothing remarkable." in console.export_text()
