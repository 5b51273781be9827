"""What a worker does by the clock goes on where the brokers do not answer, and nothing else is passed over."""

from __future__ import annotations

import asyncio
import logging

import pytest
from aiokafka.errors import KafkaConnectionError

from stream_tgat.errors import LostDataError
from stream_tgat.housekeeping.timers import going_on


def failing(error: Exception) -> None:
    async def work() -> None:
        raise error

    asyncio.run(going_on(work, "It could not be done", logging.INFO)())


def test_broker_that_does_not_answer_is_told_as_an_attempt_that_is_repeated(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    failing(KafkaConnectionError("no broker"))
    (record,) = caplog.records
    assert record.getMessage().startswith("It could not be done: KafkaConnectionError")
    assert record.levelno == logging.INFO
    assert vars(record)["repeated"]


def test_all_else_that_fails_is_raised() -> None:
    with pytest.raises(LostDataError):
        failing(LostDataError("made anew"))
