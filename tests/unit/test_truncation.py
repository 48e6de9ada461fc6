"""Texts are truncated to a number of bytes."""

from __future__ import annotations

import pytest

from pyscheduler.truncation import event_name, truncated


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("x" * 1024, "x" * 1024),
        ("x" * 1025, "x" * 1020 + " ..."),
        ("é" * 600, "é" * 510 + " ..."),
        pytest.param("a" + "é" * 600, "a" + "é" * 509 + " ...", id="no character is split"),
        pytest.param("\ud800" * 2000, "?" * 1020 + " ...", id="lone surrogates"),
        pytest.param("caf\udce9", "caf?", id="short text with a lone surrogate"),
    ],
)
def test_text_is_truncated_at_a_character_boundary(text: str, written: str) -> None:
    assert truncated(text, 1024) == written


def test_event_names_are_valid() -> None:
    assert event_name("pod", 255) == "pod.ff"
    long = event_name("p." * 126, 2**60)
    assert len(long) <= 253
    assert ".." not in long
