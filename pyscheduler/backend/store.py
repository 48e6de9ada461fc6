"""One picture of the pods, merged from whatever sources there are, in whatever order they tell.

What makes any order right is that versions compare. Of each pod the newest state counts. A complete list tells the
truth as of its place; a watch that goes on from a resource_version that is covered covers more. So everything up to `covered` is
known, and what claims to be older and is not known has been deleted meanwhile: it is passed over. Only deletions beyond
what is covered have to be remembered, until it is.
"""

from __future__ import annotations

import asyncio

from pyscheduler.backend.pods import PodsSnapshot, PodState

MAX_SPANS = 64
"""Pieces of history beyond what is covered. To forget one costs nothing but time until the next list."""


class Subscription:
    """What one subscriber has not been told yet: the latest of each pod that changed, and each that is gone.

    However slow the subscriber, that is at most one state a pod, never a queue of snapshots.
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
        """The resource_version up to which the subscriber has been told everything."""
        return self._resource_version if self._ready.is_set() else self._store.resource_version

    def on_update(self, pod: PodState) -> None:
        """The pod is new or has changed."""
        self._pods[pod.name] = pod
        self._ready.set()

    def on_delete(self, pod: PodState) -> None:
        """The pod is no more."""
        waiting = self._pods.get(pod.name)
        if waiting is not None and waiting.uid == pod.uid:
            del self._pods[pod.name]
        self._gone[pod.uid] = pod
        self._ready.set()

    def on_synced(self) -> None:
        """From here on the whole picture is known."""
        if not self._complete_delivered:
            self._ready.set()

    async def next(self) -> PodsSnapshot:
        """Wait for something to tell. The first snapshot after the picture is whole is `complete`; later ones tell what
        has changed since the one before."""
        await self._ready.wait()
        whole = self._store.synced and not self._complete_delivered
        pods = dict(self._store.pods) if whole else self._pods
        told = PodsSnapshot(
            pods=pods, deleted=self._gone, complete=whole, resource_version=self._store.resource_version
        )
        self._complete_delivered |= whole
        self._pods, self._gone, self._resource_version = {}, {}, self._store.resource_version
        self._ready.clear()
        return told


class PodSnapshotStore:
    """Merges snapshots and tells subscribers. `resumed`: the resource_version up to which all is accounted for already."""

    def __init__(self, resumed: int | None = None) -> None:
        self.pods: dict[str, PodState] = {}
        """By name; not to be changed from outside."""
        self.synced = False
        """Whether a complete list has been merged: what is not in `pods` does not exist."""
        self._covered = -1
        self._resumed, self._delivered_to = resumed, resumed
        self._gone: dict[str, int] = {}
        self._spans: list[tuple[int, int]] = []
        self._subscriptions: list[Subscription] = []

    @property
    def resource_version(self) -> int | None:
        """The resourceVersion up to which everything has been told: where a watch may go on after a restart."""
        return self._delivered_to

    @property
    def history_size(self) -> int:
        """How many deletions and pieces of history are kept: bounded, and none while sources keep up."""
        return len(self._gone) + len(self._spans)

    def subscribe(self) -> Subscription:
        """Tell one more; its first snapshot is what there is."""
        subscription = Subscription(self)
        self._subscriptions.append(subscription)
        return subscription

    def merge(self, told: PodsSnapshot) -> None:
        """Take in what a source tells: a complete list, a piece of a watch, or what a call was answered with."""
        newer = told.complete and (told.resource_version or 0) >= self._covered
        for pod in told.pods.values():
            self._saw(pod, exists=newer)
        for pod in told.deleted.values():
            self._lost(pod)
        if told.complete:
            self._listed(told)
        elif told.since is not None and told.resource_version is not None:
            self._spans.append((told.since, told.resource_version))
        self._join()

    def _saw(self, pod: PodState, *, exists: bool) -> None:
        """`exists`: the source knows that it did at a resource_version that is not behind ours."""
        known = self.pods.get(pod.name)
        if pod.uid in self._gone or (known is not None and pod.version <= known.version):
            return
        if known is None and self.synced and not exists and pod.version <= self._covered:
            return
        if known is not None and known.uid != pod.uid:
            self._forget(known, pod.version)  # its name has been given to another
        self.pods[pod.name] = pod
        for subscription in self._subscriptions:
            subscription.on_update(pod)

    def _lost(self, pod: PodState) -> None:
        if pod.uid in self._gone or (self.synced and pod.version <= self._covered and not self._is_known(pod)):
            return
        self._forget(pod, pod.version)

    def _is_known(self, pod: PodState) -> bool:
        known = self.pods.get(pod.name)
        return known is not None and known.uid == pod.uid

    def _forget(self, pod: PodState, at: int) -> None:
        """The pod is gone since `at` or earlier."""
        if self._is_known(pod):
            del self.pods[pod.name]
        self._gone[pod.uid] = at
        for subscription in self._subscriptions:
            subscription.on_delete(pod)

    def _listed(self, told: PodsSnapshot) -> None:
        resource_version = told.resource_version or 0
        for name, pod in list(self.pods.items()):
            listed = told.pods.get(name)
            if pod.version <= resource_version and (listed is None or listed.uid != pod.uid):
                self._forget(pod, resource_version)
        if not self.synced and self._resumed is not None and self._delivered_to is not None:
            self._spans.append((self._resumed, self._delivered_to))  # what has been told since the restart
        self._covered = max(self._covered, resource_version)
        self.synced = True
        for subscription in self._subscriptions:
            subscription.on_synced()

    def _join(self) -> None:
        """Move what is covered on over the pieces of history that follow it."""
        self._covered, _ = _extended(self._covered, self._spans) if self.synced else (self._covered, None)
        told_to, beyond = (
            _extended(self._delivered_to, self._spans) if self._delivered_to is not None else (-1, self._spans)
        )
        told_to = max(told_to, self._covered)
        self._delivered_to = told_to if told_to >= 0 else None
        self._spans = [span for span in beyond if span[1] > self._covered or not self.synced][-MAX_SPANS:]
        if self._gone and self.synced:
            self._gone = {uid: version for uid, version in self._gone.items() if version > self._covered}


def _extended(resource_version: int, spans: list[tuple[int, int]]) -> tuple[int, list[tuple[int, int]]]:
    """How far history goes without a gap from `resource_version`, and the pieces that lie beyond."""
    left = sorted(spans)
    while left and left[0][0] <= resource_version:
        resource_version = max(resource_version, left.pop(0)[1])
    return resource_version, left
