"""Plugins that rejected pending pods: their interned sets, and the counts for `scheduler_unschedulable_pods`.

A hundred thousand pending pods have a handful of distinct sets of rejectors. One set per pod, at every change of tier,
would cost allocations and garbage collector pauses.
"""

from __future__ import annotations

from collections import Counter
from functools import lru_cache

from pyscheduler.api.queued import QueuedPod

ProfilePlugin = tuple[str, str]
"""Scheduler name of a profile, and the name of one of its plugins."""
_CACHE_SIZE = 4096


@lru_cache(_CACHE_SIZE)
def shared(plugins: frozenset[str]) -> frozenset[str]:
    """Return the interned frozenset that is equal to this one."""
    return plugins


def rejectors_of(queued: QueuedPod) -> tuple[ProfilePlugin, ...]:
    """Return every plugin that rejected the pod in its last attempt."""
    return plugins_of_profile(queued.pod.scheduler_name, queued.rejectors)


@lru_cache(_CACHE_SIZE)
def plugins_of_profile(profile: str, plugins: frozenset[str]) -> tuple[ProfilePlugin, ...]:
    """Return the plugins with the name of their profile."""
    return tuple((profile, plugin) for plugin in plugins)


class RejectionCounts:
    """Counts of pending pods by rejector, updated with each pod: a scrape must not iterate over 100,000 pods."""

    def __init__(self) -> None:
        self.counts: Counter[tuple[str, ...]] = Counter()
        """Number of pods by (plugin, scheduler name)."""
        self._of_pod: dict[str, tuple[ProfilePlugin, ...]] = {}

    def add(self, queued: QueuedPod) -> None:
        """Count a pod that enters a tier or moves to another one; its rejectors must not change there."""
        uid, rejectors = queued.pod.uid, rejectors_of(queued)
        if self._of_pod.get(uid) is rejectors:
            return
        self.remove(uid)
        if rejectors:
            self._of_pod[uid] = rejectors
        for profile, plugin in rejectors:
            self.counts[plugin, profile] += 1

    def remove(self, uid: str) -> None:
        """Stop counting a pod that leaves the queue; pods not counted are ignored."""
        for profile, plugin in self._of_pod.pop(uid, ()):
            self.counts[plugin, profile] -= 1
            if not self.counts[plugin, profile]:
                del self.counts[plugin, profile]
