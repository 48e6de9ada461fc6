"""Error of a command, in a module of its own because `problems.py` imports many libraries."""

from __future__ import annotations

from pathlib import Path


class CommandProblem(Exception):
    """Error of a command; the message has the reason and what to do."""


def unreadable(file: str | Path, error: Exception) -> CommandProblem:
    """Return the error for a file that cannot be read."""
    if isinstance(error, FileNotFoundError):
        return CommandProblem(f"{file}: cannot be read: No such file or directory; paths start at {Path.cwd()}")
    if isinstance(error, UnicodeError):
        return CommandProblem(f"{file}: cannot be read: {error}; save it as UTF-8")
    return CommandProblem(f"{file}: cannot be read: {getattr(error, 'strerror', None) or error}")
