"""Paths and conditions over records."""

from __future__ import annotations

from typing import Any

import jmespath
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_tgat.expressions import Expression, ExpressionError

RECORD = {
    "a": {"b": {"c": 7}},
    "lines": [{"sku": "tea", "n": 2}, {"sku": "jam", "n": 1}],
    "kind": "order",
    "none": None,
}

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text(max_size=2),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=12,
)


@given(JSON, st.lists(st.sampled_from("abc"), min_size=1, max_size=4))
def test_plain_path_finds_what_jmespath_finds(record: Any, path: list[str]) -> None:
    scope = record if isinstance(record, dict) else {"a": record}
    assert Expression(".".join(path)).of(scope) == jmespath.search(".".join(path), scope)


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("a.b.c", 7),
        ("lines[1].sku", "jam"),
        ("lines[*].n", [2, 1]),
        ("lines[?n > `1`].sku", ["tea"]),
        ("'shop'", "shop"),
        ("kind == 'order' && a.b.c >= `7`", True),
        ("kind == 'return' && missing == 'x'", False),
        ("not_null(missing, kind)", "order"),
        ("missing == `null`", True),
        ("join('/', [kind, to_string(a.b.c)])", "order/7"),
        ("missing", None),
    ],
)
def test_expression_gives_what_the_field_expects(text: str, answer: object) -> None:
    assert Expression(text).of(RECORD) == answer


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("type == 'order'", "'type' is missing"),
        ("a.b.d > `3`", "'a.b.d' is missing"),
        ("lines[*].price", "'price' is missing in element 0"),
        ("lines[?gift == `true`]", "'gift' is missing"),
        ("join('/', [kind, none])", "invalid type"),
        ("sum(lines)", "invalid type"),
    ],
)
def test_what_is_missing_is_never_an_answer(text: str, reason: str) -> None:
    with pytest.raises(ExpressionError, match=reason.replace("[", r"\[")):
        Expression(text).of(RECORD)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("a ==", "no JMESPath expression"),
        ("starts_wth(a, 'b')", r"no function starts_wth\(\) \(did you mean 'starts_with'"),
        ("$hedaers.tenant", r"\$hedaers is not known \(did you mean '\$headers'"),
    ],
)
def test_expression_that_is_wrong_says_where(text: str, reason: str) -> None:
    with pytest.raises(ExpressionError, match=reason):
        Expression(text, ["key", "headers"])


def test_sign_between_quotes_is_a_sign() -> None:
    expression = Expression("""currency == '$key' || "$id" == `"$key"` """, ["key"])
    assert expression.names == frozenset()
    assert expression.of({"currency": "$key", "$id": "x"}) is True
