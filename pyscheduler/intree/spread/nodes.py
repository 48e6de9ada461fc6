"""Which nodes a spread constraint looks at: those that have its topology and that its inclusion policies let in."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pyscheduler.api import Domains, Mask, NodeInfo, NodeTable, PodShape, Taint
from pyscheduler.api.match import NO_EXECUTE, NO_SCHEDULE
from pyscheduler.api.topology import MISSING
from pyscheduler.intree._required import allowed, allows
from pyscheduler.intree._term_matcher import SMALL
from pyscheduler.intree._tolerations import has_untolerated
from pyscheduler.intree.spread.constraints import Spread, Spreads

_KEPT_REGIONS = 64
_HARD_TAINTS = (NO_SCHEDULE, NO_EXECUTE)


class Region(NamedTuple):
    """The nodes that one constraint looks at."""

    domains: Domains
    """The domain of each node of the cluster; MISSING for those that are left out, as if they lacked the label."""
    inhabited: NDArray[np.intp]
    """The domains that have a node in the region, in ascending order."""


class Regions:
    """The regions of constraints, found once for each kind of pod and set of constraints while no node changes."""

    def __init__(self) -> None:
        self._kept: dict[Hashable, tuple[Region, ...]] = {}
        self._of_shapes: dict[tuple[int, int, bool], tuple[Spreads, PodShape, tuple[Region, ...]]] = {}
        """The same by identity, which is quicker to look up; it holds on to what it is identified by."""
        self._version = -1

    def of(self, spreads: Spreads, shape: PodShape, nodes: NodeTable, require_all: bool) -> tuple[Region, ...]:
        """The region of each constraint; `nodes` are all nodes of the cluster.

        With `require_all` only nodes count that have the topologies of all constraints. Without it, nodes that lack a
        label are one more domain, the same as that of nodes where it is empty, if there are such.
        """
        if self._version != nodes.version or len(self._kept) >= _KEPT_REGIONS:
            self._version = nodes.version
            self._kept.clear()
            self._of_shapes.clear()
        topologies = [nodes.topology(spread.key) for spread in spreads]
        place = (id(spreads), id(shape), require_all)
        known = self._of_shapes.get(place)
        if known is not None and _speak_of(known[2], topologies):
            return known[2]
        key = _key(spreads, shape, require_all)
        kept = self._kept.get(key)
        if kept is None or not _speak_of(kept, topologies):
            kept = self._kept[key] = _regions(spreads, topologies, shape, nodes, require_all)
        if len(self._of_shapes) >= _KEPT_REGIONS:
            self._of_shapes.clear()
        self._of_shapes[place] = (spreads, shape, kept)
        return kept


def complete(topologies: list[Domains]) -> Mask:
    """Which nodes have all of some topologies."""
    mask: Mask = topologies[0].ids != MISSING
    for topology in topologies[1:]:
        mask &= topology.ids != MISSING
    return mask


def blanks_filled(topology: Domains) -> NDArray[np.intp]:
    """The domain of each node, those that lack the label being in that of the empty value, if there is one."""
    blank = topology.id_of("")
    return np.where(topology.ids == MISSING, blank, topology.ids) if blank else topology.ids


def includes(spread: Spread, shape: PodShape, node: NodeInfo) -> bool:
    """Whether the constraint's policies let a node in (nodeAffinityPolicy, nodeTaintsPolicy)."""
    return lets_in(spread, shape, node.name, node.labels, node.taints)


def lets_in(spread: Spread, shape: PodShape, name: str, labels: Mapping[str, str], taints: tuple[Taint, ...]) -> bool:
    """`includes` of a node that is not in the cluster as it is now."""
    if spread.honors_affinity and not allows(shape, name, labels):
        return False
    return not spread.honors_taints or not has_untolerated(shape, taints, _HARD_TAINTS)


def _included(spread: Spread, shape: PodShape, nodes: NodeTable) -> Mask:
    mask = allowed(shape, nodes) if spread.honors_affinity else np.ones(len(nodes), np.bool_)
    if spread.honors_taints:
        mask &= nodes.by_taints(lambda taints: has_untolerated(shape, taints, _HARD_TAINTS)) == 0
    return mask


def _regions(
    spreads: Spreads, topologies: list[Domains], shape: PodShape, nodes: NodeTable, require_all: bool
) -> tuple[Region, ...]:
    everywhere = complete(topologies) if require_all else np.ones(len(nodes), np.bool_)
    found: dict[Hashable, Region] = {}
    regions = []
    for spread, topology in zip(spreads, topologies, strict=True):
        # A pod may state thousands of constraints, but nodes have few labels: all others are one topology.
        alike = (id(topology), spread.honors_affinity, spread.honors_taints)
        if alike not in found:
            found[alike] = _region(topology, everywhere & _included(spread, shape, nodes), require_all)
        regions.append(found[alike])
    return tuple(regions)


def _region(topology: Domains, mask: Mask, require_all: bool) -> Region:
    ids = topology.ids if require_all else blanks_filled(topology)
    inside = np.where(mask, ids, MISSING)
    return Region(Domains(inside, topology.known), np.flatnonzero(np.bincount(inside)[1:]) + 1)


def _key(spreads: Spreads, shape: PodShape, require_all: bool) -> Hashable:
    """What regions depend on beside the nodes."""
    policies = tuple((s.key, s.honors_affinity, s.honors_taints) for s in spreads)
    chosen = any(s.honors_affinity for s in spreads)
    tolerated = any(s.honors_taints for s in spreads)
    return (
        require_all,
        policies,
        (shape.id if shape.size > SMALL else (shape.node_selector, shape.required_node_terms)) if chosen else None,
        shape.tolerations if tolerated else None,
    )


def _speak_of(regions: tuple[Region, ...], topologies: list[Domains]) -> bool:
    """Whether the regions' ids mean what the topologies' do now: ids are given out anew now and then."""
    return all(region.domains.known is topology.known for region, topology in zip(regions, topologies, strict=True))
