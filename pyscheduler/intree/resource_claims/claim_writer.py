"""Writes of ResourceClaims: allocation and reservation in PreBind, and what Unreserve and PostFilter take back.

The order of the requests and the texts of the errors are kube-scheduler's (bindClaim, deleteClaim).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeVar

from pyscheduler.api import ApiError, ApiWriter, Pod, StatusError
from pyscheduler.api.devices import AllocationResult, ResourceClaim
from pyscheduler.intree.resource_claims import metrics
from pyscheduler.intree.resource_claims.extended_resources import ContainerRequest
from pyscheduler.intree.resource_claims.objects import CLAIM, CachedClaim, Object, to_json

FINALIZER: Final = "resource.kubernetes.io/delete-protection"
"""Protects an allocated claim from deletion."""
_TRIES: Final = 5
_FIRST_WAIT: Final = 0.01
"""Number of tries and seconds before the second one, as client-go's DefaultRetry."""
_CONFLICT, _NOT_FOUND = 409, 404
T = TypeVar("T")
Now = Callable[[], str]
"""Returns the current time as in API objects."""


class ClaimWriter:
    """Writes the claims of one pod."""

    def __init__(self, api: ApiWriter, pod: Pod, now: Now) -> None:
        self._api, self._pod, self._now = api, pod, now

    @property
    def pod(self) -> Pod:
        """The pod."""
        return self._pod

    async def reserve(
        self, claim: CachedClaim, allocation: AllocationResult | None, *, is_shared: bool = False
    ) -> Object:
        """Write the allocation, if there is one, and the reservation for the pod; return the written claim.

        A claim that has changed is read again. StatusError if it is deleted, allocated or deallocated meanwhile. With
        `is_shared`, another pod may have written the same allocation.
        """

        async def write(is_retry: bool) -> Object:
            source = await self._read(claim) if is_retry else claim.source
            return await self._reserve_once(source, claim.name, allocation, is_shared=is_shared)

        return await self._retry_on_conflict(write)

    async def _reserve_once(
        self, source: Object, name: str, allocation: AllocationResult | None, *, is_shared: bool
    ) -> Object:
        meta, status = source.get("metadata") or {}, dict(source.get("status") or {})
        if meta.get("deletionTimestamp"):
            raise StatusError(f"claim {name} got deleted in the meantime")
        if is_shared and allocation is not None and _has_devices(status, allocation):
            allocation = None
        if allocation is not None:
            if status.get("allocation"):
                raise StatusError(f"claim {name} got allocated elsewhere in the meantime")
            finalizers = list(meta.get("finalizers") or ())
            if FINALIZER not in finalizers:
                meta = {**meta, "finalizers": [*finalizers, FINALIZER]}
                source = await self._replace({**source, "metadata": meta}, "", f"add finalizer to claim {name}")
                status = dict(source.get("status") or {})
            status["allocation"] = to_json(allocation)
        if not status.get("allocation"):
            raise StatusError(f"claim {name} got deallocated elsewhere in the meantime")
        if not status["allocation"].get("allocationTimestamp"):
            status["allocation"] = {**status["allocation"], "allocationTimestamp": self._now()}
        consumer = {"resource": "pods", "name": self._pod.name, "uid": self._pod.uid}
        status["reservedFor"] = [*(status.get("reservedFor") or ()), consumer]
        what = "add allocation and reservation" if allocation is not None else "add reservation"
        return await self._replace({**source, "status": status}, "/status", f"{what} to claim {name}")

    async def create(self, claim: ResourceClaim, source: Object) -> Object:
        """Create the claim for the pod's extended resources, and return it."""
        meta = {name: value for name, value in source["metadata"].items() if name not in ("name", "uid")}
        body = {"apiVersion": "resource.k8s.io/v1", "kind": CLAIM.kind, "metadata": meta, "spec": to_json(claim.spec)}
        try:
            created = await self._api.create(_path(self._pod.namespace), body)
        except ApiError as error:
            metrics.count_creation(self._api, metrics.FAILURE)
            text = f"create claim for extended resources {self._pod.namespace}/: {error}"
            raise StatusError(text) from None
        metrics.count_creation(self._api, metrics.SUCCESS)
        return created

    async def show_extended_resource_claim(self, claim: CachedClaim, mappings: tuple[ContainerRequest, ...]) -> None:
        """Write to the pod's status which request of the claim serves which container."""
        if not mappings:  # the pod requests the resource, but no container does
            text = f"nil or empty request mappings, no update of pod {self._pod.key} ExtendedResourceClaimStatus"
            raise StatusError(text)
        shown = {"resourceClaimName": claim.key[1], "requestMappings": to_json(mappings)}
        path = f"/api/v1/namespaces/{self._pod.namespace}/pods/{self._pod.name}/status"
        try:
            await self._api.merge(path, {"status": {"extendedResourceClaimStatus": shown}})
        except ApiError as error:
            raise StatusError(f"update pod {self._pod.key} ExtendedResourceClaimStatus: {error}") from None

    async def _read(self, claim: CachedClaim) -> Object:
        try:
            return await self._api.get(_path(*claim.key))
        except ApiError as error:
            raise StatusError(f"get updated claim {claim.name} after conflict: {error}") from None

    async def _replace(self, source: Object, subresource: str, what: str) -> Object:
        meta = source["metadata"]
        body = {"apiVersion": "resource.k8s.io/v1", "kind": CLAIM.kind, **source}
        try:
            return await self._api.replace(_path(meta["namespace"], meta["name"]) + subresource, body)
        except ApiError as error:
            if error.status == _CONFLICT:
                raise _ConflictError(f"{what}: {error}") from None
            raise StatusError(f"{what}: {error}") from None

    async def _retry_on_conflict(self, write: Callable[[bool], Awaitable[T]]) -> T:
        wait = _FIRST_WAIT
        for tries in range(_TRIES):
            try:
                return await write(tries > 0)
            except _ConflictError as conflict:
                if tries == _TRIES - 1:
                    raise StatusError(str(conflict)) from None
                await self._api.sleep(wait)
        raise AssertionError("the last try returns or raises")


class _ConflictError(Exception):
    """The claim has changed since it was read."""


async def release(claim: CachedClaim, pod_uid: str, api: ApiWriter) -> None:
    """Remove the reservation of a pod from a claim. ApiError."""
    for tries in range(_TRIES):
        try:
            source = await api.get(_path(*claim.key))
        except ApiError as error:
            if error.status == _NOT_FOUND:
                return
            raise
        meta, status = source.get("metadata") or {}, source.get("status") or {}
        consumers = status.get("reservedFor") or []
        left = [each for each in consumers if each.get("uid") != pod_uid]
        if meta.get("uid") != claim.uid or len(left) == len(consumers):
            return
        if await _patched(api, claim, meta, {"reservedFor": left or None}, is_last=tries == _TRIES - 1):
            return


async def deallocate(claim: CachedClaim, api: ApiWriter) -> None:
    """Remove the allocation of a claim that has not changed since. ApiError, 409 if it has."""
    meta = claim.source["metadata"]
    await _patched(api, claim, meta, {"allocation": None, "reservedFor": None, "devices": None}, is_last=True)


async def delete(claim: CachedClaim, api: ApiWriter) -> None:
    """Delete a claim that was made for extended resources, with its finalizer. ApiError."""
    for tries in range(_TRIES):
        try:
            source = await api.get(_path(*claim.key)) if tries else claim.source
            finalizers = source["metadata"].get("finalizers") or []
            meta = {**source["metadata"], "finalizers": [name for name in finalizers if name != FINALIZER]}
            body = {"apiVersion": "resource.k8s.io/v1", "kind": CLAIM.kind, **source, "metadata": meta}
            await api.replace(_path(*claim.key), body)
            await api.delete(_path(*claim.key))
            return
        except ApiError as error:
            if error.status == _NOT_FOUND:
                return
            if error.status != _CONFLICT or tries == _TRIES - 1:
                raise


async def _patched(api: ApiWriter, claim: CachedClaim, meta: Object, status: dict[str, Any], *, is_last: bool) -> bool:
    """Patch the status of a claim as it was read. Return False if it has changed since and there are tries left."""
    read = {"uid": meta.get("uid"), "resourceVersion": meta.get("resourceVersion")}
    try:
        await api.merge(f"{_path(*claim.key)}/status", {"metadata": read, "status": status})
    except ApiError as error:
        if error.status == _NOT_FOUND:
            return True
        if error.status != _CONFLICT or is_last:
            raise
        return False
    return True


def _has_devices(status: Object, allocation: AllocationResult) -> bool:
    """Return True if the status of a claim has the devices of an allocation."""
    written = status.get("allocation")
    if written is None:
        return False
    results = (written.get("devices") or {}).get("results") or []
    devices = [(each.get("request"), each.get("driver"), each.get("pool"), each.get("device")) for each in results]
    return devices == [(each.request, each.driver, each.pool, each.device) for each in allocation.devices.results or ()]


def _path(namespace: str, name: str = "") -> str:
    path = f"/apis/{CLAIM.group}/{CLAIM.version}/namespaces/{namespace}/{CLAIM.plural}"
    return f"{path}/{name}" if name else path
