"""The brokers that trials are played on: one, or three where replication matters."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from broker import Broker
from cluster import Cluster
from kafka.admin import KafkaAdminClient


class Ground:
    """Starts brokers when they are first asked for; a context manager that leaves none behind."""

    def __init__(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="brokers-"))
        self._single: Broker | None = None
        self._cluster: Cluster | None = None
        self._made = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._drop()
        shutil.rmtree(self._folder, ignore_errors=True)

    def brokers(self, *, replicated: bool) -> Sequence[Broker]:
        """One running broker, or three."""
        if replicated:
            if self._cluster is None:
                self._cluster = Cluster(self._fresh("cluster"))
                self._cluster.start()
            return self._cluster.brokers
        if self._single is None:
            self._single = Broker(self._fresh("broker"))
            self._single.start()
        return [self._single]

    def heal(self, prefix: str, *, fresh: bool) -> None:
        """After a trial: all brokers run, and its topics are gone. fresh: start the next one on new brokers

        A cluster is not kept: three brokers beside the next trial would only slow it.
        """
        if fresh:
            self._drop()
        if self._cluster is not None:
            self._cluster.stop()
            self._cluster = None
        if self._single is not None:
            if self._single.pid is not None:
                os.kill(self._single.pid, signal.SIGCONT)
            else:
                self._single.start()
            admin = KafkaAdminClient(bootstrap_servers=self._single.bootstrap_servers)
            try:
                admin.delete_topics([topic for topic in admin.list_topics() if topic.startswith(prefix)])
            finally:
                admin.close()

    def _fresh(self, name: str) -> Path:
        self._made += 1
        return self._folder / f"{name}-{self._made}"

    def _drop(self) -> None:
        if self._cluster is not None:
            self._cluster.stop()
        if self._single is not None:
            self._single.kill()
        self._cluster = self._single = None
