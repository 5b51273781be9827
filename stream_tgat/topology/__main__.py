"""Write the reference of all keys into a page: ``python -m stream_tgat.topology docs/configuration.md``."""

import sys
from pathlib import Path

from stream_tgat.topology.page import write_reference

if __name__ == "__main__":
    if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
        sys.exit("usage: python -m stream_tgat.topology PAGE")
    write_reference(Path(sys.argv[1]), Path("topologies/template.toml"))
