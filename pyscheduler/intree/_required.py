"""Which nodes a pod's nodeSelector and required node affinity allow, asked of one node and of many."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from pyscheduler.api import Mask, NodeTable, NodeTerm, PodShape


def allows(shape: PodShape, name: str, labels: Mapping[str, str]) -> bool:
    """Whether a node of that name with these labels will do."""
    selector, terms = shape.node_selector, shape.required_node_terms
    if selector is not None and not selector.matches(labels):
        return False
    return terms is None or any_matches(terms, name, labels)


def allowed(shape: PodShape, nodes: NodeTable) -> Mask:
    """Which nodes will do."""
    selector, terms = shape.node_selector, shape.required_node_terms
    mask = np.ones(len(nodes), np.bool_) if selector is None else nodes.matches(selector)
    return mask if terms is None else mask & any_term(terms, nodes)


def any_matches(terms: tuple[NodeTerm, ...], name: str, labels: Mapping[str, str]) -> bool:
    """Whether a node satisfies at least one of some nodeSelectorTerms."""
    return any(term.matches(name, labels) for term in terms)


def any_term(terms: tuple[NodeTerm, ...], nodes: NodeTable) -> Mask:
    """Which nodes do."""
    mask = np.zeros(len(nodes), np.bool_)
    for term in terms:
        mask |= nodes.matches_term(term)
    return mask
