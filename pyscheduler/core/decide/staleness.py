"""Which kept answers a change makes stale: the whole of incremental evaluation in one table."""

from __future__ import annotations

import enum
from collections.abc import Collection
from typing import Any, Protocol

from numpy.typing import NDArray

from pyscheduler.api.plugin import Reads


class Change(enum.IntEnum):
    """What happened to some rows."""

    NODE = 0
    """Their node objects changed."""
    USAGE = 1
    """Pods came to them or left."""
    ATTEMPT = 2
    """Nothing; but this is another attempt, perhaps of another pod."""


class Scope(enum.Enum):
    """How far a change reaches."""

    NOWHERE = enum.auto()
    ROWS = enum.auto()
    EVERYWHERE = enum.auto()


_SCOPES: dict[Change, dict[Reads, Scope]] = {
    Change.NODE: {
        Reads.OWN_NODE: Scope.ROWS,
        Reads.OWN_ROW: Scope.ROWS,
        Reads.ALL_NODES: Scope.EVERYWHERE,
        Reads.DOMAINS: Scope.EVERYWHERE,
        Reads.EVERYTHING: Scope.EVERYWHERE,
    },
    Change.USAGE: {
        Reads.OWN_NODE: Scope.NOWHERE,
        Reads.OWN_ROW: Scope.ROWS,
        Reads.ALL_NODES: Scope.NOWHERE,
        Reads.DOMAINS: Scope.EVERYWHERE,
        Reads.EVERYTHING: Scope.EVERYWHERE,
    },
    Change.ATTEMPT: {
        Reads.OWN_NODE: Scope.NOWHERE,
        Reads.OWN_ROW: Scope.NOWHERE,
        Reads.ALL_NODES: Scope.NOWHERE,
        Reads.DOMAINS: Scope.NOWHERE,
        Reads.EVERYTHING: Scope.EVERYWHERE,
    },
}


class _Reader(Protocol):
    @property
    def reads(self) -> Reads: ...
    @property
    def reads_identity(self) -> bool: ...


def scopes(plugin: _Reader) -> tuple[Scope, ...]:
    """How much of what the plugin said is stale after each kind of change; `Change` values are the places."""
    reach = [_SCOPES[change][plugin.reads] for change in Change]
    if plugin.reads_identity:
        reach[Change.ATTEMPT] = Scope.EVERYWHERE
    return tuple(reach)


def overwrite(cells: NDArray[Any], reach: Scope, rows: Collection[int], stale: int) -> bool:
    """Mark what a change reaches of one plugin's answers as `stale`; whether that goes beyond `rows`."""
    if reach is Scope.EVERYWHERE:
        cells.fill(stale)
        return True
    if reach is Scope.ROWS:
        for row in rows:
            cells[row] = stale
    return False
