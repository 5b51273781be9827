"""A real schema registry for tests: Apicurio, which speaks Confluent's API, from Maven Central and in memory.

The archive (110 MB) is fetched once into .cache/apicurio.
"""

from __future__ import annotations

import hashlib
import io
import shutil
import signal
import subprocess
import tarfile
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from broker import CACHE, HOST, free_port
from confluent_kafka.schema_registry import SchemaRegistryClient

#: The newest that Java 17 runs.
VERSION = "3.0.9"
_SOURCE = (
    "https://repo1.maven.org/maven2/io/apicurio/apicurio-registry-app/"
    f"{VERSION}/apicurio-registry-app-{VERSION}-all.tar.gz"
)
_SHA256 = "2b28181501a20cbf6efcd77f9b7153908fc01f3d3a7c32024c0bd9e1b04c8a43"
_FOLDER = CACHE.parent / "apicurio" / VERSION
_PATIENCE_S = 120.0


@dataclass(frozen=True)
class RunningRegistry:
    """A registry in a process of its own."""

    url: str
    client: SchemaRegistryClient
    """A producer's client."""
    _process: subprocess.Popen[bytes]

    @contextmanager
    def hanging(self) -> Iterator[None]:
        """Within it no question is answered; it keeps what it has."""
        self._process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self._process.send_signal(signal.SIGCONT)


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
        _wait(f"{url}/subjects", process, folder / "registry.log")
        with SchemaRegistryClient({"url": url}) as client:
            yield RunningRegistry(url, client, process)
    finally:
        process.terminate()
        process.wait()


def _jar() -> Path:
    _FOLDER.parent.mkdir(parents=True, exist_ok=True)
    jar = _FOLDER / f"apicurio-registry-app-{VERSION}-runner.jar"
    if not jar.is_file():
        with urllib.request.urlopen(_SOURCE, timeout=60) as answer:
            packed = answer.read()
        found = hashlib.sha256(packed).hexdigest()
        assert found == _SHA256, f"{_SOURCE} is not what it was: its SHA-256 is {found}"
        new = Path(tempfile.mkdtemp(dir=_FOLDER.parent))
        with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
            archive.extractall(new, filter="data")
        shutil.rmtree(_FOLDER, ignore_errors=True)
        new.rename(_FOLDER)
    return jar


def _wait(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + _PATIENCE_S
    while True:
        try:
            with urllib.request.urlopen(url, timeout=5) as answer:
                answer.read()
            return
        except OSError:
            assert process.poll() is None, log.read_text(errors="replace")[-2000:]
            assert time.monotonic() < deadline, f"no answer within {_PATIENCE_S:.0f} s"
            time.sleep(0.2)
