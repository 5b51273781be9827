"""What every test may ask for: a clean environment, the real broker, and topic names of its own."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator

# A developer's own cluster and topology must never become the subject of a test.
for _name in [
    name for name in os.environ if name.startswith(("KAFKA_", "SCHEMA_REGISTRY_")) or name == "STREAM_TGAT_TOPOLOGY"
]:
    del os.environ[_name]
# The suite runs on several processes; threads of each would only get in each other's way.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import pytest  # noqa: E402
from broker import Broker  # noqa: E402

from tests.registry import RunningRegistry, running_registry  # noqa: E402


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark what uses the broker, and keep it on one xdist process: such tests want the machine to themselves."""
    for item in items:
        if "broker" in getattr(item, "fixturenames", ()):
            item.add_marker("broker")
            if config.pluginmanager.hasplugin("xdist"):
                item.add_marker(pytest.mark.xdist_group("broker"))


@pytest.fixture(autouse=True)
def priority_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    """A command that steps back does so for good: in the process of the tests it would slow all that come after it."""
    nice = os.nice
    monkeypatch.setattr(os, "nice", lambda more: nice(0) + more)


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A real Kafka broker on a free port, empty at first; started when the first test asks for it."""
    with Broker(tmp_path_factory.mktemp("broker")) as running:
        yield running


@pytest.fixture(scope="session")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningRegistry]:
    """A real schema registry, empty at first; started when the first test asks for it."""
    with running_registry(tmp_path_factory.mktemp("registry")) as running:
        yield running


@pytest.fixture
def topic_prefix() -> str:
    """Prefix that no other test uses, so that tests share a broker and never a topic.

    Short, since the default id of an interaction begins with the name of its topic.
    """
    return f"t{uuid.uuid4().hex[:6]}-"
