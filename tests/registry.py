"""A real schema registry for tests: Apicurio, which speaks Confluent's API, from Maven Central and in memory.

The archive (110 MB) is fetched once into .cache/apicurio.
"""

from __future__ import annotations

import hashlib
import io
import re
import shutil
import subprocess
import tarfile
import tempfile
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from broker import CACHE, HOST, free_port
from confluent_kafka.schema_registry import SchemaRegistryClient

from tests.servers import Server, wait_until_answered

#: The newest that Java 17 runs.
VERSION = "3.0.9"
_ARTIFACT = f"io/apicurio/apicurio-registry-app/{VERSION}/apicurio-registry-app-{VERSION}-all.tar.gz"
_SHA256 = "2b28181501a20cbf6efcd77f9b7153908fc01f3d3a7c32024c0bd9e1b04c8a43"
_FOLDER = CACHE.parent / "apicurio" / VERSION
_PATIENCE_S = 120.0


@dataclass(frozen=True)
class RunningRegistry(Server):
    """url: of its API, as Confluent's   client: a producer's"""

    url: str
    client: SchemaRegistryClient


@contextmanager
def running_registry(folder: Path) -> Iterator[RunningRegistry]:
    """A registry that is empty at first. folder: of its log"""
    port = free_port()
    url = f"http://{HOST}:{port}/apis/ccompat/v7"
    with (folder / "registry.log").open("wb") as log:
        process = subprocess.Popen(
            [
                "java",
                "-Xmx300m",
                "-XX:TieredStopAtLevel=1",
                f"-Dquarkus.http.host={HOST}",
                f"-Dquarkus.http.port={port}",
                "-jar",
                str(_jar()),
            ],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
        )
    try:
        wait_until_answered(f"{url}/subjects", process, _PATIENCE_S)
        with SchemaRegistryClient({"url": url}) as client:
            yield RunningRegistry(process, url, client)
    finally:
        process.terminate()
        process.wait()


def _jar() -> Path:
    _FOLDER.parent.mkdir(parents=True, exist_ok=True)
    jar = _FOLDER / f"apicurio-registry-app-{VERSION}-runner.jar"
    if not jar.is_file():
        source = f"{_central()}/{_ARTIFACT}"
        with urllib.request.urlopen(source, timeout=60) as answer:
            packed = answer.read()
        found = hashlib.sha256(packed).hexdigest()
        assert found == _SHA256, f"{source} is not what it was: its SHA-256 is {found}"
        new = Path(tempfile.mkdtemp(dir=_FOLDER.parent))
        with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
            archive.extractall(new, filter="data")
        shutil.rmtree(_FOLDER, ignore_errors=True)
        new.rename(_FOLDER)
    return jar


def _central() -> str:
    """Where Maven Central is, as Maven says; it cannot fetch the archive itself, whose parent is not published."""
    goal = "org.apache.maven.plugins:maven-help-plugin:3.5.1:evaluate"
    expression = ["-Dexpression=project.repositories[0].url", "-DforceStdout"]
    said = subprocess.run(
        ["mvn", "-q", "-B", goal, *expression], capture_output=True, text=True, check=True, cwd=_FOLDER.parent
    )
    return re.sub(r"\x1b\[\d*m", "", said.stdout).strip()
