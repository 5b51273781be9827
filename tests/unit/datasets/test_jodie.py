"""The JODIE format, read exactly, and what is not it refused with the line."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest

from stream_tgat.datasets.jodie import jodie_rows, load_jodie
from stream_tgat.errors import DataError

HEADER = b"user_id,item_id,timestamp,state_label,comma_separated_list_of_features\n"
# The first two lines of wikipedia.csv, cut to three features, and a ban.
LINES = b"0,0,0.0,0,-0.175063,-0.176678,0.001\n1,1,36.0,0,0.5,0,-1e-05\n0,2,77.0,1,1,2,3\n"


def test_loaded_arrays_are_those_of_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stream_tgat.datasets.jodie._CHUNK_ROWS", 2)
    file = tmp_path / "wikipedia.csv"
    file.write_bytes(HEADER + LINES.replace(b"\n", b"\r\n"))
    data = load_jodie(file)
    assert len(data) == 3
    assert data.user.tolist() == [0, 1, 0]
    assert data.item.tolist() == [0, 1, 2]
    assert data.time.tolist() == [0.0, 36.0, 77.0]
    assert data.changed.tolist() == [False, False, True]
    expected = [[-0.175063, -0.176678, 0.001], [0.5, 0, -1e-05], [1, 2, 3]]
    np.testing.assert_array_equal(data.features, np.array(expected, np.float32))


def test_items_follow_the_users_and_features_of_zeros_are_left_out(tmp_path: Path) -> None:
    (tmp_path / "lastfm.csv").write_bytes(HEADER + b"0,0,0.0,0,0,0\n1,2,5.0,0,0,-1\n0,1,5.0,0,0,2\n")
    interactions = load_jodie(tmp_path / "lastfm.csv").interactions()
    assert interactions.source.tolist() == [0, 1, 0]
    assert interactions.destination.tolist() == [2, 4, 3]
    assert interactions.time.tolist() == [0.0, 5.0, 5.0]
    assert interactions.edge.tolist() == [[0.0], [-1.0], [2.0]]


def test_lines_without_features_are_read(tmp_path: Path) -> None:
    (tmp_path / "mooc.csv").write_bytes(HEADER + b"3,1,0.5,0.0\n3,2,0.5,1.0\n")
    data = load_jodie(tmp_path / "mooc.csv")
    assert data.changed.tolist() == [False, True]
    assert data.interactions().edge.shape == (2, 0)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (LINES, "the first line must be user_id,item_id,timestamp,state_label"),
        (b"", "the first line must be"),
        (HEADER + b"0,0,0.0\n", "line 2: not a line of numbers"),
        (HEADER + b"0,0,0.0,0,x\n", "line 2: not a line of numbers"),
        (HEADER + b"0,0,0.0,2,1\n", "line 2: state_label is 2"),
        (HEADER + b"0,0,0.0,0,1,2\n\n0,0,1.0,0,1\n", "line 4: 1 features, but 2 on the lines before"),
        (HEADER + b"-1,0,0.0,0,1\n", "line 2: ids -1 and 0; they must be counted from 0"),
        (HEADER + b"0,99999999999,0.0,0,1\n", "line 2: ids 0 and 99999999999"),
        (HEADER + b"0,0,nan,0,1\n", "line 2: a number that is not finite"),
        (HEADER + b"0,0,0.0,0,1,2\n0,0,1.0,0,1,inf\n", "line 3: a number that is not finite"),
        (HEADER + b"0,0,5.0,0,1\n0,0,4.0,0,1\n", r"line 3: the time 4.0 is before that of the line above \(5.0\)"),
    ],
)
def test_what_is_not_the_format_is_refused_with_its_line(text: bytes, reason: str) -> None:
    with pytest.raises(DataError, match=reason):
        list(jodie_rows(io.BytesIO(text), "file.csv"))


def test_file_that_is_absent_or_empty_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="cannot be read: No such file"):
        load_jodie(tmp_path / "absent.csv")
    (tmp_path / "empty.csv").write_bytes(HEADER)
    with pytest.raises(DataError, match="no interaction in it"):
        load_jodie(tmp_path / "empty.csv")
