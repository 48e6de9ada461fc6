"""Declarations of the state that a plugin reads, which decide how long its cached results hold."""

from __future__ import annotations

import enum


class Reads(enum.IntEnum):
    """Scope of the state on which a plugin's Filter and Score results depend, from narrow to wide.

    The scheduler caches the results and recomputes those that may have changed. A scope that is too narrow gives stale
    results (`pyscheduler.testing.assert_cache_agrees` detects that); one that is too wide costs time.
    """

    OWN_NODE = 1
    """The node object (labels, taints, images, allocatable), without the pods on it."""
    OWN_NODE_AND_PODS = 2
    """The node and the pods on it."""
    ALL_NODES = 3
    """All node objects, without pods."""
    DOMAINS = 4
    """Pods on all nodes, counted by topology domain."""
    EVERYTHING = 5
    """Any state: results are not cached."""


class NodeFields(enum.Flag):
    """Parts of a node object that a plugin may read."""

    LABELS = enum.auto()
    SPEC = enum.auto()
    """Taints, `unschedulable` and the rest of `spec`."""
    ALLOCATABLE = enum.auto()
    IMAGES = enum.auto()
    OTHER = enum.auto()
    """Annotations, conditions, declared features."""
    NONE = 0
    ALL = LABELS | SPEC | ALLOCATABLE | IMAGES | OTHER
