"""Numbers in what others have written: annotations, versions, parameters."""

from __future__ import annotations

from typing import Final

_MOST_DIGITS: Final = 18
"""As many as fit into 64 bits. Python refuses to read more than 4,300, and str.isdigit takes more than it can read."""


def natural(text: str) -> int | None:
    """A number in ASCII digits; None if `text` is none, or a larger one than anything is counted in."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS else None


__all__ = ["natural"]
