"""What a worker does by the clock, beside the stream: each once in so many seconds, and none stops another.

Each of these talks to the brokers on its own. One that does not answer stops nothing: what was known still holds, and
the next attempt is soon.
"""

import logging
from collections.abc import Awaitable, Callable
from functools import wraps

from aiokafka.errors import KafkaError

from stream_tgat.transport.complaints import REPEATED

_log = logging.getLogger(__name__)

TimedWork = Callable[[], Awaitable[None]]


def going_on(work: TimedWork, problem: str, level: int = logging.WARNING) -> TimedWork:
    """The same work; a KafkaError is logged and forgotten, all else is raised. problem: what has failed, in words"""

    @wraps(work)
    async def attempt() -> None:
        try:
            await work()
        except KafkaError as error:
            _log.log(level, f"{problem}: %r", error, extra=REPEATED)

    return attempt
