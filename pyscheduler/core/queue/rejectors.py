"""The plugins that rejected waiting pods, as values that all pods share.

A hundred thousand waiting pods have a handful of sets of rejectors between them. A set of its own in every pod, at
every change of tier, costs allocations, and pauses of the garbage collector that has to traverse them.
"""

from __future__ import annotations

from functools import lru_cache

from pyscheduler.api.queued import QueuedPod

Waker = tuple[str, str]
"""A profile's scheduler name and a plugin of it."""
_MOST_KNOWN = 4096


@lru_cache(_MOST_KNOWN)
def shared(plugins: frozenset[str]) -> frozenset[str]:
    """Return the first frozenset that was equal to this one."""
    return plugins


def rejectors_of(queued: QueuedPod) -> tuple[Waker, ...]:
    """Return every plugin that rejected the pod in its last attempt."""
    return wakers_of_profile(queued.pod.scheduler_name, queued.rejectors)


@lru_cache(_MOST_KNOWN)
def wakers_of_profile(profile: str, plugins: frozenset[str]) -> tuple[Waker, ...]:
    """Return plugins of a profile."""
    return tuple((profile, plugin) for plugin in plugins)
