"""JSON that is sanitize so that it can be read: what is left out, and what stays as it is to the byte."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyscheduler.shell.kube.sanitize import MOST, PLACEHOLDER, sanitize

VALUES = st.recursive(
    st.none() | st.integers() | st.text(alphabet='{}[]"\\ud8a\u00e9', max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(alphabet='{["\\', max_size=3), inner, max_size=3)
    ),
)


def deep(value: Any, levels: int) -> Any:
    """The value in so many levels, which take turns from the outside."""
    for i in reversed(range(levels)):
        value = [value] if i % 2 else {"k": value}
    return value


@given(VALUES, st.booleans())
def test_what_can_be_read_stays_as_it_is(value: Any, ascii: bool) -> None:
    text = json.dumps(value, ensure_ascii=ascii).encode()
    assert sanitize(text) == text


@given(VALUES, VALUES, st.integers(0, 2))
def test_only_what_is_too_deep_is_left_out(inside: Any, beside: Any, more: int) -> None:
    text = json.dumps({"deep": deep({"x": inside}, MOST - 2 + more), "beside": beside}).encode()
    found = json.loads(sanitize(text))
    assert found["beside"] == beside
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
def test_half_a_pair_is_read_as_go_reads_it(written: bytes, read: str) -> None:
    assert json.loads(sanitize(written)) == read


@pytest.mark.parametrize("text", [b"", b"{", b"[" * 1000, b"}" * 1000, b"[" * 1000 + b'"' + b"]" * 1000, b"\xff\x00"])
def test_what_is_no_json_does_no_harm(text: bytes) -> None:
    assert sanitize(text) == text


def test_a_large_page_takes_no_longer_than_it_takes_to_read() -> None:
    """8 MB with one deep object among 2,500: whoever sends it must not hold everything up."""
    item = b'{"metadata":{"name":"a","labels":{"app":"web"}},"spec":{"text":"' + b"x" * 3000 + b'"}},'
    page = b'{"items":[' + item * 2_500 + b"[" * 9_900 + b"]" * 9_900 + b"]}"
    began = time.process_time()
    json.loads(sanitize(page))
    assert time.process_time() - began < 2.0
