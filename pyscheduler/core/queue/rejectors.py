"""Interned sets of rejecting plugins.

A hundred thousand pending pods have a handful of distinct sets of rejectors. One set per pod, at every change of tier,
would cost allocations and garbage collector pauses.
"""

from __future__ import annotations

from functools import lru_cache

from pyscheduler.api.queued import QueuedPod

Waker = tuple[str, str]
"""Scheduler name of a profile, and the name of one of its plugins."""
_CACHE_SIZE = 4096


@lru_cache(_CACHE_SIZE)
def shared(plugins: frozenset[str]) -> frozenset[str]:
    """Return the interned frozenset that is equal to this one."""
    return plugins


def rejectors_of(queued: QueuedPod) -> tuple[Waker, ...]:
    """Return every plugin that rejected the pod in its last attempt."""
    return wakers_of_profile(queued.pod.scheduler_name, queued.rejectors)


@lru_cache(_CACHE_SIZE)
def wakers_of_profile(profile: str, plugins: frozenset[str]) -> tuple[Waker, ...]:
    """Return the plugins of a profile as wakers."""
    return tuple((profile, plugin) for plugin in plugins)
