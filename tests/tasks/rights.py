"""Kubeconfig of a ServiceAccount with the RBAC rules of the example manifests."""

from __future__ import annotations

from pathlib import Path

import yaml

from tests.e2e.client import ApiClient
from tests.e2e.plane import Plane
from tests.faults.proxy import FaultProxy
from tests.faults.waiting import until

MANIFESTS = Path(__file__).parents[2] / "manifests" / "examples" / "tasks"
NAME = "pyscheduler-tasks"
_PATHS = {
    "ServiceAccount": "/api/v1/namespaces/{namespace}/serviceaccounts",
    "Role": "/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}/roles",
    "RoleBinding": "/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}/rolebindings",
}
_REVIEWS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"


async def kubeconfig_of(plane: Plane, namespace: str) -> Path:
    """Return the backend's kubeconfig in a namespace; on the embedded cluster, which has no RBAC, the admin's."""
    if plane.real is None:
        return plane.kubeconfig
    for document in yaml.safe_load_all((MANIFESTS / "rights.yaml").read_text()):
        document["metadata"]["namespace"] = namespace
        for subject in document.get("subjects", ()):
            subject["namespace"] = namespace
        await plane.api.create(_PATHS[document["kind"]].format(namespace=namespace), document)
    await _until_allowed(plane.api, namespace)
    return await plane.real.kubeconfig_for_service_account(namespace, NAME)


async def _until_allowed(api: ApiClient, namespace: str) -> None:
    """Wait until the API server applies the RBAC rules, which it does a moment after they are written."""
    attributes = {"namespace": namespace, "verb": "create", "resource": "pods"}
    review = {"spec": {"user": f"system:serviceaccount:{namespace}:{NAME}", "resourceAttributes": attributes}}

    async def allowed() -> bool:
        return bool((await api.create(_REVIEWS, review))["status"]["allowed"])

    await until(allowed)


async def kubeconfig_through(proxy: FaultProxy, plane: Plane, namespace: str) -> str:
    """Return the backend's kubeconfig with the proxy as its server."""
    document = yaml.safe_load((await kubeconfig_of(plane, namespace)).read_text())
    document["clusters"][0]["cluster"]["server"] = proxy.url
    return yaml.safe_dump(document)
