"""What deploy/ has for containers, Kubernetes and systemd, each held to a checker of its kind: none of it runs here."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import threading
import tomllib
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import jsonschema_rs
import kubernetes_validate
import pytest
import yaml
from compose_spec import PyCompose

from stream_tgat.topology import Topology
from stream_tgat.transport.watchdog import STOP_GRACE_S

DEPLOY = Path("deploy")
KUBERNETES = DEPLOY / "kubernetes"
KUBERNETES_VERSION = "1.34"
KAFKA_USER = Path("tests/unit/strimzi_kafkauser_v1.yaml")


def documents(name: str) -> dict[tuple[str, str], Any]:
    """The objects of a file, by kind and name."""
    found = list(yaml.safe_load_all((KUBERNETES / name).read_text()))
    return {(each["kind"], each["metadata"]["name"]): each for each in found}


def workers() -> Any:
    return documents("workers.yaml")["StatefulSet", "stream-tgat-worker"]["spec"]


def compose() -> Any:
    """The file as an engine reads it: variables as where none is set, and what is merged merged."""
    text = re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", (DEPLOY / "compose.yaml").read_text())
    return yaml.safe_load(text.replace("$$", "$"))


def test_containerfile_passes_hadolint() -> None:
    command = [
        str(Path(sys.executable).parent / "hadolint"),
        "--failure-threshold",
        "info",
        str(DEPLOY / "Containerfile"),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_containerfile_copies_what_is_there() -> None:
    text = (DEPLOY / "Containerfile").read_text()
    copied = [
        name
        for line in re.findall(r"^COPY (?!--from)(.*)$", text, re.MULTILINE)
        for name in line.split()[:-1]
        if not name.startswith("--")
    ]
    assert len(copied) > 5
    assert not [name for name in copied if not Path(name).exists()]
    extras = re.search(r"^ARG EXTRAS=(.*)$", text, re.MULTILINE)
    assert extras is not None
    known = tomllib.loads(Path("pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert set(extras[1].split(",")) <= set(known)


def test_constraints_of_the_image_are_all_pins_of_the_lock(tmp_path: Path) -> None:
    script = re.search(r"^RUN sed -n '(.*)' requirements.lock", (DEPLOY / "Containerfile").read_text(), re.MULTILINE)
    assert script is not None
    done = subprocess.run(["sed", "-n", script[1], "requirements.lock"], capture_output=True, text=True, check=True)
    pins = [line.split("==")[0] for line in done.stdout.splitlines()]
    assert pins == re.findall(r"^([A-Za-z0-9_.-]+)==", Path("requirements.lock").read_text(), re.MULTILINE)


def test_entrypoint_lays_out_the_compiled_loops_and_becomes_the_command(tmp_path: Path) -> None:
    script = tmp_path / "entrypoint"
    script.write_text((DEPLOY / "entrypoint.sh").read_text().replace("/opt/compiled", str(tmp_path / "baked")))
    (tmp_path / "baked").mkdir()
    (tmp_path / "baked" / "loop.nbi").write_text("x")
    cache = tmp_path / "tmp" / "compiled"
    for _ in range(2):  # a container that is started again
        done = subprocess.run(
            ["sh", str(script), "sh", "-c", "echo $$ $0 $1", "a b", "c"],
            env={**os.environ, "NUMBA_CACHE_DIR": str(cache)},
            capture_output=True,
            text=True,
            check=True,
        )
        assert done.stdout.split(maxsplit=1)[1] == "a b c\n"
    assert (cache / "loop.nbi").read_text() == "x"


def test_health_check_asks_what_listens_on_the_port() -> None:
    class Lives(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200 if self.path == "/livez" else 404)
            self.end_headers()

        def log_message(self, *arguments: object) -> None:
            pass

    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}

    def status(port: int) -> int:
        command = ["sh", str(DEPLOY / "healthcheck.sh"), str(port)]
        return subprocess.run(command, env=environment, capture_output=True, check=False).returncode

    with HTTPServer(("127.0.0.1", 0), Lives) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            assert status(server.server_port) == 0
        finally:
            server.shutdown()
            thread.join()
    assert status(server.server_port) != 0


def test_compose_file_is_one() -> None:
    made = PyCompose.from_yaml(yaml.safe_dump(compose()))
    made.validate()
    assert len(made.to_dict()["services"]) == 7


@pytest.mark.parametrize(
    ("old", "new"),
    [("read_only", "readonly"), ("worker-1:", "worker 1:"), ("stop_grace_period: 30s", "stop_grace_period: soon")],
)
def test_compose_file_with_a_mistake_is_none(old: str, new: str) -> None:
    """The checker does see what is wrong."""
    text = yaml.safe_dump(compose(), width=1000)
    assert old in text
    with pytest.raises(ValueError):  # its messages differ
        PyCompose.from_yaml(text.replace(old, new)).validate()


def test_compose_names_what_is_there_and_workers_share_no_state() -> None:
    content = compose()
    services = content["services"]
    for name, service in services.items():
        assert set(service.get("depends_on", {})) <= set(services), name
        for volume in service.get("volumes", ()):
            source = volume.split(":")[0]
            there = (DEPLOY / source).exists() if source.startswith(".") else source in content["volumes"]
            assert there, (name, volume)
    state = [
        set(services[each]["volumes"]) & {f"state-{n}:/var/lib/stream-tgat" for n in (1, 2)}
        for each in ("worker-1", "worker-2")
    ]
    assert not state[0] & state[1]
    for each in ("worker-1", "query", "topics"):
        assert services[each]["read_only"] is True
        assert services[each]["cap_drop"] == ["ALL"]
    assert services["worker-1"]["stop_grace_period"] == "30s"
    check = re.search(r"^HEALTHCHECK .*\n +CMD (\[.*\])$", (DEPLOY / "Containerfile").read_text(), re.MULTILINE)
    assert check is not None
    assert services["worker-1"]["healthcheck"]["test"] == ["CMD", *json.loads(check[1])]
    assert STOP_GRACE_S < 30


@pytest.mark.parametrize("name", ["workers.yaml", "query.yaml"])
def test_manifests_are_valid(name: str) -> None:
    for each in documents(name).values():
        kubernetes_validate.validate(each, KUBERNETES_VERSION, strict=True)


def test_manifest_with_a_mistake_is_not_valid() -> None:
    """The checker does see what is wrong."""
    wrong = documents("workers.yaml")["StatefulSet", "stream-tgat-worker"]
    wrong["spec"]["replica"] = wrong["spec"].pop("replicas")
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(wrong, KUBERNETES_VERSION, strict=True)


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="needs kubectl")
def test_base_is_rendered_to_what_is_valid_and_names_the_config_that_it_makes() -> None:
    done = subprocess.run(["kubectl", "kustomize", str(KUBERNETES)], capture_output=True, text=True, check=True)
    rendered = list(yaml.safe_load_all(done.stdout))
    for each in rendered:
        kubernetes_validate.validate(each, KUBERNETES_VERSION, strict=True)
    made = {each["metadata"]["name"] for each in rendered if each["kind"] == "ConfigMap"}
    (pod,) = (each["spec"]["template"]["spec"] for each in rendered if each["kind"] == "StatefulSet")
    mounted = {each["configMap"]["name"] for each in pod["volumes"] if "configMap" in each}
    taken = {each["configMapRef"]["name"] for each in pod["containers"][0]["envFrom"] if "configMapRef" in each}
    assert mounted | taken == made


def strictly(schema: Any) -> Any:
    """The schema, under which a key that it does not name is a mistake, as for `kubectl apply`."""
    if isinstance(schema, list):
        return [strictly(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    closed = {"additionalProperties": False} if "properties" in schema else {}
    return {**closed, **{key: strictly(each) for key, each in schema.items()}}


def test_kafka_user_is_one_of_strimzi() -> None:
    user = documents("strimzi-user.yaml")["KafkaUser", "stream-tgat"]
    assert user["apiVersion"] == "kafka.strimzi.io/v1"  # the only one that Strimzi has since 1.0
    schema = strictly(yaml.safe_load(KAFKA_USER.read_text()))
    jsonschema_rs.validate(schema, user["spec"])
    rule = user["spec"]["authorization"]["acls"][0]
    rule["operation"] = rule.pop("operations")[0]  # as it was before that version
    with pytest.raises(jsonschema_rs.ValidationError):
        jsonschema_rs.validate(schema, user["spec"])


def test_workers_stop_in_time_and_write_only_where_they_may() -> None:
    pod = workers()["template"]["spec"]
    (worker,) = pod["containers"]
    assert pod["terminationGracePeriodSeconds"] > 2 * STOP_GRACE_S
    assert worker["securityContext"]["readOnlyRootFilesystem"] is True
    mounted = {each["mountPath"] for each in worker["volumeMounts"]}
    assert {"/tmp", "/var/lib/stream-tgat"} <= mounted
    ports = {each["name"]: each["containerPort"] for each in worker["ports"]}
    given = Topology.model_validate(tomllib.loads((KUBERNETES / "topology.toml").read_text()))
    assert ports == {"metrics": 6066, "questions": given.query.worker_port}
    paths = {name: worker[name]["httpGet"]["path"] for name in ("livenessProbe", "readinessProbe", "startupProbe")}
    assert paths == {"livenessProbe": "/livez", "readinessProbe": "/readyz", "startupProbe": "/livez"}


def test_every_worker_is_a_static_member() -> None:
    environment = {each["name"]: each.get("value") for each in workers()["template"]["spec"]["containers"][0]["env"]}
    assert environment["KAFKA_STATIC_MEMBERSHIP"] == "true"
    services = compose()["services"]
    for name in ("worker-1", "worker-2"):
        assert services[name]["environment"]["KAFKA_STATIC_MEMBERSHIP"] == "true"
    unit = (DEPLOY / "systemd" / "stream-tgat@.service").read_text()
    assert "\nEnvironment=KAFKA_STATIC_MEMBERSHIP=true\n" in unit


def test_base_names_what_is_there() -> None:
    base = yaml.safe_load((KUBERNETES / "kustomization.yaml").read_text())
    named = [*base["resources"], *(file for each in base["configMapGenerator"] for file in each.get("files", ()))]
    assert not [name for name in named if not (KUBERNETES / name).is_file()]
    selector = documents("workers.yaml")["PodDisruptionBudget", "stream-tgat-worker"]["spec"]["selector"]
    assert selector == workers()["selector"]


def test_examples_for_strimzi_and_keda_name_what_the_deployment_has() -> None:
    given = Topology.model_validate(tomllib.loads((KUBERNETES / "topology.toml").read_text()))
    user = documents("strimzi-user.yaml")["KafkaUser", "stream-tgat"]["spec"]["authorization"]["acls"]
    topics = {each["resource"]["name"] for each in user if each["resource"]["type"] == "topic"}
    assert set(vars(given.topics).values()) <= topics
    assert given.changelog.startswith(tuple(name for name in topics if name.startswith("stream-tgat")))
    scaled = documents("keda.yaml")["ScaledObject", "stream-tgat-worker"]["spec"]
    assert scaled["maxReplicaCount"] <= given.kafka.partitions
    assert {each["metadata"]["consumerGroup"] for each in scaled["triggers"]} == {given.app_id}
    topics = [each["metadata"]["topic"] for each in scaled["triggers"]]
    assert topics == [given.topics.interactions, given.topics.propagation]


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd")
def test_systemd_unit_is_one(tmp_path: Path) -> None:
    program = tmp_path / "faust"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    unit = (DEPLOY / "systemd" / "stream-tgat@.service").read_text()
    file = tmp_path / "stream-tgat@.service"
    file.write_text(unit.replace("/opt/stream-tgat/bin/faust", str(program)))
    done = subprocess.run(["systemd-analyze", "verify", str(file)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    stop = re.search(r"^TimeoutStopSec=(\d+)$", unit, re.MULTILINE)
    assert stop is not None
    assert int(stop[1]) > STOP_GRACE_S
