import os
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, TypeAdapter, ValidationError

from stream_tgat.errors import TopologyError
from stream_tgat.features import Feature
from stream_tgat.topology import Topology, load_topology, split_node_key
from stream_tgat.topology.page import reference

FOLDER = Path(__file__).parents[2] / "topologies"


@pytest.fixture(autouse=True)
def _no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("STREAM_TGAT_TOPOLOGY", raising=False)
    for name in [name for name in os.environ if name.startswith("KAFKA_")]:
        monkeypatch.delenv(name)


def written(tmp_path: Path, text: str) -> Path:
    file = tmp_path / "mine.toml"
    file.write_text(text, encoding="utf-8")
    return file


def refusal(tmp_path: Path, text: str) -> str:
    with pytest.raises(TopologyError) as caught:
        load_topology(written(tmp_path, text))
    return str(caught.value)


@pytest.mark.parametrize("file", sorted(FOLDER.glob("*.toml")), ids=lambda file: file.stem)
def test_every_shipped_topology_loads_and_is_named_like_its_file(file: Path) -> None:
    assert load_topology(file).name == file.stem


def test_template_explains_every_key_with_its_default() -> None:
    text = (FOLDER / "template.toml").read_text(encoding="utf-8")
    template = tomllib.loads(text)
    defaults = Topology(name="template").model_dump(mode="json")
    for section, field in Topology.model_fields.items():
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            assert template[section] == defaults[section], section
    assert set(template["heads"][0]) == {"name", "label", "answers_after", "threshold", "cooldown_s"}
    shown = {(feature["kind"], key) for feature in template["features"] for key in feature}
    schema = TypeAdapter(Feature).json_schema()
    known = {
        (kind["properties"]["kind"]["const"], key) for kind in schema["$defs"].values() for key in kind["properties"]
    }
    assert shown == known


def test_page_of_the_configuration_is_what_models_and_template_say() -> None:
    page = (FOLDER.parent / "docs" / "configuration.md").read_text(encoding="utf-8")
    assert reference((FOLDER / "template.toml").read_text(encoding="utf-8")) == page, (
        "run: python -m stream_tgat.topology docs/configuration.md"
    )
    assert "| `partitions` | integer ≥ 1, ≤ 10000 | `8` | Partitions of the topics when they are created." in page
    assert "| `kind` | `number` or `category` or `flag` or `vector` | –" in page
    named = {line.split("`")[1] for line in page.splitlines() if line.startswith("| `")}
    for section, field in Topology.model_fields.items():
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel) and section != "input":
            assert field.annotation.model_fields.keys() <= named, section


@pytest.mark.parametrize("name", ["wikipedia_bans", "reddit_bans"])
def test_ban_topologies_fit_the_jodie_files(name: str) -> None:
    topology = load_topology(FOLDER / f"{name}.toml")
    assert topology.edge_width == 172
    assert [(feature.name, feature.kind) for feature in topology.features] == [("features", "vector")]
    assert topology.heads[0].label_name == "ban"


def test_environment_chooses_a_path_or_a_name(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("STREAM_TGAT_TOPOLOGY", "groceries")
    monkeypatch.chdir(tmp_path)
    assert load_topology().name == "groceries"
    monkeypatch.setenv("STREAM_TGAT_TOPOLOGY", str(written(tmp_path, 'name = "mine"')))
    assert load_topology().name == "mine"
    assert load_topology("wikipedia_bans").name == "wikipedia_bans"


def test_topology_beside_the_reader_wins_over_the_shipped_one(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "topologies").mkdir()
    (tmp_path / "topologies" / "groceries.toml").write_text('name = "mine"')
    monkeypatch.chdir(tmp_path)
    assert load_topology("groceries").name == "mine"


def test_what_is_installed_brings_its_topologies(tmp_path: Path) -> None:
    built, elsewhere = tmp_path / "built", tmp_path / "elsewhere"
    elsewhere.mkdir()
    build = [sys.executable, "setup.py", "-q", "build_py", "--build-lib", str(built)]
    subprocess.run(build, cwd=FOLDER.parent, check=True)
    code = "import stream_tgat.topology as t; print(t.__file__, t.load_topology('groceries').name); t.load_topology()"
    environment = {name: value for name, value in os.environ.items() if name != "STREAM_TGAT_TOPOLOGY"}
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=elsewhere,
        env=environment | {"PYTHONPATH": str(built)},
        capture_output=True,
        text=True,
        check=False,
    )
    package = built / "stream_tgat"
    assert done.stdout.split() == [str(package / "topology" / "__init__.py"), "groceries"], done.stderr
    assert f"{package / 'topologies' / 'template.toml'} explains every key" in done.stderr


def test_no_choice_says_how_to_choose() -> None:
    with pytest.raises(TopologyError, match=r"Set STREAM_TGAT_TOPOLOGY .* groceries.*wikipedia_bans"):
        load_topology()


def test_absent_file_says_what_was_looked_for_and_what_there_is() -> None:
    with pytest.raises(
        TopologyError, match=r"'nowhere', but there is no such file; give a path or one of: .*groceries"
    ):
        load_topology("nowhere")


def test_bootstrap_servers_of_the_environment_win(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    file = written(tmp_path, 'name = "mine"\n[kafka]\nbootstrap_servers = "file:1"')
    assert load_topology(file).kafka.bootstrap_servers == "file:1"
    monkeypatch.setenv("KAFKA_BOOTSTRAP_SERVERS", "environment:2")
    assert load_topology(file).kafka.bootstrap_servers == "environment:2"
    assert load_topology(written(tmp_path, 'name = "mine"')).kafka.bootstrap_servers == "environment:2"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('name = "x"\n[kafka]\npartitons = 4', "kafka.partitons: unknown key (did you mean 'partitions'?)"),
        ('name = "x"\n[kafak]\npartitions = 4', "kafak: unknown key (did you mean 'kafka'?)"),
        (
            'name = "x"\n[[heads]]\nname = "a"\ntreshold = 0.5',
            "heads.0.treshold: unknown key (did you mean 'threshold'?)",
        ),
        ("[kafka]\npartitions = 4", "name: is missing"),
        ('name = "x"\n[kafka]\npartitions = "4"', "kafka.partitions: Input should be a valid integer (got '4')"),
        ('name = "x"\n[kafka]\npartitions = 0', "kafka.partitions: "),
        ('name = "x"\n[model]\nlayers = 0', "model.layers: "),
        ('name = "x"\n[model]\nlayers = 4', "model.layers: "),
        ('name = "x"\n[model]\npreset = "papers"', "model.preset: Input should be 'paper', 'reference' or 'dyglib'"),
        ('name = "x"\n[model]\ntime_dim = 7', "model.time_dim: 7 is odd"),
        ('name = "x"\n[model]\nhidden = 65', "model.hidden: 65 cannot be shared"),
        ('name = "x"\n[model]\ncandidates = 19', "model.candidates: 19 rows cannot offer model.neighbours = 20"),
        (
            'name = "x"\n[model]\ncandidates = 4\nneighbours = 4\nactivity = true',
            "model.candidates: activity features look back 5",
        ),
        (
            'name = "x"\n[model]\naffinity = "inner"\npair_features = true',
            "model.pair_features: an inner product has no place",
        ),
        ('name = "x"\n[graph]\nmax_id_bytes = 41', "graph.max_id_bytes: 41 is not a multiple of 8; use 48"),
        ('name = "x"\n[graph]\nmax_id_bytes = 24', "graph.max_id_bytes: the default interaction id"),
        ('name = "x"\n[time]\nclock = "sun"', "time.clock: "),
        ('name = "x"\n[time]\nallowed_lateness_s = nan', "time.allowed_lateness_s: "),
        ('name = "x"\n[time]\nidle_after_s = 30.0', 'time.idle_after_s: with time.clock = "wall" a partition without'),
        ('name = "x"\n[time]\nidle_after_s = -1', "time.idle_after_s: "),
        ('name = "x"\n[serving]\ndevice = "tpu"', "serving.device: "),
        ('name = "x"\n[[heads]]\nname = "a"\n[[heads]]\nname = "a"', "heads: the name 'a' is used twice"),
        ('name = "x"\n[[heads]]\nname = "a"\nthreshold = 1.5', "heads.0.threshold: "),
        ('name = "x"\n[[features]]\nname = "user"\nkind = "flag"', "features: 'user' is a field of every interaction"),
        ('name = "x"\n[[features]]\nname = "a"\nkind = "number"\nbuckets = 3', "features.0.buckets: unknown key"),
        ('name = "x"\n[[features]]\nname = "a"\nkind = "numbr"', "features.0: "),
        ('name = "x"\n[[features]]\nname = "a"\nkind = "category"', "feature 'a': give either values or buckets"),
        ('name = "x"\n[retrain]\nevry = "1h"', "retrain.evry: unknown key (did you mean 'every'?)"),
        ('name = "x"\n[retrain]\nevery = "1 fortnight"', "retrain.every: '1 fortnight' is no length of time"),
        ('name = "x"\n[retrain]\nwindow = "0d"', "retrain.window: '0d' is no length of time"),
        ('name = "x"\n[retrain]\nauc_drop = -0.1', "retrain.auc_drop: "),
        ('name = "x"\n[retrain]\nheld_out = 0.0', "retrain.held_out: "),
        ('name = "x"\n[retrain]\nmetrics = []', "retrain.metrics: "),
        ('name = "x"\n[retrain]\nmetrics = ["accuracy"]', "retrain.metrics.0: "),
        ('name = "x"\n[retrain]\nnice = 20', "retrain.nice: "),
        ('name = "x"\n[releases]\nstore = ""', "releases.store: "),
        (
            'name = "x"\n[kafka]\nsasl_username = "ann"',
            "kafka.sasl_username: with kafka.security_protocol = plaintext nobody logs in; set that to sasl_ssl",
        ),
        ('name = "x"\n[kafka]\nsecurity_protocol = "ssl"\nsasl_mechanism = "PLAIN"', "nobody logs in"),
        (
            'name = "x"\n[kafka]\nsecurity_protocol = "sasl_ssl"\nsasl_mechanism = "PLAIN"',
            "kafka.sasl_username: is missing, and kafka.security_protocol = sasl_ssl needs it",
        ),
        (
            'name = "x"\n[kafka]\nsecurity_protocol = "sasl_ssl"\nsasl_username = "ann"',
            "kafka.sasl_mechanism: is missing",
        ),
        (
            'name = "x"\n[kafka]\nsecurity_protocol = "tls"',
            "kafka.security_protocol: Input should be 'plaintext', 'ssl'",
        ),
        ('name = "x"\n[kafka]\nsasl_mechanism = "GSSAPI"', "kafka.sasl_mechanism: Input should be"),
        (
            'name = "x"\n[kafka]\nssl_cafile = "ca.pem"',
            "kafka.ssl_cafile: with kafka.security_protocol = plaintext there is no TLS; set that to ssl",
        ),
        (
            'name = "x"\n[kafka]\nsecurity_protocol = "sasl_plaintext"\nssl_certfile = "me.pem"',
            "kafka.ssl_certfile: with kafka.security_protocol = sasl_plaintext there is no TLS; set that to sasl_ssl",
        ),
        ('name = "x"\n[kafka]\nsecurity_protocol = "ssl"\nssl_keyfile = "me.key"', "set kafka.ssl_certfile too"),
        (
            'name = "x"\n[kafka]\nsecurity_protocol = "ssl"\nssl_cafile = "no/where.pem"',
            "kafka.ssl_cafile: there is no file no/where.pem",
        ),
        (
            'name = "x"\n[kafka]\nsecurity_protocol = "sasl_ssl"\nsasl_mechanism = "PLAIN"\nsasl_username = "ann"',
            "the password of 'ann' is missing; set the environment variable KAFKA_SASL_PASSWORD",
        ),
        ('name = "x"\n[kafka]\nsasl_password = "x"', "kafka.sasl_password: a password never stands in a topology"),
        ('name = "a b"', "name: "),
        ('name = "x"\nname = "y"', "not a TOML file"),
        ('name = "x"\nkafka = 3', "kafka: "),
    ],
)
def test_mistake_is_refused_with_file_and_key(tmp_path: Path, text: str, expected: str) -> None:
    message = refusal(tmp_path, text)
    assert str(tmp_path / "mine.toml") in message
    assert expected in message


def test_all_mistakes_are_told_at_once(tmp_path: Path) -> None:
    message = refusal(tmp_path, 'name = "x"\n[model]\ntime_dim = 7\nhidden = 65\n[graph]\nmax_id_bytes = 41')
    assert len(message.splitlines()) == 3


def test_longest_default_id_just_fits(tmp_path: Path) -> None:
    # interactions/99999/123456789012 has 31 bytes.
    assert load_topology(written(tmp_path, 'name = "x"\n[graph]\nmax_id_bytes = 32')).id_bytes == 32
    prefixed = 'name = "x"\n[graph]\nmax_id_bytes = 32\n[kafka]\ntopic_prefix = "ab"'
    assert "use 40" in refusal(tmp_path, prefixed)


def test_only_the_paper_preset_asks_for_cosine_and_sine_pairs(tmp_path: Path) -> None:
    text = 'name = "x"\n[model]\npreset = "{}"\ntime_dim = 7'
    assert load_topology(written(tmp_path, text.format("dyglib"))).model.time_dim == 7
    assert load_topology(written(tmp_path, text.format("reference"))).model.time_dim == 7


def test_negative_lateness_is_allowed(tmp_path: Path) -> None:
    file = written(tmp_path, 'name = "x"\n[time]\nallowed_lateness_s = -1')
    assert load_topology(file).time.allowed_lateness_s == -1.0


@pytest.mark.parametrize(
    ("section", "expected"),
    [
        ("", 0.05),
        ('clock = "wall"', 0.05),
        ('clock = "event"', 0.0),
        ('clock = "event"\nallowed_lateness_s = 2.0', 2.0),
    ],
)
def test_live_events_are_given_time_to_arrive_and_those_of_a_log_need_none(
    tmp_path: Path, section: str, expected: float
) -> None:
    assert load_topology(written(tmp_path, f'name = "x"\n[time]\n{section}')).time.allowed_lateness_s == expected


def test_prefix_reaches_every_topic_and_the_application() -> None:
    topology = Topology.model_validate({"name": "x", "kafka": {"topic_prefix": "eu."}})
    assert topology.topics.interactions == "eu.interactions"
    assert topology.topics.dead_letters == "eu.dead-letters"
    assert topology.topics.models == "eu.models"
    assert topology.app_id == "eu.stream-tgat-x"


@pytest.mark.parametrize(
    ("bipartite", "kind", "key"),
    [(True, "user", b"u\xc3\xa9"), (True, "item", b"i\xc3\xa9"), (False, "item", b"n\xc3\xa9")],
)
def test_node_key_is_a_kind_byte_and_utf8(bipartite: bool, kind: Any, key: bytes) -> None:
    topology = Topology.model_validate({"name": "x", "graph": {"bipartite": bipartite}})
    assert topology.node_key(kind, "é") == key
    assert split_node_key(key) == (kind if bipartite else None, "é")


def test_file_may_begin_with_a_byte_order_mark_and_another_encoding_is_told(tmp_path: Path) -> None:
    file = tmp_path / "marked.toml"
    file.write_bytes(b'\xef\xbb\xbfname = "x"\n')
    assert load_topology(file).name == "x"
    file.write_bytes('name = "é"\n'.encode("latin-1"))
    with pytest.raises(TopologyError, match="byte 8 is not UTF-8"):
        load_topology(file)


def test_topology_is_frozen() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        Topology(name="x").name = "y"  # type: ignore[misc]


def test_head_learns_the_label_of_its_name_unless_told_otherwise() -> None:
    topology = Topology.model_validate({"name": "x", "heads": [{"name": "a"}, {"name": "b", "label": "c"}]})
    assert topology.head_names == ("a", "b")
    assert [head.label_name for head in topology.heads] == ["a", "c"]


@pytest.mark.parametrize(
    ("text", "triggered"),
    [
        ("", False),
        ('window = "90d"\nmargin = 0.1', False),
        ('every = "24h"', True),
        ("after_interactions = 5", True),
        ("auc_drop = 0.05", True),
    ],
)
def test_retraining_starts_by_itself_only_with_a_trigger(tmp_path: Path, text: str, triggered: bool) -> None:
    assert load_topology(written(tmp_path, f'name = "x"\n[retrain]\n{text}')).retrain.has_trigger is triggered


def test_lengths_of_time_are_seconds_and_none_where_empty() -> None:
    retrain = Topology(name="x").retrain
    assert (retrain.every_s, retrain.window_s) == (None, None)
    retrain = Topology.model_validate({"name": "x", "retrain": {"every": "90m", "window": "7d"}}).retrain
    assert (retrain.every_s, retrain.window_s) == (5_400.0, 604_800.0)


def test_static_member_of_the_environment_is_given_time_for_a_restart(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = written(tmp_path, 'name = "mine"')
    assert load_topology(file).kafka.session_timeout_s == 10.0
    monkeypatch.setenv("KAFKA_STATIC_MEMBERSHIP", "true")
    assert load_topology(file).kafka.static_membership
    assert load_topology(file).kafka.session_timeout_s == 45.0
    monkeypatch.setenv("KAFKA_SESSION_TIMEOUT_S", "12")
    assert load_topology(file).kafka.session_timeout_s == 12.0
    monkeypatch.setenv("KAFKA_SESSION_TIMEOUT_S", "soon")
    with pytest.raises(TopologyError, match=r"kafka\.session_timeout_s"):
        load_topology(file)
    monkeypatch.delenv("KAFKA_SESSION_TIMEOUT_S")
    monkeypatch.setenv("KAFKA_STATIC_MEMBERSHIP", "worker-1")
    with pytest.raises(TopologyError, match=r"kafka\.static_membership"):
        load_topology(file)
    monkeypatch.setenv("KAFKA_STATIC_MEMBERSHIP", "false")
    assert load_topology(file).kafka.session_timeout_s == 10.0


def test_way_to_the_brokers_may_come_from_the_environment_alone(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    authority = written(tmp_path, "")
    given = {
        "KAFKA_SECURITY_PROTOCOL": "SASL_SSL",
        "KAFKA_SASL_MECHANISM": "SCRAM-SHA-512",
        "KAFKA_SASL_USERNAME": "ann",
        "KAFKA_SSL_CAFILE": str(authority),
        "KAFKA_SASL_PASSWORD": "words",
    }
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    kafka = load_topology(FOLDER / "groceries.toml").kafka
    assert (kafka.security_protocol, kafka.sasl_mechanism, kafka.sasl_username) == ("sasl_ssl", "SCRAM-SHA-512", "ann")
    assert kafka.ssl_cafile == str(authority)
    assert (kafka.has_login, kafka.has_tls) == (True, True)
    assert "words" not in repr(kafka)
    assert "words" not in kafka.model_dump_json()
