"""`train --from`: a history in files is the log that the same records would be."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pytest
from click.testing import CliRunner
from pyarrow import parquet

from stream_tgat.commands.train import _read_files, train_command
from stream_tgat.topology import Topology
from stream_tgat.training.log import LogBuilder
from stream_tgat.training.window import WHOLE_LOG, Window

TOPOLOGY = Topology.model_validate(
    {
        "name": "shop",
        "features": [{"name": "price", "kind": "number"}],
        "heads": [{"name": "returns"}],
        "input": {
            "interactions": {
                "user": "customer", "item": "sku", "timestamp": "at", "time_unit": "ms", "fields": {"price": "amount"},
            },
            "labels": {"node": "customer", "label": "'returns'", "value": "bad", "timestamp": "at", "time_unit": "ms"},
        },
    }
)  # fmt: skip
ROWS = [
    {"customer": f"{n % 5:03}", "sku": f"s{n % 3}", "at": 1_714_552_200_000 + 1000 * n, "amount": n + 0.5}
    for n in range(40)
]
LABELS = [{"customer": f"{n:03}", "at": 1_714_552_300_000, "bad": n % 2} for n in range(5)]


def written(folder: Path, form: str, rows: list[dict[str, Any]]) -> Path:
    file = folder / f"{rows[0]['at']}.{form}"
    text = "\n".join([",".join(rows[0]), *(",".join(map(str, row.values())) for row in rows)])
    if form == "parquet":
        parquet.write_table(pa.Table.from_pylist(rows), file)
    elif form == "csv.gz":
        file.write_bytes(gzip.compress(text.encode()))
    elif form == "csv":
        file.write_text(text)
    else:
        file.write_bytes(b"\n".join(map(orjson.dumps, rows)))
    return file


@pytest.mark.parametrize("form", ["jsonl", "csv", "csv.gz", "parquet"])
def test_file_of_any_form_is_the_log_of_its_records(tmp_path: Path, form: str) -> None:
    builder = LogBuilder(TOPOLOGY)
    for number, row in enumerate(ROWS):
        builder.interaction(orjson.dumps(row), None, 0, number)
    for row in LABELS:
        builder.label(orjson.dumps(row), None)
    expected = builder.build()
    files = {"interactions": written(tmp_path, form, ROWS), "labels": written(tmp_path, form, LABELS), "nodes": None}
    part = _read_files(TOPOLOGY, files, WHOLE_LOG)  # type: ignore[arg-type]
    assert part.log.nodes == expected.nodes
    assert part.log.nodes[0] == b"u000"
    for name in ("source", "destination", "time", "edge"):
        assert np.array_equal(getattr(part.log.interactions, name), getattr(expected.interactions, name))
    assert part.log.labels["returns"].value.tolist() == expected.labels["returns"].value.tolist()
    assert len(part.log.labels["returns"]) == 5
    assert (part.manifest, part.since, dict(part.log.skipped)) == ({}, None, {})


def test_bad_rows_are_counted_and_a_window_bounds_what_is_kept(tmp_path: Path) -> None:
    file = tmp_path / "events.jsonl"
    lines = [*map(orjson.dumps, ROWS), b"{", orjson.dumps({"sku": "s1", "at": 1_714_552_200_000, "amount": 1})]
    file.write_bytes(b"\n".join(lines))
    files = {"interactions": file, "labels": None, "nodes": None}
    part = _read_files(TOPOLOGY, files, Window(interactions=10))  # type: ignore[arg-type]
    assert len(part.log.interactions) == 10
    assert part.since == 1_714_552_230.0
    reasons = part.log.skipped["interactions"]
    assert sorted(reasons.values()) == [1, 1]
    assert "field 'user' (customer) is missing" in reasons


@pytest.mark.parametrize(
    "arguments",
    [["--from", "f.jsonl", "--run", "r"], ["--from", "f.jsonl", "--log-of", "x"], ["--labels-from", "f.jsonl"]],
)
def test_options_that_contradict_each_other_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "f.jsonl").touch()
    result = CliRunner().invoke(train_command(TOPOLOGY), arguments)
    assert result.exit_code == 2, result.output
    assert "--from" in result.output
