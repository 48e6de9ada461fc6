"""Pods that wait for something to happen: rejected ones, and gated ones that have not been let in at all.

A busy cluster sends many events while tens of thousands of pods wait. The pods are therefore indexed by the plugins
whose events can wake them, and an event looks only at the pods of the plugins that registered for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from pyscheduler.api.queued import QueuedPod
from pyscheduler.core.queue.rejectors import Waker, rejectors_of, wakers_of_profile


class UnschedulablePods:
    """kube-scheduler's unschedulablePods. A gated pod is woken only by the plugin that gates it."""

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
        """Take in a pod that is not there; its rejectors and its gate must not change while it is."""
        uid, gate = queued.pod.uid, queued.gating_plugin
        (self._gated if gate else self._rejected)[uid] = queued
        known = wakers_of_profile(queued.pod.scheduler_name, frozenset({gate})) if gate else rejectors_of(queued)
        self._wakers[uid] = known
        for waker in known:
            self._by_waker.setdefault(waker, {})[uid] = queued

    def remove(self, uid: str) -> QueuedPod | None:
        """Take the pod out; None if it is not there."""
        for waker in self._wakers.pop(uid, ()):
            pods = self._by_waker[waker]
            del pods[uid]
            if not pods:
                del self._by_waker[waker]
        return self._rejected.pop(uid, None) or self._gated.pop(uid, None)

    def has_any(self, wakers: Iterable[Waker] | None) -> bool:
        """Return True if one of the plugins can wake a pod; None stands for whatever wakes pods that are not gated."""
        return bool(self._rejected) if wakers is None else any(waker in self._by_waker for waker in wakers)

    def is_awaiting(self, uid: str, wakers: Iterable[Waker]) -> bool:
        """Return True if one of the plugins can wake the pod."""
        return not set(wakers).isdisjoint(self._wakers.get(uid, ()))

    def awaiting(self, waker: Waker) -> list[QueuedPod]:
        """The pods that the plugin can wake, in an order that does not depend on hashing."""
        return list(self._by_waker.get(waker, {}).values())

    def rejected(self) -> list[QueuedPod]:
        """The pods that are not gated."""
        return list(self._rejected.values())

    def gated(self) -> list[QueuedPod]:
        """The pods that are gated."""
        return list(self._gated.values())
