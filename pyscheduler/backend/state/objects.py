"""API calls of the state in the cluster: single ConfigMaps and Leases of one namespace."""

from __future__ import annotations

from typing import Final, Protocol

from pyscheduler.backend.client import ClusterProblem
from pyscheduler.backend.task import Json

CONFIG_MAPS: Final = "api/v1/configmaps"
LEASES: Final = "apis/coordination.k8s.io/v1/leases"
NOT_FOUND: Final = 404
CONFLICT: Final = 409
_BUSY: Final = (0, 408, 429)


class ObjectsApi(Protocol):
    """Calls on single objects, as `KubernetesClient` has them. `path` is the collection. All raise ClusterProblem."""

    async def get_object(self, path: str, name: str) -> Json:
        """Return the object. 404 if it does not exist."""
        ...

    async def create_object(self, path: str, body: Json) -> Json:
        """Create the object and return it with its resourceVersion. 409 if it exists."""
        ...

    async def replace_object(self, path: str, name: str, body: Json) -> Json:
        """Replace the object and return it. 409 if its resourceVersion is no longer that of `body`."""
        ...


async def get_or_none(objects: ObjectsApi, path: str, name: str) -> Json | None:
    """Return the object, None if it does not exist. ClusterProblem."""
    try:
        return await objects.get_object(path, name)
    except ClusterProblem as problem:
        if problem.status == NOT_FOUND:
            return None
        raise


def is_ambiguous(problem: ClusterProblem) -> bool:
    """Return True if the call may have taken effect or may succeed when retried."""
    return problem.status in _BUSY or problem.status >= 500
