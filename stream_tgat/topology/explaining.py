"""What is wrong with a topology's file, in words: a line for each problem, with the key and what to do."""

import difflib
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from stream_tgat.topology.deployment import Topology
from stream_tgat.topology.sections import Head

LOGIN_VARIABLE = "KAFKA_SASL_PASSWORD"
"""Environment variable of the login's password, which never stands in a file."""
KEY_VARIABLE = "KAFKA_SSL_KEY_PASSWORD"
"""Environment variable of the password of the client's private key."""
REGISTRY_VARIABLE = "SCHEMA_REGISTRY_PASSWORD"
"""Environment variable of the password of the login at the schema registry."""


def explain(file: Path, problem: ValidationError, template: Path) -> str:
    """One line for each problem: file, key, what is wrong, what to do. template: the file that explains every key"""
    lines = []
    for error in problem.errors():
        # pydantic puts the kind of a feature into its location, which is not a part of the file.
        parts = [str(part) for part in error["loc"]]
        if len(parts) > 2 and parts[0] == "features":
            del parts[2]
        key = ".".join(parts)
        message = error["msg"].removeprefix("Value error, ")
        if error["type"] == "extra_forbidden":
            message = f"unknown key{_suggestion(parts)}; {template} explains every key"
            if "password" in parts[-1]:
                message = (
                    "a password never stands in a topology; give that of the login in the environment variable "
                    f"{LOGIN_VARIABLE}, that of a key in {KEY_VARIABLE}, that of the schema registry in "
                    f"{REGISTRY_VARIABLE}"
                )
        elif error["type"] == "missing":
            message = f"is missing; {template} explains every key"
        elif key:
            message = f"{message} (got {error['input']!r})"
        lines += [f"{file}: {key}: {message}"] if key else [f"{file}: {line}" for line in message.split("\n")]
    return "\n".join(lines)


def _suggestion(parts: list[str]) -> str:
    section: Any = Topology
    for part in parts[:-1]:
        if part.isdigit():
            continue
        field = section.model_fields.get(part)
        if field is None:
            return ""
        section = field.annotation
        if not (isinstance(section, type) and issubclass(section, BaseModel)):
            section = Head if part == "heads" else None
        if section is None:
            return ""
    close = difflib.get_close_matches(parts[-1], section.model_fields, n=1)
    return f" (did you mean {close[0]!r}?)" if close else ""
