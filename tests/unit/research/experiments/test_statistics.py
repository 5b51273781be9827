"""A data set of six interactions, counted by hand."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from click.testing import CliRunner

from research.__main__ import main
from research.experiments.statistics import statistics
from tests.unit.research.baselines.small import task_of


def test_what_is_counted_is_what_there_is() -> None:
    # 0 meets 4 three times, 1 meets 5, 2 meets 4 and then, in the test part, a node that nobody met.
    day = 86_400.0
    task = task_of(
        [0, 1, 0, 0, 2, 2, 2, 7, 3, 0],
        [4, 5, 4, 4, 4, 4, 5, 5, 6, 6],
        np.array([0, 1, 1, 3, 4, 5, 6, 7, 9, 10]) * day,
        np.zeros((10, 3)),
    )
    found = statistics(task, labelled=4, positive=1)
    assert (found.nodes, found.sources, found.destinations, found.interactions) == (8, 5, 3, 10)
    assert (found.edge_width, found.node_width, found.days) == (3, 0, 10.0)
    assert found.pairs == 7  # 0-4, 1-5, 2-4, 2-5, 7-5, 3-6, 0-6
    assert np.isclose(found.repeated, 0.3)
    assert np.isclose(found.tied, 0.2)
    assert found.median_degree == 2.5  # 0: 4, 1: 1, 2: 3, 3: 1, 4: 5, 5: 3, 6: 2, 7: 1
    assert (found.learnt, found.validation, found.test) == (7, 1, 2)
    assert (found.unseen, found.both_unseen) == (1.0, 0.5)
    assert (found.labelled, found.positive) == (4, 1)
    assert sum(found.per_bin) == 10
    assert len(found.per_bin) == 100
    assert [found.per_bin[at] for at in (0, 10, 30, 99)] == [1, 2, 1, 1]


def test_command_counts_a_folder(tmp_path: Path) -> None:
    folder = tmp_path / "some"
    folder.mkdir()
    (folder / "meta.json").write_text('{"bipartite": true}')
    import gzip

    rows = [f"{n % 3},{n % 2},{n * 10},{n % 4 - 1 if n % 4 < 3 else 0}" for n in range(20)]
    with gzip.open(folder / "events.csv.gz", "wt") as file:
        file.write("\n".join(["user,item,timestamp,label", *rows]) + "\n")
    result = CliRunner().invoke(main, ["statistics", str(folder), "--out", str(tmp_path / "out")])
    assert result.exit_code == 0, result.output
    kept = json.loads((tmp_path / "out" / "statistics.jsonl").read_text())
    assert kept["command"] == "python -m research statistics $DATA/some"
    assert (kept["result"]["interactions"], kept["result"]["labelled"], kept["result"]["positive"]) == (20, 15, 5)
