"""API calls of the state in the cluster: single ConfigMaps and Leases of one namespace."""

from __future__ import annotations

from typing import Final, Protocol

from pyscheduler.api import ApiError, ResourceKind
from pyscheduler.backend.task import Json

CONFIG_MAPS: Final = ResourceKind("", "v1", "configmaps", "ConfigMap")
NOT_FOUND: Final = 404
CONFLICT: Final = 409
_BUSY: Final = (0, 408, 429)


class ObjectsApi(Protocol):
    """Calls on single objects, as `KubernetesClient` has them. All raise ApiError."""

    async def get_object(self, kind: ResourceKind, name: str) -> Json:
        """Return the object. 404 if it does not exist."""
        ...

    async def create_object(self, kind: ResourceKind, body: Json) -> Json:
        """Create the object and return it with its resourceVersion. 409 if it exists."""
        ...

    async def replace_object(self, kind: ResourceKind, body: Json) -> Json:
        """Replace the object of the name of `body` and return it. 409 if its resourceVersion is another one."""
        ...


async def get_or_none(objects: ObjectsApi, kind: ResourceKind, name: str) -> Json | None:
    """Return the object, None if it does not exist. ApiError."""
    try:
        return await objects.get_object(kind, name)
    except ApiError as problem:
        if problem.status == NOT_FOUND:
            return None
        raise


def is_ambiguous(problem: ApiError) -> bool:
    """Return True if the call may have taken effect or may succeed when retried."""
    return problem.status in _BUSY or problem.status >= 500
