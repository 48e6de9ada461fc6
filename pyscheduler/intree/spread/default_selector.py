"""Default selectors: the pods that a pod's Services and owner select, for default constraints.

Matches kube-scheduler's DefaultSelector. A pod that no Service or owner selects has an empty selector.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec

from pyscheduler.api import Handle, PodSignature, Requirement, ResourceKind, SelectionIndex, Selector, required_labels
from pyscheduler.api.match import SelectorError
from pyscheduler.api.objects import LabelSelector
from pyscheduler.intree._label_selectors import read_selector

SERVICES = ResourceKind("", "v1", "services", "Service")
REPLICATION_CONTROLLERS = ResourceKind("", "v1", "replicationcontrollers", "ReplicationController")
REPLICA_SETS = ResourceKind("apps", "v1", "replicasets", "ReplicaSet")
STATEFUL_SETS = ResourceKind("apps", "v1", "statefulsets", "StatefulSet")
KINDS = (SERVICES, REPLICATION_CONTROLLERS, REPLICA_SETS, STATEFUL_SETS)

Json = Mapping[str, Any]
_OWNERS = {
    ("v1", "ReplicationController"): REPLICATION_CONTROLLERS,
    ("apps/v1", "ReplicaSet"): REPLICA_SETS,
    ("apps/v1", "StatefulSet"): STATEFUL_SETS,
}


class DefaultSelector(NamedTuple):
    """A selector with its inputs: the version of the Services and the owner with its selector."""

    services: int
    owner: Json | None
    by_owner: Json | None
    selector: Selector


class DefaultSelectors:
    """Computes default selectors again when a Service or the owner's selector has changed."""

    def __init__(self, handle: Handle) -> None:
        self._handle = handle
        self._owned = {owner: handle.objects[kind] for owner, kind in _OWNERS.items()}
        self._services = handle.objects[SERVICES]
        self._index: SelectionIndex[tuple[str, str]] = SelectionIndex()
        self._version = -1

    def of(self, signature: PodSignature, last: DefaultSelector | None) -> DefaultSelector:
        """Return the current selector, without requirements if nothing selects the pod.

        `last` is the previous result for the signature, and is returned while its inputs are the same objects. Equal
        selectors are one object.
        """
        services, owner = self._handle.objects.version(SERVICES), self._owner(signature)
        if last is not None and last.services == services and last.owner is owner:
            return last
        by_owner = _selector_in(owner) if owner is not None else None
        if last is not None and last.services == services and last.by_owner == by_owner:
            return last._replace(owner=owner)
        selector = self._deduce(signature, by_owner)
        if last is not None and last.selector == selector:
            selector = last.selector
        return DefaultSelector(services, owner, by_owner, selector)

    def _owner(self, signature: PodSignature) -> Json | None:
        """Return the controller that owns the pod; None if it is unknown or its kind does not count."""
        owner = signature.owner
        known = self._owned.get((owner.api_version, owner.kind)) if owner is not None else None
        return known.get((signature.namespace, owner.name)) if known and owner is not None else None

    def _deduce(self, signature: PodSignature, by_owner: Json | None) -> Selector:
        labels: dict[str, Any] = {}
        self._index_services()
        for key in self._index.candidates(signature):
            of_service = self._services[key]["spec"]["selector"]  # well-formed, or it would not be in the index
            if of_service.items() <= signature.labels.items():
                labels.update(of_service)
        requirements: set[Requirement] = set()
        if by_owner is not None and signature.owner is not None:
            if _OWNERS[signature.owner.api_version, signature.owner.kind] is REPLICATION_CONTROLLERS:
                labels.update(by_owner)
            else:
                requirements.update(_requirements(by_owner))
        requirements.update(_equal(labels))
        # Sorted, so that the pods of one group share one selector and thereby its counts.
        return Selector(tuple(sorted(requirements, key=lambda r: (r.key, r.operator, r.values))))

    def _index_services(self) -> None:
        """Apply the changes since the last call."""
        version = self._handle.objects.version(SERVICES)
        changed = self._handle.objects.changed_since(SERVICES, self._version)
        if changed is None:
            self._index = SelectionIndex()
        for key in self._services if changed is None else changed:
            self._index.discard(key)
            labels = _service_labels(self._services.get(key))
            if labels:
                self._index.add(key, [required_labels(Selector(_equal(labels)), (key[0],))])
        self._version = version  # not before: after an exception the changes are applied again


def _service_labels(service: Json | None) -> Json:
    """Return the labels that a Service selects by, {} if it is malformed."""
    labels = _selector_in(service or {}) or {}
    return labels if all(isinstance(value, str) for value in labels.values()) else {}


def _equal(labels: Json) -> tuple[Requirement, ...]:
    return tuple([Requirement(key, "In", (str(value),)) for key, value in labels.items()])


def _selector_in(obj: Json) -> Json | None:
    spec = obj.get("spec")
    selector = spec.get("selector") if isinstance(spec, Mapping) else None
    return selector if isinstance(selector, Mapping) else None


def _requirements(selector: Json) -> tuple[Requirement, ...]:
    """Return the requirements of a metav1.LabelSelector, () if it is invalid."""
    try:
        compiled = read_selector(msgspec.convert(selector, LabelSelector))
    except (msgspec.ValidationError, SelectorError):
        return ()
    return compiled.requirements if compiled is not None else ()
