"""Error of a command, in a module of its own because `problems.py` imports many libraries."""

from __future__ import annotations


class CommandProblem(Exception):
    """Error of a command; the message has the reason and what to do."""
