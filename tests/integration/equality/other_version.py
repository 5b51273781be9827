"""A worker of another version of the software: `faust -A tests.integration.equality.other_version worker`.

OTHER_STATE_FORMAT and OTHER_PACKET_FORMAT are the formats that it reads and writes, in place of this version's.
"""

from __future__ import annotations

import os

from stream_tgat.message_passing import progress
from stream_tgat.wire import packets

if "OTHER_STATE_FORMAT" in os.environ:
    vars(progress)["STATE_FORMAT"] = int(os.environ["OTHER_STATE_FORMAT"])
if "OTHER_PACKET_FORMAT" in os.environ:
    vars(packets)["PACKET_FORMAT"] = int(os.environ["OTHER_PACKET_FORMAT"])
    vars(packets)["_MAGIC"] = b"TGP%d" % int(os.environ["OTHER_PACKET_FORMAT"])

from stream_tgat import app

__all__ = ["app"]
