"""A worker waits for brokers that are away, says so now and then, and no longer than it is told."""

from __future__ import annotations

import socket
import struct
import threading

import pytest
from broker import free_port

from stream_tgat.brokers import reaching, silence, wait_for_brokers, waiting
from stream_tgat.errors import TopicError
from stream_tgat.topology import Kafka


def at(port: int, **settings: float) -> Kafka:
    return Kafka(bootstrap_servers=f"127.0.0.1:{port}", **settings)


def _answer(server: socket.socket, body: bytes) -> None:
    connection, _ = server.accept()
    with connection:
        connection.recv(1000)
        connection.sendall(struct.pack(">i", len(body)) + body)


def test_broker_that_takes_connections_and_says_nothing_is_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    """As one that was stopped, or whose disk hangs: the kernel still takes connections for it."""
    monkeypatch.setattr(reaching, "_SOON_S", 0.05)
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert silence(at(port)) == f"no Kafka broker answers at 127.0.0.1:{port} (silent for 0.05 s)"


def test_broker_that_refuses_the_client_is_there() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=_answer, args=(server, b"?"))
        thread.start()
        assert silence(at(server.getsockname()[1])) is None
        thread.join()


def test_wait_ends_when_a_broker_answers_and_has_said_a_line_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting, "SAY_EVERY_S", 0.1)
    monkeypatch.setattr(waiting, "_PAUSE_S", 0.01)
    port, said = free_port(), []

    def come() -> None:
        with socket.create_server(("127.0.0.1", port)) as server:
            _answer(server, bytes(12))

    later = threading.Timer(0.25, come)
    later.start()
    wait_for_brokers(at(port), said.append)
    later.join()
    assert said[0] == f"no Kafka broker answers at 127.0.0.1:{port} (Connection refused): waiting for 0 s"
    assert said[-1].startswith("The brokers answer after")
    assert 3 <= len(said) <= 5


def test_wait_is_silent_where_a_broker_answers() -> None:
    said: list[str] = []
    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=_answer, args=(server, bytes(12)))
        thread.start()
        wait_for_brokers(at(server.getsockname()[1]), said.append)
        thread.join()
    assert said == []


@pytest.mark.parametrize("limit_s", [0.0, 0.05])
def test_wait_ends_with_an_error_after_its_limit(limit_s: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting, "_PAUSE_S", 0.01)
    with pytest.raises(TopicError, match=r"no Kafka broker answers .*kafka\.wait_for_brokers_s"):
        wait_for_brokers(at(free_port(), wait_for_brokers_s=limit_s), lambda said: None)
