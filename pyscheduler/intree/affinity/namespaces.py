"""Namespaces for InterPodAffinity: their labels, and the namespaces that a selector selects."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from pyscheduler.api import Handle, ResourceKind, Selector
from pyscheduler.intree.affinity.terms import Term

NAMESPACE = ResourceKind("", "v1", "namespaces", "Namespace", namespaced=False)

_NOT_FOUND: Mapping[str, Any] = MappingProxyType({})
_MAX_SELECTORS = 256
"""Selectors cached at most."""


class NamespaceLister:
    """Lister of namespaces. The names that a selector matches are cached until a namespace changes."""

    def __init__(self, handle: Handle) -> None:
        self._handle = handle
        self._version = -1
        self._chosen: dict[Selector, frozenset[str]] = {}

    def get(self, name: str) -> Mapping[str, Any]:
        """Return the namespace object; an empty mapping if it is not in the informer's cache."""
        return self._handle.objects[NAMESPACE].get(("", name), _NOT_FOUND)

    @property
    def version(self) -> int:
        """Number that changes with every change of a namespace."""
        return self._handle.objects.version(NAMESPACE)

    def chosen(self, selector: Selector) -> frozenset[str]:
        """Return the names of the namespaces that the selector matches."""
        version = self.version
        if version != self._version or len(self._chosen) > _MAX_SELECTORS:
            self._version = version
            self._chosen.clear()
        names = self._chosen.get(selector)
        if names is None:
            objects = self._handle.objects[NAMESPACE]
            names = frozenset(name for (_, name), obj in objects.items() if selector.matches(labels_of(obj)))
            self._chosen[selector] = names
        return names

    def resolved(self, term: Term) -> Term:
        """Return an incoming pod's term with its namespaceSelector resolved to names."""
        selector = term.peers.namespace_selector
        if selector is None or not selector.requirements:
            return term
        namespaces = term.peers.namespaces | self.chosen(selector)
        return Term(term.key, replace(term.peers, namespaces=namespaces, namespace_selector=None))


def labels_of(obj: Mapping[str, Any]) -> Mapping[str, str]:
    """Return the labels of an object, {} if it has none."""
    labels: Mapping[str, str] | None = (obj.get("metadata") or {}).get("labels")
    return labels or {}
