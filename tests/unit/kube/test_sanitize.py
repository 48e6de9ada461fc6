"""Sanitizing of JSON: replaced and unchanged parts."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyscheduler.kube.sanitize import MOST, PLACEHOLDER, sanitize

VALUES = st.recursive(
    st.none() | st.integers() | st.text(alphabet='{}[]"\\ud8a\u00e9', max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(alphabet='{["\\', max_size=3), inner, max_size=3)
    ),
)


def deep(value: Any, levels: int) -> Any:
    """Return the value nested in `levels` alternating objects and arrays."""
    for i in reversed(range(levels)):
        value = [value] if i % 2 else {"k": value}
    return value


@given(VALUES, st.booleans())
def test_decodable_json_is_unchanged(value: Any, ascii: bool) -> None:
    text = json.dumps(value, ensure_ascii=ascii).encode()
    assert sanitize(text) == text


@given(VALUES, VALUES, st.integers(0, 2))
def test_only_too_deep_values_are_replaced(inside: Any, sibling: Any, more: int) -> None:
    text = json.dumps({"deep": deep({"x": inside}, MOST - 2 + more), "sibling": sibling}).encode()
    found = json.loads(sanitize(text))
    assert found["sibling"] == sibling
    if more:
        assert PLACEHOLDER in sanitize(text)
        assert found["deep"] == deep(json.loads(PLACEHOLDER), MOST - 1)


@pytest.mark.parametrize(
    ("written", "read"),
    [
        (rb'"\ud83d\ude00"', "\U0001f600"),
        (rb'"\ud83dx"', "\ufffdx"),
        (rb'"\ud83d\u0041"', "\ufffdA"),
        (rb'"\ude00\ud83d"', "\ufffd\ufffd"),
        (rb'"\\ud83d"', r"\ud83d"),
        (rb'"\\\ud83d"', "\\\ufffd"),
        (rb'"\uD83D\uDE00\uD83D"', "\U0001f600\ufffd"),
    ],
)
def test_lone_surrogates_are_replaced_as_in_go(written: bytes, read: str) -> None:
    assert json.loads(sanitize(written)) == read


@pytest.mark.parametrize("text", [b"", b"{", b"[" * 1000, b"}" * 1000, b"[" * 1000 + b'"' + b"]" * 1000, b"\xff\x00"])
def test_malformed_json_is_unchanged(text: bytes) -> None:
    assert sanitize(text) == text


def test_large_page_is_sanitized_quickly() -> None:
    """8 MB with one deep object among 2,500, which any tenant can create."""
    item = b'{"metadata":{"name":"a","labels":{"app":"web"}},"spec":{"text":"' + b"x" * 3000 + b'"}},'
    page = b'{"items":[' + item * 2_500 + b"[" * 9_900 + b"]" * 9_900 + b"]}"
    began = time.process_time()
    json.loads(sanitize(page))
    assert time.process_time() - began < 2.0
