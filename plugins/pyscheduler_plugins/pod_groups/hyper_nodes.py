"""Volcano's HyperNodes: a tree of groups of nodes with fast networks, as topologies of pod groups.

The topology of a tier has one domain for each HyperNode of at most that tier which is in no larger one of them.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Final, Literal

import msgspec
import numpy as np

from pyscheduler.api import Handle, ResourceKind, TopologyConstraint
from pyscheduler.api.match import label_selector
from pyscheduler.api.nodes import Ints, Mask, NodeTable
from pyscheduler.api.objects import ApiObject, LabelSelector
from pyscheduler.api.topology import NO_DOMAIN

HYPER_NODE: Final = ResourceKind(
    "topology.volcano.sh", "v1alpha1", "hypernodes", "HyperNode", namespaced=False, optional=True
)


class NetworkTopology(ApiObject, frozen=True):
    """PodGroup.spec.networkTopology."""

    mode: Literal["hard", "soft"] = "hard"
    highest_tier_allowed: int | None = None
    highest_tier_name: str = ""


class _ExactMatch(ApiObject, frozen=True):
    name: str = ""


class _RegexMatch(ApiObject, frozen=True):
    pattern: str = ""


class _MemberSelector(ApiObject, frozen=True):
    exact_match: _ExactMatch | None = None
    regex_match: _RegexMatch | None = None
    label_match: LabelSelector | None = None


class _Member(ApiObject, frozen=True):
    type: str = ""
    selector: _MemberSelector = _MemberSelector()


class _Spec(ApiObject, frozen=True):
    tier: int = 0
    tier_name: str = ""
    members: tuple[_Member, ...] = ()


class _HyperNode(ApiObject, frozen=True):
    spec: _Spec = _Spec()


class HyperNodes:
    """The HyperNodes of the cluster. One that cannot be decoded has no members."""

    def __init__(self, handle: Handle) -> None:
        self._handle = handle
        self._version = -1
        self._specs: Mapping[str, _Spec] = {}
        self._masks: dict[str, Mask] = {}
        self._masks_of: tuple[int, int] = (-1, -1)
        self._names: tuple[str, ...] = ()
        self._by_pattern: dict[str, frozenset[str]] = {}
        """Names of the nodes that match a pattern, while the nodes have these names."""

    def constraints(self, wanted: NetworkTopology) -> tuple[TopologyConstraint, ...] | str:
        """Return the topologies of a pod group, the narrowest first, or what is wrong with its field."""
        tiers = sorted({spec.tier for spec in self._read().values()})
        highest = wanted.highest_tier_allowed
        if wanted.highest_tier_name:
            named = [spec.tier for spec in self._read().values() if spec.tier_name == wanted.highest_tier_name]
            if highest is not None:
                return "highestTierAllowed and highestTierName are both set"
            if not named and wanted.mode == "hard":
                return f'no HyperNode has the tierName "{wanted.highest_tier_name}"'
            highest = max(named, default=None)
        is_limited = wanted.mode == "hard" and highest is not None
        allowed = [tier for tier in tiers if highest is None or tier <= highest]
        if is_limited and not allowed:
            return f"no HyperNode of tier {highest} or lower exists"
        return tuple(self._constraint(tier, required=is_limited and tier == allowed[-1]) for tier in allowed)

    def _constraint(self, tier: int, *, required: bool) -> TopologyConstraint:
        return TopologyConstraint(f"HyperNodes of tier {tier}", required, partial(self._domains, tier))

    def _domains(self, tier: int, nodes: NodeTable) -> Ints:
        """Return the number of the domain of each node in the topology of a tier; NO_DOMAIN for one in no HyperNode."""
        domains = np.full(len(nodes), NO_DOMAIN, np.int64)
        masks, specs = self._masks_on(nodes), self._read()
        # Ascending: a HyperNode replaces those within it.
        ascending = sorted((spec.tier, name) for name, spec in specs.items() if spec.tier <= tier)
        for i, (_, name) in enumerate(ascending, NO_DOMAIN + 1):
            domains[masks[name]] = i
        return domains

    def _read(self) -> Mapping[str, _Spec]:
        objects = self._handle.objects
        if objects.version(HYPER_NODE) != self._version:
            self._version = objects.version(HYPER_NODE)
            self._specs = {name: _spec(obj) for (_, name), obj in objects[HYPER_NODE].items()}
        return self._specs

    def _masks_on(self, nodes: NodeTable) -> Mapping[str, Mask]:
        """Return a mask of the nodes of each HyperNode."""
        specs = self._read()
        if (self._version, nodes.version) != self._masks_of:
            self._masks_of, self._masks = (self._version, nodes.version), {}
            for name in specs:
                self._masks[name] = self._nodes_of(nodes, name, ())
        return self._masks

    def _nodes_of(self, nodes: NodeTable, name: str, path: Sequence[str]) -> Mask:
        """Return a mask of the nodes of a HyperNode and those in it. `path` are the ones around it: no cycles."""
        if name in self._masks:
            return self._masks[name]
        members = self._specs[name].members
        mask = nodes.named(frozenset(_exact_names(member for member in members if member.type == "Node"))).copy()
        for member in members:
            if member.type == "Node":
                mask |= self._selected_nodes(nodes, member.selector)
                continue
            for inner in _selected_names(self._specs, member.selector):
                if inner != name and inner not in path:
                    mask |= self._nodes_of(nodes, inner, (*path, name))
        return mask

    def _selected_nodes(self, nodes: NodeTable, selector: _MemberSelector) -> Mask:
        """Return a mask of the nodes that a selector finds by labels or by a pattern of names."""
        labels = label_selector(selector.label_match)
        if labels is not None:
            return nodes.matches(labels)
        if selector.regex_match is None or selector.exact_match is not None:
            return np.zeros(len(nodes), np.bool_)
        names = tuple(nodes.names)
        if names != self._names:  # nodes change all the time, their names seldom
            self._names, self._by_pattern = names, {}
        pattern = selector.regex_match.pattern
        if pattern not in self._by_pattern:
            self._by_pattern[pattern] = frozenset(_selected_names(names, selector))
        return nodes.named(self._by_pattern[pattern])


def _spec(obj: Mapping[str, object]) -> _Spec:
    try:
        return msgspec.convert(obj, _HyperNode).spec
    except msgspec.ValidationError:
        return _Spec()


def _exact_names(members: Iterable[_Member]) -> Iterator[str]:
    return (member.selector.exact_match.name for member in members if member.selector.exact_match is not None)


def _selected_names(names: Collection[str], selector: _MemberSelector) -> list[str]:
    """Return the names that match exactly or by a pattern; an invalid pattern matches none."""
    if selector.exact_match is not None:
        return [selector.exact_match.name] if selector.exact_match.name in names else []
    try:
        pattern = re.compile(selector.regex_match.pattern if selector.regex_match is not None else "$^")
    except re.error:
        return []
    return [name for name in names if pattern.search(name)]
