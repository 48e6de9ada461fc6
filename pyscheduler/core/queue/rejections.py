"""Plugins that rejected pending pods: their interned sets, and the counts for `scheduler_unschedulable_pods`.

A hundred thousand pending pods have a handful of distinct sets of rejectors. One set per pod, at every change of tier,
would cost allocations and garbage collector pauses.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
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
        self.by_uid: dict[str, tuple[ProfilePlugin, ...]] = {}
        """Rejectors of each counted pod, by its UID."""
        self._pods: Counter[tuple[ProfilePlugin, ...]] = Counter()
        """Number of pods by their rejectors."""

    def set(self, queued: QueuedPod) -> None:
        """Count a pod by its rejectors, which have changed."""
        uid, rejectors = queued.pod.uid, rejectors_of(queued)
        if self.by_uid.get(uid) is not rejectors:
            self.remove(uid)
            if rejectors:
                self.by_uid[uid] = rejectors
                self._pods[rejectors] += 1

    def remove(self, uid: str) -> None:
        """Stop counting a pod; pods not counted are ignored."""
        rejectors = self.by_uid.pop(uid, None)
        if rejectors is not None:
            self._pods[rejectors] -= 1
            if not self._pods[rejectors]:
                del self._pods[rejectors]

    def counts(self, excluded: Iterable[str]) -> Mapping[tuple[str, ...], int]:
        """Return the number of pods by (plugin, scheduler name), without those with the excluded UIDs."""
        pods = self._pods.copy()
        pods.subtract(self.by_uid[uid] for uid in excluded if uid in self.by_uid)
        counts: Counter[tuple[str, ...]] = Counter()
        for rejectors, number in pods.items():
            for profile, plugin in rejectors:
                counts[plugin, profile] += number
        return +counts
