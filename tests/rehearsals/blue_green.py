"""A rebuild of state beside the running one: green reads the log from its beginning under another topic_prefix.

The steps are those of docs/deploying.md, with the commands that an operator types.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import orjson
from broker import free_port

from stream_tgat.topology import load_topology
from tests.integration.equality.checks import assert_equal
from tests.integration.equality.deployment import Deployment
from tests.integration.equality.oracle import TOLERANCE
from tests.integration.equality.scenarios import deploy
from tests.integration.equality.settings import Settings
from tests.integration.equality.workers import REPOSITORY
from tests.rehearsals.traffic import Traffic, embeddings_of, long_log

#: How much of green's newest output a reader reads that comes from blue: more than the two can be apart.
OVERLAP_S = 60.0
_THRESHOLDS_OF = 2000
_PATIENCE_S = 300.0


@dataclass(frozen=True)
class Rebuilt:
    """What a rebuild has shown.

    caught_up_s: from green's start until it said that it was caught up   interactions: so many were in the log then
    compared: embeddings that both have made   difference: the largest between them
    repeats: embeddings that a reader met twice when it switched   lost: that it met never
    """

    caught_up_s: float
    interactions: int
    compared: int
    difference: float
    repeats: int
    lost: int

    def line(self) -> str:
        """What is printed of it."""
        return (
            f"green caught up with {self.interactions:,} interactions in {self.caught_up_s:.1f} s; {self.compared:,} "
            f"embeddings of both differ by {self.difference:.1e} at most; a reader that switched met "
            f"{self.repeats:,} twice and lost {self.lost}"
        )


def blue_green(
    servers: str, folder: Path, prefix: str, *, rate: float = 200.0, history: int = 20_000, seconds: float = 180.0
) -> Rebuilt:
    """Rebuild the state of a deployment under traffic; AssertionError if green is not what a single pass gives.

    history: so many records are in the log before there is traffic   seconds: of traffic at most
    """
    log = long_log(1.0, history + rate * seconds, seed=52)
    first = log.with_records(log.records[:_THRESHOLDS_OF])
    settings = Settings(cache_bytes=64 << 20, micro_batch=256)
    blue, oracle = deploy(servers, folder / "blue", f"{prefix}blue-", first, settings)
    blue.log = log
    with blue:
        blue.start(plain=True)
        before = log.records[:history]
        blue.produce(before, 120.0)
        blue.log = log.with_records(log.records[history:])
        traffic = Traffic(blue, rate)
        traffic.start()
        green = beside(blue, f"{prefix}green-")
        with green:
            port = free_port()
            began = time.monotonic()
            green.start(plain=True, web_port=port)
            green.wait_until("green is caught up", lambda: _is_ready(port), _PATIENCE_S)
            caught_up_s, interactions = (
                time.monotonic() - began,
                sum(each.value is not None for each in before) + traffic.sent,
            )
            switched_at = time.time()
            blue.read()
            read = {_name(each): each for each in blue.outputs.embeddings.values()}
            oracle.take((*before, *traffic.stop()))
            for each in (blue, green):
                each.wait_for(len(oracle.embeddings), _PATIENCE_S)
                each.stop()
            assert_equal(blue, oracle)
            theirs, ours = ({_name(each): each for each in d.outputs.embeddings.values()} for d in (blue, green))
            assert theirs.keys() == ours.keys()
            difference = max(
                float(np.abs(np.array(theirs[name]["embedding"]) - np.array(ours[name]["embedding"])).max())
                for name in theirs
            )
            assert difference <= TOLERANCE
            after = _written_since(green, switched_at - OVERLAP_S)
            lost = len(theirs.keys() - read.keys() - after)
            return Rebuilt(caught_up_s, interactions, len(theirs), difference, len(read.keys() & after), lost)


def beside(blue: Deployment, prefix: str) -> Deployment:
    """A deployment under another prefix that reads blue's log and serves the release that blue serves, not started."""
    green = Deployment(blue.servers, blue.folder.parent / "green", prefix, blue.log, blue.settings)
    topics, text = blue.topology.topics, blue.topology_file.read_text()
    text = text.replace(f'topic_prefix = "{blue.prefix}"', f'topic_prefix = "{prefix}"')
    for role in ("interactions", "labels", "nodes"):
        text += f'\n[input.{role}]\ntopics = ["{getattr(topics, role)}"]\n'
    green.topology_file.write_text(text)
    green.topology = load_topology(green.topology_file)
    faust(green, "topics", "create")
    (release,) = {path.name for path in Path(green.topology.releases.store).iterdir()}
    faust(green, "release", "promote", release)
    return green


def faust(deployment: Deployment, *line: str) -> str:
    """What a command says; AssertionError if it fails."""
    done = subprocess.run(
        [sys.executable, "-m", "faust", "-A", "stream_tgat", *line],
        cwd=REPOSITORY,
        env={**os.environ, "STREAM_TGAT_TOPOLOGY": str(deployment.topology_file)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{' '.join(line)}: {done.stdout}{done.stderr}"
    return done.stdout


def _is_ready(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=2) as answer:
            return bool(answer.status == 200)
    except (urllib.error.URLError, OSError):
        return False


def _name(embedding: dict[str, object]) -> str:
    """Of which interaction and side it is, whatever the model."""
    return str(embedding["id"]).rpartition("/")[0]


def _written_since(deployment: Deployment, when: float) -> set[str]:
    """What a reader gets that begins at a time: unix seconds."""
    return {
        _name(orjson.loads(record.value))
        for records in embeddings_of(deployment).values()
        for record in records
        if record.timestamp / 1000 >= when
    }
