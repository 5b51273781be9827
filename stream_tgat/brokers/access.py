"""What a client shows to get in: TLS and the login, from the topology, with the secrets from the environment."""

import logging
import os
import re
import ssl
from dataclasses import dataclass, field
from typing import Any, Final

from stream_tgat.errors import AccessError, TopicError
from stream_tgat.topology import KEY_VARIABLE, LOGIN_VARIABLE, Kafka

_ADDRESS: Final = re.compile(r"(?P<host>\[[^\[\]]+\]|[^\[\]:/\s]+):(?P<port>\d{1,5})", re.ASCII)
_LARGEST_PORT: Final = 65_535
# At level DEBUG these write whole requests, or settings, and the password with them.
_TALKATIVE: Final = ("aiokafka.conn", "kafka.admin.client", "kafka.net.connection", "kafka.protocol.parser")


@dataclass(frozen=True)
class Login:
    """A user, and how the password is shown. mechanism: PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512"""

    mechanism: str
    username: str
    password: str = field(repr=False)


@dataclass(frozen=True)
class Access:
    """Where the brokers are (host:port each), and what they are shown; tls is None without TLS, login without one."""

    servers: tuple[str, ...]
    protocol: str
    tls: ssl.SSLContext | None
    login: Login | None

    @property
    def options(self) -> dict[str, Any]:
        """The options of a client; those of kafka-python and of aiokafka have the same names."""
        found: dict[str, Any] = {"bootstrap_servers": list(self.servers)}
        if self.tls is not None or self.login is not None:
            found["security_protocol"] = self.protocol.upper()
        if self.tls is not None:
            found["ssl_context"] = self.tls
        if self.login is not None:
            found["sasl_mechanism"] = self.login.mechanism
            found["sasl_plain_username"] = self.login.username
            found["sasl_plain_password"] = self.login.password
        return found


def access_to(kafka: Kafka) -> Access:
    """What `kafka` and the environment say.

    AccessError where a secret is missing or a file is none of its kind; TopicError where an address is none.
    """
    return Access(
        addresses(kafka),
        kafka.security_protocol,
        _tls(kafka) if kafka.has_tls else None,
        _login(kafka) if kafka.has_login else None,
    )


def addresses(kafka: Kafka) -> tuple[str, ...]:
    """Where the brokers are, as host:port each; TopicError where one is no address."""
    return tuple(_address(server.strip()) for server in kafka.bootstrap_servers.split(","))


def host_and_port(server: str) -> tuple[str, int]:
    """The parts of an address as sockets take them."""
    host, _, port = server.rpartition(":")
    return host.strip("[]"), int(port)


def _address(server: str) -> str:
    """The address, if it is one: the clients would each take a wrong one for something else."""
    where = "in kafka.bootstrap_servers or KAFKA_BOOTSTRAP_SERVERS"
    found = _ADDRESS.fullmatch(server)
    if found and 0 < int(found["port"]) <= _LARGEST_PORT:
        return server
    if found:
        advice = f"a port lies between 1 and {_LARGEST_PORT}"
    elif server.count(":") > 1 and "[" not in server and "/" not in server:
        advice = "an address of IPv6 stands in brackets, as in [::1]:9092"
    else:
        advice = "write host:port, several with commas between them"
    raise TopicError(f"{server!r} is not the address of a broker ({where}): {advice}")


def _login(kafka: Kafka) -> Login:
    password = os.environ.get(LOGIN_VARIABLE)
    if not password:
        raise AccessError(
            f"kafka.security_protocol = {kafka.security_protocol} needs the password of {kafka.sasl_username!r}; "
            f"set the environment variable {LOGIN_VARIABLE}"
        )
    for name in _TALKATIVE:
        logging.getLogger(name).setLevel(logging.INFO)
    return Login(kafka.sasl_mechanism, kafka.sasl_username, password)


def _tls(kafka: Kafka) -> ssl.SSLContext:
    """The authorities that are trusted, and this client's certificate; the names of the brokers are always verified."""
    try:
        context = ssl.create_default_context(cafile=kafka.ssl_cafile or None)
    except OSError as problem:
        raise AccessError(
            f"kafka.ssl_cafile: {kafka.ssl_cafile} cannot be read ({_said(problem)}); it must hold the certificates of "
            "the authorities to trust, in PEM format"
        ) from problem
    if kafka.ssl_certfile:
        try:
            # Always with an answer: OpenSSL would ask on the terminal otherwise.
            password = os.environ.get(KEY_VARIABLE, "")
            context.load_cert_chain(kafka.ssl_certfile, kafka.ssl_keyfile or None, lambda: password)
        except OSError as problem:
            key = kafka.ssl_keyfile or kafka.ssl_certfile
            raise AccessError(
                f"kafka.ssl_certfile: {kafka.ssl_certfile} with the key in {key} cannot be used ({_said(problem)}); "
                f"both must be in PEM format and belong together, and a key's password in {KEY_VARIABLE}"
            ) from problem
    return context


def _said(problem: OSError) -> str:
    if isinstance(problem, ssl.SSLError):
        # OpenSSL gives no reason for a wrong password.
        return (problem.reason or "no PEM file, or another password").replace("_", " ").lower()
    return problem.strerror or str(problem)
