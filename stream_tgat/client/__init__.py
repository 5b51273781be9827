"""What comes out, in Python: embeddings and alerts from the topics, and answers of the query service, as dataclasses.

    from stream_tgat.client import Client

    with Client() as ask:                       # http://127.0.0.1:6080
        ann = ask.node("user", "ann")
        print(ann.embedding, ann.predictions["returns"].probability)

`AsyncClient` has the same calls, to be awaited. They need `pip install 'stream-tgat[serve]'`; `read_embeddings`,
`read_latest` and `read_alerts`, which take records of any Kafka client, need nothing more. Where outputs are Avro they
need `[avro]`, and `RegisteredValues(SchemaRegistry(url))` as their second argument.
"""

from stream_tgat.client.answers import (
    Head,
    HeadState,
    History,
    ModelInfo,
    Moment,
    Neighbour,
    Neighbours,
    Node,
    NodeEmbedding,
    RaisedAlert,
    Recommendation,
    Recommendations,
    Score,
    Similar,
    SimilarNode,
)
from stream_tgat.client.asking import AsyncClient, Client, Unavailable
from stream_tgat.client.outputs import (
    Alert,
    Because,
    Embedding,
    LatestEmbedding,
    read_alerts,
    read_embeddings,
    read_latest,
)
from stream_tgat.schema_registry import RegisteredValues, SchemaRegistry

__all__ = [
    "Alert",
    "AsyncClient",
    "Because",
    "Client",
    "Embedding",
    "Head",
    "HeadState",
    "History",
    "LatestEmbedding",
    "ModelInfo",
    "Moment",
    "Neighbour",
    "Neighbours",
    "Node",
    "NodeEmbedding",
    "RaisedAlert",
    "Recommendation",
    "Recommendations",
    "RegisteredValues",
    "SchemaRegistry",
    "Score",
    "Similar",
    "SimilarNode",
    "Unavailable",
    "read_alerts",
    "read_embeddings",
    "read_latest",
]
