"""Requests of hollow nodes and controllers to an API server.

They are a protocol, so that nodes and controllers run against the embedded server, the real kube-apiserver and, in
tests, a scripted one.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Literal, NamedTuple, Protocol

import msgspec

from pyscheduler.embedded.objects import Json, Key

__all__ = [
    "CRONJOBS",
    "DEPLOYMENTS",
    "EVENTS",
    "JOBS",
    "LEASES",
    "NODES",
    "PODS",
    "REPLICASETS",
    "ApiClient",
    "ApiResource",
    "ClientStatusError",
    "Json",
    "Key",
    "Listing",
    "PatchKind",
]

PatchKind = Literal["merge", "strategic-merge"]


class ApiResource(NamedTuple):
    """API path of the objects of one kind."""

    group: str
    version: str
    plural: str
    namespaced: bool = True

    def path(self, namespace: str = "", name: str = "", subresource: str = "") -> str:
        """Return the URL path of the collection (all namespaces if `namespace` is ""), an object, or a subresource."""
        parts = ["apis", self.group, self.version] if self.group else ["api", self.version]
        if namespace and self.namespaced:
            parts += ["namespaces", namespace]
        parts += [part for part in (self.plural, name, subresource) if part]
        return "/" + "/".join(parts)


PODS = ApiResource("", "v1", "pods")
NODES = ApiResource("", "v1", "nodes", namespaced=False)
LEASES = ApiResource("coordination.k8s.io", "v1", "leases")
REPLICASETS = ApiResource("apps", "v1", "replicasets")
DEPLOYMENTS = ApiResource("apps", "v1", "deployments")
JOBS = ApiResource("batch", "v1", "jobs")
CRONJOBS = ApiResource("batch", "v1", "cronjobs")
EVENTS = ApiResource("", "v1", "events")


class ClientStatusError(Exception):
    """Error response of the API server. `code` is the HTTP status, `reason` the metav1.Status reason."""

    def __init__(self, code: int, reason: str, message: str) -> None:
        super().__init__(f"{message} ({code} {reason})")
        self.code, self.reason, self.message = code, reason, message

    @property
    def is_not_found(self) -> bool:
        """True if the object does not exist (any more)."""
        return self.code == 404

    @property
    def is_conflict(self) -> bool:
        """True if the object exists already, has changed, or has another uid."""
        return self.code == 409


class Listing(NamedTuple):
    """A complete list: its items as JSON bytes, and the resourceVersion to watch from."""

    items: list[msgspec.Raw]
    resource_version: str


class ApiClient(Protocol):
    """Requests; all raise `ClientStatusError` for error responses, OSError or TimeoutError without a response."""

    async def list(
        self, resource: ApiResource, *, namespace: str = "", label_selector: str = "", field_selector: str = ""
    ) -> Listing:
        """Return all objects that match, read in pages."""

    def watch(
        self,
        resource: ApiResource,
        resource_version: str,
        *,
        namespace: str = "",
        label_selector: str = "",
        field_selector: str = "",
    ) -> AsyncIterator[bytes]:
        """Yield the JSON of each watch event until the server ends the request."""

    async def get(self, resource: ApiResource, namespace: str, name: str) -> Json: ...

    async def create(self, resource: ApiResource, obj: Json) -> Json:
        """Create `obj` in the namespace of its metadata; return the object as stored."""

    async def update(self, resource: ApiResource, obj: Json) -> Json:
        """Replace `obj`; a resourceVersion in it is a precondition."""

    async def patch(
        self, resource: ApiResource, key: Key, patch: Json, *, kind: PatchKind = "merge", subresource: str = ""
    ) -> None:
        """Patch an object or its subresource; the patched object is not returned (a watch delivers it)."""

    async def patch_status(self, resource: ApiResource, key: Key, status: Json, *, uid: str = "") -> None:
        """Patch the status with a strategic merge patch; `uid` is a precondition."""

    async def delete(self, resource: ApiResource, key: Key, *, uid: str = "", grace_seconds: int | None = None) -> None:
        """Delete an object; `uid` is a precondition, dependents are deleted in the background."""
