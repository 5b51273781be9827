"""One try to get in, beside the clients: what waiting cannot mend is told at once, and whether anybody is there at all.

The clients try a refused login for half a minute, again and again, and do not say what was wrong. The few requests
that it takes are written out here, with plain sockets, which are closed whatever comes.
"""

import socket
import ssl
import struct
from collections.abc import Iterable
from contextlib import suppress
from enum import Enum, auto
from typing import Any, Final

from kafka.net.sasl import get_sasl_mechanism

from stream_tgat.brokers.access import Access, Login, access_to, host_and_port
from stream_tgat.errors import AccessError, TopicError
from stream_tgat.topology import LOGIN_VARIABLE, Kafka

PATIENCE_S: Final = 5.0
_SOON_S: Final = 2.0

# (number of the request, its version), see the Kafka protocol.
_METADATA: Final = (3, 1)
_SASL_HANDSHAKE: Final = (17, 1)
_SASL_AUTHENTICATE: Final = (36, 0)
_UNSUPPORTED_MECHANISM: Final = 33
_NO_TOPICS: Final = struct.pack(">i", 0)
_LARGEST_ANSWER: Final = 1 << 24


def reach(kafka: Kafka) -> None:
    """Raises TopicError if nobody listens at any of the servers, and AccessError if a broker refuses the client.

    A broker that is only slow to answer is left to the clients, which have more patience.
    """
    _reach(access_to(kafka))


def options_of(kafka: Kafka) -> dict[str, Any]:
    """The options of a client for these brokers, kafka-python's or aiokafka's; AccessError if they refuse it.

    Brokers that are away are not: clients wait for them. Without TLS and login there is nothing to refuse.
    """
    access = access_to(kafka)
    if access.tls is not None or access.login is not None:
        with suppress(TopicError):
            _reach(access)
    return access.options


def silence(kafka: Kafka) -> str | None:
    """Why there is no broker now, in a sentence without its full stop; None if one answers, be it with a refusal."""
    access = access_to(kafka)
    try:
        answers, reasons = _ask_all(access, _SOON_S)
    except AccessError:
        return None
    return None if _Answer.GIVEN in answers else _nobody(access, reasons)


def _reach(access: Access) -> None:
    answers, reasons = _ask_all(access, PATIENCE_S)
    if answers == {_Answer.NOBODY}:
        raise TopicError(
            f"{_nobody(access, reasons)}; set KAFKA_BOOTSTRAP_SERVERS to where yours is, or start one with: "
            "python deploy/broker.py run"
        )


class _Answer(Enum):
    GIVEN = auto()
    SLOW = auto()
    NOBODY = auto()


def _nobody(access: Access, reasons: Iterable[str]) -> str:
    return f"no Kafka broker answers at {', '.join(access.servers)} ({', '.join(sorted(set(reasons)))})"


def _ask_all(access: Access, patience_s: float) -> tuple[set[_Answer], list[str]]:
    """What the servers did, up to the first that answered, and why others did not."""
    answers, reasons = set(), []
    for server in access.servers:
        host, port = host_and_port(server)
        try:
            connection = socket.create_connection((host, port), patience_s)
        except OSError as error:
            answers.add(_Answer.NOBODY)
            reasons.append(error.strerror or str(error))
            continue
        try:
            with connection:
                _enter(server, host, connection, access)
        except TimeoutError:
            answers.add(_Answer.SLOW)
            reasons.append(f"silent for {patience_s:g} s")
        else:
            answers.add(_Answer.GIVEN)
            break
    return answers, reasons


def _enter(server: str, host: str, connection: socket.socket, access: Access) -> None:
    try:
        if access.tls is None:
            _ask_in(server, connection, access.login)
        else:
            with access.tls.wrap_socket(connection, server_hostname=host) as encrypted:
                _ask_in(server, encrypted, access.login)
    except ssl.SSLCertVerificationError as error:
        raise AccessError(
            f"the certificate of the broker at {server} is not trusted ({error.verify_message}); kafka.ssl_cafile must "
            "name the authority that signed it, and kafka.bootstrap_servers the brokers as their certificates do"
        ) from error
    except ssl.SSLError as error:
        if "ALERT" not in (error.reason or ""):
            raise _another_protocol(server, access) from error
        reason = str(error.reason).replace("_", " ").lower()
        raise AccessError(
            f"the broker at {server} refuses this client's certificate, or its lack of one ({reason}); set "
            "kafka.ssl_certfile and kafka.ssl_keyfile to one that it trusts"
        ) from error
    except (ConnectionError, EOFError) as error:
        raise _another_protocol(server, access) from error


def _another_protocol(server: str, access: Access) -> AccessError:
    return AccessError(
        f"the broker at {server} does not take kafka.security_protocol = {access.protocol}: it breaks off the "
        "connection; ask whether this listener wants TLS (ssl), a login (sasl_plaintext), both (sasl_ssl) or neither "
        "(plaintext)"
    )


def _ask_in(server: str, connection: socket.socket, login: Login | None) -> None:
    if login is not None:
        _log_in(server, connection, login)
    # Who was not let in gets no answer to this.
    _ask(connection, _METADATA, _NO_TOPICS)


def _log_in(server: str, connection: socket.socket, login: Login) -> None:
    answer = _ask(connection, _SASL_HANDSHAKE, _text(login.mechanism))
    (code,) = struct.unpack_from(">h", answer)
    if code == _UNSUPPORTED_MECHANISM:
        raise AccessError(
            f"the broker at {server} has no login by {login.mechanism}, but by {', '.join(_texts(answer[2:]))}; set "
            "kafka.sasl_mechanism to one of them"
        )
    if code:
        raise ConnectionError(f"error {code}")
    mechanism = get_sasl_mechanism(login.mechanism)(
        host=None,
        sasl_mechanism=login.mechanism,
        sasl_plain_username=login.username,
        sasl_plain_password=login.password,
    )
    while not mechanism.is_done():
        token = mechanism.auth_bytes()
        answer = _ask(connection, _SASL_AUTHENTICATE, struct.pack(">i", len(token)) + token)
        code, length = struct.unpack_from(">hh", answer)
        said, rest = answer[4 : 4 + max(length, 0)], answer[4 + max(length, 0) :]
        if code:
            raise _refused(server, login, said.decode(errors="replace") or "without a reason")
        (size,) = struct.unpack_from(">i", rest)
        try:
            mechanism.receive(rest[4 : 4 + size])
        except (ValueError, KeyError) as error:
            raise _refused(server, login, "its answer shows that it does not know the password") from error


def _refused(server: str, login: Login, said: str) -> AccessError:
    return AccessError(
        f"the broker at {server} refuses the login of {login.username!r} by {login.mechanism} ({said}); check "
        f"kafka.sasl_username, kafka.sasl_mechanism and the environment variable {LOGIN_VARIABLE}"
    )


def _ask(connection: socket.socket, request: tuple[int, int], body: bytes) -> bytes:
    """The body of the answer; EOFError if there is none."""
    number, version = request
    message = struct.pack(">hhi", number, version, 0) + _text("stream-tgat") + body
    connection.sendall(struct.pack(">i", len(message)) + message)
    (size,) = struct.unpack(">i", _receive(connection, 4))
    if not 4 <= size <= _LARGEST_ANSWER:
        raise EOFError("this is no answer of Kafka")
    return _receive(connection, size)[4:]


def _receive(connection: socket.socket, size: int) -> bytes:
    found = b""
    while len(found) < size:
        part = connection.recv(size - len(found))
        if not part:
            raise EOFError("the connection was closed")
        found += part
    return found


def _text(content: str) -> bytes:
    return struct.pack(">h", len(content.encode())) + content.encode()


def _texts(content: bytes) -> list[str]:
    """An array of strings."""
    (count,) = struct.unpack_from(">i", content)
    found, at = [], 4
    for _ in range(count):
        (size,) = struct.unpack_from(">h", content, at)
        found.append(content[at + 2 : at + 2 + size].decode())
        at += 2 + size
    return found
