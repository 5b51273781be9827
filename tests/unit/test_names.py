"""One word names one thing: no two modules define a class or a named type of one name."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
#: It imports nothing of what it asks, and so says the words of the topics and of the answers for itself.
CLIENT = ROOT / "stream_tgat" / "client"
#: What leaves by a topic is told by the service too, in answers of a form of their own.
TOLD_TWICE = {"Because"}


def named_types(file: Path) -> Iterator[str]:
    """Classes and named types at the top of a module."""
    for node in ast.parse(file.read_text()).body:
        match node:
            case ast.ClassDef(name=name):
                yield name
            case ast.Assign(targets=[ast.Name(id=name)]) if name.lstrip("_")[:1].isupper() and not name.isupper():
                yield name


def test_names_of_classes_and_types_are_defined_once() -> None:
    where: dict[str, list[str]] = defaultdict(list)
    for package in ("stream_tgat", "research"):
        for file in sorted((ROOT / package).rglob("*.py")):
            if CLIENT not in file.parents:
                for name in named_types(file):
                    where[name].append(str(file.relative_to(ROOT)))
    assert {name: files for name, files in where.items() if len(files) > 1 and name not in TOLD_TWICE} == {}
