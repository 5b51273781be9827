"""The reference of all keys of a topology: types and bounds from the pydantic models, meanings from the template."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from stream_tgat.topology.deployment import Topology

_ASSIGNMENT: Final = re.compile(r"^(\w+) = ")
_SECTION: Final = re.compile(r"^\[+([\w.]+)\]+$")
_BOUNDS: Final = {"minimum": "≥ {}", "exclusiveMinimum": "> {}", "maximum": "≤ {}", "exclusiveMaximum": "< {}"}
_TOP: Final = ""
_LISTS: Final = ("features", "heads")
_HEAD: Final = """# Configuration

Every key of a topology, from its models and from [topologies/template.toml](../topologies/template.toml).
Written by `python -m stream_tgat.topology docs/configuration.md`: do not edit.

All but `name` may be left out. A ″ means that the line above speaks of this key too.
Which topology a command uses, the environment variable `STREAM_TGAT_TOPOLOGY` says: a file, or the name of one that
is installed. Secrets never stand in it: they come from the [environment](operations.md)."""


@dataclass(frozen=True)
class _Key:
    """A key as the template shows it. meaning: of it and the keys before it that have none of their own"""

    section: str
    name: str
    value: str
    meaning: str


def reference(template: str) -> str:
    """Markdown: a heading and a table for each section, in the template's order.

    template: the text of topologies/template.toml, which has every key with its default, and comments before them
    """
    keys, abouts = _keys(template)
    schema = Topology.model_json_schema()
    lines = [_HEAD]
    for section in dict.fromkeys(key.section for key in keys):
        lines += ["", f"## {_heading(section)}", ""]
        if about := abouts.get(section):
            lines += [about, ""]
        lines += ["| key | type | default | meaning |", "|---|---|---|---|"]
        seen: set[str] = set()
        for key in (each for each in keys if each.section == section):
            if key.name not in seen:
                seen.add(key.name)
                kind, default = _type_and_default(schema, section, key)
                lines.append(f"| `{key.name}` | {kind} | {default} | {_cell(key.meaning) or '″'} |")
    return "\n".join(lines) + "\n"


def _heading(section: str) -> str:
    if not section:
        return "At the top"
    return f"[[{section}]]" if section in _LISTS else f"[{section}]"


def write_reference(page: Path, template: Path) -> None:
    """Write `reference` of the template into a page."""
    page.write_text(reference(template.read_text(encoding="utf-8")), encoding="utf-8")


def _keys(template: str) -> tuple[list[_Key], dict[str, str]]:
    """All keys in order, and what is said before a section about the whole of it."""
    keys: list[_Key] = []
    abouts: dict[str, str] = {}
    section, comment = _TOP, list[str]()
    for line in template.splitlines():
        if line.startswith("#"):
            comment.append(line[1:].strip())
        elif found := _SECTION.match(line):
            section = found[1]
            if comment:
                abouts.setdefault(section, " ".join(comment))
            comment = []
        elif found := _ASSIGNMENT.match(line):
            keys.append(_Key(section, found[1], line.partition(" = ")[2], " ".join(comment)))
            comment = []
        elif not keys and section == _TOP:
            comment = []  # what the template says of itself
    return keys, abouts


def _type_and_default(schema: dict[str, Any], section: str, key: _Key) -> tuple[str, str]:
    """Of a key in words; the default is that of the model, and `required` where it has none."""
    found = [each[key.name] for each in _properties(schema, section) if key.name in each]
    if not found:
        return "text", "–"  # a name of the user's own
    kind = " or ".join(dict.fromkeys(word for each in found for word in _types(schema, each)))
    required = key.name in _resolved(schema, section).get("required", ())
    return _cell(kind), "required" if required else f"`{key.value}`" if section not in _LISTS else "–"


def _resolved(schema: dict[str, Any], section: str) -> dict[str, Any]:
    """The schema of a section, by its dotted name; of a list of tables, that of its elements."""
    at = schema
    for name in filter(None, section.split(".")):
        at = _followed(schema, at.get("properties", {}).get(name, {}))
        at = _followed(schema, at.get("items", at))
    return at


def _properties(schema: dict[str, Any], section: str) -> list[dict[str, Any]]:
    """The keys of a section and their schemas; of one that has several kinds, those of each kind."""
    at = _resolved(schema, section)
    return [_followed(schema, each).get("properties", {}) for each in at.get("oneOf", at.get("anyOf", [at]))]


def _followed(schema: dict[str, Any], at: dict[str, Any]) -> dict[str, Any]:
    while "$ref" in at:
        at = schema["$defs"][at["$ref"].rpartition("/")[2]]
    return at


def _types(schema: dict[str, Any], at: dict[str, Any]) -> Iterator[str]:
    at = _followed(schema, at)
    for each in at.get("anyOf", at.get("oneOf", ())):
        yield from _types(schema, each)
    if "enum" in at:
        yield ", ".join(f"`{value}`" if value else '`""`' for value in at["enum"])
    elif "const" in at:
        yield f"`{at['const']}`"
    elif at.get("type") == "array":
        inner = " or ".join(dict.fromkeys(_types(schema, at.get("items", {"type": "string"}))))
        yield f"list of {inner}"
    elif kind := {"string": "text", "integer": "integer", "number": "number", "boolean": "true or false"}.get(
        at.get("type", "")
    ):
        bounds = [form.format(at[name]) for name, form in _BOUNDS.items() if name in at]
        yield " ".join([kind, ", ".join(bounds)]).strip()


def _cell(text: str) -> str:
    return text.replace("|", r"\|")
