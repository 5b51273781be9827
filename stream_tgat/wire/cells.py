"""What fields of the wire are in files that have only text, such as CSV: the cell as JSON would have it.

Only what the topology reads as numbers or as true and false is made so, and only where it plainly is. The rest stays
text, ids above all (007 is not 7, and NA is an id like others), and the decoders judge it as they do everywhere.
"""

from collections.abc import Callable, Mapping
from typing import Any

from stream_tgat.files import flag, number, numbers
from stream_tgat.topology import Role, Topology

CellReader = Callable[[str], Any]

_BY_KIND: Mapping[str, CellReader] = {"number": number, "flag": flag, "vector": numbers}


def feature_cells(topology: Topology) -> dict[str, CellReader]:
    """How features are read that are not text, by their own names."""
    return {each.name: _BY_KIND[each.kind] for each in topology.features if each.kind in _BY_KIND}


def cells_of(topology: Topology, role: Role) -> dict[str, CellReader]:
    """How the fields of a role are read that are not text, by the names that they have where they come from."""
    readers = dict(_CELLS[role])
    paths = {**topology.input.interactions.sources, **topology.input.interactions.fields}
    if role == "interactions":
        readers |= feature_cells(topology)
    else:
        paths = getattr(topology.input, role).sources
    return {str(paths.get(name, name)): reader for name, reader in readers.items()}


_CELLS: Mapping[Role, Mapping[str, CellReader]] = {
    "interactions": {"timestamp": number},
    "labels": {"timestamp": number, "known_at": number, "value": flag},
    "nodes": {"features": numbers},
}


def read_cells(fields: Mapping[str, str], readers: Mapping[str, CellReader]) -> dict[str, Any]:
    """The fields of a row of text; empty cells are not among them.

    >>> read_cells({"user": "007", "timestamp": "12.5"}, {"timestamp": number})
    {'user': '007', 'timestamp': 12.5}
    """
    return {name: readers[name](cell) if name in readers else cell for name, cell in fields.items()}
