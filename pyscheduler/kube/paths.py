"""API kinds and paths."""

from __future__ import annotations

from pyscheduler.api import ResourceKind

PODS = ResourceKind("", "v1", "pods", "Pod")
NODES = ResourceKind("", "v1", "nodes", "Node", namespaced=False)
EVENTS = ResourceKind("events.k8s.io", "v1", "events", "Event")
CORE_EVENTS = ResourceKind("", "v1", "events", "Event")
LEASES = ResourceKind("coordination.k8s.io", "v1", "leases", "Lease")

LIVE_PODS = "status.phase!=Succeeded,status.phase!=Failed"
"""Field selector of kube-scheduler's pod informer: finished pods use no resources."""


SUCCEEDED_PODS = "status.phase=Succeeded"
"""Field selector of the succeeded pods, which some plugins count."""


def collection(kind: ResourceKind, namespace: str = "") -> str:
    """Return the path of a collection, in one namespace or ("") in all."""
    root = f"/apis/{kind.group}/{kind.version}" if kind.group else f"/api/{kind.version}"
    return f"{root}/namespaces/{namespace}/{kind.plural}" if namespace else f"{root}/{kind.plural}"


def pod(namespace: str, name: str, subresource: str = "") -> str:
    """Return the path of a pod, or of its subresource `/status`."""
    return f"/api/v1/namespaces/{namespace}/pods/{name}{subresource}"


def object_path(kind: ResourceKind, namespace: str = "", name: str = "", subresource: str = "") -> str:
    """Return the path of an object or its subresource, of the collection if `name` is ""."""
    parts = (collection(kind, namespace if kind.namespaced else ""), name, subresource)
    return "/".join(part for part in parts if part)
