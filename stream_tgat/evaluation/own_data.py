"""Interactions from a file or folder, with the edge features that a deployment makes of its fields.

What a user would have sent: the topology's [[features]] read the columns of their names. Files without names (JODIE,
and the folders of data sets) hold the edge vector as it is.
"""

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from stream_tgat.datasets.check import DataReport, check_rows
from stream_tgat.datasets.folder import load_folder
from stream_tgat.datasets.jodie import is_jodie, load_jodie
from stream_tgat.datasets.table import NO_LABEL, Columns, in_time_order, read_fields, read_rows
from stream_tgat.errors import DataError
from stream_tgat.graph.interactions import Interactions
from stream_tgat.topology import Topology
from stream_tgat.training.log import TrainingLog, last_as_source, one_per_question


@dataclass(frozen=True)
class Named:
    """Which columns of a table hold what; label: 0 or 1, about the user, for the topology's one label."""

    user: str = "user"
    item: str = "item"
    time: str = "timestamp"
    label: str | None = None


@dataclass(frozen=True, eq=False)
class OwnData:
    """A data set as training reads a log, and what its check found; a log only where there is no error."""

    log: TrainingLog
    report: DataReport


def read_own_data(path: Path, topology: Topology, named: Named) -> OwnData:
    """A folder of a data set, a JODIE file, or CSV, JSON lines or Parquet with named columns; the content tells which.

    DataError says what is wrong, and in which row.
    """
    if path.is_dir():
        folder = load_folder(path)
        names = [str(node) for node in range(folder.interactions.node_count)]
        features = folder.node_features
        return _without_names(path, topology, folder.interactions, folder.label, names, features)
    if is_jodie(path):
        data = load_jodie(path)
        shift = int(data.user.max()) + 1
        interactions = Interactions.in_time_order(data.user, data.item + shift, data.time, data.features)
        names = [*map(str, range(shift)), *map(str, range(int(data.item.max()) + 1))]
        return _without_names(path, topology, interactions, data.changed.astype(np.int8), names, None)
    return _table(path, topology, named)


def _table(path: Path, topology: Topology, named: Named) -> OwnData:
    columns = Columns(named.user, named.item, named.time, named.label, (), topology.graph.bipartite)
    rows = read_rows(path, columns)
    encoder = topology.encoder
    edge, errors = encoder.encode(read_fields(path, topology))
    wrong = [place for place, error in enumerate(errors) if error is not None]
    if wrong:
        raise DataError(f"{rows.place(wrong[0])}: {errors[wrong[0]]} ({len(wrong):,} rows are wrong)")
    if encoder.features:
        rows = replace(rows, edge=edge, feature_names=tuple(encoder.column_names))
    report = rows.check()
    report.raise_errors()
    table = in_time_order(rows)
    log = _log(topology, table.interactions, table.label, [str(name) for name in table.names], None, path)
    return OwnData(log, report)


def _without_names(
    path: Path,
    topology: Topology,
    interactions: Interactions,
    label: NDArray[np.int8],
    names: list[str],
    node_features: NDArray[np.float32] | None,
) -> OwnData:
    """Data whose features have no names: they are the edge vector, if they are as many numbers."""
    wanted, found = topology.edge_width, interactions.edge.shape[1]
    if wanted != found:
        raise DataError(
            f"{path}: {found} features without names, but the topology {topology.name!r} makes {wanted} numbers of an "
            "interaction; measure a release that was trained on such data, or bring a table with named columns"
        )
    width = topology.graph.node_features
    if node_features is not None and node_features.shape[1] != width:
        raise DataError(f"{path}: {node_features.shape[1]} features of a node, but graph.node_features is {width}")
    report = check_rows(path.name, interactions.source, interactions.destination, interactions.time, interactions.edge)
    report.raise_errors()
    return OwnData(_log(topology, interactions, label, names, node_features, path), report)


def _log(
    topology: Topology,
    interactions: Interactions,
    label: NDArray[np.int8],
    names: list[str],
    node_features: NDArray[np.float32] | None,
    path: Path,
) -> TrainingLog:
    """Each label is the answer to the user's last interaction of that time, and known then."""
    width = topology.graph.node_features
    if node_features is None and width:
        node_features = np.zeros((len(names), width), np.float32)
    told = np.flatnonzero(label != NO_LABEL)
    learnt = sorted({head.label_name for head in topology.heads})
    if len(told) and len(learnt) > 1:
        raise DataError(f"{path}: one label, but the topology's heads learn {', '.join(learnt)}; leave it out")
    user, time = interactions.source[told], interactions.time[told]
    found = one_per_question(last_as_source(interactions, user, time), label[told].astype(np.float64), time)
    ids = np.array([f"{place:012d}" for place in range(len(interactions))], np.bytes_)
    nodes = tuple(name.encode() for name in names)
    return TrainingLog(nodes, interactions, ids, node_features, dict.fromkeys(learnt, found), {})
