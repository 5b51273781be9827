"""Files become the records that they say, and a wrong line is named."""

from __future__ import annotations

import io
import json
import math
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import orjson
import pyarrow as pa
import pytest
from pyarrow import parquet

from stream_tgat.commands.records import ReplayFormat, open_records
from stream_tgat.commands.verdicts import Tally, judged
from stream_tgat.datasets.stream import StreamRecord
from stream_tgat.errors import DataError
from stream_tgat.topology import Head, Topology
from stream_tgat.wire import DecodedInteraction, InputTopic, InteractionDecoder, LabelDecoder

FEATURES = [
    {"name": "quantity", "kind": "number"},
    {"name": "shop", "kind": "category", "buckets": 8},
    {"name": "gift", "kind": "flag"},
    {"name": "text", "kind": "vector", "size": 2},
]
TOPOLOGY = Topology.model_validate({"name": "test", "features": FEATURES})
JODIE = Topology.model_validate(
    {"name": "test", "features": [{"name": "text", "kind": "vector", "size": 2}], "heads": [Head(name="ban")]}
)
JODIE_HEADER = b"user_id,item_id,timestamp,state_label,comma_separated_list_of_features\n"


def read(
    content: bytes, form: ReplayFormat | None, topic: InputTopic = "interactions", topology: Topology = TOPOLOGY
) -> list[StreamRecord]:
    with written(content) as path, open_records(path, topology, topic, form) as file:
        return [each.record for each in file if each.record is not None]


@contextmanager
def written(content: bytes) -> Iterator[Path]:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "file"
        path.write_bytes(content)
        yield path


def values(
    content: bytes, form: ReplayFormat, topic: InputTopic = "interactions", topology: Topology = TOPOLOGY
) -> list[tuple[str, bytes | None, Any, float]]:
    records = read(content, form, topic, topology)
    return [(each.topic, each.key, orjson.loads(each.value or b"null"), each.time) for each in records]


def verdicts(
    content: bytes, form: ReplayFormat | None, topic: InputTopic = "interactions", topology: Topology = TOPOLOGY
) -> list[str]:
    """What is wrong with each bad row, with its place."""
    with written(content) as path, open_records(path, topology, topic, form) as file:
        found = judged(file, topology, allow_late=False)
        return [f"{each.where}: {each.reason}" for each in found if each.reason is not None]


def test_json_line_is_sent_as_it_stands() -> None:
    line = b'{"user": 7, "item":"tea",  "timestamp": "1970-01-01T00:01:00Z", "unknown": [1]}'
    (record,) = read(b"\n" + line + b"\r\n\n", None)
    assert (record.topic, record.key, record.value, record.time) == ("interactions", b"7", line, 60.0)


def test_csv_cell_becomes_what_its_feature_is() -> None:
    text = (
        b"\xef\xbb\xbfuser,item,timestamp,quantity,shop,gift,text,note\r\n"
        b'007,"tea, green",12.5,3,12,True,"[0.5, -1]",hello\n'
        b"NA,nan,1970-01-01T00:01:00Z,,,false,1 2,\n"
    )
    assert values(text, "csv") == [
        (
            "interactions",
            b"007",
            {
                "user": "007",
                "item": "tea, green",
                "timestamp": 12.5,
                "quantity": 3.0,
                "shop": "12",
                "gift": True,
                "text": [0.5, -1.0],
                "note": "hello",
            },
            12.5,
        ),
        (
            "interactions",
            b"NA",
            {"user": "NA", "item": "nan", "timestamp": "1970-01-01T00:01:00Z", "gift": False, "text": [1.0, 2.0]},
            60.0,
        ),
    ]


def test_nodes_and_labels_are_keyed_by_node() -> None:
    assert values(b'{"node": "tea", "features": [1]}', "jsonl", "nodes") == [
        ("nodes", b"tea", {"node": "tea", "features": [1]}, 0.0)
    ]
    assert values(b"node,features\ntea,0.5;1\n", "csv", "nodes") == [
        ("nodes", b"tea", {"node": "tea", "features": [0.5, 1.0]}, 0.0)
    ]
    assert values(b"node,label,value,timestamp\nann,ban,1,5\n", "csv", "labels") == [
        ("labels", b"ann", {"node": "ann", "label": "ban", "value": True, "timestamp": 5.0}, 5.0)
    ]


@pytest.mark.parametrize("known", ["65.5", "1970-01-01T00:01:05.5Z"])
def test_label_of_a_file_is_sent_when_it_became_known(known: str) -> None:
    csv = f"node,label,value,timestamp,known_at\nann,ban,1,5,{known}\nann,ban,1,5,\n".encode()
    line = f'{{"node": "ann", "label": "ban", "value": 1, "timestamp": 5, "known_at": "{known}"}}'.encode()
    ((_, _, content, time), (_, _, _, without)) = values(csv, "csv", "labels")
    assert (time, without) == (65.5, 5.0)
    assert LabelDecoder(TOPOLOGY).decode(orjson.dumps(content), None, 100.0).known == 65.5  # type: ignore[union-attr]
    if known[0] == "1":
        ((_, _, _, time),) = values(line, "jsonl", "labels")
        assert time == 65.5


def test_jodie_line_is_an_interaction_and_the_label_it_leads_to() -> None:
    assert values(JODIE_HEADER + b"0,3,36.5,1,-0.25,1e-05\n", "jodie", topology=JODIE) == [
        ("interactions", b"0", {"user": "0", "item": "3", "timestamp": 36.5, "text": [-0.25, 1e-05]}, 36.5),
        ("labels", b"0", {"node": "0", "label": "ban", "value": True, "timestamp": 36.5}, 36.5),
    ]


FINE = b"user,item,timestamp,quantity,shop,gift,text\nann,tea,5,1,a,1,1 2\n"


@pytest.mark.parametrize(
    ("content", "form", "topic", "reason"),
    [
        (b'{"user": "a", "timestamp": 1}', "jsonl", "interactions", "line 1: field 'item' is missing (on what)"),
        (b'\n{"user"', "jsonl", "interactions", "line 2: not JSON: .+"),
        (b"[1]", "jsonl", "interactions", "line 1: an object such as .+"),
        (b'{"label": "a"}', "jsonl", "labels", "line 1: field 'node' is missing"),
        (
            b'{"node": "a", "label": "b", "value": 1, "timestamp": 1, "known_at": "later"}',
            "jsonl",
            "labels",
            "line 1: field 'known_at' must be unix seconds or an ISO 8601 string .+, not 'later'",
        ),
    ],
)
def test_wrong_row_is_named_with_its_reason(content: bytes, form: ReplayFormat, topic: InputTopic, reason: str) -> None:
    (told,) = verdicts(content, form, topic)
    assert re.fullmatch(f"file, {reason}", told) or told == f"file, {reason}"


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"ann,tea,6\n", "3 cells, but 7 columns are named in the first line"),
        (b"ann,tea,6,two,a,1,1 2\n", "field 'quantity' must be a number, not 'two'"),
        (b"ann,tea,6,inf,a,1,1 2\n", "field 'quantity' must be a number, not 'inf'"),
        (b"ann,tea,nan,1,a,1,1 2\n", "field 'timestamp' must be unix .+, not 'nan'"),
        (b"ann,tea,6,1,a,maybe,1 2\n", "field 'gift' must be true.+, not 'maybe'"),
        (b"ann,tea,6,1,a,1,1 nan\n", "field 'text' .+ but element 1 is 'nan'"),
        (b",tea,6,1,a,1,1 2\n", r"field 'user' is missing \(who acted\)"),
        (b"ann,tea,4.5,1,a,1,1 2\n", "field 'timestamp' is 0.5 s before that of .+"),
        (b"ann,tea,6,1," + b"x" * 140_000 + b",1,1 2\n", "the record has 140,.+"),
    ],
)
def test_wrong_line_of_csv_is_named_with_its_reason(line: bytes, reason: str) -> None:
    (told,) = verdicts(FINE + line, "csv")
    assert re.fullmatch(f"file, line 3: {reason}", told)


def test_column_that_is_missing_is_named_with_those_that_are_there() -> None:
    with pytest.raises(DataError, match="file: no column 'user', only 'who', 'item'; the first line names the columns"):
        verdicts(b"who,item\na,b\n", "csv")
    with pytest.raises(DataError, match="file: no column 'user', nor any other"):
        verdicts(b"", "csv")
    with pytest.raises(DataError, match=r"no column 'user', .+ sent with --format jodie"):
        verdicts(JODIE_HEADER, "csv")


DEFAULTS = Topology.model_validate(
    {"name": "test", "features": [{"name": "quantity", "kind": "number", "default": 1.0}]}
)
ODD_IDS = ["NA", "null", "nan", "None", "007", "1.0", "true", "-", " "]


@pytest.mark.parametrize("form", ["csv", "jsonl", "table"])
def test_ids_are_the_text_that_they_are_in_every_format(form: ReplayFormat) -> None:
    rows = [{"user": each, "item": each, "timestamp": 5.0, "id": each, "quantity": 2.0} for each in ODD_IDS]
    content = as_file(rows, form)
    assert verdicts(content, form, topology=DEFAULTS) == []
    decoder = InteractionDecoder(DEFAULTS)
    for odd, record in zip(ODD_IDS, read(content, form, topology=DEFAULTS), strict=True):
        decoded = decoder.decode(record.value, record.headers, "interactions", 0, 0, 100.0)
        assert isinstance(decoded, DecodedInteraction)
        assert (decoded.user[1:], decoded.item[1:], decoded.id) == (odd.encode(), odd.encode(), odd.encode())
        assert (record.key, decoded.timestamp, decoded.fields["quantity"]) == (odd.encode(), 5.0, 2.0)


@pytest.mark.parametrize("form", ["csv", "jsonl", "table"])
@pytest.mark.parametrize("number", [math.inf, -math.inf, math.nan])
def test_number_that_is_none_never_becomes_the_default(form: ReplayFormat, number: float) -> None:
    rows = [{"user": "ann", "item": "tea", "timestamp": 5.0, "quantity": each} for each in (None, number, 2.0)]
    (told,) = verdicts(as_file(rows, form), form, topology=DEFAULTS)
    place = {"csv": "line 3", "jsonl": "line 2", "table": "row 2"}[form]
    if form == "jsonl":
        assert told.startswith(f"file, {place}: not JSON, which has no NaN or Infinity")
    else:
        assert re.fullmatch(rf"file, {place}: field 'quantity' must be a (finite )?number, not '?-?(inf|nan)'?", told)


def as_file(rows: list[dict[str, Any]], form: ReplayFormat) -> bytes:
    """Rows as a file of each format."""
    if form == "jsonl":
        return "".join(json.dumps(row) + "\n" for row in rows).encode()
    if form == "table":
        table = io.BytesIO()
        parquet.write_table(pa.Table.from_pylist(rows), table)
        return table.getvalue()
    lines = [",".join("" if cell is None else str(cell) for cell in row.values()) for row in rows]
    return "\n".join([",".join(rows[0]), *lines, ""]).encode()


def test_jodie_file_that_does_not_fit_the_topology_is_refused() -> None:
    line = JODIE_HEADER + b"0,3,36.5,1,-0.25\n"
    with pytest.raises(DataError, match="1 features a line, but feature 'text' of the topology has size = 2"):
        values(line, "jodie", topology=JODIE)
    with pytest.raises(DataError, match="one vector of features"):
        values(line, "jodie")
    two = JODIE.model_copy(update={"heads": (Head(name="ban"), Head(name="other"))})
    with pytest.raises(DataError, match="heads learn ban, other"):
        values(line, "jodie", topology=two)


def test_file_whose_form_nothing_tells_is_refused() -> None:
    with pytest.raises(DataError, match=r"neither its content nor its name .+ --format"):
        verdicts(b"hello", None)


def test_tally_counts_kinds_of_reasons_and_keeps_examples() -> None:
    tally = Tally()
    for line in range(5):
        tally.add(f"file, line {line}", f"field 'a' must be a number, not '{line}'")
    tally.add("file, line 6", None)
    tally.add("file, line 7", "the record has 150,000 bytes; at most 131,072 are allowed")
    assert (tally.count, tally.bad) == (7, 6)
    assert {kind: count for kind, (count, _) in tally.kinds.items()} == {
        "field 'a' must be a number": 5,
        "the record has … bytes; at most 131,072 are allowed": 1,
    }
    assert tally.kinds["field 'a' must be a number"][1][2] == "file, line 2: field 'a' must be a number, not '2'"
