"""Streaming TGAT: embeddings, predictions and alerts for every interaction in Kafka, as it happens.

Importing this package costs nothing. The application that `faust -A stream_tgat` looks for is made when asked for.
"""

import os
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from stream_tgat.worker import StreamTgat

    app: StreamTgat

__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    """Make `app`, for the topology that STREAM_TGAT_TOPOLOGY names, the first time it is used."""
    if name != "app":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from click import ClickException

    from stream_tgat.errors import StreamTgatError
    from stream_tgat.topology import Topology, load_defaults, load_topology
    from stream_tgat.worker import create_app

    try:
        made = create_app(load_topology())
    except StreamTgatError as error:
        # A topology that is to be made needs none; help and version are the same for all.
        makes_one = "STREAM_TGAT_TOPOLOGY" not in os.environ and _follow(sys.argv, "topology", "init")
        if not {"--help", "--version"} & set(sys.argv) and not makes_one:
            # Faust's command line asks for `app` and shows this as one line, where a traceback would bury what to do.
            raise ClickException(str(error)) from error
        made = create_app(load_defaults() if makes_one else Topology(name="any"))
    globals()["app"] = made
    return made


def _follow(words: list[str], *wanted: str) -> bool:
    """Whether these words come one after the other."""
    return any(tuple(words[at : at + len(wanted)]) == wanted for at in range(len(words)))
