"""Strict parsing of numbers in external input: annotations, versions, parameters."""

from __future__ import annotations

from typing import Final

_MOST_DIGITS: Final = 18
"""Digits that always fit into 64 bits; int() rejects more than 4,300, and str.isdigit accepts non-ASCII digits."""


def natural(text: str) -> int | None:
    """Return the number that `text` holds in ASCII digits; None if it is not a number or has more than 18 digits."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS else None


__all__ = ["natural"]
