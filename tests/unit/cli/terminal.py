"""Terminal that keeps what is written to it."""

from __future__ import annotations

import io

CLEAR = "\r\x1b[K"
"""Control sequence that erases the line of the cursor."""


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True
