"""Asking a schema registry that speaks Confluent's API: Confluent's own, Apicurio's, Karapace's and others."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from stream_tgat.errors import AccessError, SettingsError, UnreachableRegistryError, WireError

if TYPE_CHECKING:
    from confluent_kafka.schema_registry import Schema, SchemaRegistryClient

_TIMEOUT_S: Final = 5.0
_REFUSED: Final = frozenset({401, 403})
_NOT_FOUND: Final = range(40_400, 40_500)
_INCOMPATIBLE: Final = 409
_MOST_REFERENCES: Final = 200


@dataclass(frozen=True)
class SchemaText:
    """A schema as it was registered.

    kind: AVRO, PROTOBUF or JSON   references: names and texts of what it rests on, each after what it rests on itself
    """

    id: int
    kind: str
    text: str
    references: tuple[tuple[str, str], ...] = ()


class SchemaRegistry:
    """One registry. It may be asked by several threads; nothing is asked before it is needed.

    url: one or several with commas   username: of the login; empty without one
    ssl_cafile: authorities to trust, a PEM file; empty for the usual ones
    """

    def __init__(self, url: str, username: str = "", password: str = "", ssl_cafile: str = "") -> None:
        self.url, self._login, self._cafile = url, username and f"{username}:{password}", ssl_cafile

    def schema(self, schema_id: int) -> SchemaText:
        """The schema of an id.

        WireError if the registry has none; UnreachableRegistryError, AccessError or SettingsError if it cannot be asked
        """
        references: dict[str, str] = {}
        with self._asking() as client:
            schema = client.get_schema(schema_id)
            _follow(client, schema, references)
        return SchemaText(schema_id, schema.schema_type or "AVRO", schema.schema_str or "", tuple(references.items()))

    def register(self, subject: str, text: str) -> int:
        """The id of an Avro schema under a subject, where it is registered if it is not yet.

        SettingsError if the registry does not take it, and as for `schema`.
        """
        from confluent_kafka.schema_registry import Schema

        schema = Schema(text, "AVRO")
        with suppress(WireError), self._asking(subject) as client:
            # It may be there, registered by somebody who may do that; looking takes no more than the right to read.
            found = client.lookup_schema(subject, schema).schema_id
            if found is not None:
                return found
        with self._asking(subject) as client:
            schema_id: int = client.register_schema(subject, schema)
            return schema_id

    @contextmanager
    def _asking(self, subject: str = "") -> Iterator[SchemaRegistryClient]:
        """A client for a question or two: they are so rare that no connection is kept between them.

        subject: that a schema is registered under
        """
        import httpx2
        from confluent_kafka.schema_registry import SchemaRegistryClient
        from confluent_kafka.schema_registry.error import SchemaRegistryError

        settings: dict[str, Any] = {"url": self.url, "timeout": _TIMEOUT_S, "max.retries": 0}
        if self._login:
            settings["basic.auth.user.info"] = self._login
        if self._cafile:
            settings["ssl.ca.location"] = self._cafile
        try:
            with SchemaRegistryClient(settings) as client:
                yield client
        except SchemaRegistryError as problem:
            raise self._said(problem, subject) from None
        except WireError:
            raise
        except (httpx2.HTTPError, OSError) as problem:
            reason = " ".join(str(problem).split()) or type(problem).__name__
            raise UnreachableRegistryError(f"the schema registry at {self.url} does not answer ({reason})") from None
        except (httpx2.InvalidURL, ValueError, KeyError, TypeError, AttributeError) as problem:
            raise SettingsError(
                f"what answers at {self.url} is no schema registry ({problem!r}); {_ADDRESS_ADVICE}"
            ) from None

    def _said(self, problem: Any, subject: str) -> Exception:
        """What an answer that is none means."""
        status, code, message = problem.http_status_code, problem.error_code, problem.error_message
        if code in _NOT_FOUND:
            return WireError(f"the schema registry does not know it: {message}")
        if status in _REFUSED:
            return AccessError(
                f"the schema registry at {self.url} does not let this client in (HTTP {status}): look at "
                "schema_registry.username and the environment variable SCHEMA_REGISTRY_PASSWORD"
            )
        if status == _INCOMPATIBLE:
            return SettingsError(
                f"the schema registry at {self.url} does not take the schema of {subject}, which does not go with "
                f"those before it ({' '.join(message.split())}): if no consumer needs these, change the subject's "
                "compatibility or delete its versions"
            )
        if status >= 500 or status == 429:
            return UnreachableRegistryError(f"the schema registry at {self.url} does not answer (HTTP {status})")
        return SettingsError(f"{self.url} answers HTTP {status}, as no schema registry does; {_ADDRESS_ADVICE}")


_ADDRESS_ADVICE: Final = (
    "look at schema_registry.url, which ends where the API's paths begin, as in http://localhost:8081 or "
    "http://localhost:8080/apis/ccompat/v7"
)


def _follow(client: SchemaRegistryClient, schema: Schema, found: dict[str, str]) -> None:
    """Add what a schema rests on to `found`, each after what it rests on itself."""
    for reference in schema.references or ():
        name = str(reference.name)
        if name in found:
            continue
        if len(found) >= _MOST_REFERENCES:
            raise WireError(f"rests on more than {_MOST_REFERENCES} others")
        inner = client.get_version(str(reference.subject), reference.version or 1).schema
        _follow(client, inner, found)
        found[name] = inner.schema_str or ""
