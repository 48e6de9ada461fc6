"""Objects that the control plane creates itself: at start, and in each new namespace."""

from __future__ import annotations

from collections.abc import Iterator

from pyscheduler.embedded.admission.cluster import SYSTEM_PRIORITIES
from pyscheduler.embedded.admission.service_allocations import API_SERVER_IP, CLUSTER_IPS
from pyscheduler.embedded.objects import Json

FIRST_NAMESPACES = ("default", "kube-system", "kube-public", "kube-node-lease")
_COMPONENTS = {"controller-manager": "ok", "etcd-0": "ok", "scheduler": "ok"}
ROOT_CA = "kube-root-ca.crt"
_ROOT_CA_NOTE = (
    "Contains a CA bundle that can be used to verify the kube-apiserver when using internal endpoints such as the "
    "internal service IP or kubernetes.default.svc. No other usage is guaranteed across distributions of Kubernetes "
    "clusters."
)
_READY_CIDR = {
    "type": "Ready",
    "status": "True",
    "reason": "",
    "message": "Kubernetes default Service CIDR is ready",
}


def bootstrap_objects(now: str) -> Iterator[Json]:
    """Yield the objects of a cluster that starts `now`: namespaces, priority classes, component statuses, and the
    Service and the ServiceCIDR named kubernetes."""
    for name in FIRST_NAMESPACES:
        yield {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    for name, value in SYSTEM_PRIORITIES.items():
        yield {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": name},
            "value": value,
        }
    for name, message in _COMPONENTS.items():
        healthy = {"type": "Healthy", "status": "True", "message": message}
        yield {"apiVersion": "v1", "kind": "ComponentStatus", "metadata": {"name": name}, "conditions": [healthy]}
    yield {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": "kubernetes",
            "namespace": "default",
            "labels": {"component": "apiserver", "provider": "kubernetes"},
        },
        "spec": {
            "clusterIP": API_SERVER_IP,
            "ports": [{"name": "https", "port": 443, "protocol": "TCP", "targetPort": 6443}],
        },
    }
    yield {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "ServiceCIDR",
        "metadata": {"name": "kubernetes", "finalizers": ["networking.k8s.io/service-cidr-finalizer"]},
        "spec": {"cidrs": [str(CLUSTER_IPS)]},
        "status": {"conditions": [{**_READY_CIDR, "lastTransitionTime": now}]},
    }


def namespace_objects(namespace: str) -> Iterator[Json]:
    """Yield the objects of every namespace: the default service account and the bundle of the cluster's CA.

    The bundle is empty, as the server serves plain HTTP.
    """
    yield {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default", "namespace": namespace}}
    meta = {"name": ROOT_CA, "namespace": namespace, "annotations": {"kubernetes.io/description": _ROOT_CA_NOTE}}
    yield {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": {"ca.crt": ""}}
