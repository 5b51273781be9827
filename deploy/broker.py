"""A Kafka broker for a laptop, a demo or a test run: one node on loopback, no container, no tarball.

The jars come from Maven (`pom.xml` beside this file) into `.cache/kafka` once; after that a broker is one Java process
that is started directly and answers in about three seconds. Only the standard library is used, so that this file works
before anything is installed.

    python deploy/broker.py run --data runs/broker --port 9092     # until Ctrl-C
    python deploy/broker.py start --data runs/broker --port 9092   # in the background
    python deploy/broker.py stop --data runs/broker

    with Broker(Path("runs/broker")) as broker:
        print(broker.bootstrap_servers)

It is a broker for development: plain text and no authentication unless a listener is given that asks for them, one
copy of the data, and nothing flushed to disk before it is acknowledged.
"""

from __future__ import annotations

import argparse
import base64
import ctypes
import fcntl
import hashlib
import os
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

HERE = Path(__file__).resolve().parent
CACHE = HERE.parent / ".cache" / "kafka"
HOST = "127.0.0.1"
OLDEST_JAVA = 17
INSTALL = "install them on Debian or Ubuntu with: sudo apt-get install openjdk-17-jre-headless maven"

SETTINGS = {
    "process.roles": "broker,controller",
    "controller.listener.names": "CONTROLLER",
    # A misspelt topic must be an error, not a new topic with one partition.
    "auto.create.topics.enable": "false",
    "num.partitions": 1,
    "default.replication.factor": 1,
    "min.insync.replicas": 1,
    "offsets.topic.replication.factor": 1,
    "offsets.topic.num.partitions": 8,
    "transaction.state.log.replication.factor": 1,
    "transaction.state.log.min.isr": 1,
    "transaction.state.log.num.partitions": 4,
    "share.coordinator.state.topic.replication.factor": 1,
    "share.coordinator.state.topic.min.isr": 1,
    "group.initial.rebalance.delay.ms": 0,
    "group.min.session.timeout.ms": 1000,
    # A busy laptop must not fence its only node; yet after a power cut the node must wait that long for its own place.
    "broker.session.timeout.ms": 20000,
    "message.max.bytes": 16 * 2**20,
    "replica.fetch.max.bytes": 16 * 2**20,
    "log.segment.delete.delay.ms": 1000,
    "log.cleaner.dedupe.buffer.size": 32 * 2**20,
    # Changelogs fill their segments at the same moment; cleaned at full speed, they would take a core from the workers.
    "log.cleaner.io.max.bytes.per.second": 4 * 2**20,
    "num.network.threads": 2,
    "num.io.threads": 4,
    "background.threads": 2,
    "num.recovery.threads.per.data.dir": 2,
}

_PROTOCOLS = {"CONTROLLER": "PLAINTEXT", "PLAINTEXT": "PLAINTEXT"}

JVM = (
    "-Xms256m",
    "-Xmx512m",
    "-XX:+UseParallelGC",
    # The second compiler takes most of a core for minutes, until the broker is hardly faster; the first alone is ready
    # at once. Half the CPU of a start, and of the first minute a third.
    "-XX:TieredStopAtLevel=1",
    "-XX:+ExitOnOutOfMemoryError",
    "-Djava.awt.headless=true",
)

LOGGING = """\
status = error
appender.stdout.type = Console
appender.stdout.name = stdout
appender.stdout.layout.type = PatternLayout
appender.stdout.layout.pattern = [%d] %p %m (%c)%n
rootLogger.level = warn
rootLogger.appenderRef.stdout.ref = stdout
"""


class BrokerError(RuntimeError):
    """The broker cannot be installed or started; the message says what is missing and what to do."""


@dataclass(frozen=True)
class Place:
    """A broker's place in a cluster. voters: the port of each node's controller, by node."""

    node: int
    cluster_id: str
    voters: Mapping[int, int]


class Broker:
    """One broker and its data folder; a context manager that leaves no process behind.

    data: folder for the log, the settings and `broker.log`; an existing one is opened again with what it holds.
    port: the port of the clients; None takes a free one.
    settings: more of Kafka's own, and others than ours.
    listeners: more of them beside the plain one, as {name: security protocol}, each on a free port; what they need
        (`listener.name.<name in small letters>.…`) is among the settings.
    place: its place in a cluster of several (see cluster.py); None if it is alone.
    """

    def __init__(
        self,
        data: Path,
        port: int | None = None,
        settings: dict[str, str | int] | None = None,
        listeners: dict[str, str] | None = None,
        place: Place | None = None,
    ) -> None:
        self.data = data.resolve()
        self.port = port
        self.settings = {**SETTINGS, **(settings or {})}
        self.listeners = listeners or {}
        self.place = place
        self._ports: dict[str, int] = {}
        self.log_file = self.data / "broker.log"
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def bootstrap_servers(self) -> str:
        """Address for the clients, `host:port`."""
        if self.port is None:
            raise BrokerError("the broker has no port before it is started")
        return f"{HOST}:{self.port}"

    def address_of(self, listener: str) -> str:
        """Address of one of the other listeners, `localhost:port`."""
        return f"localhost:{self._ports[listener]}"

    @property
    def pid(self) -> int | None:
        """Process id of the running broker, None when it does not run."""
        return self._process.pid if self._process is not None and self._process.poll() is None else None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def start(self, *, timeout_s: float = 60.0, dies_with_parent: bool = True) -> None:
        """Start the broker and wait until it serves requests."""
        if self.pid is not None:
            return
        java = _java()
        libraries = install()
        given = self.port
        for last in (False, False, True):
            self.port = given or free_port()
            try:
                self._launch(java, libraries, dies_with_parent)
                self.wait(timeout_s)
            except BaseException as error:
                self.stop()
                # Somebody may take a free port before we do; with a given port there is nothing else to try.
                if last or given or not isinstance(error, _PortTakenError):
                    raise
            else:
                return

    def launch(self) -> None:
        """Start its process only: one of several is not ready before most of the others are."""
        if self.pid is None:
            self._launch(_java(), install(), dies_with_parent=True)

    def wait(self, timeout_s: float = 60.0) -> None:
        """Wait until it serves requests; raises BrokerError with the end of its log."""
        assert self._process is not None
        assert self.port is not None
        deadline = time.monotonic() + timeout_s
        while not answers(HOST, self.port):
            if self._process.poll() is not None:
                self._fail("the broker ended while it was starting")
            if time.monotonic() > deadline:
                self._fail(f"the broker did not answer within {timeout_s:.0f} s")
            time.sleep(0.05)

    def stop(self, *, timeout_s: float = 15.0) -> None:
        """Stop it cleanly, by force if it does not follow within `timeout_s`; the data stays."""
        process, self._process = self._process, None
        if process is None:
            return
        if process.poll() is None:
            process.terminate()
            try:
                process.wait(timeout_s)
            except subprocess.TimeoutExpired:
                process.kill()
        process.wait()
        (self.data / "broker.pid").unlink(missing_ok=True)

    def kill(self) -> None:
        """End it at once, as a power cut would for the process (what the system has in its page cache stays)."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def _launch(self, java: str, libraries: Path, dies_with_parent: bool) -> None:
        assert self.port is not None
        if not _is_free(self.port):
            raise _PortTakenError(f"port {self.port} is in use by another program; choose another")
        self.data.mkdir(parents=True, exist_ok=True)
        place = self.place or Place(1, new_id(), {1: free_port()})
        self._ports = {name: free_port() for name in self.listeners}
        others = "".join(f",{name}://localhost:{port}" for name, port in self._ports.items())
        settings = self.settings | {
            "node.id": place.node,
            "log.dirs": self.data / "log",
            "listeners": f"PLAINTEXT://{HOST}:{self.port},CONTROLLER://{HOST}:{place.voters[place.node]}{others}",
            "advertised.listeners": f"PLAINTEXT://{HOST}:{self.port}{others}",
            "listener.security.protocol.map": ",".join(
                f"{name}:{protocol}" for name, protocol in {**_PROTOCOLS, **self.listeners}.items()
            ),
            "controller.quorum.voters": ",".join(f"{node}@{HOST}:{port}" for node, port in place.voters.items()),
        }
        server = self.data / "server.properties"
        server.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        logging = self.data / "log4j2.properties"
        logging.write_text(LOGGING)
        command = [java, *JVM, f"-Dlog4j2.configurationFile={logging}", "-cp", f"{libraries}/*"]
        _format(self.data / "log", command, server, place)
        with self.log_file.open("wb") as log:
            self._process = subprocess.Popen(
                [*command, "kafka.Kafka", str(server)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                # Its own session: a Ctrl-C in the terminal is for us, and we stop it when its clients are done.
                start_new_session=True,
                preexec_fn=_die_with(os.getpid()) if dies_with_parent else None,
            )
        (self.data / "broker.pid").write_text(f"{self._process.pid}\n")

    def _fail(self, what: str) -> None:
        log = self.log_file.read_text(errors="replace")
        kind = _PortTakenError if re.search(r"Address already in use|BindException", log) else BrokerError
        tail = "\n".join(line for line in log.splitlines() if not line.startswith("\t"))[-2000:]
        raise kind(f"{what} (port {self.port}); the end of {self.log_file}:\n{tail}")


class _PortTakenError(BrokerError):
    """The port belongs to another program."""


def install() -> Path:
    """Folder of the broker's jars, fetched by Maven when `pom.xml` is new."""
    pom = HERE / "pom.xml"
    wanted = hashlib.sha256(pom.read_bytes()).hexdigest()
    libraries = CACHE / "libs"
    stamp = CACHE / "pom.sha256"
    CACHE.mkdir(parents=True, exist_ok=True)
    with _locked(CACHE / "lock"):
        if stamp.exists() and stamp.read_text() == wanted:
            return libraries
        maven = shutil.which("mvn")
        if maven is None:
            raise BrokerError(f"Apache Kafka is fetched with Maven, and `mvn` is missing; {INSTALL}")
        stamp.unlink(missing_ok=True)
        shutil.rmtree(libraries, ignore_errors=True)
        command = [maven, "-q", "-B", "-f", str(pom), "dependency:copy-dependencies"]
        done = subprocess.run(
            [*command, "-DincludeScope=runtime", f"-DoutputDirectory={libraries}"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0 or not any(libraries.glob("kafka_*.jar")):
            raise BrokerError(f"Maven could not fetch Apache Kafka:\n{(done.stdout + done.stderr)[-2000:]}")
        stamp.write_text(wanted)
    return libraries


def answers(host: str, port: int, *, timeout_s: float = 2.0) -> bool:
    """Whether a Kafka broker serves requests there: an ApiVersions request gets its answer.

    The socket alone opens earlier than the broker serves.
    """
    request = struct.pack(">hhih", 18, 0, 7, -1)
    try:
        with socket.create_connection((host, port), timeout_s) as connection:
            connection.settimeout(timeout_s)
            connection.sendall(struct.pack(">i", len(request)) + request)
            reply = connection.recv(10, socket.MSG_WAITALL)
    except OSError:
        return False
    return len(reply) == 10 and struct.unpack(">ih", reply[4:]) == (7, 0)


def _format(log: Path, command: list[str], server: Path, place: Place) -> None:
    """Make a new storage folder, as Kafka's own StorageTool does.

    What the tool writes beside the ids is the same for every folder, so it runs once per installation and its file is
    copied afterwards: that saves a second Java start.
    """
    if (log / "meta.properties").exists():
        return
    template = CACHE / "bootstrap.checkpoint"
    with _locked(CACHE / "lock"):
        stamp = CACHE / "pom.sha256"
        if not template.exists() or template.stat().st_mtime < stamp.stat().st_mtime:
            done = subprocess.run(
                [*command, "kafka.tools.StorageTool", "format", "-t", place.cluster_id, "-c", str(server)],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                check=False,
            )
            if done.returncode != 0:
                raise BrokerError(f"Kafka could not format {log}:\n{(done.stdout + done.stderr)[-2000:]}")
            shutil.copyfile(log / "bootstrap.checkpoint", template)
            return
    log.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(template, log / "bootstrap.checkpoint")
    meta = f"version=1\ncluster.id={place.cluster_id}\nnode.id={place.node}\ndirectory.id={new_id()}\n"
    unfinished = log / "meta.properties.new"
    unfinished.write_text(meta)
    unfinished.rename(log / "meta.properties")


def new_id() -> str:
    """A random id as Kafka writes them."""
    while True:
        text = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        if not text.startswith("-"):  # the StorageTool takes it for an option
            return text


def _java() -> str:
    java = shutil.which("java")
    if java is None:
        raise BrokerError(f"Apache Kafka needs Java {OLDEST_JAVA} or newer, and `java` is missing; {INSTALL}")
    shown = subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr
    found = re.search(r'version "(?:1\.)?(\d+)', shown)
    if found and int(found[1]) < OLDEST_JAVA:
        raise BrokerError(f"Apache Kafka needs Java {OLDEST_JAVA} or newer, and {java} is Java {found[1]}; {INSTALL}")
    return java


def free_port() -> int:
    """A port of loopback that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        port: int = probe.getsockname()[1]
        return port


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        # As Java does: connections of a broker that has just stopped linger on its port and do no harm.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
        return True


def _die_with(parent: int) -> Callable[[], None]:
    """Ask Linux to stop the child when its parent dies, however it dies; elsewhere nothing happens.

    "Parent" is the thread that starts the broker: start it from one that lives as long as the broker should.
    """
    prctl = getattr(ctypes.CDLL(None), "prctl", None)

    def ask() -> None:
        if prctl is None:
            return
        prctl(1, signal.SIGTERM)  # 1 = PR_SET_PDEATHSIG
        if os.getppid() != parent:
            os._exit(1)

    return ask


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _stop_by_pid_file(data: Path) -> str:
    pid_file = data / "broker.pid"
    try:
        pid = int(pid_file.read_text())
        arguments = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except (OSError, ValueError):
        pid_file.unlink(missing_ok=True)
        return f"no broker runs on {data}"
    if b"kafka.Kafka" not in arguments or str(data / "server.properties").encode() not in arguments:
        pid_file.unlink(missing_ok=True)
        return f"no broker runs on {data}"
    os.kill(pid, signal.SIGTERM)
    for _ in range(150):
        if not Path(f"/proc/{pid}").exists():
            break
        time.sleep(0.1)
    else:
        os.kill(pid, signal.SIGKILL)
    pid_file.unlink(missing_ok=True)
    return f"stopped the broker on {data}"


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description="A single-node Kafka broker on loopback, for development.")
    parser.add_argument("action", choices=["run", "start", "stop", "install"])
    parser.add_argument(
        "--data", type=Path, default=Path("runs/broker"), help="folder of the log (default: %(default)s)"
    )
    parser.add_argument(
        "--port", type=int, default=9092, help="port of the clients; 0 = a free one (default: %(default)s)"
    )
    options = parser.parse_args()
    broker = Broker(options.data, options.port or None)
    try:
        if options.action == "install":
            print(install())
        elif options.action == "stop":
            print(_stop_by_pid_file(broker.data))
        elif options.action == "start":
            broker.start(dies_with_parent=False)
            print(broker.bootstrap_servers)
        else:
            _run(broker)
    except BrokerError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


def _run(broker: Broker) -> None:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    try:
        with broker:
            print(f"{broker.bootstrap_servers}  (data and log in {broker.data}; Ctrl-C stops it)", flush=True)
            while broker.pid is not None:
                time.sleep(0.5)
            raise BrokerError(f"the broker ended by itself; see {broker.log_file}")
    except KeyboardInterrupt:
        print()


if __name__ == "__main__":
    sys.exit(main())
