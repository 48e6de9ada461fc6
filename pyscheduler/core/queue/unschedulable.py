"""Pods that wait for an event: rejected ones, and gated ones.

A busy cluster has many events while tens of thousands of pods wait. Therefore pods are indexed by the plugins that
rejected or gate them, and an event is evaluated only for the pods of the plugins that registered for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from pyscheduler.api.queued import QueuedPod
from pyscheduler.core.queue.rejectors import Waker, rejectors_of, wakers_of_profile


class UnschedulablePods:
    """kube-scheduler's unschedulablePods. Only events of the plugin that gates a pod can requeue a gated pod."""

    def __init__(self) -> None:
        self._rejected: dict[str, QueuedPod] = {}
        self._gated: dict[str, QueuedPod] = {}
        self._by_waker: dict[Waker, dict[str, QueuedPod]] = {}
        self._wakers: dict[str, tuple[Waker, ...]] = {}

    def __len__(self) -> int:
        return len(self._wakers)

    def __contains__(self, uid: str) -> bool:
        return uid in self._wakers

    def __iter__(self) -> Iterator[QueuedPod]:
        yield from self._rejected.values()
        yield from self._gated.values()

    @property
    def rejected_count(self) -> int:
        return len(self._rejected)

    @property
    def gated_count(self) -> int:
        return len(self._gated)

    def get(self, uid: str) -> QueuedPod | None:
        return self._rejected.get(uid) or self._gated.get(uid)

    def add(self, queued: QueuedPod) -> None:
        """Add a pod that is not in yet; its rejectors and its gate must not change while it is."""
        uid, gate = queued.pod.uid, queued.gating_plugin
        (self._gated if gate else self._rejected)[uid] = queued
        wakers = wakers_of_profile(queued.pod.scheduler_name, frozenset({gate})) if gate else rejectors_of(queued)
        self._wakers[uid] = wakers
        for waker in wakers:
            self._by_waker.setdefault(waker, {})[uid] = queued

    def remove(self, uid: str) -> QueuedPod | None:
        """Remove and return the pod, or return None."""
        for waker in self._wakers.pop(uid, ()):
            pods = self._by_waker[waker]
            del pods[uid]
            if not pods:
                del self._by_waker[waker]
        return self._rejected.pop(uid, None) or self._gated.pop(uid, None)

    def has_any(self, wakers: Iterable[Waker] | None) -> bool:
        """Return True if any pod waits for one of the plugins; None: if any pod is not gated."""
        return bool(self._rejected) if wakers is None else any(waker in self._by_waker for waker in wakers)

    def is_awaiting(self, uid: str, wakers: Iterable[Waker]) -> bool:
        """Return True if the pod waits for one of the plugins."""
        return not set(wakers).isdisjoint(self._wakers.get(uid, ()))

    def awaiting(self, waker: Waker) -> list[QueuedPod]:
        """Return the pods that wait for the plugin, in order of insertion."""
        return list(self._by_waker.get(waker, {}).values())

    def rejected(self) -> list[QueuedPod]:
        """Return the pods that are not gated."""
        return list(self._rejected.values())

    def gated(self) -> list[QueuedPod]:
        """Return the gated pods."""
        return list(self._gated.values())
