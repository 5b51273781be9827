"""A node's id in a path."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import unquote

from fastapi import Depends, Path

from stream_tgat.errors import QueryError


async def _node_id(
    id: Annotated[str, Path(min_length=1, max_length=4096, description="Percent-encoded where it has a slash.")],  # noqa: A002
) -> str:
    # A coroutine, or each request would be taken to a thread and back for it.
    try:
        decoded = unquote(id, errors="strict")
    except UnicodeDecodeError:
        raise QueryError(f"the id {id[:40]!r} is not percent-encoded UTF-8") from None
    if "\0" in decoded:
        raise QueryError("no node's id has a zero byte")
    return decoded


NodeIdParameter = Annotated[str, Depends(_node_id)]
