"""Private names of other libraries are all listed, and a version that lacks one is refused with a sentence."""

import ast
import inspect
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

from stream_tgat.errors import StreamTgatError
from stream_tgat.transport.private_names import USED, PrivateNames, require_private_names

FOLDER = Path(__file__).parents[3] / "stream_tgat" / "transport"
LISTED = {name for each in USED for name in each.names}
LIBRARIES = ("faust.", "mode.", "aiokafka.")
NO_CODE = (lambda: None).__code__


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__")


def modules() -> Iterator[ModuleType]:
    for file in FOLDER.glob("*.py"):
        yield import_module("stream_tgat.transport" + ("" if file.stem == "__init__" else f".{file.stem}"))


def attributes(tree: ast.AST, *, own: bool) -> set[str]:
    """Private attributes of `self` and `cls`, or of anything else."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and is_private(node.attr):
            is_own = isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")
            if is_own == own:
                found.add(node.attr)
    return found


def test_installed_libraries_have_all_of_them() -> None:
    require_private_names()


def test_private_names_of_other_objects_are_listed() -> None:
    used = set().union(*(attributes(ast.parse(inspect.getsource(module)), own=False) for module in modules()))
    assert used - {"_exit"} <= LISTED


def test_private_names_that_a_repaired_class_inherits_or_replaces_are_listed() -> None:
    """What a repair replaces is listed too: if its parent calls it no longer, nothing else tells."""
    seen = 0
    for module in modules():
        for kind in vars(module).values():
            if not inspect.isclass(kind) or kind.__module__ != module.__name__:
                continue
            parents = [parent for parent in kind.__mro__[1:] if parent.__module__.startswith(LIBRARIES)]
            used = attributes(ast.parse(inspect.getsource(kind).lstrip()), own=True)
            used |= {name for name in vars(kind) if is_private(name)}
            for parent in parents:
                defined = {*vars(parent), *getattr(vars(parent).get("__init__"), "__code__", NO_CODE).co_names}
                theirs = {name for name in used & defined if not name.startswith("_abc")}
                seen += len(theirs)
                assert theirs <= LISTED, f"{kind.__name__} of {parent.__module__}.{parent.__name__}"
    assert seen > 20


def test_version_without_a_name_is_refused_with_its_number() -> None:
    missing = PrivateNames("aiokafka", "aiokafka.consumer.fetcher", "Fetcher", ("_fetch_min_bytes", "_gone"))
    with pytest.raises(
        StreamTgatError, match=r"aiokafka \d+\.\d+.* has no aiokafka\.consumer\.fetcher\.Fetcher\._gone"
    ):
        require_private_names([missing])
    elsewhere = PrivateNames("aiokafka", "aiokafka.consumer.fetcher", "Gone", ("_position",))
    with pytest.raises(StreamTgatError, match=r"has no aiokafka\.consumer\.fetcher\.Gone\._position"):
        require_private_names([elsewhere])
