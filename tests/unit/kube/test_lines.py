"""Splitting of chunks into lines."""

from __future__ import annotations

import pytest

from pyscheduler.kube.decode import Lines, LineTooLong

TEXT = b"one\n\ntwo is longer\nthree"


@pytest.mark.parametrize("size", range(1, len(TEXT) + 1))
def test_lines_do_not_depend_on_the_chunk_size(size: int) -> None:
    lines, got = Lines(), []
    for start in range(0, len(TEXT), size):
        got += lines.feed(TEXT[start : start + size])
    assert got == [b"one", b"two is longer"], "the unfinished line waits"
    assert lines.feed(b"!\n") == [b"three!"]


def test_too_long_line_is_rejected() -> None:
    lines = Lines(longest=10)
    lines.feed(b"12345678\n12345678")
    with pytest.raises(LineTooLong, match="longer than 10 bytes"):
        lines.feed(b"90abc")
