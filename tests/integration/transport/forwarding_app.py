"""A plain Faust application that forwards each record: stock when STOCK is set, else on this package's Application.

The agent is the same for both, and is what any Faust user would write.
"""

from __future__ import annotations

import os

import faust

from stream_tgat.transport import Application

PREFIX = os.environ["PREFIX"]
STOCK = bool(os.environ.get("STOCK"))
App = faust.App if STOCK else Application
app = App(
    PREFIX + "forwarder",
    broker="kafka://" + os.environ["BROKER"],
    store="rocksdb://",
    topic_partitions=int(os.environ["PARTITIONS"]),
    topic_disable_leader=True,
    table_standby_replicas=0,
    broker_session_timeout=6.0,
    broker_commit_interval=0.5,
    stream_buffer_maxsize=256,
    # Ours looks itself where a log begins, and takes no other setting than its own.
    **({"consumer_auto_offset_reset": "earliest"} if STOCK else {}),
)
numbers = app.topic(PREFIX + "numbers", value_type=int, value_serializer="json", key_serializer="raw")
outputs = app.topic(PREFIX + "outputs", value_type=bytes, value_serializer="raw", key_serializer="raw")


@app.agent(numbers, name="forward")
async def forward(stream) -> None:
    """Forward and wait for the acknowledgement."""
    async for value in stream:
        await outputs.send(value=b"%012d" % value)
