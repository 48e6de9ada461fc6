"""Which cached results a change makes stale, as one table for all of incremental evaluation."""

from __future__ import annotations

import enum
from functools import cache
from typing import Protocol, Self

from pyscheduler.api.plugin import Reads
from pyscheduler.kernels import Rows

DirtyRows = Rows | list[int]
"""Changed rows: a list if they are few, else an array, in which a row may occur twice."""


class Change(enum.IntEnum):
    """Kinds of changes to rows."""

    NODE = 0
    """The node objects changed."""
    USAGE = 1
    """Pods were added or removed."""
    ATTEMPT = 2
    """Nothing changed, but a new attempt starts, possibly for another pod."""


CHANGES = NODE, USAGE, ATTEMPT = tuple(Change)
"""Module-level names, because looking up an enum member costs more than the work done with it."""


class Scope(enum.Enum):
    """Extent of the results that a change makes stale."""

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


class _ReadsDeclaration(Protocol):
    @property
    def reads(self) -> Reads: ...
    @property
    def reads_identity(self) -> bool: ...


def invalidation_scopes(plugin: _ReadsDeclaration, reads: Reads | None = None) -> tuple[Scope, ...]:
    """Return the scope of each kind of change for the plugin, indexed by `Change`; `reads` replaces the plugin's."""
    return _scopes(plugin.reads if reads is None else reads, plugin.reads_identity)


@cache
def _scopes(reads: Reads, reads_identity: bool) -> tuple[Scope, ...]:
    reach = [_SCOPES[change][reads] for change in Change]
    if reads_identity:
        reach[Change.ATTEMPT] = Scope.EVERYWHERE
    return tuple(reach)


class CachedColumn:
    """One plugin's cached results for all nodes."""

    __slots__ = ("all_stale", "is_volatile", "reach")

    def __init__(self, plugin: _ReadsDeclaration, reads: Reads | None = None) -> None:
        self.reach = invalidation_scopes(plugin, reads)
        self.is_volatile = Scope.EVERYWHERE in (self.reach[Change.USAGE], self.reach[Change.ATTEMPT])
        """True if the whole column is stale as soon as any pod is added or removed, or at every attempt."""
        self.all_stale = True
        """True if no result is valid any more."""

    def copy(self) -> Self:
        """Return a column with the same results, which change independently."""
        cls: type = type(self)
        twin = object.__new__(type(self))
        for name in _slots(cls):
            setattr(twin, name, getattr(self, name))
        return twin

    def invalidate(self, change: Change, rows: DirtyRows) -> bool:
        """Invalidate what the change makes stale. Return True if that extends beyond `rows`."""
        reach = self.reach[change]
        if reach is _EVERYWHERE:
            self.all_stale = True
            return True
        if reach is _ROWS and not self.all_stale:
            self.invalidate_rows(rows)
        return False

    def invalidate_rows(self, rows: DirtyRows) -> None:
        """Mark the results of `rows` as stale."""
        raise NotImplementedError


@cache
def _slots(cls: type) -> tuple[str, ...]:
    return tuple(name for base in cls.__mro__ for name in getattr(base, "__slots__", ()))
