"""No client may be made without what the topology says of the way to the brokers."""

from __future__ import annotations

import ast
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[3]
CLIENTS = {
    "KafkaConsumer",
    "KafkaProducer",
    "KafkaAdminClient",
    "AIOKafkaConsumer",
    "AIOKafkaProducer",
    "AIOKafkaAdminClient",
    "AIOKafkaClient",
}


def makes_a_client(file: Path) -> bool:
    calls = (node.func for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, ast.Call))
    return any((getattr(made, "id", "") or getattr(made, "attr", "")) in CLIENTS for made in calls)


def test_clients_are_made_in_two_modules_only() -> None:
    files = [*(REPOSITORY / "stream_tgat").rglob("*.py"), *(REPOSITORY / "deploy").rglob("*.py")]
    makers = {str(file.relative_to(REPOSITORY)) for file in files if makes_a_client(file)}
    assert makers == {"stream_tgat/brokers/clients.py", "stream_tgat/transport/clients.py"}


def test_addresses_of_brokers_are_read_by_nobody_else() -> None:
    readers = {
        str(file.relative_to(REPOSITORY))
        for file in (REPOSITORY / "stream_tgat").rglob("*.py")
        if any(f"bootstrap_servers{how}" in file.read_text() for how in ("=", ".split"))
    }
    assert readers == {"stream_tgat/brokers/access.py"}
