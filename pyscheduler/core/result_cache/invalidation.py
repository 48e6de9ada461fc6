"""Which cached results a change makes stale, as one table for all results by row."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from functools import cache
from typing import Protocol

from pyscheduler.api.plugin import Plugin
from pyscheduler.api.pod import PodSignatureGroup
from pyscheduler.api.reads import NodeFields, Reads
from pyscheduler.api.return_values import InvalidReturnValue
from pyscheduler.core.framework.plugin_calls import call_guarded
from pyscheduler.core.state.shared_node_fields import EXISTENCE
from pyscheduler.kernels import Rows

DirtyRows = Rows | list[int]
"""Changed rows: a list if they are few, else an array, in which a row may occur twice."""


class Change(enum.IntEnum):
    """Kinds of changes to rows."""

    NODE = 0
    """The node objects changed."""
    USAGE = 1
    """Pods were added or removed."""


NODE, USAGE = Change
"""Module-level names, because looking up an enum member costs more than the work done with it."""


class Scope(enum.Enum):
    """Extent of the results that a change makes stale."""

    NOWHERE = enum.auto()
    ROWS = enum.auto()
    EVERYWHERE = enum.auto()


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
}


class _ReadsDeclaration(Protocol):
    @property
    def reads(self) -> Reads: ...
    @property
    def reads_identity(self) -> bool: ...


def invalidation_scopes(plugin: _ReadsDeclaration, reads: Reads | None = None) -> tuple[Scope, ...]:
    """Return the scope of each kind of change for the plugin, indexed by `Change`; `reads` replaces the plugin's.

    Results that are stale everywhere after a change of pods hold for no other attempt, unless a cache key is equal.
    """
    return _scopes(plugin.reads if reads is None else reads, plugin.reads_identity)


@cache
def _scopes(reads: Reads, reads_identity: bool) -> tuple[Scope, ...]:
    if reads_identity:
        return Scope.EVERYWHERE, Scope.EVERYWHERE
    return tuple(_SCOPES[change][reads] for change in Change)


class NodeReaders:
    """The plugins with results that a change of nodes makes stale, for groups that they sign alike."""

    __slots__ = ("_by_change", "_plugins")

    def __init__(self, plugins: Sequence[Plugin]) -> None:
        self._plugins = plugins
        self._by_change: dict[int, frozenset[str]] = {}

    def of(self, group: PodSignatureGroup, changed: int) -> frozenset[str]:
        """Return the names of the plugins that read what has changed, by `ClusterState.changed_node_fields`.

        PluginFailed if a plugin raises.
        """
        readers = self._by_change.get(changed)
        if readers is None:
            readers = self._by_change[changed] = frozenset(
                each.name for each in self._plugins if changed & (EXISTENCE | _node_fields_of(each, group))
            )
        return readers


def _node_fields_of(plugin: Plugin, group: PodSignatureGroup) -> int:
    def fields() -> int:
        returned = plugin.node_fields_of(group)
        if not isinstance(returned, NodeFields):
            raise InvalidReturnValue(plugin.node_fields_of, returned, "a combination of NodeFields")
        return returned.value

    return call_guarded(plugin.name, "SignPod", fields)
