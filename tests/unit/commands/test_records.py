"""Files become the records that they say, and a wrong line is named."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import orjson
import pytest

from stream_tgat.commands.records import Format, TopicName, format_of, read_records
from stream_tgat.errors import DataError
from stream_tgat.topology import Head, Topology
from stream_tgat.wire import LabelDecoder

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


def values(
    text: bytes, form: Format, topic: TopicName = "interactions", topology: Topology = TOPOLOGY
) -> list[tuple[str, bytes | None, Any, float]]:
    records = read_records(io.BytesIO(text), "file", form, topology, topic)
    return [(each.topic, each.key, orjson.loads(each.value or b"null"), each.time) for each in records]


def test_json_line_is_sent_as_it_stands() -> None:
    line = b'{"user": 7, "item":"tea",  "timestamp": "1970-01-01T00:01:00Z", "unknown": [1]}'
    (record,) = read_records(io.BytesIO(b"\n" + line + b"\r\n\n"), "file", "jsonl", TOPOLOGY)
    assert (record.topic, record.key, record.value, record.time) == ("interactions", b"7", line, 60.0)


def test_csv_cell_becomes_what_its_feature_is() -> None:
    text = (
        b"\xef\xbb\xbfuser,item,timestamp,quantity,shop,gift,text,note\r\n"
        b'007,"tea, green",12.5,3,12,yes,"[0.5, -1]",hello\n'
        b"ann,tea,1970-01-01T00:01:00Z,,,false,1 2,\n"
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
            b"ann",
            {"user": "ann", "item": "tea", "timestamp": "1970-01-01T00:01:00Z", "gift": False, "text": [1.0, 2.0]},
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


@pytest.mark.parametrize(
    ("text", "form", "topic", "reason"),
    [
        (b'{"user": "a", "timestamp": 1}\n{"user"', "jsonl", "interactions", "line 2: not valid JSON"),
        (b"[1]", "jsonl", "interactions", "line 1: a line must be a JSON object"),
        (b'{"item": "a", "timestamp": 1}', "jsonl", "interactions", "line 1: field 'user' is missing"),
        (b'{"user": true, "timestamp": 1}', "jsonl", "interactions", "line 1: field 'user' is missing, or neither"),
        (b'{"user": "a", "timestamp": "soon"}', "jsonl", "interactions", "line 1: field 'timestamp' must be unix"),
        (b'{"user": "a"}', "jsonl", "labels", "field 'node' is missing"),
        (b'{"node": "a", "timestamp": 1, "known_at": "later"}', "jsonl", "labels", "line 1: field 'known_at' must be"),
        (b"who,item\na,b\n", "csv", "interactions", "no column 'user'; the first line must name the columns"),
        (b"", "csv", "interactions", "no column 'user'"),
        (b"user,item,timestamp\na,b\n", "csv", "interactions", "line 2: not as many cells"),
        (b"user,item,timestamp\na,b,1,x\n", "csv", "interactions", "line 2: not as many cells"),
        (b"user,timestamp,quantity\na,1,two\n", "csv", "interactions", "line 2, column 'quantity': could not convert"),
        (b"user,timestamp,gift\na,1,perhaps\n", "csv", "interactions", "'perhaps' is neither true nor false"),
    ],
)
def test_wrong_line_is_named_with_its_reason(text: bytes, form: Format, topic: TopicName, reason: str) -> None:
    with pytest.raises(DataError) as caught:
        values(text, form, topic)
    assert str(caught.value).startswith("file")
    assert reason in str(caught.value)


def test_jodie_file_that_does_not_fit_the_topology_is_refused() -> None:
    line = JODIE_HEADER + b"0,3,36.5,1,-0.25\n"
    with pytest.raises(DataError, match="1 features a line, but feature 'text' of the topology has size = 2"):
        values(line, "jodie", topology=JODIE)
    with pytest.raises(DataError, match="one vector of features"):
        values(line, "jodie")
    two = JODIE.model_copy(update={"heads": (Head(name="ban"), Head(name="other"))})
    with pytest.raises(DataError, match="heads learn ban, other"):
        values(line, "jodie", topology=two)


def test_format_is_told_by_the_name_or_asked_for() -> None:
    assert [format_of(Path(name)) for name in ("a.jsonl", "a.NDJSON", "a.csv")] == ["jsonl", "jsonl", "csv"]
    with pytest.raises(DataError, match="--format"):
        format_of(Path("a.parquet"))
