"""What a client shows to get in: TLS and the login, from the topology, with the secrets from the environment."""

import logging
import os
import ssl
from dataclasses import dataclass, field
from typing import Any, Final

from stream_tgat.errors import AccessError
from stream_tgat.topology import KEY_VARIABLE, LOGIN_VARIABLE, Kafka

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
    """What `kafka` and the environment say; AccessError where a secret is missing or a file is none of its kind."""
    return Access(
        tuple(server.strip() for server in kafka.bootstrap_servers.split(",")),
        kafka.security_protocol,
        _tls(kafka) if kafka.has_tls else None,
        _login(kafka) if kafka.has_login else None,
    )


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
