"""The rights of deploy/kubernetes/strimzi-user.yaml are what a deployment needs: a broker that knows no others."""

from __future__ import annotations

from pathlib import Path

import orjson
import pytest
import yaml
from broker import Broker
from kafka.admin import ACL, ACLOperation, ACLPermissionType, KafkaAdminClient, ResourcePattern, ResourceType
from kafka.admin import ACLResourcePatternType as Pattern

from stream_tgat.topology import LOGIN_VARIABLE
from tests.integration.secured.certificates import Certificates
from tests.integration.secured.test_whole_path import COUNT, Deployment
from tests.integration.secured.ways import LIMITED_USER, PASSWORD, by_login

PATTERNS = {"literal": Pattern.LITERAL, "prefix": Pattern.PREFIXED}


def grant(broker: Broker) -> None:
    """Give the user what Strimzi gives it for the file."""
    user = yaml.safe_load(Path("deploy/kubernetes/strimzi-user.yaml").read_text())
    rights = [
        ACL(
            f"User:{LIMITED_USER}",
            "*",
            ACLOperation[_constant(operation)],
            ACLPermissionType.ALLOW,
            ResourcePattern(
                ResourceType[rule["resource"]["type"].upper()],
                rule["resource"]["name"],
                PATTERNS[rule["resource"]["patternType"]],
            ),
        )
        for rule in user["spec"]["authorization"]["acls"]
        for operation in rule["operations"]
    ]
    admin = KafkaAdminClient(bootstrap_servers=broker.bootstrap_servers)
    try:
        assert not admin.create_acls(rights)["failed"]
    finally:
        admin.close()


def _constant(operation: str) -> str:
    """DescribeConfigs → DESCRIBE_CONFIGS"""
    return "".join(f"_{each}" if each.isupper() else each for each in operation).lstrip("_").upper()


def test_rights_of_the_strimzi_user_are_enough(
    broker: Broker, certificates: Certificates, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(LOGIN_VARIABLE, PASSWORD)
    access = by_login(broker, certificates, user=LIMITED_USER)
    # The names in the file are those of this deployment, without a prefix.
    deployment = Deployment(access, "", tmp_path, name="template")
    with pytest.raises(Exception, match=r"(?i)authoriz"):
        deployment.run("topics", "create")
    grant(broker)
    deployment.run("topics", "create")
    deployment.run("topics", "create")  # which looks at what is there
    deployment.run("release", "init")
    deployment.produce()
    worker = deployment.worker()
    try:
        shown = deployment.run("tail", "embeddings", "--from-start", "--json", "--limit", str(2 * COUNT))
        assert len({orjson.loads(line)["id"] for line in shown.splitlines()}) == 2 * COUNT
        assert "Promoted" in deployment.run("retrain", "--now")
        deployment.run("status", "--fresh")
        deployment.run("dead-letters", "list")
    finally:
        worker.terminate()
        worker.wait(30)
    assert worker.returncode == 0, deployment.said()[-3000:]
    assert "uthorizationFailed" not in deployment.said()
