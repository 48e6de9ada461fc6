"""Numbers of things in messages."""

from __future__ import annotations


def counted(number: int, noun: str) -> str:
    """Return the number with its noun, in the plural unless it is one: "1 node", "2 nodes", "2 more nodes"."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
