"""The backend's own identity in a test: a ServiceAccount with the rights that the example manifests give."""

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
    """A kubeconfig of the backend in a namespace. On the embedded cluster, which has no rights, the administrator's."""
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
    """Wait until the API server goes by the rights: it hears of them a moment after they are written."""
    asked = {"namespace": namespace, "verb": "create", "resource": "pods"}
    review = {"spec": {"user": f"system:serviceaccount:{namespace}:{NAME}", "resourceAttributes": asked}}

    async def allowed() -> bool:
        return bool((await api.create(_REVIEWS, review))["status"]["allowed"])

    await until(allowed)


async def kubeconfig_through(proxy: FaultProxy, plane: Plane, namespace: str) -> str:
    """The same for the way through a proxy."""
    document = yaml.safe_load((await kubeconfig_of(plane, namespace)).read_text())
    document["clusters"][0]["cluster"]["server"] = proxy.url
    return yaml.safe_dump(document)
