"""What a test may change about its deployment, and the topology file that this makes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from stream_tgat.topology import Topology, load_topology
from tests.integration.equality.streams import Log

HEADS = ("first", "second")

_TOPOLOGY = """
name = "equality"

[kafka]
topic_prefix = "{prefix}"
bootstrap_servers = "{servers}"
partitions = {partitions}
replication_factor = {replication_factor}
output_format = "{output_format}"

[graph]
bipartite = {bipartite}
node_features = {node_features}
max_id_bytes = 48

[time]
clock = "{clock}"
allowed_lateness_s = {allowed_lateness_s}
idle_after_s = {idle_after_s}

[model]
preset = "{preset}"
layers = {layers}
attention_heads = 2
neighbours = 5
candidates = 7
hidden = 16
time_dim = 8
activity = {activity}
decay_days = [0.001, 1.0]
sampling = "{sampling}"

[serving]
device = "cpu"
cache_bytes = {cache_bytes}
max_wait_s = {max_wait_s}
micro_batch = {micro_batch}
window_bytes = {window_bytes}
max_pending = {max_pending}
{serving}
data_dir = "{folder}/data"
latest = true

[releases]
store = "{folder}/releases"

{more}

{features}
"""
_HEAD = '[[heads]]\nname = "{name}"\nthreshold = {threshold!r}\ncooldown_s = {cooldown_s!r}\n'


@dataclass(frozen=True)
class Settings:
    """What a test may change about the deployment; the state is small, so that rows are evicted all the time."""

    layers: int = 2
    preset: str = "paper"
    activity: bool = True
    sampling: str = "recent"
    clock: str = "event"
    idle_after_s: float = 0.0
    cache_bytes: int = 1 << 20
    max_wait_s: float = 0.0
    micro_batch: int = 32
    window_bytes: int = 4 << 20
    max_pending: int = 200
    serving: str = ""  # more lines of that section of the topology
    cooldown_s: float = 20.0
    version_seed: int = 1
    replication_factor: int = 1
    output_format: str = "json"
    more: str = ""  # sections of the topology that the others do not say


def write_topology(
    file: Path, log: Log, settings: Settings, thresholds: dict[str, float], *, prefix: str, servers: str
) -> Topology:
    """Write the topology of a deployment into a file, whose folder will hold its state, and load it."""
    values = {**settings.__dict__, **log.__dict__, "prefix": prefix, "servers": servers}
    values |= {"folder": file.parent, "bipartite": str(log.bipartite).lower()}
    values |= {"activity": str(settings.activity).lower()}
    heads = [_HEAD.format(name=name, threshold=thresholds[name], cooldown_s=settings.cooldown_s) for name in HEADS]
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(_TOPOLOGY.format(**values) + "\n".join(heads))
    return load_topology(file)
