"""The nodes that a pod's nodeSelector and required node affinity allow, evaluated for one node and for many.

Up to `FEW` requirements are evaluated one after the other, more of them together.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from pyscheduler.api import Cycle, Mask, NodeTable, NodeTerm, PodShape, Requirement
from pyscheduler.api.objects import NodeSelectorTerm
from pyscheduler.intree._term_matcher import (
    FEW,
    NODE_BLOCK,
    NODE_NAME,
    SMALL,
    MappingRows,
    NodeRows,
    TermMatcher,
    node_requirements,
)


class _Many(NamedTuple):
    """The compiled requirements of a shape that has many; None for the side that it does not state."""

    selector: TermMatcher | None
    terms: TermMatcher | None


_many: WeakKeyDictionary[PodShape, _Many | None] = WeakKeyDictionary()
"""By shape; None for one that has few. It goes with the last pod of the shape."""


def states_none(shape: PodShape) -> bool:
    """Return True if every node is allowed because the pod states neither."""
    return shape.spec.node_selector is None and _stated_terms(shape) is None


def spend_on_required(cycle: Cycle, shape: PodShape, nodes: NodeTable) -> None:
    """Charge an attempt for evaluating them over some nodes, where they are many. TooExpensive beyond the limit."""
    many = _compiled(shape) if shape.size > SMALL else None
    for matcher in many or ():
        if matcher is not None:
            cycle.spend(matcher.requirements, len(nodes), "node affinity", NODE_BLOCK)


def allows(shape: PodShape, name: str, labels: Mapping[str, str]) -> bool:
    """Return True if a node of that name with these labels is allowed."""
    many = _compiled(shape) if shape.size > SMALL else None
    if many is not None:
        rows = MappingRows([{**labels, NODE_NAME: name}])
        return all(matcher is None or bool(matcher.any(rows)[0]) for matcher in many)
    selector, terms = shape.node_selector, shape.required_node_terms
    if selector is not None and not selector.matches(labels):
        return False
    return terms is None or any_matches(terms, name, labels)


def allowed(shape: PodShape, nodes: NodeTable) -> Mask:
    """The nodes that are allowed."""
    many = _compiled(shape) if shape.size > SMALL else None
    if many is not None:
        mask = np.ones(len(nodes), np.bool_)
        for matcher in many:
            if matcher is not None:
                mask &= matcher.any(NodeRows(nodes))
        return mask
    selector, terms = shape.node_selector, shape.required_node_terms
    mask = np.ones(len(nodes), np.bool_) if selector is None else nodes.matches(selector)
    return mask if terms is None else mask & any_term(terms, nodes)


def any_matches(terms: tuple[NodeTerm, ...], name: str, labels: Mapping[str, str]) -> bool:
    """Return True if a node satisfies at least one of some nodeSelectorTerms."""
    return any(term.matches(name, labels) for term in terms)


def any_term(terms: tuple[NodeTerm, ...], nodes: NodeTable) -> Mask:
    """The nodes that satisfy at least one of some nodeSelectorTerms."""
    mask = np.zeros(len(nodes), np.bool_)
    for term in terms:
        mask |= nodes.matches_term(term)
    return mask


def are_many(terms: Sequence[NodeSelectorTerm]) -> bool:
    """Return True if some terms have more than `FEW` requirements."""
    return len(terms) > FEW or sum(len(t.match_expressions or ()) + len(t.match_fields or ()) for t in terms) > FEW


def _stated_terms(shape: PodShape) -> Sequence[NodeSelectorTerm] | None:
    affinity = shape.affinity.node_affinity
    required = affinity.required_during_scheduling_ignored_during_execution if affinity else None
    return None if required is None else required.node_selector_terms or ()


def _compiled(shape: PodShape) -> _Many | None:
    try:
        return _many[shape]
    except KeyError:
        many = _many[shape] = _compile(shape)
        return many


def _compile(shape: PodShape) -> _Many | None:
    labels, terms = shape.spec.node_selector, _stated_terms(shape)
    if len(labels or ()) <= FEW and not are_many(terms or ()):
        return None
    selector = None if labels is None else TermMatcher([[Requirement(k, "In", (v,)) for k, v in labels.items()]])
    return _Many(selector, None if terms is None else TermMatcher(filter(None, node_requirements(terms))))
