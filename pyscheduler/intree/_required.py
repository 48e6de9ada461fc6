"""Nodes that a pod's nodeSelector and required node affinity allow, for one node or for all.

Up to `FEW` requirements are evaluated one by one, more of them together by a `TermMatcher`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from pyscheduler.api import Cycle, Mask, NodeTable, NodeTerm, PodSignature, Requirement
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


class _CompiledRequirements(NamedTuple):
    """Compiled nodeSelector and required terms of a signature that has many; None for the one that it lacks."""

    selector: TermMatcher | None
    terms: TermMatcher | None


_many: WeakKeyDictionary[PodSignature, _CompiledRequirements | None] = WeakKeyDictionary()
"""By signature; None for signatures with few requirements. An entry is dropped with the last pod of its signature."""


def has_no_required_terms(signature: PodSignature) -> bool:
    """Return True if the pod has neither a nodeSelector nor required node affinity."""
    return signature.spec.node_selector is None and _stated_terms(signature) is None


def charge_required(cycle: Cycle, signature: PodSignature, nodes: NodeTable) -> None:
    """Charge the attempt for evaluating many requirements over the nodes. AttemptLimitExceeded beyond the limit."""
    many = _compiled(signature) if signature.size > SMALL else None
    for matcher in many or ():
        if matcher is not None:
            cycle.charge_evaluations(matcher.requirements, len(nodes), "node affinity", NODE_BLOCK)


def allows(signature: PodSignature, name: str, labels: Mapping[str, str]) -> bool:
    """Return True if the pod may run on a node with this name and these labels."""
    many = _compiled(signature) if signature.size > SMALL else None
    if many is not None:
        rows = MappingRows([{**labels, NODE_NAME: name}])
        return all(matcher is None or bool(matcher.any(rows)[0]) for matcher in many)
    selector, terms = signature.node_selector, signature.required_node_terms
    if selector is not None and not selector.matches(labels):
        return False
    return terms is None or any_matches(terms, name, labels)


def allowed(signature: PodSignature, nodes: NodeTable) -> Mask:
    """Return the mask of nodes on which the pod may run."""
    many = _compiled(signature) if signature.size > SMALL else None
    if many is not None:
        mask = np.ones(len(nodes), np.bool_)
        for matcher in many:
            if matcher is not None:
                mask &= matcher.any(NodeRows(nodes))
        return mask
    selector, terms = signature.node_selector, signature.required_node_terms
    mask = np.ones(len(nodes), np.bool_) if selector is None else nodes.matches(selector)
    return mask if terms is None else mask & any_term(terms, nodes)


def any_matches(terms: tuple[NodeTerm, ...], name: str, labels: Mapping[str, str]) -> bool:
    """Return True if a node satisfies at least one of the nodeSelectorTerms."""
    return any(term.matches(name, labels) for term in terms)


def any_term(terms: tuple[NodeTerm, ...], nodes: NodeTable) -> Mask:
    """Return the mask of nodes that satisfy at least one of the nodeSelectorTerms."""
    mask = np.zeros(len(nodes), np.bool_)
    for term in terms:
        mask |= nodes.matches_term(term)
    return mask


def are_many(terms: Sequence[NodeSelectorTerm]) -> bool:
    """Return True if the terms have more than `FEW` requirements in all."""
    return len(terms) > FEW or sum(len(t.match_expressions or ()) + len(t.match_fields or ()) for t in terms) > FEW


def _stated_terms(signature: PodSignature) -> Sequence[NodeSelectorTerm] | None:
    affinity = signature.affinity.node_affinity
    required = affinity.required_during_scheduling_ignored_during_execution if affinity else None
    return None if required is None else required.node_selector_terms or ()


def _compiled(signature: PodSignature) -> _CompiledRequirements | None:
    try:
        return _many[signature]
    except KeyError:
        many = _many[signature] = _compile(signature)
        return many


def _compile(signature: PodSignature) -> _CompiledRequirements | None:
    labels, terms = signature.spec.node_selector, _stated_terms(signature)
    if len(labels or ()) <= FEW and not are_many(terms or ()):
        return None
    selector = None if labels is None else TermMatcher([[Requirement(k, "In", (v,)) for k, v in labels.items()]])
    return _CompiledRequirements(
        selector, None if terms is None else TermMatcher(filter(None, node_requirements(terms)))
    )
