"""`faust -A stream_tgat agents`, which Faust's own cannot do where an agent reads several topics."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest


@pytest.mark.slow
def test_agents_are_listed_with_all_their_topics() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "faust", "-A", "stream_tgat", "agents"],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "STREAM_TGAT_TOPOLOGY": "wikipedia_bans", "COLUMNS": "120"},
    )
    assert done.returncode == 0, done.stderr
    rows = {line.split("|")[1].strip(): line for line in done.stdout.splitlines() if "|" in line}
    assert {"@ingest", "@propagate", "@checking"} <= rows.keys()
    assert "labels, nodes" in rows["@checking"]
    assert "<N/A>" not in done.stdout
