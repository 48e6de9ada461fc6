"""The few requests that hollow nodes and controllers make of an API server.

They are a protocol so that the same nodes and controllers run against the embedded server, the real kube-apiserver
and, in tests, a scripted one.
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
    "Json",
    "Key",
    "Listing",
    "PatchKind",
    "Resource",
    "StatusError",
]

PatchKind = Literal["merge", "strategic-merge"]


class Resource(NamedTuple):
    """Where the objects of one kind live in the API."""

    group: str
    version: str
    plural: str
    namespaced: bool = True

    def path(self, namespace: str = "", name: str = "", subresource: str = "") -> str:
        """The URL path of the collection (all namespaces where `namespace` is ""), an object, or a subresource."""
        parts = ["apis", self.group, self.version] if self.group else ["api", self.version]
        if namespace and self.namespaced:
            parts += ["namespaces", namespace]
        parts += [part for part in (self.plural, name, subresource) if part]
        return "/" + "/".join(parts)


PODS = Resource("", "v1", "pods")
NODES = Resource("", "v1", "nodes", namespaced=False)
LEASES = Resource("coordination.k8s.io", "v1", "leases")
REPLICASETS = Resource("apps", "v1", "replicasets")
DEPLOYMENTS = Resource("apps", "v1", "deployments")
JOBS = Resource("batch", "v1", "jobs")
CRONJOBS = Resource("batch", "v1", "cronjobs")
EVENTS = Resource("", "v1", "events")


class StatusError(Exception):
    """The API server said no. `code` is the HTTP status, `reason` the metav1.Status reason."""

    def __init__(self, code: int, reason: str, message: str) -> None:
        super().__init__(f"{message} ({code} {reason})")
        self.code, self.reason, self.message = code, reason, message

    @property
    def is_not_found(self) -> bool:
        """There is no such object (any more)."""
        return self.code == 404

    @property
    def is_conflict(self) -> bool:
        """Somebody else was first: the object exists already, has changed, or is another one of the same name."""
        return self.code == 409


class Listing(NamedTuple):
    """A whole list: its items as JSON bytes, and the resourceVersion to watch from."""

    items: list[msgspec.Raw]
    resource_version: str


class ApiClient(Protocol):
    """Requests; all raise `StatusError` for the server's no and OSError or TimeoutError where it cannot be reached."""

    async def list(
        self, resource: Resource, *, namespace: str = "", label_selector: str = "", field_selector: str = ""
    ) -> Listing:
        """All objects that match, paged behind the scenes."""

    def watch(
        self,
        resource: Resource,
        resource_version: str,
        *,
        namespace: str = "",
        label_selector: str = "",
        field_selector: str = "",
    ) -> AsyncIterator[bytes]:
        """One watch request: each item is the JSON of one watch event. It ends when the server ends it."""

    async def get(self, resource: Resource, namespace: str, name: str) -> Json: ...

    async def create(self, resource: Resource, obj: Json) -> Json:
        """Create `obj`; the namespace is read from it. Returns what the server made of it."""

    async def update(self, resource: Resource, obj: Json) -> Json:
        """Replace `obj`; a resourceVersion in it is a precondition."""

    async def patch(
        self, resource: Resource, key: Key, patch: Json, *, kind: PatchKind = "merge", subresource: str = ""
    ) -> None:
        """Patch an object or its subresource; the result is not read (a watch brings it)."""

    async def patch_status(self, resource: Resource, key: Key, status: Json, *, uid: str = "") -> None:
        """Patch the status: merged strategically for the built-in kinds that lists need it for. `uid` guards it."""

    async def delete(self, resource: Resource, key: Key, *, uid: str = "", grace_seconds: int | None = None) -> None:
        """Delete an object; `uid` is a precondition, owned objects follow in the background."""
