"""Streaming TGAT: embeddings, predictions and alerts for every interaction in Kafka, as it happens.

Importing this package costs nothing. The application that `faust -A stream_tgat` looks for is made when asked for.
"""

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
    from stream_tgat.topology import Topology, load_topology
    from stream_tgat.worker import create_app

    try:
        made = create_app(load_topology())
    except StreamTgatError as error:
        if "--help" not in sys.argv:
            # Faust's command line asks for `app` and shows this as one line, where a traceback would bury what to do.
            raise ClickException(str(error)) from error
        made = create_app(Topology(name="any"))  # what commands do is the same for all
    globals()["app"] = made
    return made
