"""Limit of open files: each connection takes a descriptor, and some systems start a process with a limit of 256."""

from __future__ import annotations

from typing import Final

MAX_OPEN_FILES: Final = 4096
"""More open files than this process needs."""


def connections(wanted: int) -> int:
    """Raise the soft limit of open files, as Go does at start; return how many of `wanted` connections fit.

    Half of the limit is reserved for watches, clients of the HTTPS endpoints and files.
    """
    try:
        import resource
    except ImportError:  # Windows has no such limit
        return wanted
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    unlimited = resource.RLIM_INFINITY
    aim = MAX_OPEN_FILES if hard == unlimited else min(MAX_OPEN_FILES, hard)
    if soft != unlimited and soft < aim:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (aim, hard))
            soft = aim
        except (ValueError, OSError):
            pass  # a sandbox forbids it
    return wanted if soft == unlimited else min(wanted, max(1, soft // 2))
