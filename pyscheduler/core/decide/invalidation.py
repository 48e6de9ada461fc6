"""Which kept answers a change makes stale: the whole of incremental evaluation in one table."""

from __future__ import annotations

import enum
from typing import Protocol

from pyscheduler.api.plugin import Reads
from pyscheduler.kernels import Rows

DirtyRows = Rows | list[int]
"""Rows that something happened to: a list where they are few, else an array, which may name a row twice."""


class Change(enum.IntEnum):
    """What happened to some rows."""

    NODE = 0
    """Their node objects changed."""
    USAGE = 1
    """Pods came to them or left."""
    ATTEMPT = 2
    """Nothing; but this is another attempt, perhaps of another pod."""


CHANGES = NODE, USAGE, ATTEMPT = tuple(Change)
"""By names of their own, because looking a member up in its class costs more than what is done with it."""


class Scope(enum.Enum):
    """How far a change reaches."""

    NOWHERE = enum.auto()
    ROWS = enum.auto()
    EVERYWHERE = enum.auto()


_EVERYWHERE, _ROWS = Scope.EVERYWHERE, Scope.ROWS
_SCOPES: dict[Change, dict[Reads, Scope]] = {
    Change.NODE: {
        Reads.OWN_NODE: Scope.ROWS,
        Reads.OWN_NODE_AND_PODS: Scope.ROWS,
        Reads.ALL_NODES: Scope.EVERYWHERE,
        Reads.DOMAINS: Scope.EVERYWHERE,
        Reads.EVERYTHING: Scope.EVERYWHERE,
    },
    Change.USAGE: {
        Reads.OWN_NODE: Scope.NOWHERE,
        Reads.OWN_NODE_AND_PODS: Scope.ROWS,
        Reads.ALL_NODES: Scope.NOWHERE,
        Reads.DOMAINS: Scope.EVERYWHERE,
        Reads.EVERYTHING: Scope.EVERYWHERE,
    },
    Change.ATTEMPT: {
        Reads.OWN_NODE: Scope.NOWHERE,
        Reads.OWN_NODE_AND_PODS: Scope.NOWHERE,
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


def invalidation_scopes(plugin: _Reader) -> tuple[Scope, ...]:
    """How much of what the plugin said is stale after each kind of change; `Change` values are the places."""
    reach = [_SCOPES[change][plugin.reads] for change in Change]
    if plugin.reads_identity:
        reach[Change.ATTEMPT] = Scope.EVERYWHERE
    return tuple(reach)


class CachedColumn:
    """What one plugin said of every node, as far as that still holds."""

    __slots__ = ("all_stale", "is_volatile", "reach")

    def __init__(self, plugin: _Reader) -> None:
        self.reach = invalidation_scopes(plugin)
        self.is_volatile = Scope.EVERYWHERE in (self.reach[Change.USAGE], self.reach[Change.ATTEMPT])
        """Whether all of it is stale as soon as any pod comes or goes, or at every attempt."""
        self.all_stale = True
        """Whether nothing that it said holds any more."""

    def invalidate(self, change: Change, rows: DirtyRows) -> bool:
        """Drop what the change makes stale; whether that goes beyond `rows`."""
        reach = self.reach[change]
        if reach is _EVERYWHERE:
            self.all_stale = True
            return True
        if reach is _ROWS and not self.all_stale:
            self.invalidate_rows(rows)
        return False

    def invalidate_rows(self, rows: DirtyRows) -> None:
        """The answers for some rows are stale."""
        raise NotImplementedError
