"""What the workers write is read back, with and without the vector, in both formats."""

from __future__ import annotations

import math

import msgpack
import numpy as np
import orjson
import pytest

from stream_tgat.errors import WireError
from stream_tgat.topology import Topology
from stream_tgat.wire import AlertEncoder, DecodedAlert, DecodedEmbedding, EmbeddingEncoder, OutputDecoder

MSGPACK = [("content-type", b"application/msgpack")]
VECTOR = np.array([0.5, -1.25, 3e-9], np.float32)


def topology(form: str = "json", *, bipartite: bool = True) -> Topology:
    return Topology.model_validate(
        {
            "name": "t",
            "kafka": {"output_format": form},
            "graph": {"bipartite": bipartite},
            "heads": [{"name": "ban"}, {"name": "embedding"}],
        }
    )


def written(form: str, *, side: int = 0, node: bytes = b"uann", bipartite: bool = True, late: bool = False) -> bytes:
    _, value = EmbeddingEncoder(topology(form, bipartite=bipartite)).encode(
        interaction=b'a/"embedding":[/7',
        node=node,
        peer=b"uann" if side else (b"itea" if bipartite else b"ntea"),
        side=side,
        timestamp=12.5,
        embedding=VECTOR,
        predictions=np.array([0.25, 0.75]),
        model=9,
        late=late,
    )
    return value


@pytest.mark.parametrize("form", ["json", "msgpack"])
@pytest.mark.parametrize("late", [False, True])
def test_embedding_is_read_back_without_its_vector(form: str, late: bool) -> None:
    """Also where the interaction's id and a head look like the field that is looked for."""
    decoder, headers = OutputDecoder(topology(form)), MSGPACK if form == "msgpack" else None
    user, item = written(form, late=late), written(form, side=1, node=b"itea", late=late)
    name = b'a/"embedding":[/7'
    assert decoder.embedding(user, headers) == DecodedEmbedding(name, b"uann", b"itea", 0, 12.5, (0.25, 0.75), 9)
    assert decoder.embedding(item, headers) == DecodedEmbedding(name, b"itea", b"uann", 1, 12.5, (), 9)
    np.testing.assert_array_equal(decoder.vector(user, headers), VECTOR)


def test_nodes_of_one_id_space_have_one_kind() -> None:
    value = written("json", side=1, node=b"nann", bipartite=False)
    assert OutputDecoder(topology(bipartite=False)).embedding(value, None).node == b"nann"


@pytest.mark.parametrize("form", ["json", "msgpack"])
def test_vector_is_not_looked_at(form: str) -> None:
    """What is broken behind the fields does not matter, so nobody has read it."""
    value = written(form)
    value = value.replace(b"-1.25", b"-1.2.5") if form == "json" else value[:-3]
    headers = MSGPACK if form == "msgpack" else None
    assert OutputDecoder(topology(form)).embedding(value, headers).predictions == (0.25, 0.75)
    with pytest.raises(WireError):
        OutputDecoder(topology(form)).vector(value, headers)


@pytest.mark.parametrize("form", ["json", "msgpack"])
def test_fields_in_another_order_are_read_as_well(form: str) -> None:
    content = {"embedding": [1.0], "timestamp": 3, "model": 2, "predictions": {"ban": 0.5, "gone": 1.0}}
    content |= {"node": "ann", "peer": "tea", "interaction": "x", "id": "x/3.0/ann/tea/0/2"}
    value = orjson.dumps(content) if form == "json" else msgpack.packb(content)
    found = OutputDecoder(topology()).embedding(value, MSGPACK if form == "msgpack" else None)
    assert (found.interaction, found.node, found.side, found.timestamp, found.model) == (b"x", b"uann", 0, 3.0, 2)
    assert found.predictions[0] == 0.5
    assert math.isnan(found.predictions[1])


@pytest.mark.parametrize("form", ["json", "msgpack"])
def test_alert_is_read_back(form: str) -> None:
    _, value = AlertEncoder(topology(form)).encode(
        interaction=b"x/1",
        node=b"uann",
        peer=b"itea",
        head="ban",
        probability=0.9,
        threshold=0.5,
        timestamp=120.0,
        model=3,
        because=[(b"itea", b"x/0", 0.0, 0.8)],
    )
    found = OutputDecoder(topology(form)).alert(value, MSGPACK if form == "msgpack" else None)
    assert found == DecodedAlert(b"x/1", b"uann", b"itea", 120.0, "ban")


@pytest.mark.parametrize(
    "value", [None, b"", b"not json", b"[]", b"{}", b'{"id": 1}', b'{"id":"x/0/1","embedding":[1]}', b'{"embedding":[}']
)
@pytest.mark.parametrize("headers", [None, MSGPACK])
def test_what_no_worker_wrote_is_an_error_in_words(
    value: bytes | None, headers: list[tuple[str, bytes]] | None
) -> None:
    decoder = OutputDecoder(topology())
    for read in (decoder.embedding, decoder.vector, decoder.alert):
        if read == decoder.vector and value is not None and b'"embedding":[1]' in value and headers is None:
            continue
        with pytest.raises(WireError):
            read(value, headers)
