"""Waiting until a broker is there, before anything is made that needs one."""

import time
from collections.abc import Callable
from typing import Final

from stream_tgat.brokers.reaching import silence
from stream_tgat.errors import TopicError
from stream_tgat.topology import Kafka

SAY_EVERY_S: Final = 5.0
_PAUSE_S: Final = 0.5


def wait_for_brokers(kafka: Kafka, say: Callable[[str], object]) -> None:
    """Return once a broker answers; `say` is given a line now and then while none does.

    TopicError after `kafka.wait_for_brokers_s`.
    """
    started, said_at = time.monotonic(), -SAY_EVERY_S
    while (reason := silence(kafka)) is not None:
        waited_s = time.monotonic() - started
        if 0 <= kafka.wait_for_brokers_s <= waited_s:
            raise TopicError(
                f"{reason}, for {waited_s:.0f} s (kafka.wait_for_brokers_s); set KAFKA_BOOTSTRAP_SERVERS to where "
                "yours is, or start one with: python deploy/broker.py run"
            )
        if waited_s - said_at >= SAY_EVERY_S:
            say(f"{reason}: waiting for {waited_s:.0f} s")
            said_at = waited_s
        time.sleep(_PAUSE_S)
    if said_at >= 0:
        say(f"The brokers answer after {time.monotonic() - started:.0f} s")
