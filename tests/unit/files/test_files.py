"""Rows of files: however these are packed or damaged, each row is read or named with its reason."""

from __future__ import annotations

import bz2
import gzip
import lzma
import re
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pytest
from pyarrow import csv, feather, parquet

from stream_tgat.errors import DataError
from stream_tgat.files import BadRow, Row, flag, form_of, number, numbers, open_file, open_rows, read_text_columns

Write = Callable[[str, bytes], Path]
ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def written(name: str, content: bytes) -> Path:
        file = tmp_path / name
        file.write_bytes(content)
        return file

    return written


def rows_of(file: Path) -> list[tuple[int, Any]]:
    """(number, fields) of good rows, (number, reason) of bad ones."""
    with open_rows(file) as rows:
        return [(row.number, row.reason if isinstance(row, BadRow) else row.fields) for row in rows]


@pytest.mark.parametrize("pack", [bytes, gzip.compress, bz2.compress, lzma.compress])
@pytest.mark.parametrize(("name", "mark"), [("a.csv", b""), ("a.tsv", b""), ("a.csv", b"\xef\xbb\xbf")])
def test_text_is_read_however_it_is_packed_and_named(
    write: Write, pack: Callable[[bytes], bytes], name: str, mark: bytes
) -> None:
    text = mark + "user,item\nann,tea\nbjörn,NA\n".encode()
    content = text.replace(b",", b"\t") if name == "a.tsv" else text
    expected = [(2, {"user": "ann", "item": "tea"}), (3, {"user": "björn", "item": "NA"})]
    assert rows_of(write(f"{name}.gz", pack(content))) == expected
    assert rows_of(write(name, pack(content))) == expected


def test_separator_is_that_of_the_first_line(write: Write) -> None:
    assert rows_of(write("a.csv", b"user;price\nann;2,5\n")) == [(2, {"user": "ann", "price": "2,5"})]
    assert rows_of(write("a.csv", b"user\tnote\nann\ta, b\n")) == [(2, {"user": "ann", "note": "a, b"})]


def test_rows_are_numbered_by_their_first_line_as_an_editor_shows_it(write: Write) -> None:
    text = b'user,note\r\nann,"two\r\nlines"\r\n\r\nbob,\rcid,x\r\n"d\n\n",y'
    assert rows_of(write("a.csv", text)) == [
        (2, {"user": "ann", "note": "two\r\nlines"}),
        (5, {"user": "bob"}),
        (6, {"user": "cid", "note": "x"}),
        (7, {"user": "d\n\n", "note": "y"}),
    ]


def test_line_of_another_encoding_is_one_bad_row_with_its_column(write: Write) -> None:
    latin = "user,item\nann,tea\nann,thé\nbob,tea\n".encode("latin-1")
    told = "column 'item' is not UTF-8: it holds the byte E9, as Latin-1 has it; save as UTF-8"
    assert rows_of(write("a.csv", latin)) == [
        (2, {"user": "ann", "item": "tea"}),
        (3, told),
        (4, {"user": "bob", "item": "tea"}),
    ]
    assert rows_of(write("a.jsonl", b'{"a": 1}\n{"a": "\xe9"}\n{"a": 2}\n')) == [
        (1, {"a": 1}),
        (2, "not UTF-8: it holds the byte E9, as Latin-1 has it; save as UTF-8"),
        (3, {"a": 2}),
    ]


@pytest.mark.parametrize("name", ["a.csv", "a.jsonl"])
@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-be", "utf-16-le", "utf-32"])
def test_file_of_another_encoding_is_refused(write: Write, name: str, encoding: str) -> None:
    with pytest.raises(DataError, match=rf"{name}: .+ UTF-8 is expected, as from: iconv -f UTF-(16|32) -t UTF-8"):
        rows_of(write(name, '{"user"\n'.encode(encoding)))


def test_huge_cell_is_read_up_to_a_stated_bound(write: Write) -> None:
    text = b"user,note\nann," + b"x" * 200_000 + b"\nbob," + b"x" * (2**20 + 1) + b"\ncid,y\n"
    first, second, third = rows_of(write("a.csv", text))
    assert len(first[1]["note"]) == 200_000
    assert second[0] == 3
    assert second[1].startswith("a cell of more than 1,048,576 characters")
    assert third == (4, {"user": "cid", "note": "y"})


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"ann,tea,x\n", "3 cells, but 2 columns are named in the first line"),
        (b"ann\n", "one cell, but 2 columns are named in the first line"),
        (b'"ann"x,tea\n', "not CSV: ',' expected after '\"'"),
        (b'ann,"tea\nbob,tea\n', "a quotation mark is not closed, so that all up to line 4 is one cell; .+"),
    ],
)
def test_line_that_is_no_row_is_named(write: Write, line: bytes, reason: str) -> None:
    ((_, good), (number_, told)) = rows_of(write("a.csv", b"user,item\nann,tea\n" + line))[:2]
    assert good == {"user": "ann", "item": "tea"}
    assert number_ == 3
    assert re.fullmatch(reason, told)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"[1]", "an object such as {\"name\": 1} is expected, not '[1]'"),
        (b'{"a"', "not JSON: .+"),
        (b'{"a": NaN}', "not JSON, which has no NaN or Infinity: .+"),
    ],
)
def test_json_line_that_is_no_object_is_named(write: Write, line: bytes, reason: str) -> None:
    found = rows_of(write("a.ndjson", b'\n{"a": 1}\n' + line + b"\n"))
    assert [each[0] for each in found] == [2, 3]
    assert re.fullmatch(reason, found[1][1]) or reason == found[1][1]


def test_column_that_is_there_twice_is_refused(write: Write, tmp_path: Path) -> None:
    table = tmp_path / "a.parquet"
    parquet.write_table(pa.Table.from_arrays([pa.array([1]), pa.array([2])], ["user", "user"]), table)
    for file in (table, write("a.csv", b"user,item,user\n1,2,3\n")):
        with pytest.raises(DataError, match="column 'user' is there 2 times"):
            rows_of(file)


@pytest.mark.parametrize("packing", ["parquet", "arrow"])
def test_tables_are_read_as_the_values_that_json_has(tmp_path: Path, packing: str) -> None:
    moment = datetime(2024, 5, 1, 8, 30, 0, 500_000, UTC)
    table = pa.table(
        {
            "user": pa.array(["NA", None, "nan"]).dictionary_encode(),
            "at": pa.array([moment, moment, None], pa.timestamp("ns", "Europe/Paris")),
            "price": [2.5, float("nan"), None],
            "text": [[1.0, 2.0], None, []],
        }
    )
    file = tmp_path / "no-ending"
    if packing == "parquet":
        parquet.write_table(table, file)
    else:
        feather.write_feather(table, file, compression="uncompressed")
    with open_rows(file) as rows:
        first, second, third = (row for row in rows if isinstance(row, Row))
        assert (rows.columns, rows.unit, rows.done) == (["user", "at", "price", "text"], "row", 1.0)
    stamp = "2024-05-01T08:30:00.500000+00:00"
    assert first == Row(1, {"user": "NA", "at": stamp, "price": 2.5, "text": [1.0, 2.0]})
    assert (second.number, set(second.fields), second.fields["at"]) == (2, {"at", "price"}, stamp)
    assert second.fields["price"] != second.fields["price"]
    assert third == Row(3, {"user": "nan", "text": []})


READER = """
import sys
from pathlib import Path
from stream_tgat.files import open_rows

def status(name):
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith(name + ":"))

for small in sys.argv[2:]:
    with open_rows(Path(small)) as rows:
        assert sum(1 for _ in rows) == 1  # all that is needed is imported
Path("/proc/self/clear_refs").write_text("5")
before = status("VmHWM")
with open_rows(Path(sys.argv[1])) as rows:
    print(sum(len(row.fields["text"]) for row in rows), status("VmHWM") - before)
"""


@pytest.mark.parametrize(
    ("form", "count"), [("arrow", 20_000), ("parquet", 20_000), ("jsonl.xz", 8_000), ("csv.gz", 8_000)]
)
def test_file_larger_than_the_memory_it_may_take_is_streamed(tmp_path: Path, form: str, count: int) -> None:
    """A process that reads the rows grows by less than half of them; read at once they would be there twice."""
    characters = 8_000

    def written(name: str, rows: int) -> Path:
        file, kind = tmp_path / name, form.partition(".")[0]
        opened = {"gz": partial(gzip.open, compresslevel=1), "xz": partial(lzma.open, preset=0)}.get(form[-2:], open)
        with opened(file, "wb") as out:
            text = pa.table(
                {"number": pa.array(range(rows)), "text": [f"{n:08}" * (characters // 8) for n in range(rows)]}
            )
            if kind == "arrow":
                with pa.ipc.new_file(out, text.schema) as ipc:
                    ipc.write_table(text, max_chunksize=500)
            elif kind == "parquet":
                parquet.write_table(text, out, row_group_size=rows, compression="none", use_dictionary=False)
            elif kind == "csv":
                csv.write_csv(text, out)
            else:
                for row in text.to_pylist():
                    out.write(orjson.dumps(row) + b"\n")
        return file

    files = [written(f"large.{form}", count), written(f"small.{form}", 1)]
    done = subprocess.run(
        [sys.executable, "-c", READER, *map(str, files)], cwd=ROOT, capture_output=True, text=True, check=True
    )
    read, grown_kb = map(int, done.stdout.split())
    assert read == count * characters
    assert grown_kb < read / 2_000, f"{grown_kb / 1000:.0f} MB more"


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        (
            "a.csv.gz",
            gzip.compress(b"user\n" + b"ann\n" * 9999, mtime=0)[:-9],
            "a.csv.gz: damaged: it cannot be unpacked",
        ),
        ("a.zip", b"PK\x03\x04rest", "packed with zip; unpack it first"),
        ("a.parquet", b"PAR1 and nothing else", "a.parquet: not a readable table: "),
        ("a.txt", b"hello", "a.txt: neither its content nor its name says what it is"),
    ],
)
def test_file_that_is_nothing_of_all_this_is_told_in_a_line(
    write: Write, name: str, content: bytes, reason: str
) -> None:
    with pytest.raises(DataError, match=reason):
        rows_of(write(name, content))


def test_file_that_is_absent_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"nowhere.csv: cannot be read: No such file or directory"):
        rows_of(tmp_path / "nowhere.csv")


def test_errors_of_whoever_reads_are_not_taken_for_errors_of_the_file(write: Write) -> None:
    with pytest.raises(ConnectionError), open_rows(write("a.csv", b"user\nann\n")):
        raise ConnectionError


def test_form_is_told_by_content_before_the_name(write: Write) -> None:
    for name, content, form in (
        ("a.csv", b' \n{"user": 1}', "jsonl"),
        ("a.JSONL.gz", b"", "jsonl"),
        ("a.TSV", b"user\n", "csv"),
    ):
        with open_file(write(name, content)) as file:
            assert form_of(file) == form


def test_columns_of_text_keep_their_lines(write: Write) -> None:
    with open_file(write("a.csv", b"user,item\n\nann,\nbob,tea\n")) as file:
        columns = read_text_columns(file)
    assert columns.cells == {"user": ["ann", "bob"], "item": ["", "tea"]}
    assert columns.lines.tolist() == [3, 4]
    with (
        pytest.raises(DataError, match=r"b.csv, line 3: one cell, but 2 columns"),
        open_file(write("b.csv", b"user,item\na,b\nann\n")) as file,
    ):
        read_text_columns(file)


@pytest.mark.parametrize(
    ("cell", "found"),
    [
        ("7", 7), ("-7", -7), ("007", 7), ("+7", 7.0), (" 2.50 ", 2.5), (".5", 0.5), ("5.", 5.0), ("1e-3", 0.001),
        *((text, text) for text in ("", "inf", "-inf", "nan", "NA", "1e999", "0x10", "1_000", "3,5", "٣", "1 2")),
    ],
)  # fmt: skip
def test_cell_is_a_number_only_where_it_plainly_is(cell: str, found: float | str) -> None:
    assert number(cell) == found
    assert type(number(cell)) is type(found)


def test_flags_and_lists_of_cells() -> None:
    assert [flag(each) for each in ("true", "FALSE", "1", "0", "yes")] == [True, False, 1, 0, "yes"]
    assert numbers("[1, 2.5; x]") == [1, 2.5, "x"]
    assert numbers("") == []
