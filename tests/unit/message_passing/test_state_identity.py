"""What may change under a state and what may not, for every key of a topology."""

from __future__ import annotations

import typing
from collections.abc import Iterator
from copy import deepcopy
from typing import Any
from uuid import UUID

import pytest
from pydantic import BaseModel

from stream_tgat.errors import LostDataError
from stream_tgat.features import Feature
from stream_tgat.message_passing.state_identity import Identity, commit_note, is_of_another, meaning_hash, state_topics
from stream_tgat.topology import Head, Topology

FREE = "may change"
REFUSED = "is refused"
ELSEWHERE = "is another deployment, or is refused by the check of the topics"

BASE: dict[str, Any] = {
    "name": "shop",
    "graph": {"bipartite": True, "node_features": 1, "max_id_bytes": 40},
    "model": {"layers": 2, "hidden": 8, "time_dim": 8, "neighbours": 5, "candidates": 7, "decay_days": [7.0]},
    "features": [
        {"name": "price", "kind": "number"},
        {"name": "channel", "kind": "category", "values": ["web", "app"]},
        {"name": "place", "kind": "category", "buckets": 4},
        {"name": "gift", "kind": "flag"},
        {"name": "text", "kind": "vector", "size": 2},
    ],
    "heads": [{"name": "returns", "threshold": 0.5}],
}

#: Every key with what becomes of a state when it changes, and another value for it where one key can change alone.
DECIDED: dict[str, tuple[str, Any]] = {
    "name": (ELSEWHERE, None),
    "kafka.topic_prefix": (ELSEWHERE, None),
    "kafka.partitions": (ELSEWHERE, None),
    "graph.bipartite": (REFUSED, False),
    "graph.node_features": (REFUSED, 2),
    "graph.max_id_bytes": (REFUSED, 48),
    "model.layers": (REFUSED, 3),
    "model.activity": (REFUSED, True),
    "model.hidden": (REFUSED, 16),
    "model.candidates": (REFUSED, 9),
    "model.decay_days": (REFUSED, [7.0, 28.0]),
    "features.name": (REFUSED, "cost"),
    "features.number.kind": (REFUSED, "flag"),
    "features.number.log1p": (REFUSED, True),
    "features.number.offset": (REFUSED, 1.0),
    "features.number.scale": (REFUSED, 2.0),
    "features.number.clip": (REFUSED, 3.0),
    "features.number.default": (REFUSED, 0.5),
    "features.category.kind": (REFUSED, None),
    "features.category.values": (REFUSED, ["app", "web"]),
    "features.category.buckets": (REFUSED, None),
    "features.category.default": (REFUSED, "web"),
    "features.flag.kind": (REFUSED, "number"),
    "features.flag.default": (REFUSED, True),
    "features.vector.kind": (REFUSED, None),
    "features.vector.size": (REFUSED, 3),
    # Each alert state carries its head's name, so that heads may come, go and change places.
    "heads.name": (FREE, "leaves"),
    "heads.label": (FREE, "other"),
    "heads.threshold": (FREE, 0.6),
    "heads.cooldown_s": (FREE, 5.0),
    "heads.answers_after": (FREE, "30d"),
    # What another release of the same widths brings with it: peer embeddings carry the version of the weights.
    "model.preset": (FREE, "dyglib"),
    "model.attention_heads": (FREE, 4),
    "model.neighbours": (FREE, 6),
    "model.time_dim": (FREE, 16),
    "model.head_members": (FREE, 3),
    "model.affinity": (FREE, "inner"),
    "model.pair_features": (FREE, True),
    "model.sampling": (FREE, "uniform"),
    "kafka.bootstrap_servers": (FREE, "elsewhere:9092"),
    "kafka.security_protocol": (FREE, "ssl"),
    "kafka.sasl_mechanism": (FREE, None),
    "kafka.sasl_username": (FREE, None),
    "kafka.ssl_cafile": (FREE, None),
    "kafka.ssl_certfile": (FREE, None),
    "kafka.ssl_keyfile": (FREE, None),
    "kafka.replication_factor": (FREE, 3),
    "kafka.max_record_bytes": (FREE, 2048),
    "kafka.output_format": (FREE, "msgpack"),
    "kafka.output_key": (FREE, "id"),
    "kafka.wait_for_brokers_s": (FREE, 60.0),
    "kafka.static_membership": (FREE, True),
    "kafka.session_timeout_s": (FREE, 30.0),
    "schema_registry.url": (FREE, "http://registry:8081"),
    "schema_registry.username": (FREE, "ann"),
    "schema_registry.ssl_cafile": (FREE, "ca.pem"),
    # Rows keep what they meant when they were read: a mapping may be mended after an upstream change.
    **{
        f"input.{role}.{key}": (FREE, value)
        for role in ("interactions", "labels", "nodes")
        for key, value in {
            "format": "json",
            "where": "a == `1`",
            "null_values": "skip",
            "time_unit": "ms",
            "time_zone": "Asia/Tokyo",
        }.items()
    },
    **{f"input.interactions.{key}": (FREE, "a.b") for key in ("id", "user", "item", "timestamp", "each")},
    "input.interactions.most": (FREE, 7),
    "input.interactions.fields": (FREE, {"price": "a.b"}),
    **{f"input.labels.{key}": (FREE, "a.b") for key in ("node", "kind", "label", "value", "timestamp", "known_at")},
    **{f"input.nodes.{key}": (FREE, "a.b") for key in ("node", "kind", "features")},
    # Nothing of the state rests on labels. Of the others more may come, see below.
    "input.labels.topics": (FREE, ["verdicts"]),
    "input.interactions.topics": (ELSEWHERE, None),
    "input.nodes.topics": (ELSEWHERE, None),
    "time.clock": (FREE, "event"),
    "time.allowed_lateness_s": (FREE, 1.0),
    "time.max_ahead_s": (FREE, 1.0),
    "time.idle_after_s": (FREE, None),
}
#: Sections that only say how a deployment is run.
FREE_SECTIONS = ("serving", "log", "query", "releases", "retention", "monitoring", "training", "retrain")


def _keys() -> Iterator[str]:
    """All keys that a topology may have."""
    for name, field in Topology.model_fields.items():
        section = field.annotation
        if name in ("features", "heads"):
            kinds = typing.get_args(typing.get_args(Feature)[0]) if name == "features" else (Head,)
            for kind in kinds:
                (said,) = typing.get_args(kind.model_fields["kind"].annotation) if name == "features" else ("",)
                for key in kind.model_fields:
                    yield f"{name}.{said}.{key}" if said and key != "name" else f"{name}.{key}"
        elif isinstance(section, type) and issubclass(section, BaseModel):
            for key, inner in section.model_fields.items():
                role = inner.annotation
                if name == "input":
                    yield from (f"{name}.{key}.{each}" for each in role.model_fields)
                else:
                    yield f"{name}.{key}"
        else:
            yield name


def _changed(key: str, value: Any) -> Topology:
    content = deepcopy(BASE)
    section, *kind, name = key.split(".")
    if section == "features":
        wanted = kind[0] if kind else "number"
        feature = next(each for each in content["features"] if each["kind"] == wanted)
        feature[name] = value
    elif section == "heads":
        content["heads"][0][name] = value
    else:
        inner = content.setdefault(section, {})
        for part in kind:
            inner = inner.setdefault(part, {})
        inner[name] = value
    return Topology.model_validate(content)


def test_of_every_key_it_is_decided_whether_it_may_change_under_a_state() -> None:
    """A new key makes this fail until somebody has thought about it."""
    keys = {key for key in _keys() if key.partition(".")[0] not in FREE_SECTIONS}
    assert keys == DECIDED.keys()


@pytest.mark.parametrize("key", [key for key, (_, value) in DECIDED.items() if value is not None])
def test_change_of_a_key_is_refused_by_name_or_goes_unnoticed(key: str) -> None:
    verdict, value = DECIDED[key]
    stored = Identity.decode(Identity.of(Topology.model_validate(BASE), {}).encode())
    topology = _changed(key, value)
    now = Identity.of(topology, {})
    same_packets = meaning_hash(topology) == meaning_hash(Topology.model_validate(BASE))
    if verdict == FREE:
        now.check(stored, "propagation/0")
        assert same_packets
    else:
        with pytest.raises(LostDataError, match=key.split(".", maxsplit=1)[0]) as refusal:
            now.check(stored, "propagation/0")
        # By its own name, with what it was and what it is; of a feature that goes by another name it is the list.
        assert key.rsplit(".", maxsplit=1)[-1] in str(refusal.value) or key == "features.name"
        assert " was " in str(refusal.value)
        assert not same_packets


@pytest.mark.parametrize("buckets", [3, 5])
def test_another_number_of_buckets_is_refused(buckets: int) -> None:
    content = deepcopy(BASE)
    content["features"][2]["buckets"] = buckets
    now = Identity.of(Topology.model_validate(content), {})
    with pytest.raises(LostDataError, match=rf"features\.place\.buckets was 4, is {buckets}"):
        now.check(Identity.of(Topology.model_validate(BASE), {}), "propagation/0")


def test_order_of_features_is_their_meaning() -> None:
    content = deepcopy(BASE)
    content["features"].reverse()
    now = Identity.of(Topology.model_validate(content), {})
    with pytest.raises(LostDataError, match=r'features was \["price","channel"'):
        now.check(Identity.of(Topology.model_validate(BASE), {}), "propagation/0")


def test_with_one_layer_no_peer_embedding_has_the_hidden_width() -> None:
    content = deepcopy(BASE)
    content["model"] |= {"layers": 1}
    one = Identity.of(Topology.model_validate(content), {})
    content["model"] |= {"hidden": 16}
    Identity.of(Topology.model_validate(content), {}).check(one, "propagation/0")


def test_state_rests_on_the_topics_whose_offsets_it_holds() -> None:
    assert state_topics(Topology(name="t")) == ("interactions", "propagation", "models")
    assert "nodes" in state_topics(Topology.model_validate(BASE))


@pytest.mark.parametrize("role", ["interactions", "nodes"])
def test_topics_of_a_role_may_grow_and_nothing_else(role: str) -> None:
    def of(*topics: str) -> Identity:
        content = {**deepcopy(BASE), "input": {role: {"topics": list(topics)}}} if topics else BASE
        return Identity.of(Topology.model_validate(content), {})

    of("a", "b").check(Identity.decode(of("a").encode()), "propagation/0")
    of(role, "b").check(Identity.decode(of().encode()), "propagation/0")
    for was, now in ((("a", "b"), ("b", "a")), (("a", "b"), ("a",)), ((), ("a",)), (("a",), ("b", "a"))):
        with pytest.raises(LostDataError, match=f"the topics of {role} were .*, are "):
            of(*now).check(Identity.decode(of(*was).encode()), "propagation/0")


def test_offsets_of_a_source_are_of_one_topic_of_messages_only() -> None:
    topology = Topology(name="t")
    ids = {name: UUID(int=at + 1) for at, name in enumerate(("interactions", "propagation", "labels"))}
    assert commit_note(topology, "interactions", ids).split() == [str(UUID(int=1)), str(UUID(int=2))]
    assert commit_note(topology, "labels", ids) == str(UUID(int=3))
    assert commit_note(topology, "labels", {}) == ""
    assert is_of_another("a b", "a c")
    assert not any((is_of_another("", "a"), is_of_another(None, "a"), is_of_another("a", ""), is_of_another("a", "a")))
