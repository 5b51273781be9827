"""Records decoded many at once: the same verdicts, ids, times and features as one by one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgpack
import numpy as np
import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stream_tgat.topology import Topology
from stream_tgat.wire import DeadLetter, DecodedInteraction, InteractionDecoder, punctuation_headers
from stream_tgat.wire.batches import BatchDecoder

NOW = 2_000_000_000.0
TOPOLOGY = Topology.model_validate(
    {"name": "t", "features": [{"kind": "vector", "name": "text", "size": 2}, {"kind": "number", "name": "amount"}]}
)
GOOD = {"user": "u", "item": "i", "timestamp": 5.0, "amount": 1.5, "text": [0.25, -1]}
MSGPACK = {"content-type": b"application/msgpack"}


@dataclass
class Read:
    value: bytes | None
    headers: Any = None
    offset: int = 0
    partition: int = 3
    timestamp: float = NOW
    topic: str = "interactions"


def by_ones(topology: Topology, records: list[Read]) -> tuple[list[Any], np.ndarray[Any, Any], list[str | None]]:
    decoder = InteractionDecoder(topology)
    return said_and_encoded(
        topology,
        [decoder.decode(r.value, r.headers, topology.topics.interactions, 3, r.offset, r.timestamp) for r in records],
    )


def said_and_encoded(
    topology: Topology, decoded: list[Any]
) -> tuple[list[Any], np.ndarray[Any, Any], list[str | None]]:
    """What is said of each, without its fields, and what the features' encoder makes of these."""
    good = [each for each in decoded if isinstance(each, DecodedInteraction)]
    said = [each[:4] if isinstance(each, DecodedInteraction) else each for each in decoded]
    return said, *topology.encoder.encode([each.fields for each in good])


def check(values: list[bytes | None], headers: Any = None, topology: Topology = TOPOLOGY) -> list[Any]:
    """Compare, and return what is said."""
    records = [Read(value, headers, offset) for offset, value in enumerate(values)]
    decoded = BatchDecoder(topology).decode(records)
    said, vectors, errors = said_and_encoded(topology, decoded)
    wanted, wanted_vectors, wanted_errors = by_ones(topology, records)
    assert said == wanted
    assert errors == wanted_errors
    assert vectors.tobytes() == wanted_vectors.tobytes()
    return decoded


ODD = {
    "twice, the last one counts": b'{"user":"u","item":"i","timestamp":5,"amount":1,"text":[1,2],"text":[3,4]}',
    "then null": b'{"user":"u","item":"i","timestamp":5,"amount":1,"text":[1,2],"text":null}',
    "null, then a list": b'{"user":"u","item":"i","timestamp":5,"amount":1,"text":null,"text":[1,2]}',
    "by another spelling": b'{"user":"u","item":"i","timestamp":5,"amount":1,"text":[1,2],"te\\u0078t":[3,4]}',
    "name that ends alike": b'{"user":"u","item":"i","timestamp":5,"amount":1,"x\\"text":[1,2]}',
    "name in a text": b'{"user":"\\"text\\":[1,2]","item":"i","timestamp":5,"amount":1,"text":[3,4]}',
    "name as a value": b'{"user":"text","item":"i","timestamp":5,"amount":1,"text":[3,4]}',
    "in another object": b'{"user":"u","item":"i","timestamp":5,"amount":1,"more":{"text":[1,2]}}',
    "in another object too": b'{"user":"u","item":"i","timestamp":5,"amount":1,"more":{"text":[1,2]},"text":[3,4]}',
    "brace in a text": b'{"user":"{","item":"i","timestamp":5,"amount":1,"text":[3,4]}',
    "bracket in a text": b'{"user":"u","item":"i","timestamp":5,"amount":1,"text":["]",1]}',
    "list of lists": b'{"user":"u","item":"i","timestamp":5,"amount":1,"text":[[1],2]}',
    "in a list": b'["text":[1,2]]',
    "no end": b'{"user":"u","item":"i","timestamp":5,"amount":1,"text":[1,2',
    "empty": b'{"user":"u","item":"i","timestamp":5,"amount":1,"text":[]}',
    "too short": b'{"user":"u","item":"i","timestamp":5,"amount":1,"text":[1]}',
    "not a number": b'{"user":"u","item":"i","timestamp":5,"amount":1,"text":[1,true]}',
    "too large": b'{"user":"u","item":"i","timestamp":5,"amount":1,"text":[1,1e39]}',
    "no JSON within": b'{"user":"u","item":"i","timestamp":5,"amount":1,"text":[1 2]}',
    "no JSON without": b'{"user":"u","item":"i","timestamp":5,"amount":1,"text":[1,2]',
    "no user": b'{"item":"i","timestamp":5,"amount":1,"text":[1,2]}',
    "white space": b'{ "user" : "u", "item":"i", "timestamp":5, "amount":1, "text" : [ 1 ,\t2 ] }',
    "bad UTF-8": b'{"user":"\xff","item":"i","timestamp":5,"amount":1,"text":[1,2]}',
}


@pytest.mark.parametrize("value", ODD.values(), ids=ODD)
def test_odd_record_has_the_same_verdict_alone_and_among_good_ones(value: bytes) -> None:
    check([value])
    check([orjson.dumps(GOOD), value, orjson.dumps({**GOOD, "user": "v", "text": [7, 8]})])


def test_vectors_of_good_records_are_arrays() -> None:
    decoded = check([orjson.dumps(GOOD)] * 2)
    assert [type(each.fields["text"]) for each in decoded] == [np.ndarray] * 2
    assert decoded[0].fields["text"].dtype == np.float32


def test_other_formats_null_records_and_records_that_are_too_large_are_as_one_by_one() -> None:
    check([msgpack.packb(GOOD), orjson.dumps(GOOD)], MSGPACK)
    check([orjson.dumps(GOOD)], {"content-type": b"application/json; charset=utf-8"})
    check([orjson.dumps(GOOD)], [("Content-Type", b"text/plain")])
    check([None], punctuation_headers(9.0))
    check([None])
    small = TOPOLOGY.model_copy(update={"kafka": TOPOLOGY.kafka.model_copy(update={"max_record_bytes": 30})})
    (said,) = check([orjson.dumps(GOOD)], topology=small)
    assert isinstance(said, DeadLetter)


def test_topology_without_vectors_is_decoded_too() -> None:
    check([orjson.dumps(GOOD), b"{"], topology=Topology.model_validate({"name": "t"}))


_ANY = st.recursive(
    st.one_of(
        st.none(), st.booleans(), st.integers(-(2**63), 2**63 - 1), st.floats(allow_nan=False), st.text(max_size=5)
    ),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=5), inner, max_size=3)),
    max_leaves=6,
)


@settings(deadline=None)  # the first one may compile
@given(
    st.lists(
        st.dictionaries(st.sampled_from(["text", "amount", "user", "more", "text "]), _ANY, max_size=4).map(
            lambda fields: orjson.dumps({**GOOD, **fields})
        ),
        max_size=4,
    ),
    st.lists(st.tuples(st.integers(0, 300), st.binary(max_size=2)), max_size=2),
)
def test_any_record_and_any_damage_has_the_same_verdict(values: list[bytes], damage: list[tuple[int, bytes]]) -> None:
    for at, put in damage:
        values = [value[: at % len(value)] + put + value[at % len(value) + 1 :] for value in values]
    check(list(values))
