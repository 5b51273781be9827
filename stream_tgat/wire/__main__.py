"""Write the schemas of all records into a folder: ``python -m stream_tgat.wire docs/schemas``."""

import sys
from pathlib import Path

from stream_tgat.wire.schemas import export_schemas

if __name__ == "__main__":
    if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
        sys.exit("usage: python -m stream_tgat.wire FOLDER")
    export_schemas(Path(sys.argv[1]))
