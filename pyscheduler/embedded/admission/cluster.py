"""Admission of what is not a workload: nodes, namespaces, priority classes, budgets, volumes, services, leases."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

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
    """Settle quantities; allocatable is capacity where it is left out."""
    node.setdefault("spec", {})
    status = node.setdefault("status", {})
    canonicalize_quantities(status, "capacity", "allocatable")
    if status.get("capacity") and not status.get("allocatable"):
        status["allocatable"] = status["capacity"]


def check_node(node: Json) -> list[Cause]:
    """Taints must be complete and unique."""
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
    """Every namespace carries its name as a label."""
    meta = namespace["metadata"]
    meta["labels"] = {**(meta.get("labels") or {}), _NAMESPACE_LABEL: meta.get("name", "")}
    namespace["spec"] = {"finalizers": ["kubernetes"]}
    if not dig(namespace, "status", "phase"):
        namespace["status"] = {**(namespace.get("status") or {}), "phase": "Active"}


def default_priority_class(item: Json, _lookup: Lookup) -> None:
    """preemptionPolicy; a missing value is 0."""
    item.setdefault("preemptionPolicy", "PreemptLowerPriority")
    item.setdefault("value", 0)


def check_priority_class(item: Json) -> list[Cause]:
    """User classes stay below the system's and do not take its names."""
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
    """Value and preemptionPolicy are fixed."""
    return [
        invalid_value(field, new.get(field), "field is immutable")
        for field in ("value", "preemptionPolicy")
        if new.get(field) != old.get(field)
    ]


def check_budget(budget: Json) -> list[Cause]:
    """A PodDisruptionBudget has minAvailable or maxUnavailable, not both."""
    spec = budget.get("spec") or {}
    if "minAvailable" in spec and "maxUnavailable" in spec:
        why = "minAvailable and maxUnavailable cannot be both set"
        return [invalid_value("spec", {k: spec[k] for k in ("minAvailable", "maxUnavailable")}, why)]
    return []


def default_claim(claim: Json, _lookup: Lookup) -> None:
    """Defaults of a PersistentVolumeClaim; the default storage class is filled in as its admission plugin does."""
    spec = claim.setdefault("spec", {})
    spec.setdefault("volumeMode", "Filesystem")
    canonicalize_quantities(spec.setdefault("resources", {}), "requests", "limits")
    if not dig(claim, "status", "phase"):
        claim["status"] = {**(claim.get("status") or {}), "phase": "Pending"}


def admit_claim(claim: Json, lookup: Lookup) -> None:
    """A new claim that names no storage class gets the default one."""
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
    """A claim asks for storage and an access mode."""
    spec = claim["spec"]
    causes = [] if spec.get("accessModes") else [required("spec.accessModes", "at least 1 access mode is required")]
    if not dig(spec, "resources", "requests", "storage"):
        causes.append(required("spec.resources[storage]"))
    return causes


def default_volume(volume: Json, _lookup: Lookup) -> None:
    """Defaults of a PersistentVolume."""
    spec = volume.setdefault("spec", {})
    spec.setdefault("persistentVolumeReclaimPolicy", "Retain")
    spec.setdefault("volumeMode", "Filesystem")
    canonicalize_quantities(spec, "capacity")
    if not dig(volume, "status", "phase"):
        volume["status"] = {**(volume.get("status") or {}), "phase": "Pending"}


def check_volume(volume: Json) -> list[Cause]:
    """A volume has a capacity and access modes."""
    spec = volume["spec"]
    causes = [] if spec.get("accessModes") else [required("spec.accessModes")]
    return causes if spec.get("capacity") else [*causes, required("spec.capacity")]


def default_storage_class(item: Json, _lookup: Lookup) -> None:
    """Defaults of a StorageClass."""
    item.setdefault("reclaimPolicy", "Delete")
    item.setdefault("volumeBindingMode", "Immediate")


def check_storage_class(item: Json) -> list[Cause]:
    """A storage class names its provisioner."""
    return [] if item.get("provisioner") else [required("provisioner")]


def default_service(service: Json, _lookup: Lookup) -> None:
    """Defaults of a Service. No cluster IP is given out: nothing here routes packets."""
    spec = service.setdefault("spec", {})
    spec.setdefault("type", "ClusterIP")
    spec.setdefault("sessionAffinity", "None")
    spec.setdefault("internalTrafficPolicy", "Cluster")
    for port in spec.get("ports") or ():
        port.setdefault("protocol", "TCP")
        port.setdefault("targetPort", port.get("port"))
    service.setdefault("status", {"loadBalancer": {}})


def default_secret(secret: Json, _lookup: Lookup) -> None:
    """A secret is Opaque unless it says otherwise; stringData is folded into data."""
    secret.setdefault("type", "Opaque")
    text: dict[str, Any] | None = secret.pop("stringData", None)
    if text:
        encoded = {name: b64encode(value.encode()).decode() for name, value in text.items()}
        secret["data"] = {**(secret.get("data") or {}), **encoded}


def check_event(event: Json) -> list[Cause]:
    """An event lies in the namespace of its object ("default" for cluster-scoped ones)."""
    involved = event.get("involvedObject") or {}
    home = involved.get("namespace") or ""
    if home == event["metadata"].get("namespace") or (not home and event["metadata"].get("namespace") == "default"):
        return []
    return [invalid_value("involvedObject.namespace", home, "does not match event.namespace")]


def default_lease(lease: Json, _lookup: Lookup) -> None:
    """A lease always has a spec."""
    lease.setdefault("spec", {})


NODE = Rules(default_node, on_status=default_node, check=check_node)
NAMESPACE = Rules(default_namespace, name_form="label")
PRIORITY_CLASS = Rules(default_priority_class, check=check_priority_class, check_change=check_priority_class_change)
BUDGET = Rules(check=check_budget)
CLAIM = Rules(default_claim, admit_claim, check=check_claim)
VOLUME = Rules(default_volume, check=check_volume)
STORAGE_CLASS = Rules(default_storage_class, check=check_storage_class)
SERVICE = Rules(default_service, name_form="label")
SECRET = Rules(default_secret)
EVENT = Rules(check=check_event)
LEASE = Rules(default_lease)
RBAC = Rules(name_form="path")
