"""Who may ask: this machine, or whoever has the token."""

from __future__ import annotations

import ipaddress
import os
from typing import Final

from stream_tgat.errors import SettingsError

TOKEN_VARIABLE: Final = "STREAM_TGAT_TOKEN"  # noqa: S105
"""Environment variable of the secret that opens the service, and the workers' endpoints to it."""


def token_or_none() -> str | None:
    """The secret, if there is one."""
    return os.environ.get(TOKEN_VARIABLE) or None


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches what listens at `host`."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def checked_token(what: str, host: str) -> str | None:
    """The secret; SettingsError where other machines can ask at `host` and there is none. what: where host was given"""
    token = token_or_none()
    if token is None and not is_loopback(host):
        raise SettingsError(
            f"{what} is {host}, where other machines can ask, and nobody would be turned away: set a secret in the "
            f"environment variable {TOKEN_VARIABLE}, the same for workers and the service, or use 127.0.0.1"
        )
    return token
