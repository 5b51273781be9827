"""One look at the brokers before a client is made: who is away, who is slow and who breaks off."""

from __future__ import annotations

import re
import socket
import threading

import pytest

from stream_tgat.brokers import options_of, reach, reaching
from stream_tgat.errors import AccessError, TopicError
from stream_tgat.topology import Kafka


def at(servers: str) -> Kafka:
    return Kafka(bootstrap_servers=servers)


def test_broker_is_reached_if_one_of_several_listens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reaching, "PATIENCE_S", 0.05)
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        # It is silent, as a busy broker is for a while: that is for the clients to wait for.
        reach(at(f"127.0.0.1:1, {address}"))
    with pytest.raises(TopicError, match="Connection refused"):
        reach(at(f"127.0.0.1:1,{address}"))


@pytest.mark.parametrize(
    ("server", "advice"),
    [
        ("kafka", "write host:port"),
        ("kafka:", "write host:port"),
        ("", "write host:port"),
        ("kafka://kafka:9092", "write host:port"),
        ("::1:9092", r"in brackets, as in \[::1\]:9092"),
        ("kafka:99999", "between 1 and 65535"),
        ("kafka:0", "between 1 and 65535"),
    ],
)
def test_address_that_is_none_is_refused_by_every_way_in(server: str, advice: str) -> None:
    for way in (reach, options_of):
        with pytest.raises(TopicError, match=f"{re.escape(repr(server))} is not the address of a broker.*{advice}"):
            way(at(f"127.0.0.1:1,{server}"))


def test_address_of_ipv6_in_brackets_is_one() -> None:
    assert options_of(at("[::1]:9092")) == {"bootstrap_servers": ["[::1]:9092"]}


@pytest.mark.parametrize("said", [b"", b"\x15\x03\x03\x00\x02\x02\x50"], ids=["nothing", "a TLS alert"])
def test_listener_that_breaks_off_may_want_another_protocol(said: bytes) -> None:
    def answer(server: socket.socket) -> None:
        connection, _ = server.accept()
        connection.recv(1000)
        connection.sendall(said)
        connection.close()

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=answer, args=(server,))
        thread.start()
        with pytest.raises(AccessError, match=r"does not take kafka\.security_protocol = plaintext"):
            reach(at(f"127.0.0.1:{server.getsockname()[1]}"))
        thread.join()


def test_plain_clients_get_nothing_but_addresses_and_wait_for_brokers_themselves() -> None:
    assert options_of(at("127.0.0.1:1, b:2")) == {"bootstrap_servers": ["127.0.0.1:1", "b:2"]}
