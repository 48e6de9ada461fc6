"""Asyncio driver of the controller of EndpointSlices."""

from __future__ import annotations

from typing import Final

from pyscheduler.clock import Clock
from pyscheduler.embedded.client import Informer, WorkQueue
from pyscheduler.embedded.client.kinds import ENDPOINT_SLICES, SERVICES
from pyscheduler.embedded.objects import Json, Key, labels_of
from pyscheduler.embedded.workloads.apply_actions import apply_actions
from pyscheduler.embedded.workloads.endpoints import MANAGED_BY_LABEL, MANAGER, SERVICE_LABEL, reconcile
from pyscheduler.embedded.workloads.objects import is_deleting, is_ready, key_of
from pyscheduler.kube.object_client import ObjectClient
from pyscheduler.kube.reflector import Watched

BATCH_SECONDS: Final = 0.1
"""Time for which changes of pods are collected: a rollout changes many at once."""


class EndpointController:
    """Controller of the EndpointSlices of Services with a selector. The caller runs the informers."""

    def __init__(self, client: ObjectClient, clock: Clock, pods: Informer[Json]) -> None:
        self._client, self._clock = client, clock
        self._services, self._slices = (Informer(Watched(kind), Json) for kind in (SERVICES, ENDPOINT_SLICES))
        self.informers = (self._services, self._slices)
        self._pods: dict[str, dict[Key, Json]] = {}
        self._in_namespace: dict[str, dict[Key, Json]] = {}
        """Services with a selector, by namespace."""
        self._slices_of: dict[Key, dict[Key, Json]] = {}
        """Slices that this controller manages, by their Service."""
        self.queue: WorkQueue[Key] = WorkQueue(clock)
        pods.listeners.append(self._on_pod)
        self._services.listeners.append(self._on_service)
        self._slices.listeners.append(self._on_slice)

    async def reconcile(self, key: Key) -> None:
        """Reconcile the slices of one Service; the garbage collector deletes those of a deleted one."""
        service = self._in_namespace.get(key[0], {}).get(key)
        if service is None or is_deleting(service):
            self.queue.forget(key)
            return
        selector = service["spec"]["selector"].items()
        pods = [pod for pod in self._pods.get(key[0], {}).values() if selector <= labels_of(pod).items()]
        slices = self._slices_of.get(key, {}).values()
        await apply_actions(self._client, reconcile(service, pods, slices))

    def _on_pod(self, before: Json | None, after: Json | None) -> None:
        pod = after if after is not None else before
        if pod is None:
            return
        namespace, _ = key = key_of(pod)
        if after is None:
            self._pods.get(namespace, {}).pop(key, None)
        else:
            self._pods.setdefault(namespace, {})[key] = after
        if before is None or after is None or _shown(before) != _shown(after):
            for name, service in self._in_namespace.get(namespace, {}).items():
                selector = service["spec"]["selector"].items()
                if any(each is not None and selector <= labels_of(each).items() for each in (before, after)):
                    self.queue.add_at(name, self._clock.wall() + BATCH_SECONDS)

    def _on_service(self, before: Json | None, after: Json | None) -> None:
        service = after if after is not None else before
        if service is None:
            return
        key = key_of(service)
        if after is not None and after["spec"].get("selector"):
            self._in_namespace.setdefault(key[0], {})[key] = after
            self.queue.add(key)
        else:
            self._in_namespace.get(key[0], {}).pop(key, None)

    def _on_slice(self, before: Json | None, after: Json | None) -> None:
        if before is not None and (key := _service_of(before)) is not None:
            slices = self._slices_of.get(key, {})
            slices.pop(key_of(before), None)
            if not slices:
                self._slices_of.pop(key, None)
            self.queue.add(key)
        if after is not None and (key := _service_of(after)) is not None:
            self._slices_of.setdefault(key, {})[key_of(after)] = after
            self.queue.add(key)


def _service_of(item: Json) -> Key | None:
    """Return the Service of a slice that this controller manages, None for any other."""
    labels = labels_of(item)
    if labels.get(MANAGED_BY_LABEL) != MANAGER:
        return None
    return key_of(item)[0], labels.get(SERVICE_LABEL, "")


def _shown(pod: Json) -> tuple[object, ...]:
    """Return what slices show of a pod, and what selects it."""
    status = pod.get("status") or {}
    return labels_of(pod), status.get("podIP"), status.get("phase"), is_ready(pod), is_deleting(pod)
