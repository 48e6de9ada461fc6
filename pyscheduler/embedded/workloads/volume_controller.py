"""Asyncio driver of the controller of claims and volumes."""

from __future__ import annotations

from typing import NamedTuple

from pyscheduler.clock import Clock
from pyscheduler.embedded.client import Informer, WorkQueue
from pyscheduler.embedded.client.kinds import CLAIMS, STORAGE_CLASSES, VOLUMES
from pyscheduler.embedded.objects import Json, Key
from pyscheduler.embedded.workloads.actions import Action, RecordAction
from pyscheduler.embedded.workloads.apply_actions import apply_actions
from pyscheduler.embedded.workloads.objects import key_of, phase, uid_of
from pyscheduler.embedded.workloads.recorder import EventRecorder
from pyscheduler.embedded.workloads.volume_index import VolumeIndex, claim_of, class_of
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
        self._index = VolumeIndex()
        self._pending: dict[str, dict[Key, None]] = {}
        """Pending claims by class."""
        self._recorded: dict[Key, list[tuple[str, str, str]]] = {}
        """Last Events about pending claims."""
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
            actions = reconcile_claim(obj, self._index, self._classes.objects, provision=self._provision)
            actions = self._without_repeated_events(item.key, obj, actions)
        else:
            actions = reconcile_volume(obj, self._claims.objects)
        await apply_actions(self._client, actions, recorder=self._recorder)

    def _without_repeated_events(self, key: Key, claim: Json, actions: list[Action]) -> list[Action]:
        """Return no Events if those of the last reconcile were the same: every volume that appears is another try."""
        events = [(uid_of(claim), a.reason, a.message) for a in actions if isinstance(a, RecordAction)]
        if events and events == self._recorded.get(key):
            return [action for action in actions if not isinstance(action, RecordAction)]
        if events:
            self._recorded[key] = events
        else:
            self._recorded.pop(key, None)
        return actions

    def _on_claim(self, before: Json | None, after: Json | None) -> None:
        if before is not None:
            self._pending.get(class_of(before), {}).pop(key_of(before), None)
        if after is not None:
            if phase(after) == "Pending":
                self._pending.setdefault(class_of(after), {})[key_of(after)] = None
            self.queue.add(VolumeItem(CLAIMS.kind, key_of(after)))
        elif before is not None:
            self._recorded.pop(key_of(before), None)
            if before["spec"].get("volumeName"):
                self.queue.add(VolumeItem(VOLUMES.kind, ("", before["spec"]["volumeName"])))

    def _on_volume(self, before: Json | None, after: Json | None) -> None:
        self._index.change(before, after)
        volume = after if after is not None else before
        claim = claim_of(volume) if volume is not None else None
        if after is not None:
            self.queue.add(VolumeItem(VOLUMES.kind, key_of(after)))
        if claim is not None:
            self.queue.add(VolumeItem(CLAIMS.kind, claim))
        elif after is not None and (before is None or claim_of(before) is not None):
            self._queue_pending(class_of(after))

    def _on_class(self, _before: Json | None, after: Json | None) -> None:
        if after is not None:
            self._queue_pending(key_of(after)[1])

    def _queue_pending(self, storage_class: str) -> None:
        for key in self._pending.get(storage_class, ()):
            self.queue.add(VolumeItem(CLAIMS.kind, key))
