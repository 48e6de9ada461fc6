"""What the state in the cluster needs of the API server: single ConfigMaps and Leases of one namespace."""

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
    """A `KubernetesClient` is one. `path` is that of the collection; each call raises ClusterProblem where it fails."""

    async def get_object(self, path: str, name: str) -> Json:
        """404 if there is none."""
        ...

    async def create_object(self, path: str, body: Json) -> Json:
        """Create it, and return it with its resourceVersion. 409 if it is there."""
        ...

    async def replace_object(self, path: str, name: str, body: Json) -> Json:
        """Replace it whole. 409 if its resourceVersion is no longer that of `body`."""
        ...


async def get_or_none(objects: ObjectsApi, path: str, name: str) -> Json | None:
    """The object, None if there is none. ClusterProblem."""
    try:
        return await objects.get_object(path, name)
    except ClusterProblem as problem:
        if problem.status == NOT_FOUND:
            return None
        raise


def is_ambiguous(problem: ClusterProblem) -> bool:
    """Whether nobody knows if the call was carried out, and it may work a little later."""
    return problem.status in _BUSY or problem.status >= 500
