"""Bad records among good ones, through a real broker and a real worker: none stops the stream, none disappears."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgpack
import orjson
from broker import Broker
from click.testing import CliRunner
from kafka import KafkaProducer

from stream_tgat.agents.dead_letters import LARGEST_BYTES, dead_letters
from stream_tgat.commands.dead_letters import dead_letters_command
from stream_tgat.commands.topics import ensure_topics
from stream_tgat.message_passing.refused import Refused
from stream_tgat.topology import Topology
from stream_tgat.wire import DecodedInteraction, InteractionDecoder
from tests.integration.equality.deployment import Deployment
from tests.integration.equality.received import records_of
from tests.integration.equality.settings import Settings
from tests.integration.equality.streams import RANDOM_FEATURES, START, Log, punctuation

PARTITIONS = 4
MSGPACK = (("content-type", b"application/msgpack"),)
FEATURES = RANDOM_FEATURES + '[[features]]\nname = "gift"\nkind = "flag"\ndefault = false\n'
LABEL = {"node": "ann", "label": "ban", "value": True, "timestamp": START}
GOOD = {"user": "ann", "item": "tea", "timestamp": START, "amount": 3.5, "kind": "buy", "vector": [0.5, -1.0]}


@dataclass(frozen=True)
class Bad:
    """A record that must be refused, and what a person must be told. reason: a regular expression for all of it."""

    value: bytes | None
    reason: str
    headers: tuple[tuple[str, bytes], ...] = ()


@dataclass(frozen=True)
class Sent:
    """A record in the log: where it came to lie."""

    topic: str
    partition: int
    offset: int


def changed(**fields: Any) -> bytes:
    return orjson.dumps({**GOOD, **fields})


def without(name: str) -> bytes:
    return orjson.dumps({key: value for key, value in GOOD.items() if key != name})


def packed(**fields: Any) -> bytes:
    return msgpack.packb({**GOOD, **fields})


def whole(text: str) -> str:
    """A reason word for word."""
    return re.escape(text)


ID = r"\(graph\.max_id_bytes\)"
BAD = {
    # Not an object.
    "bytes": Bad(b"\xff\xfe\x00 no JSON", "not valid JSON: .+"),
    "empty": Bad(b"", "the record is empty"),
    "cut off": Bad(changed()[:-10], "not valid JSON: .+"),
    "list": Bad(b"[1, 2]", "the record must be an object with named fields, not a list"),
    "json null": Bad(b"null", "the record must be an object with named fields, not null"),
    "cut off msgpack": Bad(packed()[:-3], "not valid MessagePack: .+", MSGPACK),
    "json called msgpack": Bad(changed(), "not valid MessagePack: .+", MSGPACK),
    "csv": Bad(b"ann,tea", "unknown content-type 'text/csv'; send .+", (("content-type", b"text/csv"),)),
    # No value.
    "null": Bad(None, whole("null record: it has neither a value nor the header 'watermark' of a punctuation")),
    "watermark in words": Bad(None, "header 'watermark' must be unix seconds as text, .+", (("watermark", b"now"),)),
    "watermark nan": Bad(None, "header 'watermark' must be a finite number, not nan", (("watermark", b"nan"),)),
    "watermark in ms": Bad(None, "header 'watermark' is .+ ahead of the clock.+", (("watermark", b"1.7e12"),)),
    # Fields that are missing or of the wrong kind.
    "no user": Bad(without("user"), r"field 'user' is missing \(who acted\)"),
    "no item": Bad(without("item"), r"field 'item' is missing \(on what\)"),
    "no time": Bad(without("timestamp"), r"field 'timestamp' is missing \(when, .+\)"),
    "null user": Bad(changed(user=None), r"field 'user' is null \(who acted\)"),
    "empty user": Bad(changed(user=""), "field 'user' is empty"),
    "user object": Bad(changed(user={"id": 1}), "field 'user' must be a string or an integer, not .+"),
    "user float": Bad(changed(user=1.5), "field 'user' must be a string or an integer, not 1.5"),
    "control character": Bad(changed(item="te\na"), r"field 'item' holds a control character: 'te\\na'"),
    "surrogate": Bad(changed().replace(b"tea", b"\\ud800"), "not valid JSON: .+"),
    "time in words": Bad(changed(timestamp="yesterday"), "field 'timestamp' must be unix seconds or an ISO 8601 .+"),
    "no such day": Bad(changed(timestamp="2024-02-30"), "field 'timestamp' is not a valid ISO 8601 time: .+"),
    "no amount": Bad(without("amount"), "field 'amount' is missing"),
    "null amount": Bad(changed(amount=None), "field 'amount' is null"),
    "amount in words": Bad(changed(amount="3.5"), "field 'amount' must be a number, not '3.5'"),
    "kind number": Bad(changed(kind=1.5), "field 'kind' must be a string or an integer, not 1.5"),
    "gift in words": Bad(changed(gift="yes"), "field 'gift' must be true, false, 1 or 0, not 'yes'"),
    "long vector": Bad(changed(vector=[1, 2, 3]), "field 'vector' must have 2 numbers, but has 3"),
    "short vector": Bad(changed(vector=[]), "field 'vector' must have 2 numbers, but has 0"),
    "vector number": Bad(changed(vector=3), "field 'vector' must be a list of 2 numbers, not 3"),
    "vector of words": Bad(changed(vector=["a", 1]), "field 'vector' must hold only numbers, but element 0 is 'a'"),
    # Numbers that are none.
    "json NaN": Bad(changed().replace(b"3.5", b"NaN"), "not valid JSON, which has no NaN or Infinity: .+"),
    "json inf": Bad(changed().replace(b"3.5", b"-Infinity"), "not valid JSON, which has no NaN or Infinity: .+"),
    "nan": Bad(packed(amount=float("nan")), "field 'amount' must be a finite number, not nan", MSGPACK),
    "inf": Bad(packed(vector=[0.0, float("inf")]), "field 'vector' .+ finite .+, but element 1 is inf", MSGPACK),
    "beyond float32": Bad(changed(vector=[1e39, 0.0]), "field 'vector' .+ of float32, but element 0 is 1e.39"),
    "time nan": Bad(packed(timestamp=float("nan")), "field 'timestamp' must be a finite number .+, not nan", MSGPACK),
    # Times that cannot be.
    "before 1970": Bad(changed(timestamp=-1.0), r"field 'timestamp' is before 1970 \(-1 s\)"),
    "in 1969": Bad(changed(timestamp="1969-12-31T23:59:59Z"), r"field 'timestamp' is before 1970 \(-1 s\)"),
    "far ahead": Bad(
        changed(timestamp=9e9), "field 'timestamp' is .+ years ahead of the clock, more than max_ahead_s.+"
    ),
    "milliseconds": Bad(changed(timestamp=START * 1e3), "field 'timestamp' is .+; is it in milliseconds\\? .+"),
    # Sizes.
    "long user": Bad(changed(user="u" * 48), f"field 'user' is 48 bytes long; at most 47 are allowed {ID}"),
    "long item": Bad(changed(item="ü" * 24), f"field 'item' is 48 bytes long; at most 47 are allowed {ID}"),
    "long id": Bad(changed(id="i" * 49), f"field 'id' is 49 bytes long; at most 48 are allowed {ID}"),
    "large": Bad(changed(note="x" * 131_072), r"the record has 131,\d+ bytes; at most 131,072 are allowed .+"),
    "huge": Bad(b"x" * 950_000, r"the record has 950,000 bytes; at most 131,072 are allowed .+"),
}
BAD_NODES = {
    "too few numbers": Bad(
        orjson.dumps({"node": "tea", "features": [1, 2]}), "field 'features' must have 3 numbers .+"
    ),
    "no node": Bad(orjson.dumps({"features": [1, 2, 3]}), "field 'node' is missing"),
    "unreadable": Bad(b"{", "not valid JSON: .+"),
    "deleted": Bad(None, "null record: this topic takes only objects"),
}
BAD_LABELS = {
    "in words": Bad(orjson.dumps(LABEL | {"value": "1"}), "field 'value': .+, not '1'"),
    "neither": Bad(orjson.dumps(LABEL | {"value": 0.5}), "field 'value' must be true, false, 1 or 0"),
    "nobody's": Bad(orjson.dumps({**LABEL, "node": None}), "field 'node': .+, not null"),
    "known some day": Bad(orjson.dumps(LABEL | {"known_at": "soon"}), "field 'known_at' must be unix seconds .+"),
    "unreadable": Bad(b"{", "not valid JSON: .+"),
    "deleted": Bad(None, "null record: this topic takes only objects"),
}


def good_records() -> Iterator[tuple[bytes, tuple[tuple[str, bytes], ...], float]]:
    """Good records without end, in every form that there is: value, headers, time."""
    n = 0
    while True:
        time_s = START + n
        fields: dict[str, Any] = {"user": f"a{n % 7}", "item": n % 5, "timestamp": time_s}
        if n % 4 == 1:
            yield packed(**fields), MSGPACK, time_s
        elif n % 4 == 2:
            stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time_s))
            yield changed(**fields | {"timestamp": stamp, "id": f"good-{n}"}), (), time_s
        elif n % 4 == 3:
            json = (("Content-Type", b"application/json; charset=utf-8"),)
            yield changed(**fields, id=n, gift=True, nobody_asked={"for": "this"}), json, time_s
        else:
            yield changed(**fields), (), time_s
        n += 1


class Producing:
    """Puts good and bad records into a deployment's topics and remembers where each one lies."""

    def __init__(self, deployment: Deployment) -> None:
        self.deployment = deployment
        self.bad: dict[Sent, tuple[str, Bad]] = {}
        self.good: list[Sent] = []
        self.last = START
        self._supply = good_records()

    def send_good(self, count: int) -> None:
        for n in range(count):
            value, headers, self.last = next(self._supply)
            self.good.append(self._send("interactions", (len(self.good) + n) % PARTITIONS, value, headers))

    def send_bad(self, topic: str, partition: int, name: str, bad: Bad) -> None:
        self.bad[self._send(topic, partition, bad.value, bad.headers)] = name, bad

    def send_label(self, content: dict[str, Any], partition: int) -> None:
        self._send("labels", partition, orjson.dumps(content), ())

    def say_that_all_came(self) -> None:
        self.deployment.produce(punctuation(self.last + 1.0, PARTITIONS))

    def _send(self, topic: str, partition: int, value: bytes | None, headers: tuple[tuple[str, bytes], ...]) -> Sent:
        name = getattr(self.deployment.topology.topics, topic)
        sent = self.deployment.producer.send(name, key=b"key", value=value, partition=partition, headers=list(headers))
        lies = sent.get(20)
        return Sent(name, partition, lies.offset)


def test_every_bad_record_becomes_a_dead_letter_and_every_good_one_is_embedded(
    broker: Broker, topic_prefix: str, tmp_path: Path
) -> None:
    log = Log((), PARTITIONS, FEATURES, node_features=3)
    deployment = Deployment(broker.bootstrap_servers, tmp_path, topic_prefix, log, Settings())
    with deployment:
        deployment.prepare()
        producing = Producing(deployment)
        for at, (name, bad) in enumerate(BAD_NODES.items()):
            producing.send_bad("nodes", at % PARTITIONS, name, bad)
        for at, (name, bad) in enumerate(BAD_LABELS.items()):
            producing.send_label(LABEL, at % PARTITIONS)
            producing.send_bad("labels", at % PARTITIONS, name, bad)
        for at, (name, bad) in enumerate(BAD.items()):
            producing.send_good(2)
            producing.send_bad("interactions", at % PARTITIONS, name, bad)
        producing.send_good(2)
        producing.say_that_all_came()
        deployment.start()
        deployment.wait_for(2 * len(producing.good))
        deployment.wait_until(
            f"{len(producing.bad)} dead letters", lambda: len(deployment.outputs.dead_letters) >= len(producing.bad)
        )
        deployment.stop()
        check_dead_letters(deployment, producing)
        check_embeddings(deployment, producing)


def test_bad_label_is_told_once_also_by_a_worker_that_starts_again(
    broker: Broker, topic_prefix: str, tmp_path: Path
) -> None:
    """And where nodes have no features, a record that brings some."""
    deployment = Deployment(broker.bootstrap_servers, tmp_path, topic_prefix, Log((), PARTITIONS, FEATURES), Settings())
    with deployment:
        deployment.prepare()
        producing = Producing(deployment)
        features = Bad(orjson.dumps({"node": "tea", "features": [1, 2]}), "field 'features' must have 0 numbers .+")
        producing.send_bad("nodes", 1, "features", features)
        bad_labels = list(BAD_LABELS.items())
        for part in (bad_labels[:3], bad_labels[3:]):
            for name, bad in part:
                producing.send_bad("labels", 2, name, bad)
            deployment.start()
            deployment.wait_until(
                f"{len(producing.bad)} dead letters", lambda: len(deployment.outputs.dead_letters) >= len(producing.bad)
            )
            deployment.stop()
        check_dead_letters(deployment, producing)


def check_dead_letters(deployment: Deployment, producing: Producing) -> None:
    letters = [
        letter
        for records in records_of(deployment.servers, deployment.topology.topics.dead_letters).values()
        for letter in records
    ]
    found = {}
    for letter in letters:
        headers = {name: value.decode() for name, value in letter.headers}
        lay = Sent(headers["source-topic"], int(headers["source-partition"]), int(headers["source-offset"]))
        assert lay not in found, f"{lay} came twice"
        found[lay] = letter
        name, bad = producing.bad[lay]
        assert re.fullmatch(bad.reason, headers["reason"]), f"{name}: {headers['reason']}"
        assert letter.value == bad.value, name
        assert letter.key == b"key", name
        assert headers["schema-version"] == "1", name
        assert headers.get("content-type", "").encode() == dict(bad.headers).get("content-type", b""), name
    missing = [name for lies, (name, _) in producing.bad.items() if lies not in found]
    assert not missing


def check_embeddings(deployment: Deployment, producing: Producing) -> None:
    interactions: dict[str, set[int]] = {}
    for name, content in deployment.outputs.embeddings.items():
        _, side, model = name.rsplit("/", 2)
        assert int(model) == deployment.version
        assert len(content["embedding"]) == deployment.topology.model.hidden
        interactions.setdefault(content["interaction"], set()).add(int(side))
    expected = set()
    for at, lies in enumerate(producing.good):
        default = f"{lies.topic}/{lies.partition}/{lies.offset:012d}"
        expected.add({2: f"good-{at}", 3: str(at)}.get(at % 4, default))
    assert interactions.keys() == expected
    assert all(sides == {0, 1} for sides in interactions.values())


def test_bad_record_alone_in_its_partition_holds_nothing_back(
    broker: Broker, topic_prefix: str, tmp_path: Path
) -> None:
    """A refused time must not count as one that was read, neither as progress nor as its absence."""
    log = Log((), PARTITIONS, FEATURES)
    deployment = Deployment(broker.bootstrap_servers, tmp_path, topic_prefix, log, Settings())
    with deployment:
        deployment.prepare()
        producing = Producing(deployment)
        producing.send_good(1)
        for partition in range(PARTITIONS):
            producing.send_bad("interactions", partition, "far ahead", BAD["far ahead"])
        deployment.start()
        deployment.wait_until("the dead letters", lambda: len(deployment.outputs.dead_letters) == PARTITIONS)
        assert not deployment.outputs.embeddings
        producing.send_good(3)
        producing.say_that_all_came()
        deployment.wait_for(8)
        assert not any(each.get("late") for each in deployment.outputs.embeddings.values())


def test_record_that_is_huge_only_once_unpacked_does_not_stop_the_stream(
    broker: Broker, topic_prefix: str, tmp_path: Path
) -> None:
    """Brokers limit what a batch weighs on the wire; a compressed one may be far more than dead-letters may hold."""
    log = Log((), PARTITIONS, FEATURES)
    deployment = Deployment(broker.bootstrap_servers, tmp_path, topic_prefix, log, Settings())
    with deployment:
        deployment.prepare()
        producing = Producing(deployment)
        topic = deployment.topology.topics.interactions
        size = 20_000_000
        squeezing = KafkaProducer(
            bootstrap_servers=deployment.servers, compression_type="gzip", max_request_size=2 * size, acks="all"
        )
        squeezing.send(topic, key=b"key", value=b" " * size, partition=0).get(20)
        squeezing.close()
        producing.send_good(4)
        producing.say_that_all_came()
        deployment.start()
        deployment.wait_for(8)
        deployment.wait_until("the dead letter", lambda: len(deployment.outputs.dead_letters) == 1)
        (headers,) = deployment.outputs.dead_letters.values()
        assert headers["reason"].startswith(f"the record has {size:,} bytes")
        assert headers["truncated"] == str(size)


def test_letters_are_listed_shown_and_sent_again_as_they_were(topology: Topology) -> None:
    """The letters are written as agents write them; a topology that takes larger records is the fix."""
    ensure_topics(topology)
    names = topology.topics
    own = [("content-type", b"application/json"), ("trace", b"1"), ("trace", b"2")]
    large = orjson.dumps({"user": "ann", "item": "tea", "timestamp": START, "note": "x" * 200_000})
    producer = KafkaProducer(bootstrap_servers=topology.kafka.bootstrap_servers, max_request_size=8 << 20)
    refused = [
        Refused(names.interactions, 2, 7, b"ann", large, own, "the record has 200,060 bytes; too many"),
        Refused(names.interactions, 1, 9, b"bob", b"{", None, "not valid JSON: unexpected end"),
        Refused(names.labels, 0, 3, b"ann", b"x" * (LARGEST_BYTES + 1), None, "the record has 4,000,001 bytes"),
    ]  # fmt: skip
    for partition, letters in dead_letters(refused, topology.kafka.partitions).items():
        for letter in letters:
            producer.send(names.dead_letters, letter.value, letter.key, list(letter.headers), partition).get(20)
    producer.send(names.dead_letters, b"somebody else's").get(20)
    producer.close()

    mended = topology.model_copy(update={"kafka": topology.kafka.model_copy(update={"max_record_bytes": 500_000})})

    def run(*arguments: str, fixed: bool = False) -> str:
        command = dead_letters_command(mended if fixed else topology)
        result = CliRunner().invoke(command, arguments, catch_exceptions=False)
        assert result.exit_code == 0, result.output
        return result.output

    listed = run("list")
    assert f"        1  {names.interactions}/1/9: not valid JSON: unexpected end\n" in listed
    assert "1 records are no letters of a worker" in listed
    assert "3 dead letters, refused from " in listed
    assert "1 dead letters that fit, of 4" in run("list", "--reason", "JSON")
    assert "No dead letters that fit, of 4" in run("list", "--until", "1h")
    shown = orjson.loads(run("show", "--json", "--topic", "interactions", "--reason", "bytes"))
    assert (shown["value"], shown["key"], shown["offset"]) == (large.decode(), "ann", 7)
    assert f"{names.labels}/0/3" in run("show", "--topic", "labels")

    assert "0 of 3 dead letters sent again, 3 left out." in run("resend")
    told = run("resend", "--check", fixed=True)
    assert "1 of 3 dead letters would be sent again, 2 left out." in told
    assert "only the beginning was kept, so it cannot be sent again" in told
    assert not any(records_of(topology.kafka.bootstrap_servers, names.interactions).values())
    for _ in range(2):
        assert "1 of 3 dead letters sent again, 2 left out." in run("resend", fixed=True)
    found = records_of(topology.kafka.bootstrap_servers, names.interactions)
    assert [len(records) for records in found.values()] == [0, 0, 2, 0]
    first = f"{names.interactions}/2/{7:012d}".encode()
    for record in found[2]:
        assert (record.key, record.value) == (b"ann", large)
        assert list(record.headers) == [*own, ("first-place", first)]
        decoded = InteractionDecoder(mended).decode(
            record.value, record.headers, record.topic, record.partition, record.offset, time.time()
        )
        assert isinstance(decoded, DecodedInteraction)
        assert decoded.id == first
