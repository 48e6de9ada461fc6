"""Objects as metav1.Table, the form that `kubectl get` requests."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

from pyscheduler.embedded.columns import cluster, published, workloads
from pyscheduler.embedded.columns.column import GENERIC, Column
from pyscheduler.embedded.columns.custom import custom_columns
from pyscheduler.embedded.columns.pods import POD_COLUMNS
from pyscheduler.embedded.history import Version
from pyscheduler.embedded.objects import Json
from pyscheduler.embedded.resources import Resource

_COLUMNS: Mapping[str, tuple[Column, ...]] = {
    "pods": POD_COLUMNS,
    "nodes": cluster.NODE,
    "namespaces": cluster.NAMESPACE,
    "events": cluster.EVENT,
    "services": cluster.SERVICE,
    "configmaps": cluster.CONFIGMAP,
    "secrets": cluster.SECRET,
    "persistentvolumes": cluster.VOLUME,
    "persistentvolumeclaims": cluster.CLAIM,
    "replicationcontrollers": workloads.REPLICASET,
    "deployments.apps": workloads.DEPLOYMENT,
    "replicasets.apps": workloads.REPLICASET,
    "statefulsets.apps": workloads.STATEFULSET,
    "daemonsets.apps": workloads.DAEMONSET,
    "jobs.batch": workloads.JOB,
    "cronjobs.batch": workloads.CRONJOB,
    "poddisruptionbudgets.policy": workloads.BUDGET,
    "leases.coordination.k8s.io": cluster.LEASE,
    "podgroups.scheduling.k8s.io": published.POD_GROUP,
    "priorityclasses.scheduling.k8s.io": cluster.PRIORITY_CLASS,
    "storageclasses.storage.k8s.io": cluster.STORAGE_CLASS,
    "csinodes.storage.k8s.io": cluster.CSI_NODE,
    "csistoragecapacities.storage.k8s.io": cluster.CSI_CAPACITY,
    "volumeattachments.storage.k8s.io": cluster.ATTACHMENT,
    "customresourcedefinitions.apiextensions.k8s.io": cluster.CRD,
    "resourceclaims.resource.k8s.io": cluster.RESOURCE_CLAIM,
    "resourceslices.resource.k8s.io": cluster.RESOURCE_SLICE,
    "componentstatuses": published.COMPONENT,
    "resourcequotas": published.QUOTA,
    "endpoints": published.ENDPOINTS,
    "horizontalpodautoscalers.autoscaling": published.AUTOSCALER,
    "certificatesigningrequests.certificates.k8s.io": published.SIGNING_REQUEST,
    "endpointslices.discovery.k8s.io": published.ENDPOINT_SLICE,
    "ingressclasses.networking.k8s.io": published.INGRESS_CLASS,
    "ingresses.networking.k8s.io": published.INGRESS,
    "networkpolicies.networking.k8s.io": published.NETWORK_POLICY,
    "runtimeclasses.node.k8s.io": published.RUNTIME_CLASS,
    "rolebindings.rbac.authorization.k8s.io": published.ROLE_BINDING,
    "clusterrolebindings.rbac.authorization.k8s.io": published.ROLE_BINDING,
    "mutatingwebhookconfigurations.admissionregistration.k8s.io": published.WEBHOOKS,
    "validatingwebhookconfigurations.admissionregistration.k8s.io": published.WEBHOOKS,
}
_FINISHED = {
    phase: [{"type": "Completed", "status": "True", "reason": phase, "message": message}]
    for phase, message in (
        ("Succeeded", "The pod has completed successfully."),
        ("Failed", "The pod failed."),
    )
}


@lru_cache(maxsize=256)
def _columns(bucket: str) -> tuple[Column, ...]:
    return _COLUMNS.get(bucket, GENERIC)


def columns_of(resource: Resource) -> tuple[Column, ...]:
    """Return the columns of a resource."""
    return custom_columns(resource.printer_columns) if resource.custom else _columns(resource.bucket)


def metadata_only(obj: Mapping[str, Any]) -> Json:
    """Return an object as PartialObjectMetadata."""
    return {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": obj["metadata"]}


class TableView:
    """Renderer of one request's tables; `include` is the includeObject parameter: Metadata, Object or None."""

    def __init__(self, resource: Resource, now: float, include: str = "Metadata") -> None:
        self._columns, self._now, self._include = columns_of(resource), now, include
        self._projection = resource.from_stored

    def table(self, versions: Iterable[Version], list_meta: Json, *, headers: bool = True) -> Json:
        """Return a table of `versions`."""
        definitions = [column.definition() for column in self._columns] if headers else None
        return {
            "kind": "Table",
            "apiVersion": "meta.k8s.io/v1",
            "metadata": list_meta,
            "columnDefinitions": definitions,
            "rows": [self._row(version.object) for version in versions],
        }

    def at(self, now: float) -> TableView:
        """Set the time that ages are relative to; return self."""
        self._now = now
        return self

    def _row(self, obj: Json) -> Json:
        row: Json = {"cells": [column.cell(obj, self._now) for column in self._columns]}
        finished = _FINISHED.get((obj.get("status") or {}).get("phase", "")) if obj["kind"] == "Pod" else None
        if finished:
            row["conditions"] = finished
        if self._include == "Metadata":
            row["object"] = metadata_only(obj)
        elif self._include == "Object":
            row["object"] = self._projection(obj) if self._projection else obj
        return row
