"""The service as a process."""

import asyncio
import socket

from stream_tgat.query.running import _listen


def test_answers_are_sent_at_once_and_do_not_wait_for_the_readers_acknowledgement() -> None:
    """asyncio sets TCP_NODELAY only on sockets that say that they are TCP; without it each answer takes 40 ms."""

    async def option() -> int:
        found: asyncio.Future[int] = asyncio.get_running_loop().create_future()

        async def connected(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            found.set_result(writer.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
            writer.close()

        listening = _listen("127.0.0.1", 0)
        async with await asyncio.start_server(connected, sock=listening):
            _, writer = await asyncio.open_connection(*listening.getsockname())
            writer.close()
            return await found

    assert asyncio.run(option()) == 1
