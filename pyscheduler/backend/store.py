"""Pod cache that merges snapshots of several sources, in any order of arrival.

Any order works because resourceVersions are comparable. The newest state of each pod wins. A complete list covers all
changes up to its resourceVersion; a watch that starts within the covered range extends it. A pod that is not cached
but claims a version within the covered range was deleted meanwhile and is ignored. So only deletions beyond the
covered range are remembered, until a list or watch covers them.
"""

from __future__ import annotations

import asyncio

from pyscheduler.backend.pods import PodsSnapshot, PodState

MAX_SPANS = 64
"""Most watch ranges kept beyond the covered range. Without a dropped one the next list extends the coverage."""


class Subscription:
    """Pending changes of one subscriber: the latest state of each changed pod, and the deleted pods.

    A slow subscriber costs at most one state per pod, never a queue of snapshots.
    """

    def __init__(self, store: PodSnapshotStore) -> None:
        self._store = store
        self._pods = dict(store.pods)
        self._gone: dict[str, PodState] = {}
        self._complete_delivered = False
        self._resource_version = store.resource_version
        self._ready = asyncio.Event()
        if self._pods or store.synced:
            self._ready.set()

    @property
    def resource_version(self) -> int | None:
        """resourceVersion up to which the subscriber has received all changes."""
        return self._resource_version if self._ready.is_set() else self._store.resource_version

    def on_update(self, pod: PodState) -> None:
        """Add a new or changed pod."""
        self._pods[pod.name] = pod
        self._ready.set()

    def on_delete(self, pod: PodState) -> None:
        """Add a deleted pod."""
        pending = self._pods.get(pod.name)
        if pending is not None and pending.uid == pod.uid:
            del self._pods[pod.name]
        self._gone[pod.uid] = pod
        self._ready.set()

    def on_synced(self) -> None:
        """Deliver a complete snapshot next, unless that has happened."""
        if not self._complete_delivered:
            self._ready.set()

    async def next(self) -> PodsSnapshot:
        """Wait for changes and return them. The first snapshot after the store has synced is `complete`; the others
        hold the changes since the one before."""
        await self._ready.wait()
        complete = self._store.synced and not self._complete_delivered
        pods = dict(self._store.pods) if complete else self._pods
        snapshot = PodsSnapshot(
            pods=pods, deleted=self._gone, complete=complete, resource_version=self._store.resource_version
        )
        self._complete_delivered |= complete
        self._pods, self._gone, self._resource_version = {}, {}, self._store.resource_version
        self._ready.clear()
        return snapshot


class PodSnapshotStore:
    """Merges snapshots and notifies subscribers. `resumed`: resourceVersion that a former process has handled."""

    def __init__(self, resumed: int | None = None) -> None:
        self.pods: dict[str, PodState] = {}
        """Pods by name; read-only for callers."""
        self.synced = False
        """True once a complete list was merged: pods missing in `pods` do not exist."""
        self._covered = -1
        self._resumed, self._delivered_to = resumed, resumed
        self._gone: dict[str, int] = {}
        self._spans: list[tuple[int, int]] = []
        self._subscriptions: list[Subscription] = []

    @property
    def resource_version(self) -> int | None:
        """resourceVersion up to which all changes were merged; a watch can resume there after a restart."""
        return self._delivered_to

    @property
    def history_size(self) -> int:
        """Number of remembered deletions and watch ranges: bounded, and 0 while the sources keep up."""
        return len(self._gone) + len(self._spans)

    def subscribe(self) -> Subscription:
        """Return a new subscription; its first snapshot holds the current pods."""
        subscription = Subscription(self)
        self._subscriptions.append(subscription)
        return subscription

    def merge(self, snapshot: PodsSnapshot) -> None:
        """Merge a complete list, a part of a watch, or the pod returned by a call."""
        is_newer = snapshot.complete and (snapshot.resource_version or 0) >= self._covered
        for pod in snapshot.pods.values():
            self._merge_pod(pod, exists=is_newer)
        for pod in snapshot.deleted.values():
            self._merge_deletion(pod)
        if snapshot.complete:
            self._merge_list(snapshot)
        elif snapshot.since is not None and snapshot.resource_version is not None:
            self._spans.append((snapshot.since, snapshot.resource_version))
        self._extend_coverage()

    def restore(self, pod: PodState) -> None:
        """Store a pod that a read has found although lists or watches omit it, because it has lost its label."""
        self._gone.pop(pod.uid, None)
        cached = self.pods.get(pod.name)
        if cached is None or cached.version <= pod.version:
            self.pods[pod.name] = pod
            for subscription in self._subscriptions:
                subscription.on_update(pod)

    def restart(self, snapshot: PodsSnapshot) -> None:
        """Replace everything by a complete list of a server that has lost its newest history, as a restored etcd.

        Versions before and after are not comparable.
        """
        for pod in list(self.pods.values()):
            listed = snapshot.pods.get(pod.name)
            if listed is None or listed.uid != pod.uid:
                self._forget(pod, pod.version)
        self.pods.clear()
        self._covered, self._resumed, self._delivered_to = -1, None, None
        self._gone, self._spans = {}, []
        self.merge(snapshot)

    def _merge_pod(self, pod: PodState, *, exists: bool) -> None:
        """Store the pod if it is newer. `exists`: it is from a list that is not older than the covered range."""
        cached = self.pods.get(pod.name)
        if pod.version <= self._gone.get(pod.uid, -1) or (cached is not None and pod.version <= cached.version):
            return
        self._gone.pop(pod.uid, None)  # only its label was gone
        if cached is None and self.synced and not exists and pod.version <= self._covered:
            return
        if cached is not None and cached.uid != pod.uid:
            self._forget(cached, pod.version)  # another pod has the name now
        self.pods[pod.name] = pod
        for subscription in self._subscriptions:
            subscription.on_update(pod)

    def _merge_deletion(self, pod: PodState) -> None:
        if pod.uid in self._gone or (self.synced and pod.version <= self._covered and not self._is_cached(pod)):
            return
        self._forget(pod, pod.version)

    def _is_cached(self, pod: PodState) -> bool:
        cached = self.pods.get(pod.name)
        return cached is not None and cached.uid == pod.uid

    def _forget(self, pod: PodState, at: int) -> None:
        """Remove a pod that was deleted at resourceVersion `at` or earlier, and notify subscribers."""
        if self._is_cached(pod):
            del self.pods[pod.name]
        self._gone[pod.uid] = at
        for subscription in self._subscriptions:
            subscription.on_delete(pod)

    def _merge_list(self, snapshot: PodsSnapshot) -> None:
        resource_version = snapshot.resource_version or 0
        for name, pod in list(self.pods.items()):
            listed = snapshot.pods.get(name)
            if pod.version <= resource_version and (listed is None or listed.uid != pod.uid):
                self._forget(pod, resource_version)
        if not self.synced and self._resumed is not None and self._delivered_to is not None:
            self._spans.append((self._resumed, self._delivered_to))  # merged since the restart
        self._covered = max(self._covered, resource_version)
        self.synced = True
        for subscription in self._subscriptions:
            subscription.on_synced()

    def _extend_coverage(self) -> None:
        """Extend the covered range by the watch ranges that follow it, and drop what is covered."""
        self._covered, _ = _extended(self._covered, self._spans) if self.synced else (self._covered, None)
        delivered_to, beyond = (
            _extended(self._delivered_to, self._spans) if self._delivered_to is not None else (-1, self._spans)
        )
        delivered_to = max(delivered_to, self._covered)
        self._delivered_to = delivered_to if delivered_to >= 0 else None
        self._spans = [span for span in beyond if span[1] > self._covered or not self.synced][-MAX_SPANS:]
        if self._gone and self.synced:
            self._gone = {uid: version for uid, version in self._gone.items() if version > self._covered}


def _extended(resource_version: int, spans: list[tuple[int, int]]) -> tuple[int, list[tuple[int, int]]]:
    """Return the resourceVersion that is reached without a gap, and the ranges beyond the first gap."""
    left = sorted(spans)
    while left and left[0][0] <= resource_version:
        resource_version = max(resource_version, left.pop(0)[1])
    return resource_version, left
