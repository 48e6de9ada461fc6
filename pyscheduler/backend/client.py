"""API calls of the backend, in one namespace: pods as states, other objects as dicts."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Final, Protocol, Self

from pyscheduler.api import ApiError, ResourceKind
from pyscheduler.backend.decode import decode_object, decode_pod, pod_of
from pyscheduler.backend.pods import PodsSnapshot, PodState
from pyscheduler.backend.task import Json
from pyscheduler.backend.template import FINALIZER
from pyscheduler.clock import LoopClock
from pyscheduler.kube.client_metrics import ClientMetrics
from pyscheduler.kube.connection import Connection, ConnectionOptions
from pyscheduler.kube.credentials import load
from pyscheduler.kube.numbers import natural
from pyscheduler.kube.object_client import ObjectClient
from pyscheduler.kube.paths import PODS
from pyscheduler.kube.reflector import ListerWatcher

NAMESPACES: Final = ResourceKind("", "v1", "namespaces", "Namespace", namespaced=False)
_FORBIDDEN, _MISSING = 403, 404


class PodsApi(Protocol):
    """API calls of the backend in one namespace. Every call is sent once and raises ApiError if it fails.

    Status 0 means that no response came: the server may have carried out the call.
    """

    @property
    def namespace(self) -> str:
        """Namespace of all calls."""
        ...

    @property
    def lister_watcher(self) -> ListerWatcher:
        """Lists and watches for a reflector."""
        ...

    async def create_pod(self, body: Json) -> PodState:
        """Create a pod and return it. 409 if the name exists, 400 if a field is unknown to the server."""
        ...

    async def get_pod(self, name: str) -> PodState:
        """Return a pod. 404 if it does not exist."""
        ...

    async def release_pod(self, name: str, uid: str) -> None:
        """Remove the backend's finalizer and no other. 404 or 409 if the pod with that uid is gone."""
        ...

    async def label_pod(self, name: str, uid: str, labels: dict[str, str]) -> None:
        """Set labels of a pod. 404 or 409 if the pod with that uid is gone."""
        ...

    async def delete_pod(self, name: str, uid: str, grace: int | None = None) -> None:
        """Delete a pod; `grace` in seconds, None for the pod's own. 404 or 409 if the pod with that uid is gone."""
        ...

    async def list_pods(self, selector: str) -> PodsSnapshot:
        """Return a complete, consistent list of the selected pods, at least as new as the time of the call."""
        ...

    async def namespace_uid(self, name: str) -> str:
        """Return the uid of a namespace, "" if RBAC forbids reading it."""
        ...

    async def get_object(self, kind: ResourceKind, name: str) -> Json:
        """Return an object of the namespace. 404 if it does not exist."""
        ...

    async def replace_object(self, kind: ResourceKind, body: Json) -> Json:
        """Replace the object of the name of `body`; return it as stored. 409 if a resourceVersion in it is outdated."""
        ...

    async def create_object(self, kind: ResourceKind, body: Json) -> Json:
        """Create an object in the namespace and return it as stored. 409 if the name exists."""
        ...

    async def delete_object(self, kind: ResourceKind, name: str) -> None:
        """Delete an object of the namespace. 404 if it does not exist."""
        ...

    async def list_objects(self, kind: ResourceKind, selector: str = "") -> list[Json]:
        """Return all objects of the namespace that match the label selector."""
        ...


class _CallCounter(ClientMetrics):
    """Counts responses and failures by HTTP method."""

    def __init__(self, calls: Counter[str]) -> None:
        self._calls = calls

    def count_result(self, method: str, status: int, again: bool) -> None:  # noqa: ARG002  # an interface
        self._calls[method] += 1


class KubernetesClient:
    """`PodsApi` of a real API server, for `namespace`. Use it as an async context manager.

    `kubeconfig` None means $KUBECONFIG or in-cluster credentials, or no credentials if `server` (a URL) is given;
    `server` overrides the address in the kubeconfig, `context` its current context. `qps` limits calls per second (0:
    no limit), `burst` calls at once, `max_in_flight` concurrent calls. `calls` counts calls by HTTP method.
    """

    def __init__(
        self,
        namespace: str,
        *,
        kubeconfig: Path | str | None = None,
        server: str = "",
        context: str = "",
        qps: float = 200.0,
        burst: int = 400,
        max_in_flight: int = 64,
    ) -> None:
        self.namespace = namespace
        self.calls: Counter[str] = Counter()
        self._kubeconfig, self._server = Path(kubeconfig) if kubeconfig is not None else None, server
        self._context = context
        self._options = ConnectionOptions(max_in_flight, qps or -1.0, burst)
        self._connection: Connection | None = None

    async def __aenter__(self) -> Self:
        """Load the credentials. ConnectionProblem if they cannot be used."""
        clock = LoopClock()
        credentials = await load(self._kubeconfig, clock, self._server, self._context)
        self._connection = Connection(credentials, self._options, clock, _CallCounter(self.calls))
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._connection is not None:
            await self._connection.close()
            self._connection = None

    @property
    def lister_watcher(self) -> Connection:
        if self._connection is None:
            raise RuntimeError("the client is not open; use it in an `async with` block")
        return self._connection

    async def create_pod(self, body: Json) -> PodState:
        return pod_of(await self._objects().create(PODS, self._in_namespace(body), strict=True))

    async def get_pod(self, name: str) -> PodState:
        return pod_of(await self.get_object(PODS, name))

    async def release_pod(self, name: str, uid: str) -> None:
        # As the Job controller does: the uid turns the patch of another pod with this name into a conflict.
        change = {"metadata": {"uid": uid, "$deleteFromPrimitiveList/finalizers": [FINALIZER]}}
        await self._objects().patch(PODS, (self.namespace, name), change, "strategic-merge")

    async def label_pod(self, name: str, uid: str, labels: dict[str, str]) -> None:
        change = {"metadata": {"uid": uid, "labels": labels}}
        await self._objects().patch(PODS, (self.namespace, name), change, "strategic-merge")

    async def delete_pod(self, name: str, uid: str, grace: int | None = None) -> None:
        await self._objects().delete(PODS, (self.namespace, name), uid, grace)

    async def list_pods(self, selector: str) -> PodsSnapshot:
        listing = await self._objects().list(PODS, self.namespace, selector)
        pods = {pod.name: pod for pod in map(decode_pod, listing.items)}
        return PodsSnapshot(pods=pods, complete=True, resource_version=natural(listing.version))

    async def namespace_uid(self, name: str) -> str:
        try:
            return str((await self._objects().get(NAMESPACES, "", name))["metadata"]["uid"])
        except ApiError as problem:
            if problem.status in (_FORBIDDEN, _MISSING):
                return ""
            raise

    async def create_object(self, kind: ResourceKind, body: Json) -> Json:
        return await self._objects().create(kind, self._in_namespace(body))

    async def get_object(self, kind: ResourceKind, name: str) -> Json:
        return await self._objects().get(kind, self.namespace, name)

    async def replace_object(self, kind: ResourceKind, body: Json) -> Json:
        return await self._objects().update(kind, self._in_namespace(body))

    async def delete_object(self, kind: ResourceKind, name: str) -> None:
        await self._objects().delete(kind, (self.namespace, name))

    async def list_objects(self, kind: ResourceKind, selector: str = "") -> list[Json]:
        listing = await self._objects().list(kind, self.namespace, selector)
        return [decode_object(item) for item in listing.items]

    def _objects(self) -> ObjectClient:
        """Return a client without retries: each caller has its own backoff, and lease renewals must not wait."""
        return ObjectClient(self.lister_watcher, retries=False)

    def _in_namespace(self, body: Json) -> Json:
        return {**body, "metadata": {**body["metadata"], "namespace": self.namespace}}
