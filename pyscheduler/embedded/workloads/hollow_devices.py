"""Asyncio driver of the devices of hollow nodes."""

from __future__ import annotations

from pyscheduler.clock import Clock
from pyscheduler.embedded.client import Informer, WorkQueue
from pyscheduler.embedded.client.kinds import RESOURCE_SLICES
from pyscheduler.embedded.objects import Json, Key, labels_of
from pyscheduler.embedded.workloads.apply_actions import apply_actions
from pyscheduler.embedded.workloads.devices import MANAGED_BY, reconcile
from pyscheduler.embedded.workloads.objects import key_of
from pyscheduler.embedded.workloads.recorder import EventRecorder
from pyscheduler.kube.object_client import ObjectClient
from pyscheduler.kube.reflector import Watched


class HollowDevices:
    """Publishes ResourceSlices of the nodes that describe devices. The caller runs the informers."""

    def __init__(self, client: ObjectClient, clock: Clock, nodes: Informer[Json]) -> None:
        self._client, self._nodes = client, nodes
        self._slices = Informer(Watched(RESOURCE_SLICES), Json)
        self.informers = (self._slices,)
        self._slices_of: dict[str, dict[Key, Json]] = {}
        """Slices that this driver manages, by their node."""
        self._recorder = EventRecorder(client, clock)
        self.queue: WorkQueue[str] = WorkQueue(clock)
        nodes.listeners.append(self._on_node)
        self._slices.listeners.append(self._on_slice)

    async def reconcile(self, name: str) -> None:
        """Reconcile the slices of one node; the garbage collector deletes those of a deleted one."""
        node = self._nodes.objects.get(("", name))
        if node is None:
            self.queue.forget(name)
            return
        slices = list(self._slices_of.get(name, {}).values())
        await apply_actions(self._client, reconcile(node, slices), recorder=self._recorder)

    def _on_node(self, before: Json | None, after: Json | None) -> None:
        if after is not None and (before is None or _described(before) != _described(after)):
            self.queue.add(key_of(after)[1])

    def _on_slice(self, before: Json | None, after: Json | None) -> None:
        for item, is_present in ((before, False), (after, True)):
            if item is None or not MANAGED_BY.items() <= labels_of(item).items():
                continue
            node = item["spec"].get("nodeName", "")
            if is_present:
                self._slices_of.setdefault(node, {})[key_of(item)] = item
            else:
                self._slices_of.get(node, {}).pop(key_of(item), None)
            self.queue.add(node)


def _described(node: Json) -> tuple[object, ...]:
    meta = node["metadata"]
    return meta.get("labels"), meta.get("annotations"), meta.get("deletionTimestamp"), meta.get("uid")
