"""Cutting a watch into lines, whatever their size and wherever the network cut them.

aiohttp's own line reader gives up at its buffer limit; a line here may be as large as any object the API server holds,
and the bytes of a long one are joined once.
"""

from __future__ import annotations

LONGEST_LINE = 64 * 1024 * 1024
"""Bytes. Objects in etcd are 1.5 MiB unless it was told otherwise; a longer line than this is no event."""


class LineTooLong(ValueError):
    """The peer sends something that is not a watch."""


class Lines:
    """Chunks in, whole lines out."""

    def __init__(self, longest: int = LONGEST_LINE) -> None:
        self._longest = longest
        self._parts: list[bytes] = []
        self._size = 0

    def feed(self, chunk: bytes) -> list[bytes]:
        """The lines that end in `chunk`, without their newlines; empty ones are left out. LineTooLong."""
        first, *others = chunk.split(b"\n")
        self._parts.append(first)
        self._size += len(first)
        if self._size > self._longest:
            raise LineTooLong(f"a line of the watch is longer than {self._longest} bytes")
        if not others:
            return []
        whole = [b"".join(self._parts), *others[:-1]]
        self._parts, self._size = [others[-1]], len(others[-1])
        return [line for line in whole if line]
