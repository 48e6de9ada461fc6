"""Admission of nodes, namespaces, priority classes, disruption budgets, storage, secrets, events, leases."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

from pyscheduler.embedded.admission.limit_ranges import limit_claim
from pyscheduler.embedded.admission.quantities import canonicalize_quantities
from pyscheduler.embedded.objects import Json, dig
from pyscheduler.embedded.resources import Lookup, Rules
from pyscheduler.embedded.status import (
    Cause,
    duplicate,
    forbidden_value,
    invalid_value,
    required,
    unsupported,
)

_SYSTEM_PREFIX = "system-"
_MAX_USER_PRIORITY = 1_000_000_000
_TAINT_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_NAMESPACE_LABEL = "kubernetes.io/metadata.name"
SYSTEM_PRIORITIES = {"system-node-critical": 2_000_001_000, "system-cluster-critical": 2_000_000_000}


def default_node(node: Json, _lookup: Lookup) -> None:
    """Canonicalize quantities; allocatable defaults to capacity."""
    node.setdefault("spec", {})
    status = node.setdefault("status", {})
    canonicalize_quantities(status, "capacity", "allocatable")
    if status.get("capacity") and not status.get("allocatable"):
        status["allocatable"] = status["capacity"]


def check_node(node: Json) -> list[Cause]:
    """Return a cause for each incomplete or duplicate taint."""
    causes: list[Cause] = []
    seen: set[tuple[str, str]] = set()
    for index, taint in enumerate(node["spec"].get("taints") or ()):
        path = f"spec.taints[{index}]"
        key, effect = taint.get("key", ""), taint.get("effect", "")
        if not key:
            causes.append(required(f"{path}.key"))
        if effect not in _TAINT_EFFECTS:
            causes.append(unsupported(f"{path}.effect", effect, _TAINT_EFFECTS))
        if (key, effect) in seen:
            causes.append(duplicate(path, f"{key}:{effect}"))
        seen.add((key, effect))
    return causes


def default_namespace(namespace: Json, _lookup: Lookup) -> None:
    """Set the name label, the spec and the phase of a namespace."""
    meta = namespace["metadata"]
    meta["labels"] = {**(meta.get("labels") or {}), _NAMESPACE_LABEL: meta.get("name", "")}
    namespace["spec"] = {"finalizers": ["kubernetes"]}
    if not dig(namespace, "status", "phase"):
        namespace["status"] = {**(namespace.get("status") or {}), "phase": "Active"}


def default_priority_class(item: Json, _lookup: Lookup) -> None:
    """Set preemptionPolicy and value (0)."""
    item.setdefault("preemptionPolicy", "PreemptLowerPriority")
    item.setdefault("value", 0)


def check_priority_class(item: Json) -> list[Cause]:
    """Return causes where a user's class has a system name or a value in the system's range."""
    name, value = item["metadata"]["name"], item["value"]
    if name.startswith(_SYSTEM_PREFIX):
        if SYSTEM_PRIORITIES.get(name) == value:
            return []
        why = f"priority class names with '{_SYSTEM_PREFIX}' prefix are reserved for system use only"
        return [forbidden_value("metadata.name", why)]
    if value > _MAX_USER_PRIORITY:
        why = f"maximum allowed value of a user defined priority is {_MAX_USER_PRIORITY}"
        return [forbidden_value("value", why)]
    return []


def check_priority_class_change(new: Json, old: Json) -> list[Cause]:
    """Return causes for changes of value and preemptionPolicy, which are immutable."""
    return [
        invalid_value(field, new.get(field), "field is immutable")
        for field in ("value", "preemptionPolicy")
        if new.get(field) != old.get(field)
    ]


def check_budget(budget: Json) -> list[Cause]:
    """Return a cause if both minAvailable and maxUnavailable are set."""
    spec = budget.get("spec") or {}
    if "minAvailable" in spec and "maxUnavailable" in spec:
        why = "minAvailable and maxUnavailable cannot be both set"
        return [invalid_value("spec", {k: spec[k] for k in ("minAvailable", "maxUnavailable")}, why)]
    return []


def default_claim(claim: Json, _lookup: Lookup) -> None:
    """Set the defaults of a PersistentVolumeClaim."""
    spec = claim.setdefault("spec", {})
    spec.setdefault("volumeMode", "Filesystem")
    canonicalize_quantities(spec.setdefault("resources", {}), "requests", "limits")
    if not dig(claim, "status", "phase"):
        claim["status"] = {**(claim.get("status") or {}), "phase": "Pending"}


def admit_claim(claim: Json, lookup: Lookup) -> None:
    """Set the default storage class on a new claim without one, and check its size, as the admission plugins do."""
    limit_claim(claim, lookup)
    if "storageClassName" in claim["spec"]:
        return
    default = _default_class(lookup)
    if default:
        claim["spec"]["storageClassName"] = default


def _default_class(lookup: Lookup) -> str:
    marked = [
        version.object["metadata"]
        for version in lookup.scan("storageclasses.storage.k8s.io")
        if dig(version.object, "metadata", "annotations", "storageclass.kubernetes.io/is-default-class") == "true"
    ]
    return max(marked, key=lambda meta: str(meta["creationTimestamp"]))["name"] if marked else ""


def check_claim(claim: Json) -> list[Cause]:
    """Return causes where access modes or the storage request are missing."""
    spec = claim["spec"]
    causes = [] if spec.get("accessModes") else [required("spec.accessModes", "at least 1 access mode is required")]
    if not dig(spec, "resources", "requests", "storage"):
        causes.append(required("spec.resources[storage]"))
    return causes


def default_quota(quota: Json, _lookup: Lookup) -> None:
    """Canonicalize the limits of a ResourceQuota."""
    canonicalize_quantities(quota.setdefault("spec", {}), "hard", at="spec")


def default_volume(volume: Json, _lookup: Lookup) -> None:
    """Set the defaults of a PersistentVolume."""
    spec = volume.setdefault("spec", {})
    spec.setdefault("persistentVolumeReclaimPolicy", "Retain")
    spec.setdefault("volumeMode", "Filesystem")
    canonicalize_quantities(spec, "capacity")
    if not dig(volume, "status", "phase"):
        volume["status"] = {**(volume.get("status") or {}), "phase": "Pending"}


def check_volume(volume: Json) -> list[Cause]:
    """Return causes where capacity or access modes are missing."""
    spec = volume["spec"]
    causes = [] if spec.get("accessModes") else [required("spec.accessModes")]
    return causes if spec.get("capacity") else [*causes, required("spec.capacity")]


def default_storage_class(item: Json, _lookup: Lookup) -> None:
    """Set the defaults of a StorageClass."""
    item.setdefault("reclaimPolicy", "Delete")
    item.setdefault("volumeBindingMode", "Immediate")


def check_storage_class(item: Json) -> list[Cause]:
    """Return a cause if the provisioner is missing."""
    return [] if item.get("provisioner") else [required("provisioner")]


def default_secret(secret: Json, _lookup: Lookup) -> None:
    """Set the default type (Opaque) and merge stringData into data."""
    secret.setdefault("type", "Opaque")
    text: dict[str, Any] | None = secret.pop("stringData", None)
    if text:
        encoded = {name: b64encode(value.encode()).decode() for name, value in text.items()}
        secret["data"] = {**(secret.get("data") or {}), **encoded}


def check_event(event: Json) -> list[Cause]:
    """Return a cause if the event is not in the namespace of its object ("default" for cluster-scoped objects)."""
    involved = event.get("involvedObject") or {}
    namespace = involved.get("namespace") or ""
    own_namespace = event["metadata"].get("namespace")
    if namespace == own_namespace or (not namespace and own_namespace == "default"):
        return []
    return [invalid_value("involvedObject.namespace", namespace, "does not match event.namespace")]


def default_lease(lease: Json, _lookup: Lookup) -> None:
    """Set an empty spec if there is none."""
    lease.setdefault("spec", {})


NODE = Rules(default_node, on_status=default_node, check=check_node)
NAMESPACE = Rules(default_namespace, name_form="label")
PRIORITY_CLASS = Rules(default_priority_class, check=check_priority_class, check_change=check_priority_class_change)
BUDGET = Rules(check=check_budget)
CLAIM = Rules(default_claim, admit_claim, check=check_claim)
QUOTA = Rules(default_quota)
VOLUME = Rules(default_volume, check=check_volume)
STORAGE_CLASS = Rules(default_storage_class, check=check_storage_class)
SECRET = Rules(default_secret)
EVENT = Rules(check=check_event)
LEASE = Rules(default_lease)
RBAC = Rules(name_form="path")
