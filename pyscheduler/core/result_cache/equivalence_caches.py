"""The equivalence caches of one profile by signature group, limited in number and memory."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator

from pyscheduler.api.pod import Pod
from pyscheduler.core.framework.profile import Profile
from pyscheduler.core.result_cache.equivalence_cache import EquivalenceCache
from pyscheduler.core.state.cluster import ClusterState

MAX_CACHE_BYTES = 256 * 1024 * 1024
"""Limit on the memory of one profile's equivalence caches; beyond it the least recently used are dropped."""
MAX_CACHES = 1024
"""Maximum number of equivalence caches per profile, however small they are."""
MIN_CACHES = 256
"""Number of equivalence caches kept regardless of `MAX_CACHE_BYTES`: 1 GiB at 50,000 nodes.

A decision without a cache takes a hundred times as long.
"""


class EquivalenceCaches:
    """Equivalence caches by signature group, the most recently used one last."""

    def __init__(self, profile: Profile, state: ClusterState) -> None:
        self._profile = profile
        self._state = state
        self._caches: OrderedDict[int, EquivalenceCache] = OrderedDict()

    def __len__(self) -> int:
        return len(self._caches)

    def __iter__(self) -> Iterator[EquivalenceCache]:
        return iter(self._caches.values())

    def get(self, pod: Pod) -> EquivalenceCache:
        """Return the cache of the pod's signature group and mark it as most recently used."""
        template = pod.signature.template.id
        cache = self._caches.get(template)
        if cache is not None:
            self._caches.move_to_end(template)
            return cache
        cache = self._caches[template] = EquivalenceCache(self._profile, self._state)
        # All caches grow to about the same size; the oldest one has reached it.
        oldest = next(iter(self._caches.values()))
        while len(self._caches) > min(MAX_CACHES, max(MIN_CACHES, MAX_CACHE_BYTES // max(1, oldest.bytes))):
            self._caches.popitem(last=False)
        return cache

    def drop(self, pod: Pod) -> None:
        """Drop the cache of the pod's signature group."""
        self._caches.pop(pod.signature.template.id, None)
