"""Table of the built-in resources with behaviour of their own, one row each; `stored_kinds.py` has all others.

Field selectors are those that Kubernetes supports for the kind; others are rejected, as there. RBAC objects are
stored and not enforced.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pyscheduler.embedded import events
from pyscheduler.embedded.admission import cluster, crds, devices, jobs, limit_ranges, services, workloads
from pyscheduler.embedded.admission.pods import POD_RULES
from pyscheduler.embedded.resources import Resource
from pyscheduler.embedded.stored_kinds import stored_resources

_STATUS = frozenset({"status"})
_SCALED = frozenset({"status", "scale"})
_ALL = ("all",)


def _same(*paths: str) -> dict[str, str]:
    return {path: path for path in paths}


_POD_FIELDS = _same(
    "spec.nodeName",
    "spec.restartPolicy",
    "spec.schedulerName",
    "spec.serviceAccountName",
    "spec.hostNetwork",
    "status.phase",
    "status.podIP",
    "status.nominatedNodeName",
)
_POD_SUBRESOURCES = frozenset(
    {"status", "binding", "eviction", "log", "exec", "attach", "portforward", "proxy", "ephemeralcontainers", "resize"}
)


def _core(kind: str, plural: str, *short: str, **more: Any) -> Resource:
    return Resource("", "v1", kind, plural, short_names=short, **more)


def _pods_and_nodes() -> Iterator[Resource]:
    pod = {"subresources": _POD_SUBRESOURCES, "fields": _POD_FIELDS, "rules": POD_RULES}
    yield _core("Pod", "pods", "po", categories=_ALL, generation=True, returns_deleted=True, **pod)
    node = {"subresources": _STATUS, "fields": _same("spec.unschedulable"), "rules": cluster.NODE}
    yield _core("Node", "nodes", "no", namespaced=False, starts_with_status=True, **node)
    namespace = {"subresources": _STATUS, "fields": _same("status.phase"), "rules": cluster.NAMESPACE}
    yield _core("Namespace", "namespaces", "ns", namespaced=False, returns_deleted=True, **namespace)
    event = {"fields": events.CORE_FIELDS, "rules": cluster.EVENT}
    yield _core("Event", "events", "ev", create_on_update=True, **event)


def _services_and_settings() -> Iterator[Resource]:
    service = {"subresources": _STATUS, "fields": _same("spec.clusterIP", "spec.type"), "rules": services.SERVICE}
    yield _core("Service", "services", "svc", categories=_ALL, returns_deleted=True, **service)
    yield _core("Endpoints", "endpoints", "ep", singular="endpoints")
    yield _core("ConfigMap", "configmaps", "cm")
    statuses: dict[str, Any] = {"namespaced": False, "verbs": ("get", "list")}
    yield _core("ComponentStatus", "componentstatuses", "cs", **statuses)
    yield _core("Secret", "secrets", fields=_same("type"), rules=cluster.SECRET)
    account = {"subresources": frozenset({"token"}), "returns_deleted": True}
    yield _core("ServiceAccount", "serviceaccounts", "sa", **account)
    controller = {"subresources": _SCALED, "fields": _same("status.replicas"), "rules": workloads.CONTROLLER}
    yield _core("ReplicationController", "replicationcontrollers", "rc", categories=_ALL, generation=True, **controller)
    yield _core("PodTemplate", "podtemplates", generation=True)
    yield _core("LimitRange", "limitranges", "limits", create_on_update=True, rules=limit_ranges.LIMIT_RANGE)
    quota: dict[str, Any] = {"subresources": _STATUS, "returns_deleted": True, "rules": cluster.QUOTA}
    yield _core("ResourceQuota", "resourcequotas", "quota", **quota)


def _volumes() -> Iterator[Resource]:
    claimable = {"subresources": _STATUS, "returns_deleted": True}
    yield _core("PersistentVolume", "persistentvolumes", "pv", namespaced=False, rules=cluster.VOLUME, **claimable)
    yield _core("PersistentVolumeClaim", "persistentvolumeclaims", "pvc", rules=cluster.CLAIM, **claimable)


def _apps() -> Iterator[Resource]:
    def row(kind: str, plural: str, short: str, **more: Any) -> Resource:
        fixed: dict[str, Any] = {"categories": _ALL, "generation": True}
        return Resource("apps", "v1", kind, plural, short_names=(short,), **fixed, **more)

    yield row("Deployment", "deployments", "deploy", subresources=_SCALED, rules=workloads.DEPLOYMENT)
    replicas = {"fields": _same("status.replicas"), "rules": workloads.REPLICASET}
    yield row("ReplicaSet", "replicasets", "rs", subresources=_SCALED, **replicas)
    yield row("StatefulSet", "statefulsets", "sts", subresources=_SCALED, rules=workloads.STATEFULSET)
    yield row("DaemonSet", "daemonsets", "ds", subresources=_STATUS, rules=workloads.DAEMONSET)
    yield Resource("apps", "v1", "ControllerRevision", "controllerrevisions")


def _batch() -> Iterator[Resource]:
    common: dict[str, Any] = {"categories": _ALL, "subresources": _STATUS, "generation": True}
    job: dict[str, Any] = {
        "fields": {"status.successful": "status.succeeded"},
        "rules": jobs.JOB,
    }
    yield Resource("batch", "v1", "Job", "jobs", **job, **common)
    cron: dict[str, Any] = {"rules": jobs.CRONJOB}
    yield Resource("batch", "v1", "CronJob", "cronjobs", short_names=("cj",), **cron, **common)


def _scheduling() -> Iterator[Resource]:
    budget: dict[str, Any] = {"rules": cluster.BUDGET, "generation": True}
    budget |= {"short_names": ("pdb",), "subresources": _STATUS, "unconditional_update": False}
    yield Resource("policy", "v1", "PodDisruptionBudget", "poddisruptionbudgets", **budget)
    priority: dict[str, Any] = {"rules": cluster.PRIORITY_CLASS, "generation": True}
    priority |= {"short_names": ("pc",), "namespaced": False, "spec_parts": ("value", "globalDefault")}
    yield Resource("scheduling.k8s.io", "v1", "PriorityClass", "priorityclasses", **priority)
    lease: dict[str, Any] = {"rules": cluster.LEASE}
    lease |= {"unconditional_update": False, "create_on_update": True}
    yield Resource("coordination.k8s.io", "v1", "Lease", "leases", **lease)
    event: dict[str, Any] = {"rules": cluster.EVENT, "fields": events.NEW_FIELDS}
    event |= {"short_names": ("ev",), "bucket": "events", "create_on_update": True}
    event |= {"to_stored": events.to_core, "from_stored": events.from_core}
    yield Resource("events.k8s.io", "v1", "Event", "events", **event)


def _storage() -> Iterator[Resource]:
    def row(kind: str, plural: str, *short: str, **more: Any) -> Resource:
        fixed: dict[str, Any] = {"namespaced": False, "returns_deleted": True}
        return Resource("storage.k8s.io", "v1", kind, plural, short_names=short, **(fixed | more))

    yield row("StorageClass", "storageclasses", "sc", rules=cluster.STORAGE_CLASS)
    yield row("CSINode", "csinodes", unconditional_update=False)
    yield row("CSIDriver", "csidrivers", unconditional_update=False)
    yield row(
        "CSIStorageCapacity",
        "csistoragecapacities",
        namespaced=True,
        unconditional_update=False,
        returns_deleted=False,
    )
    yield row("VolumeAttachment", "volumeattachments", subresources=_STATUS, unconditional_update=False)
    yield row("VolumeAttributesClass", "volumeattributesclasses", "vac")


def _devices() -> Iterator[Resource]:
    def row(kind: str, plural: str, **more: Any) -> Resource:
        return Resource("resource.k8s.io", "v1", kind, plural, returns_deleted=True, **more)

    yield row("DeviceClass", "deviceclasses", namespaced=False, generation=True)
    claim: dict[str, Any] = {"subresources": _STATUS, "rules": devices.CLAIM}
    yield row("ResourceClaim", "resourceclaims", **claim)
    yield row("ResourceClaimTemplate", "resourceclaimtemplates", rules=devices.CLAIM_TEMPLATE)
    yield row(
        "ResourceSlice",
        "resourceslices",
        namespaced=False,
        generation=True,
        fields=_same("spec.nodeName", "spec.driver"),
    )


def _access() -> Iterator[Resource]:
    for kind, plural, namespaced in (
        ("Role", "roles", True),
        ("RoleBinding", "rolebindings", True),
        ("ClusterRole", "clusterroles", False),
        ("ClusterRoleBinding", "clusterrolebindings", False),
    ):
        yield Resource(
            "rbac.authorization.k8s.io",
            "v1",
            kind,
            plural,
            namespaced,
            rules=cluster.RBAC,
            create_on_update=True,
        )
    yield Resource(
        "apiextensions.k8s.io",
        "v1",
        "CustomResourceDefinition",
        "customresourcedefinitions",
        namespaced=False,
        short_names=("crd", "crds"),
        categories=("api-extensions",),
        subresources=_STATUS,
        generation=True,
        rules=crds.RULES,
    )


def builtin_resources() -> list[Resource]:
    """Return every built-in resource."""
    groups = (
        _pods_and_nodes,
        _services_and_settings,
        _volumes,
        _apps,
        _batch,
        _scheduling,
        _storage,
        _devices,
        _access,
    )
    own = [resource for group in groups for resource in group()]
    return [*own, *stored_resources({(resource.api_version, resource.plural) for resource in own})]
