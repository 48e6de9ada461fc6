"""File descriptors: each connection takes one, and a process may have been started with room for 256 of them."""

from __future__ import annotations

from typing import Final

ENOUGH: Final = 4096
"""Open files that this process has use for, with room to spare."""


def connections(wanted: int) -> int:
    """Raise the soft limit of open files, as Go does at start, and return how many of `wanted` connections fit.

    Half of the limit is left to watches, the endpoints' clients and files.
    """
    try:
        import resource
    except ImportError:  # Windows has no such limit
        return wanted
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    unlimited = resource.RLIM_INFINITY
    aim = ENOUGH if hard == unlimited else min(ENOUGH, hard)
    if soft != unlimited and soft < aim:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (aim, hard))
            soft = aim
        except (ValueError, OSError):
            pass  # a sandbox forbids it
    return wanted if soft == unlimited else min(wanted, max(1, soft // 2))
