"""Numbers in external input."""

from __future__ import annotations

import pytest

from pyscheduler.kube.numbers import natural


@pytest.mark.parametrize(("text", "number"), [("0", 0), ("007", 7), ("9" * 18, 10**18 - 1)])
def test_ascii_digits_are_parsed(text: str, number: int) -> None:
    assert natural(text) == number


@pytest.mark.parametrize("text", ["", "\u00b2", "\u0663", "-1", "+1", "1_0", " 1", "1\n", "0x1", "9" * 19, "9" * 5000])
def test_other_text_returns_none(text: str) -> None:
    assert natural(text) is None
