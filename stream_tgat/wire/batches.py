"""Many records of `interactions` at once: what `InteractionDecoder` says of each, in less time.

Where interactions carry a vector, it is cut out of the JSON as text, and those of all records are parsed in one call.
"""

import re
import secrets
from collections.abc import Sequence
from typing import Any, Final, Protocol

import orjson

from stream_tgat.features import VectorFeature
from stream_tgat.topology import Topology
from stream_tgat.wire.decode import DeadLetter, DecodedInteraction, InteractionDecoder, Punctuation
from stream_tgat.wire.formats import JSON, Headers, header
from stream_tgat.wire.vectors import parse_lists

Decoded = DecodedInteraction | Punctuation | DeadLetter

_BEGIN: Final = re.compile(rb"[ \t\n\r]*:[ \t\n\r]*\[")
#: Stands for the vector while the rest is parsed. Nobody can know it, so what comes back as the field's value is this
#: one; not what a second field of the name, or a name that only ends alike, has.
_CUT: Final = secrets.token_hex(16)


class InputRecord(Protocol):
    """What is read of a record. timestamp: unix seconds at which it was written"""

    topic: str
    partition: int
    offset: int
    timestamp: float
    value: bytes | None
    headers: Headers | None


class BatchDecoder:
    """Reads topic `interactions` of one deployment."""

    def __init__(self, topology: Topology) -> None:
        self._decoder = InteractionDecoder(topology)
        self._max_record_bytes = topology.kafka.max_record_bytes
        vectors = {feature.name: feature.size for feature in topology.features if isinstance(feature, VectorFeature)}
        self._field = max(vectors, key=vectors.__getitem__, default="")
        self._size = vectors.get(self._field, 0)
        self._name = orjson.dumps(self._field)

    def decode(self, records: Sequence[InputRecord]) -> list[Decoded]:
        """What becomes of each record. A vector may be float32 [size] instead of a list."""
        decoded: list[Decoded] = []
        cut: list[int] = []
        texts: list[bytes] = []
        for record in records:
            found = self._cut(record.value, record.headers) if self._size else None
            if found is None:
                decoded.append(self._slowly(record))
            else:
                cut.append(len(decoded))
                texts.append(found[1])
                place = (record.topic, record.partition, record.offset, record.timestamp)
                decoded.append(self._decoder.of_fields(found[0], record.headers, *place))
        if texts:
            vectors, is_plain = parse_lists(texts, self._size)
            for at, vector, plain in zip(cut, vectors, is_plain.tolist(), strict=True):
                each = decoded[at]
                if not plain:
                    decoded[at] = self._slowly(records[at])
                elif isinstance(each, DecodedInteraction):
                    each.fields[self._field] = vector
        return decoded

    def _slowly(self, record: InputRecord) -> Decoded:
        place = (record.topic, record.partition, record.offset, record.timestamp)
        return self._decoder.decode(record.value, record.headers, *place)

    def _cut(self, value: bytes | None, headers: Headers | None) -> tuple[dict[str, Any], bytes] | None:
        """The fields of a record, `_CUT` for its vector, and the text between that one's brackets; None if in doubt.

        A record without a brace but its first has no object in another, where the name could mean something else.
        """
        if value is None or len(value) > self._max_record_bytes or value.count(b"{") != 1:
            return None
        if headers and header(headers, "content-type") not in (None, JSON.encode()):
            return None
        at = value.find(self._name)
        while at >= 0:
            begins = _BEGIN.match(value, at + len(self._name))
            if begins is not None:
                break
            at = value.find(self._name, at + 1)
        else:
            return None
        begin = begins.end()
        end = value.find(b"]", begin)
        if end < 0:
            return None
        try:
            fields = orjson.loads(b'%b"%b"%b' % (value[: begin - 1], _CUT.encode(), value[end + 1 :]))
        except orjson.JSONDecodeError:
            return None
        if type(fields) is not dict or fields.get(self._field) != _CUT:
            return None
        return fields, value[begin:end]
