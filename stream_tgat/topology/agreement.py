"""What the sections of a topology must say of one another: a sentence for each way in which they do not agree."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from stream_tgat.expressions import did_you_mean
from stream_tgat.features import Feature
from stream_tgat.topology.inputs import REGISTERED, ROLES, Input, InteractionInput
from stream_tgat.topology.sections import Graph, Head, Kafka, ModelShape, Registry, Time

FILES = ("ssl_cafile", "ssl_certfile", "ssl_keyfile")
RESERVED_FIELDS = frozenset({"id", "user", "item", "timestamp"})
# The activity features look back to a node's fifth-last interaction (graph/activity.py).
_ACTIVITY_LOOKBACK = 5
# A default interaction id is topic/partition/offset; these many characters follow the topic's name.
_DEFAULT_ID_TAIL = len("/99999/") + 12


def access_problems(kafka: Kafka) -> list[str]:
    """Keys that `kafka.security_protocol` has no use for, or needs and lacks."""
    protocol = kafka.security_protocol
    problems = []
    for key in ("sasl_mechanism", "sasl_username"):
        if kafka.has_login and not getattr(kafka, key):
            problems.append(f"kafka.{key}: is missing, and kafka.security_protocol = {protocol} needs it")
        elif getattr(kafka, key) and not kafka.has_login:
            problems.append(
                f"kafka.{key}: with kafka.security_protocol = {protocol} nobody logs in; set that to sasl_ssl (or to "
                f"sasl_plaintext where there is no TLS), or leave {key} out"
            )
    problems += [
        f"kafka.{key}: with kafka.security_protocol = {protocol} there is no TLS; set that to "
        f"{'sasl_ssl' if kafka.has_login else 'ssl'}, or leave {key} out"
        for key in FILES
        if getattr(kafka, key) and not kafka.has_tls
    ]
    if kafka.ssl_keyfile and not kafka.ssl_certfile:
        problems.append("kafka.ssl_keyfile: a key is of no use without its certificate; set kafka.ssl_certfile too")
    return problems


def model_problems(model: ModelShape) -> list[str]:
    """Sizes of the model that cannot go together."""
    problems = []
    if model.candidates < model.neighbours:
        problems.append(
            f"model.candidates: {model.candidates} rows cannot offer model.neighbours = {model.neighbours}; "
            "raise candidates to at least neighbours"
        )
    if model.activity and model.candidates < _ACTIVITY_LOOKBACK:
        problems.append(
            f"model.candidates: activity features look back {_ACTIVITY_LOOKBACK} interactions; "
            f"set candidates to {_ACTIVITY_LOOKBACK} or more, or activity to false"
        )
    if model.pair_features and model.affinity == "inner":
        problems.append(
            "model.pair_features: an inner product has no place for them; set affinity to mlp or pair_features to false"
        )
    if model.preset == "paper" and model.hidden % model.attention_heads:
        problems.append(
            f"model.hidden: {model.hidden} cannot be shared by model.attention_heads = {model.attention_heads}; "
            "make it a multiple"
        )
    if model.preset == "paper" and model.time_dim % 2:
        problems.append(
            f"model.time_dim: {model.time_dim} is odd, but the time encoding has a cosine and a sine per frequency; "
            "make it even"
        )
    return problems


def graph_problems(graph: Graph, section: InteractionInput, topics: Sequence[str]) -> list[str]:
    """Ids that are too wide for `graph.max_id_bytes`. topics: that interactions are read from, as `section` says."""
    problems = []
    size = graph.max_id_bytes
    if size % 8:
        problems.append(f"graph.max_id_bytes: {size} is not a multiple of 8; use {size + 8 - size % 8}")
    longest = max(topics, key=len)
    needed = len(longest) + _DEFAULT_ID_TAIL + (len(f"/{section.most - 1}") if section.each else 0)
    if size < needed and not section.id:
        name = "topic/partition/offset/index" if section.each else "topic/partition/offset"
        way_out = "say where the id is (input.interactions.id)" if section.topics else "a shorter kafka.topic_prefix"
        problems.append(
            f"graph.max_id_bytes: the default interaction id, {name}, needs {needed} bytes with the topic name "
            f"{longest!r}; use {-(-needed // 8) * 8}, or {way_out}"
        )
    return problems


def time_problems(time: Time) -> list[str]:
    """Keys that the deployment's clock has no use for."""
    if time.idle_after_s and time.clock == "wall":
        problem = (
            'time.idle_after_s: with time.clock = "wall" a partition without events follows the clock and holds nobody '
            'back; leave idle_after_s out, or set clock = "event"'
        )
        return [problem]
    return []


def name_problems(features: Sequence[Feature], heads: Sequence[Head]) -> list[str]:
    """Names of features and heads that are used twice, or are taken."""
    problems = []
    for key, names in (
        ("features", [feature.name for feature in features]),
        ("heads", [head.name for head in heads]),
    ):
        twice = sorted({name for name in names if names.count(name) > 1})
        problems += [f"{key}: the name {name!r} is used twice; each needs its own" for name in twice]
    for label in sorted({head.label_name for head in heads}):
        if len({head.answers_after for head in heads if head.label_name == label}) > 1:
            problems.append(f"heads: those that learn the label {label!r} must state the same answers_after")
    reserved = sorted({feature.name for feature in features} & RESERVED_FIELDS)
    problems += [
        f"features: {name!r} is a field of every interaction and cannot be a feature; send the value under another name"
        for name in reserved
    ]
    return problems


def registry_problems(registry: Registry, given: Input, kafka: Kafka) -> list[str]:
    """What the schema registry lacks for the formats of input and output."""
    users = [f"input.{role}.format" for role in ROLES if getattr(given, role).format in REGISTERED]
    users += ["kafka.output_format"] if kafka.output_format == "avro" else []
    problems = []
    if users and not registry.url:
        problems.append(
            f"schema_registry.url: is missing, and {users[0]} needs it; set it, or the environment variable "
            "SCHEMA_REGISTRY_URL"
        )
    if "@" in registry.url:
        problems.append(
            "schema_registry.url: a login never stands in it; give schema_registry.username, and the password in the "
            "environment variable SCHEMA_REGISTRY_PASSWORD"
        )
    return problems


def input_problems(given: Input, features: Sequence[str], written: Collection[str]) -> list[str]:
    """Fields and topics that cannot be read as the input says. features: their names   written: topics of workers"""
    problems = []
    problems += [
        f"input.interactions.fields.{name}: no feature has this name{did_you_mean(name, features)}"
        for name in given.interactions.fields
        if name not in features
    ]
    roles: dict[str, str] = {}
    for role in ROLES:
        section = getattr(given, role)
        for topic in section.topics:
            if topic in roles:
                problems.append(
                    f"input.{role}.topics: {topic!r} is already read as {roles[topic]}; a topic has one role"
                )
            roles[topic] = role
    problems += [
        f"input.{role}.topics: {topic!r} is a topic that workers write; name the one that holds your {role}"
        for topic, role in roles.items()
        if topic in written
    ]
    return problems
