"""Namespaces as plugins read them: their labels, and which of them a selector chooses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from pyscheduler.api import Handle, ResourceKind, Selector
from pyscheduler.intree.affinity.terms import Term

NAMESPACE = ResourceKind("", "v1", "namespaces", "Namespace", namespaced=False)

_UNKNOWN: Mapping[str, Any] = MappingProxyType({})
_SELECTORS = 256
"""For how many selectors the answer is remembered."""


class NamespaceLister:
    """The namespaces last seen. What a selector chooses is remembered until any of them changes."""

    def __init__(self, handle: Handle) -> None:
        self._handle = handle
        self._version = -1
        self._chosen: dict[Selector, frozenset[str]] = {}

    def get(self, name: str) -> Mapping[str, Any]:
        """The object of that name; an empty one while it has not been seen."""
        return self._handle.objects(NAMESPACE).get(("", name), _UNKNOWN)

    @property
    def version(self) -> int:
        """Another number whenever any of them changes."""
        return self._handle.objects_version(NAMESPACE)

    def chosen(self, selector: Selector) -> frozenset[str]:
        """The names of the namespaces that the selector matches."""
        version = self.version
        if version != self._version or len(self._chosen) > _SELECTORS:
            self._version = version
            self._chosen.clear()
        names = self._chosen.get(selector)
        if names is None:
            objects = self._handle.objects(NAMESPACE)
            names = frozenset(name for (_, name), obj in objects.items() if selector.matches(labels_of(obj)))
            self._chosen[selector] = names
        return names

    def resolved(self, term: Term) -> Term:
        """A term of the incoming pod, with the namespaces that its selector chooses by name."""
        selector = term.peers.namespace_selector
        if selector is None or not selector.requirements:
            return term
        namespaces = term.peers.namespaces | self.chosen(selector)
        return Term(term.key, replace(term.peers, namespaces=namespaces))


def labels_of(obj: Mapping[str, Any]) -> Mapping[str, str]:
    """The labels of an object; none where it has no such field."""
    labels: Mapping[str, str] | None = (obj.get("metadata") or {}).get("labels")
    return labels or {}
