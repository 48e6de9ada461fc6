"""Asyncio driver of the controller of claims and volumes."""

from __future__ import annotations

from typing import NamedTuple

from pyscheduler.clock import Clock
from pyscheduler.embedded.client import Informer, WorkQueue
from pyscheduler.embedded.client.kinds import CLAIMS, STORAGE_CLASSES, VOLUMES
from pyscheduler.embedded.objects import Json, Key, dig
from pyscheduler.embedded.workloads.apply_actions import apply_actions
from pyscheduler.embedded.workloads.objects import key_of, phase
from pyscheduler.embedded.workloads.recorder import EventRecorder
from pyscheduler.embedded.workloads.volumes import reconcile_claim, reconcile_volume
from pyscheduler.kube.object_client import ObjectClient
from pyscheduler.kube.reflector import Watched


class VolumeItem(NamedTuple):
    """Kind and key of a claim or volume to reconcile."""

    kind: str
    key: Key


class VolumeController:
    """Controller of claims and volumes. The caller runs the informers. With `provision` it provisions volumes too."""

    def __init__(self, client: ObjectClient, clock: Clock, claims: Informer[Json], *, provision: bool) -> None:
        self._client, self._claims, self._provision = client, claims, provision
        self._volumes, self._classes = (Informer(Watched(kind), Json) for kind in (VOLUMES, STORAGE_CLASSES))
        self.informers = (self._volumes, self._classes)
        self._recorder = EventRecorder(client, clock)
        self.queue: WorkQueue[VolumeItem] = WorkQueue(clock)
        self._claims.listeners.append(self._on_claim)
        self._volumes.listeners.append(self._on_volume)
        self._classes.listeners.append(self._on_class)

    async def reconcile(self, item: VolumeItem) -> None:
        """Reconcile one claim or one volume."""
        informer = self._claims if item.kind == CLAIMS.kind else self._volumes
        obj = informer.objects.get(item.key)
        if obj is None:
            self.queue.forget(item)
            return
        if item.kind == CLAIMS.kind:
            actions = reconcile_claim(obj, self._volumes.objects, self._classes.objects, provision=self._provision)
        else:
            actions = reconcile_volume(obj, self._claims.objects)
        await apply_actions(self._client, actions, recorder=self._recorder)

    def _on_claim(self, before: Json | None, after: Json | None) -> None:
        if after is not None:
            self.queue.add(VolumeItem(CLAIMS.kind, key_of(after)))
        elif before is not None and before["spec"].get("volumeName"):
            self.queue.add(VolumeItem(VOLUMES.kind, ("", before["spec"]["volumeName"])))

    def _on_volume(self, before: Json | None, after: Json | None) -> None:
        volume = after if after is not None else before
        reference = dig(volume, "spec", "claimRef")
        if after is not None:
            self.queue.add(VolumeItem(VOLUMES.kind, key_of(after)))
        if reference:
            key = (reference.get("namespace", ""), reference.get("name", ""))
            self.queue.add(VolumeItem(CLAIMS.kind, key))
        elif after is not None and (before is None or dig(before, "spec", "claimRef")):
            self._queue_pending()

    def _on_class(self, _before: Json | None, after: Json | None) -> None:
        if after is not None:
            self._queue_pending()

    def _queue_pending(self) -> None:
        for key, claim in self._claims.objects.items():
            if phase(claim) == "Pending":
                self.queue.add(VolumeItem(CLAIMS.kind, key))
