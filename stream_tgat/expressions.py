"""Paths and conditions over records, in JMESPath, compiled once.

`Expression` adds two things to the library. Names that begin with $ stand for what is beside a record's value, such as
``$key`` or ``$headers.tenant``. And an answer never rests on what is not there: a comparison with a missing field, or
an element that lacks what is asked of all, is an ExpressionError, where plain JMESPath would say no, or leave it out.
"""

import difflib
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

import jmespath
from jmespath.exceptions import JMESPathError
from jmespath.functions import Functions
from jmespath.visitor import TreeInterpreter

from stream_tgat.errors import StreamTgatError

#: What stands for itself between quotes of any kind, and a name with its $ elsewhere.
_NAMES: Final = re.compile(
    r"""(?P<quoted>'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*"|`(?:\\.|[^`\\])*`)|\$(?P<name>[A-Za-z_]\w*)"""
)
_SHOWN: Final = 60


class ExpressionError(StreamTgatError, ValueError):
    """An expression cannot be compiled, or has no answer for a record; the message says why."""


class Expression:
    """One expression.

    text: as it was written   names: those with $ that it reads, without it

    >>> Expression("lines[0].sku").of({"lines": [{"sku": "tea"}]})
    'tea'
    >>> Expression("$headers.tenant").of({"$headers": {"tenant": "eu"}})
    'eu'
    >>> Expression("type == 'order'").of({"kind": "order"})
    Traceback (most recent call last):
    stream_tgat.expressions.ExpressionError: 'type' is missing
    """

    def __init__(self, text: str, names: Iterable[str] = ()) -> None:
        """names: those that may stand behind a $; ExpressionError says what is wrong with the text"""
        self.text = text
        known, found = tuple(names), set()

        def as_field(match: re.Match[str]) -> str:
            if match["quoted"]:
                return match[0]
            if known and match["name"] not in known:
                raise ExpressionError(f"${match['name']} is not known{did_you_mean(match['name'], known, '$')}")
            found.add(match["name"])
            return f'"${match["name"]}"'

        prepared = _NAMES.sub(as_field, text)
        try:
            self._tree = jmespath.compile(prepared).parsed
        except JMESPathError as problem:
            raise ExpressionError(f"{text!r} is no JMESPath expression: {_first_line(problem)}") from None
        _check_functions(self._tree)
        self.names = frozenset(found)
        keys = _keys(self._tree)
        #: Most expressions are a field, or a field in a field, which needs no interpreter.
        self.of: Callable[[Mapping[str, Any]], Any] = self._interpret if keys is None else _getter(keys)
        """The answer for a record and what is beside it; None where there is none."""

    def __repr__(self) -> str:
        return f"Expression({self.text!r})"

    def _interpret(self, scope: Mapping[str, Any]) -> Any:
        try:
            return _STRICT.visit(self._tree, scope)
        except JMESPathError as problem:
            raise ExpressionError(_first_line(problem)) from None
        except ExpressionError:
            raise
        except RecursionError:
            raise ExpressionError("is nested too deeply") from None
        except (TypeError, ValueError, ZeroDivisionError, OverflowError) as problem:
            # Comparisons of unlike things, and what the library's functions do with odd numbers.
            raise ExpressionError(str(problem)) from None


class _Strict(TreeInterpreter):  # type: ignore[misc]
    """Says that something is missing where it would count as an answer."""

    def visit_comparator(self, node: Any, value: Any) -> Any:
        sides = [self.visit(child, value) for child in node["children"]]
        asks_for_null = any(child["type"] == "literal" and child["value"] is None for child in node["children"])
        if not asks_for_null:
            for child, side in zip(node["children"], sides, strict=True):
                if side is None:
                    raise ExpressionError(f"{_as_written(child)} is missing")
        answer = self.COMPARATOR_FUNC[node["value"]](*sides)
        return answer if answer is not None else False

    def visit_projection(self, node: Any, value: Any) -> Any:
        base = self.visit(node["children"][0], value)
        return None if not isinstance(base, list) else self._all(base, node["children"][1])

    def visit_filter_projection(self, node: Any, value: Any) -> Any:
        base = self.visit(node["children"][0], value)
        if not isinstance(base, list):
            return None
        return self._all(
            [each for each in base if self._is_true(self.visit(node["children"][2], each))], node["children"][1]
        )

    def _all(self, elements: list[Any], node: Any) -> list[Any]:
        found = [self.visit(node, element) for element in elements]
        if None in found:
            raise ExpressionError(f"{_as_written(node)} is missing in element {found.index(None)}")
        return found


_STRICT: Final = _Strict()


def did_you_mean(name: str, known: Iterable[str], sign: str = "") -> str:
    """The end of a message about a name that is not known.

    >>> did_you_mean("custmer", ["customer", "price"])
    " (did you mean 'customer'?)"
    """
    known = list(known)
    close = difflib.get_close_matches(name, known, n=1)
    if close:
        return f" (did you mean {sign + close[0]!r}?)"
    return f"; known are {', '.join(sign + each for each in known[:20])}" if known else ""


def _keys(tree: Any) -> tuple[str, ...] | None:
    """The fields that a plain path goes through; None for any other expression."""
    if tree["type"] == "field":
        return (tree["value"],)
    if tree["type"] != "subexpression":
        return None
    parts = [_keys(child) for child in tree["children"]]
    return None if None in parts else tuple(key for part in parts if part for key in part)


def _getter(keys: tuple[str, ...]) -> Callable[[Mapping[str, Any]], Any]:
    if len(keys) == 1:
        key = keys[0]
        return lambda scope: scope.get(key)

    def get(scope: Mapping[str, Any]) -> Any:
        value: Any = scope
        for key in keys:
            if type(value) is not dict:
                return None
            value = value.get(key)
        return value

    return get


def _check_functions(tree: Any) -> None:
    known = Functions.FUNCTION_TABLE
    if tree["type"] == "function_expression" and tree["value"] not in known:
        raise ExpressionError(f"there is no function {tree['value']}(){did_you_mean(tree['value'], sorted(known))}")
    for child in tree["children"]:
        if isinstance(child, dict):
            _check_functions(child)


def _as_written(tree: Any) -> str:
    keys = _keys(tree)
    return repr(".".join(keys)) if keys else "what it compares"


def _first_line(problem: Exception) -> str:
    text = " ".join(str(problem).split("\n")[0].split()).rstrip(":")
    return text if len(text) <= 3 * _SHOWN else f"{text[: 3 * _SHOWN]}…"
