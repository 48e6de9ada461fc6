"""Split a watch stream into lines of any size, wherever the network splits it.

aiohttp's line reader fails at its buffer limit; a line here may be as large as any API object, and the parts of a long
line are joined once.
"""

from __future__ import annotations

LONGEST_LINE = 64 * 1024 * 1024
"""Bytes. Objects in etcd have at most 1.5 MiB by default; a longer line is no watch event."""


class LineTooLong(ValueError):
    """A line exceeds the limit: the peer does not send a watch."""


class Lines:
    """Line splitter: chunks in, complete lines out."""

    def __init__(self, longest: int = LONGEST_LINE) -> None:
        self._longest = longest
        self._parts: list[bytes] = []
        self._size = 0

    def feed(self, chunk: bytes) -> list[bytes]:
        """Return the lines that end in `chunk`, without newlines; empty ones are omitted. LineTooLong."""
        first, *others = chunk.split(b"\n")
        self._parts.append(first)
        self._size += len(first)
        if self._size > self._longest:
            raise LineTooLong(f"a line of the watch is longer than {self._longest} bytes")
        if not others:
            return []
        whole = [b"".join(self._parts), *others[:-1]]
        self._parts, self._size = [others[-1]], len(others[-1])
        return list(filter(None, whole))
