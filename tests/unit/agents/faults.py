"""Faults at every place where code can fail, found in the code itself.

`Points` reads the source of functions and puts a point around each `await`, `async for`, `async with` and call in it.
Nothing is listed by hand: what is added to a function tomorrow is a place tomorrow.
"""

from __future__ import annotations

import ast
import asyncio
import builtins
import inspect
import sys
import textwrap
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from errno import ENOSPC
from types import CodeType, FunctionType, ModuleType
from typing import Any

import pytest
from aiokafka.errors import KafkaTimeoutError

from stream_tgat.errors import FencedError

POINTS = "_fault_points"

#: Calls that can only fail where Python itself does: containers, values of ours, clocks, the log.
HARMLESS = {
    *(name for name in dir(builtins) if name != "open"),
    *(
        "add",
        "append",
        "clear",
        "deque",
        "done",
        "fromkeys",
        "get",
        "items",
        "keys",
        "values",
        "partial",
        "pop",
        "popleft",
        "split",
    ),
    *(
        "tolist",
        "total",
        "update",
        "OwnWrite",
        "Record",
        "Source",
        "SourceState",
        "TP",
        "Tenure",
        "Commit",
        "Cycle",
        "Delivery",
        "Parcel",
        "result",
    ),
    *("cancelled", "create_task", "ensure_future", "exception", "get_running_loop", "monotonic", "sleep", "time"),
    *("info", "warning"),
}


@dataclass(frozen=True)
class Place:
    """Where something can fail. kind: await, wait (for what has an end of its own), for, with, or call"""

    function: str
    text: str
    kind: str

    def __str__(self) -> str:
        return f"{self.function}: {self.text}"


@dataclass(frozen=True)
class Fault:
    """What goes wrong at a place. after: what was asked for happens all the same"""

    name: str
    error: Callable[[], BaseException]
    after: bool = False


RAISED = Fault("raised", lambda: OSError(ENOSPC, "no space"))
REFUSED = Fault("refused", lambda: FencedError("refused"))
TIMED_OUT = Fault("timed out", KafkaTimeoutError, after=True)
CANCELLED = Fault("cancelled", asyncio.CancelledError)
FAULTS = {
    "await": (REFUSED, TIMED_OUT, RAISED, CANCELLED),
    "call": (RAISED,),
    "for": (RAISED, CANCELLED),
    "with": (CANCELLED,),
    "wait": (CANCELLED,),
}


class Points:
    """The points of some functions, and what happens at them. Awaiting one of the functions is no place of its own."""

    def __init__(self, functions: Iterable[FunctionType]) -> None:
        self._functions = list(functions)
        self._codes: dict[FunctionType, CodeType] = {}
        self.places: list[Place] = []
        self.passed: Counter[Place] = Counter()
        self._armed: dict[Place, tuple[Fault, int]] = {}
        self.fired: set[Place] = set()
        inner = {function.__name__ for function in self._functions}
        for module in {function.__module__: None for function in self._functions}:
            tree = ast.parse(inspect.getsource(sys.modules[module]))
            mine = [function for function in self._functions if function.__module__ == module]
            for node in ast.walk(tree):
                if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and any(_is(node, each) for each in mine):
                    rewrite = _Rewrite(f"{module.rpartition('.')[2]}.{node.name}", inner, self.places)
                    node.body = [rewrite.visit(each) for each in node.body]
            compiled = compile(ast.fix_missing_locations(tree), module, "exec", dont_inherit=True)
            self._codes |= {function: _code_of(compiled, function) for function in mine}

    def put(self, patch: pytest.MonkeyPatch) -> None:
        """Let the functions call the points, until the patch is undone."""
        for function, code in self._codes.items():
            patch.setattr(function, "__code__", code)
            patch.setattr(sys.modules[function.__module__], POINTS, self, raising=False)

    def arm(self, *faults: tuple[Place, Fault, int]) -> None:
        """Let each fault happen once, when its place is passed for the n-th time from now on."""
        self.passed.clear()
        self.fired.clear()
        self._armed = {place: (fault, on_pass) for place, fault, on_pass in faults}

    def _pass(self, number: int) -> Fault | None:
        place = self.places[number]
        self.passed[place] += 1
        fault, on_pass = self._armed.get(place, (None, 0))
        if self.passed[place] != on_pass:
            return None
        self.fired.add(place)
        return fault

    # What the code calls

    def call(self, number: int, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function, or what raises instead."""
        fault = self._pass(number)

        def fails(*_: Any, **__: Any) -> Any:
            assert fault is not None
            raise fault.error()

        return function if fault is None else fails

    async def awaited(self, number: int, what: Any) -> Any:
        """What awaiting it gives."""
        fault = self._pass(number)
        if fault is not None and not fault.after:
            if inspect.iscoroutine(what):
                what.close()
            raise fault.error()
        found = await what
        if fault is not None:
            raise fault.error()
        return found

    async def iterated(self, number: int, what: Any) -> AsyncIterator[Any]:
        """What iterating over it gives."""
        async for each in what:
            fault = self._pass(number)
            if fault is not None:
                raise fault.error()
            yield each

    @asynccontextmanager
    async def entered(self, number: int, what: Any) -> AsyncIterator[Any]:
        """The context manager, which may not be entered."""
        fault = self._pass(number)
        if fault is not None:
            raise fault.error()
        async with what as entered:
            yield entered


class _Rewrite(ast.NodeTransformer):
    """Puts the points into one function."""

    def __init__(self, function: str, inner: set[str], places: list[Place]) -> None:
        self._function, self._inner, self._places = function, inner, places
        self._seen: Counter[str] = Counter()

    def visit_Await(self, node: ast.Await) -> ast.AST:
        """`await x`, unless x is a function with points of its own."""
        text = ast.unparse(node)
        called = node.value if isinstance(node.value, ast.Call) else None
        is_inner = called is not None and _name(called.func) in self._inner
        if called is not None:
            # The call only makes what is awaited, unless it is the point of its own arguments.
            called.args = [self.visit(each) for each in called.args]
            called.keywords = [self.visit(each) for each in called.keywords]
        else:
            self.generic_visit(node)
        if is_inner or (called is not None and _name(called.func) == "sleep"):
            return node
        kind = "wait" if called is not None and ast.unparse(called.func).startswith("asyncio.") else "await"
        return ast.Await(self._point("awaited", text, kind, node.value))

    def visit_Call(self, node: ast.Call) -> ast.AST:
        """`f(x)`, unless f is harmless or has points of its own."""
        text, name = ast.unparse(node), _name(node.func)
        self.generic_visit(node)
        if name in HARMLESS or name in self._inner or name.endswith("Error"):
            return node
        return ast.Call(self._point("call", text, "call", node.func), node.args, node.keywords)

    def visit_Raise(self, node: ast.Raise) -> ast.AST:
        """What is raised fails anyway."""
        return node

    def visit_AsyncFor(self, node: ast.AsyncFor) -> ast.AST:
        """`async for`, for each round."""
        text = f"async for {ast.unparse(node.target)} in {ast.unparse(node.iter)}"
        node.body = [self.visit(each) for each in node.body]
        node.iter = self._point("iterated", text, "for", node.iter)
        return node

    def visit_AsyncWith(self, node: ast.AsyncWith) -> ast.AST:
        """`async with`, where it may have to wait."""
        for item in node.items:
            text = f"async with {ast.unparse(item.context_expr)}"
            item.context_expr = self._point("entered", text, "with", item.context_expr)
        node.body = [self.visit(each) for each in node.body]
        return node

    def _point(self, method: str, text: str, kind: str, what: ast.expr) -> ast.Call:
        text = textwrap.shorten(text, 80, placeholder=" …")
        self._seen[text] += 1
        if self._seen[text] > 1:
            text = f"{text} ({self._seen[text]})"
        self._places.append(Place(self._function, text, kind))
        points = ast.Name(POINTS, ast.Load())
        number = ast.Constant(len(self._places) - 1)
        return ast.Call(ast.Attribute(points, method, ast.Load()), [number, what], [])


def functions_of(owner: ModuleType | type) -> list[FunctionType]:
    """The functions and methods that are written in a module or a class, without properties and dunder methods."""
    where = owner.__name__ if isinstance(owner, ModuleType) else owner.__module__
    found: list[FunctionType] = []
    for name, value in vars(owner).items():
        if isinstance(value, FunctionType) and value.__module__ == where and not name.startswith("__"):
            found.append(inspect.unwrap(value))
        elif isinstance(owner, ModuleType) and isinstance(value, type) and value.__module__ == where:
            found += functions_of(value)
    return found


def _is(node: ast.FunctionDef | ast.AsyncFunctionDef, function: FunctionType) -> bool:
    # The code of a function begins at its first decorator.
    begins = min([node.lineno, *(each.lineno for each in node.decorator_list)])
    return (node.name, begins) == (function.__name__, function.__code__.co_firstlineno)


def _code_of(code: CodeType, function: FunctionType) -> CodeType:
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            if constant.co_qualname == function.__qualname__:
                return constant
            if function.__qualname__.startswith(constant.co_qualname + "."):
                return _code_of(constant, function)
    raise LookupError(function.__qualname__)


def _name(function: ast.expr) -> str:
    return (
        function.attr if isinstance(function, ast.Attribute) else function.id if isinstance(function, ast.Name) else ""
    )
