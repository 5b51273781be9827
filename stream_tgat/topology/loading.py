"""From a file, or the name of one, to a `Topology`: where it is looked for, and what the environment adds."""

import os
import tomllib
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from stream_tgat.errors import TopologyError
from stream_tgat.topology.agreement import FILES
from stream_tgat.topology.deployment import Topology
from stream_tgat.topology.explaining import LOGIN_VARIABLE, REGISTRY_VARIABLE, explain
from stream_tgat.topology.sections import Kafka, Registry

_ACCESS = ("bootstrap_servers", "security_protocol", "sasl_mechanism", "sasl_username", *FILES)
_MEMBERSHIP = ("static_membership", "session_timeout_s")


def load_topology(path: Path | str | None = None) -> Topology:
    """Read the topology at `path`, else the one in STREAM_TGAT_TOPOLOGY: a path, or a name found in topologies/.

    Environment variables win over what the file says of the way to the brokers and the schema registry, and of a
    worker's own place in its group: KAFKA_BOOTSTRAP_SERVERS over ``kafka.bootstrap_servers``, SCHEMA_REGISTRY_URL over
    ``schema_registry.url``, and so on.
    """
    file = _find(path)
    try:
        content = tomllib.loads(file.read_text(encoding="utf-8-sig"))  # some editors begin a file with a mark
    except UnicodeDecodeError as problem:
        raise TopologyError(f"{file}: byte {problem.start} is not UTF-8, as TOML must be; save it as UTF-8") from None
    except tomllib.TOMLDecodeError as problem:
        raise TopologyError(f"{file}: not a TOML file: {problem}") from problem
    except OSError as problem:
        raise TopologyError(f"{file}: cannot be read: {problem.strerror}; check its path and permissions") from problem
    return _validated(file, content)


def load_defaults(name: str = "new") -> Topology:
    """The topology that no file says anything of: with the way to the brokers that the environment tells."""
    return _validated(Path("(environment)"), {"name": name})


def _validated(file: Path, content: dict[str, Any]) -> Topology:
    for section, keys in (("kafka", (*_ACCESS, *_MEMBERSHIP)), ("schema_registry", tuple(Registry.model_fields))):
        given = {key: value for key in keys if (value := os.environ.get(f"{section}_{key}".upper()))}
        if given and isinstance(content.setdefault(section, {}), dict):
            content[section] |= given
    try:
        topology = Topology.model_validate(content)
    except ValidationError as problem:
        raise TopologyError(explain(file, problem, _template())) from None
    absent = [*_absent(topology.kafka), *_absent_for(topology.schema_registry)]
    if absent:
        raise TopologyError("\n".join(f"{file}: {line}" for line in absent))
    return topology


def _absent(kafka: Kafka) -> list[str]:
    """Files and secrets that `kafka` needs and that are not there."""
    problems = [
        f"kafka.{key}: there is no file {path} (seen from {Path.cwd()}); give the path of a PEM file"
        for key in FILES
        if (path := getattr(kafka, key)) and not Path(path).is_file()
    ]
    if kafka.has_login and not os.environ.get(LOGIN_VARIABLE):
        problems.append(
            f"kafka.sasl_username: the password of {kafka.sasl_username!r} is missing; set the environment variable "
            f"{LOGIN_VARIABLE} (it never stands in this file)"
        )
    return problems


def _absent_for(registry: Registry) -> list[str]:
    """The same for `schema_registry`."""
    problems = []
    if registry.ssl_cafile and not Path(registry.ssl_cafile).is_file():
        problems.append(
            f"schema_registry.ssl_cafile: there is no file {registry.ssl_cafile} (seen from {Path.cwd()}); give the "
            "path of a PEM file"
        )
    if registry.username and not os.environ.get(REGISTRY_VARIABLE):
        problems.append(
            f"schema_registry.username: the password of {registry.username!r} is missing; set the environment variable "
            f"{REGISTRY_VARIABLE} (it never stands in this file)"
        )
    return problems


def registry_password(registry: Registry) -> str:
    """The password of the login at the schema registry; empty without a login."""
    return os.environ.get(REGISTRY_VARIABLE, "") if registry.username else ""


def _find(path: Path | str | None) -> Path:
    named = os.environ.get("STREAM_TGAT_TOPOLOGY", "") if path is None else str(path)
    folders = _folders()
    if not named:
        raise TopologyError(
            f"No topology chosen. Set STREAM_TGAT_TOPOLOGY to a file or to one of these names: {_known(folders)}; "
            f"{_template()} explains every key."
        )
    if Path(named).is_file():
        return Path(named)
    if not Path(named).suffix and "/" not in named:
        for folder in folders:
            if (folder / f"{named}.toml").is_file():
                return folder / f"{named}.toml"
    origin = "STREAM_TGAT_TOPOLOGY names" if path is None else "Asked for"
    raise TopologyError(
        f"{origin} the topology {named!r}, but there is no such file; give a path or one of: {_known(folders)}"
    )


def _folders() -> list[Path]:
    """Where topologies are looked for by name: here, beside the package, and in it, where an installation has them."""
    package = Path(__file__).resolve().parents[1]
    return [Path("topologies"), package.parent / "topologies", package / "topologies"]


def _template() -> Path:
    """The file that explains every key."""
    files = [folder / "template.toml" for folder in _folders()]
    return next((file for file in files if file.is_file()), files[0])


def _known(folders: list[Path]) -> str:
    names = {file.stem for folder in folders for file in folder.glob("*.toml")} - {"template"}
    return ", ".join(sorted(names)) or "(no topologies/ folder found here)"
