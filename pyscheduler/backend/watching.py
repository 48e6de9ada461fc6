"""Pod source that watches pods, from the resourceVersion where the last process stopped."""

from __future__ import annotations

import random

import msgspec

from pyscheduler.backend.client import PodsApi
from pyscheduler.backend.decode import PodDocument, state_of
from pyscheduler.backend.pods import PodsSnapshot, PodState
from pyscheduler.backend.store import PodSnapshotStore
from pyscheduler.clock import LoopClock
from pyscheduler.kube.decode import ObjectDecoder, Refusals
from pyscheduler.kube.numbers import natural
from pyscheduler.kube.paths import PODS
from pyscheduler.kube.reflector import Change, Progress, Reflector, Upsert, Watched


class PodsWatchSnapshotSource:
    """Watches the selected pods from `resource_version` on and merges the changes into the store.

    With None, or after 410 Gone, it lists all pods and watches from that list on.
    """

    def __init__(
        self, client: PodsApi, selector: str, store: PodSnapshotStore, resource_version: int | None, rng: random.Random
    ) -> None:
        self._store = store
        self._pods: dict[str, PodState] = {}
        """Pods by name as far as the reflector has emitted them; after a list, all."""
        self._changed: dict[str, PodState] = {}
        self._deleted: dict[str, PodState] = {}
        """Changes since the last progress."""
        self._has_undecodable = False
        """True if a pod could not be decoded since the last progress."""
        self._resource_version = resource_version
        version = None if resource_version is None else str(resource_version)
        self._reflector = Reflector(
            client.lister_watcher,
            Watched(PODS, label_selector=selector, namespace=client.namespace, version=version),
            ObjectDecoder(PODS.plural, PodDocument, Refusals(self._handle_undecodable)),
            self._handle_change,
            LoopClock(),
            rng,
            self._handle_progress,
        )

    async def run(self) -> None:
        """Watch until cancelled."""
        await self._reflector.run()

    def relist(self) -> None:
        """List all pods again and watch from there. Call it only during `run`."""
        self._resource_version = None
        self._reflector.interrupt()

    def _handle_undecodable(self, _: str) -> None:
        self._has_undecodable = True

    def _handle_change(self, change: Change[PodDocument]) -> None:
        if isinstance(change, Upsert):
            pod = state_of(change.object)
            self._pods[pod.name] = self._changed[pod.name] = pod
            return
        self._changed.pop(change.name, None)
        last = self._pods.pop(change.name, None)
        if change.object is not None:
            last = state_of(change.object)
        if last is not None:
            self._deleted[last.uid] = last

    def _handle_progress(self, progress: Progress) -> None:
        """Merge the changes; they are complete up to the progress unless a pod is missing that cannot be decoded."""
        version, since = natural(progress.version), self._resource_version
        if self._has_undecodable:
            snapshot = PodsSnapshot(pods=self._changed, deleted=self._dated(version))
        elif progress.is_list:
            snapshot = PodsSnapshot(pods=dict(self._pods), complete=True, resource_version=version)
        else:
            snapshot = PodsSnapshot(
                pods=self._changed, deleted=self._dated(version), since=since, resource_version=version
            )
        self._changed, self._deleted, self._has_undecodable = {}, {}, False
        self._resource_version = version
        self._store.merge(snapshot)

    def _dated(self, version: int | None) -> dict[str, PodState]:
        """Return the deleted pods with the resourceVersion of their deletion."""
        return {uid: msgspec.structs.replace(pod, version=version or pod.version) for uid, pod in self._deleted.items()}
