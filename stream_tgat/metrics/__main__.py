"""Write the table of all metrics into a page: ``python -m stream_tgat.metrics docs/operations.md``."""

import sys
from pathlib import Path

from stream_tgat.metrics.page import with_table

if __name__ == "__main__":
    if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
        sys.exit("usage: python -m stream_tgat.metrics PAGE")
    file = Path(sys.argv[1])
    file.write_text(with_table(file.read_text()))
