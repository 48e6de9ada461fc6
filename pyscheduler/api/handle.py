"""The narrow door through which a plugin reaches the rest of the scheduler.

Decisions get a `Handle`: listers and waiting pods, no client. Plugins that act (PreBind, Bind, PostBind) get an
`ApiWriter` at the call, so that a Filter can never reach the API server.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Protocol

from pyscheduler.api.events import ResourceKind
from pyscheduler.api.pod import Pod


class WaitingPod(Protocol):
    """A pod parked by Permit, its place on `node_name` held."""

    @property
    def pod(self) -> Pod: ...

    @property
    def node_name(self) -> str: ...

    @property
    def pending_plugins(self) -> frozenset[str]:
        """The plugins that still hold it."""

    def allow(self, plugin: str) -> None:
        """`plugin` lets the pod go; it is bound once no plugin holds it."""

    def reject(self, plugin: str, message: str) -> None:
        """`plugin` sends the pod back to the queue."""


class Handle(Protocol):
    """What every plugin is given at construction."""

    def waiting_pods(self) -> Iterable[WaitingPod]:
        """The pods parked by Permit."""

    def waiting_pod(self, uid: str) -> WaitingPod | None:
        """One parked pod, or None."""

    def activate(self, pods: Iterable[Pod]) -> None:
        """Make pending pods active at once, whatever backoff they are in; unknown pods are ignored."""

    def objects(self, kind: ResourceKind) -> Mapping[tuple[str, str], dict[str, Any]]:
        """The objects of a watched kind by (namespace, name), as last seen. The kind must be in `watches`."""

    def pods_labelled(self, key: str, namespace: str, value: str) -> Mapping[str, Pod]:
        """All known pods of a namespace that carry the label, by UID. The key must be in `indexes`."""


class ApiWriter(Protocol):
    """What acting plugins are given at the call. Every method raises ApiError when the server refuses."""

    async def bind(self, pod: Pod, node_name: str) -> None:
        """POST the binding of the pod to the node."""

    async def get(self, path: str) -> dict[str, Any]:
        """GET an API path such as `/api/v1/namespaces/a/persistentvolumeclaims/b`."""

    async def create(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """POST an object to a collection path."""

    async def replace(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """PUT an object; its resourceVersion guards against lost updates."""

    async def merge(self, path: str, patch: Mapping[str, Any]) -> dict[str, Any]:
        """PATCH an object with a JSON merge patch."""

    async def delete(self, path: str) -> None:
        """DELETE an object."""


class ApiError(Exception):
    """The API server refused or could not be reached. `status` is the HTTP code, 0 when there was no answer."""

    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.reason = reason
