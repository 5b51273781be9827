"""The contract of every public topic: pydantic models that define it, and codecs that are held to them by tests.

`models` is the definition, from which ``python -m stream_tgat.wire docs/schemas`` exports the JSON Schemas. `decode`
reads what users produce and gives either a value or a reason a person understands; `encode` writes what users consume.
Knows no Kafka client: records come and go as bytes and headers.
"""

from stream_tgat.wire.cells import cells_of, feature_cells, read_cells
from stream_tgat.wire.decode import (
    DeadLetter,
    DecodedInteraction,
    DecodedLabel,
    DecodedNode,
    InteractionDecoder,
    LabelDecoder,
    NodeDecoder,
    Punctuation,
    default_interaction_id,
)
from stream_tgat.wire.encode import (
    AlertEncoder,
    EmbeddingEncoder,
    LatestEncoder,
    interaction_name,
    kind_and_id,
    latest_headers,
    output_headers,
    output_key,
    punctuation_headers,
)
from stream_tgat.wire.formats import Headers, decode_object, encode_object
from stream_tgat.wire.judge import Candidate, InputTopic, Judge
from stream_tgat.wire.letters import FIRST_PLACE, FIRST_WRITTEN, Letter, letter_headers, read_letter
from stream_tgat.wire.mapping import Given, KafkaRecord
from stream_tgat.wire.models import (
    SCHEMA_VERSION,
    Alert,
    AnswerFigures,
    Because,
    DeadLetterHeaders,
    DriftNotice,
    Embedding,
    HeadQuality,
    Interaction,
    Label,
    Latest,
    LinkQuality,
    ModelRecord,
    NodeFeatures,
    OutputHeaders,
    QualityReport,
    ReencodedRecord,
    UnknownLabel,
)
from stream_tgat.wire.output_schemas import OutputSchemas, register_output_schemas
from stream_tgat.wire.outputs import DecodedAlert, DecodedEmbedding, OutputDecoder, OutputValues
from stream_tgat.wire.readers import InteractionReader, LabelReader, NodeReader, PassedOver, Several
from stream_tgat.wire.reasons import kind_of_reason
from stream_tgat.wire.times import parse_time

__all__ = [
    "FIRST_PLACE",
    "FIRST_WRITTEN",
    "SCHEMA_VERSION",
    "Alert",
    "AlertEncoder",
    "AnswerFigures",
    "Because",
    "Candidate",
    "DeadLetter",
    "DeadLetterHeaders",
    "DecodedAlert",
    "DecodedEmbedding",
    "DecodedInteraction",
    "DecodedLabel",
    "DecodedNode",
    "DriftNotice",
    "Embedding",
    "EmbeddingEncoder",
    "Given",
    "HeadQuality",
    "Headers",
    "InputTopic",
    "Interaction",
    "InteractionDecoder",
    "InteractionReader",
    "Judge",
    "KafkaRecord",
    "Label",
    "LabelDecoder",
    "LabelReader",
    "Latest",
    "LatestEncoder",
    "Letter",
    "LinkQuality",
    "ModelRecord",
    "NodeDecoder",
    "NodeFeatures",
    "NodeReader",
    "OutputDecoder",
    "OutputHeaders",
    "OutputSchemas",
    "OutputValues",
    "PassedOver",
    "Punctuation",
    "QualityReport",
    "ReencodedRecord",
    "Several",
    "UnknownLabel",
    "cells_of",
    "decode_object",
    "default_interaction_id",
    "encode_object",
    "feature_cells",
    "interaction_name",
    "kind_and_id",
    "kind_of_reason",
    "latest_headers",
    "letter_headers",
    "output_headers",
    "output_key",
    "parse_time",
    "punctuation_headers",
    "read_cells",
    "read_letter",
    "register_output_schemas",
]
