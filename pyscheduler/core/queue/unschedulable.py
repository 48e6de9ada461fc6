"""Pods that wait for an event: rejected ones, and gated ones.

A busy cluster has many events while tens of thousands of pods wait, most of them from a few templates. Therefore pods
are grouped by what the queueing hints of their rejectors read: a hint is called once for a group. Groups are indexed by
plugin, and an event is evaluated only for the groups of the plugins that registered for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import count

from pyscheduler.api.pod import Pod, PodSignature, PodSignatureGroup
from pyscheduler.api.queued import QueuedPod
from pyscheduler.core.queue.entry import TierIndex
from pyscheduler.core.queue.hints import HintScope
from pyscheduler.core.queue.rejections import ProfilePlugin, plugins_of_profile, rejectors_of

GroupKey = tuple[PodSignature | PodSignatureGroup, frozenset[str], frozenset[str]] | str
"""Fields of a pod that hints read, its rejectors, and the pending ones of these; or the UID of a single pod."""


class HintGroup:
    """Pods with the same rejectors for which a queueing hint returns the same result."""

    __slots__ = ("key", "plugins", "pods")

    def __init__(self, key: GroupKey, plugins: tuple[ProfilePlugin, ...]) -> None:
        self.key = key
        self.plugins = plugins
        """Plugins that rejected the pods, or the one that gates the only pod."""
        self.pods: dict[str, tuple[int, QueuedPod]] = {}
        """Pods by UID, with their arrival in the tier."""

    def representative(self, excluded: str) -> QueuedPod | None:
        """Return a pod of a group of several possible pods, other than the one with the excluded UID, or None."""
        if isinstance(self.key, str):
            return None
        return next((queued for uid, (_, queued) in self.pods.items() if uid != excluded), None)


class UnschedulablePods:
    """kube-scheduler's unschedulablePods. Only events of the plugin that gates a pod can requeue a gated pod."""

    def __init__(self, index: TierIndex, scope_of: Callable[[QueuedPod], HintScope]) -> None:
        """`scope_of` returns what the hints of a rejected pod's rejectors read of it."""
        self.rejected: dict[str, QueuedPod] = {}
        """Pods that are not gated, by UID."""
        self.gated: dict[str, QueuedPod] = {}
        """Gated pods by UID."""
        self._index = index
        self._scope_of = scope_of
        self._arrivals = count()
        self._groups: dict[GroupKey, HintGroup] = {}
        self._group_of: dict[str, HintGroup] = {}
        self._by_plugin: dict[ProfilePlugin, dict[GroupKey, HintGroup]] = {}

    def __len__(self) -> int:
        return len(self._group_of)

    def __iter__(self) -> Iterator[QueuedPod]:
        yield from self.rejected.values()
        yield from self.gated.values()

    @property
    def group_count(self) -> int:
        """Number of groups, for each of which an event is evaluated."""
        return len(self._groups)

    def get(self, uid: str) -> QueuedPod | None:
        return self.rejected.get(uid) or self.gated.get(uid)

    def add(self, queued: QueuedPod) -> None:
        """Add a pod that is not in yet; its rejectors and its gate must not change while it is."""
        uid = queued.pod.uid
        (self.gated if queued.gating_plugin else self.rejected)[uid] = queued
        self._index[uid] = self
        self._join(queued, next(self._arrivals))

    def replace(self, pod: Pod) -> None:
        """Replace a pod that is in by its new version."""
        arrival, queued = self._leave(pod.uid)
        queued.pod = pod
        self._join(queued, arrival)

    def remove(self, uid: str) -> QueuedPod:
        """Remove and return a pod that is in."""
        self._leave(uid)
        del self._index[uid]
        return self.rejected.pop(uid, None) or self.gated.pop(uid)

    def discard(self, queued: QueuedPod) -> bool:
        """Remove a pod if it is in. Return True if it was."""
        is_in = self.get(queued.pod.uid) is queued
        if is_in:
            self.remove(queued.pod.uid)
        return is_in

    def has_any(self, plugins: Iterable[ProfilePlugin] | None) -> bool:
        """Return True if one of the plugins rejected or gates any pod; None: if any pod is not gated."""
        return bool(self.rejected) if plugins is None else any(plugin in self._by_plugin for plugin in plugins)

    def is_held_by(self, uid: str, plugins: Iterable[ProfilePlugin]) -> bool:
        """Return True if one of the plugins rejected or gates the pod."""
        group = self._group_of.get(uid)
        return group is not None and not set(plugins).isdisjoint(group.plugins)

    def groups_held_by(self, plugin: ProfilePlugin) -> list[HintGroup]:
        """Return the groups of the pods that the plugin rejected or gates."""
        return list(self._by_plugin.get(plugin, {}).values())

    def group_of(self, uid: str) -> HintGroup:
        """Return the group of a pod that is in."""
        return self._group_of[uid]

    def _join(self, queued: QueuedPod, arrival: int) -> None:
        key = self._key(queued)
        group = self._groups.get(key)
        if group is None:
            group = self._groups[key] = HintGroup(key, _holders(queued))
            for plugin in group.plugins:
                self._by_plugin.setdefault(plugin, {})[key] = group
        group.pods[queued.pod.uid] = (arrival, queued)
        self._group_of[queued.pod.uid] = group

    def _leave(self, uid: str) -> tuple[int, QueuedPod]:
        group = self._group_of.pop(uid)
        member = group.pods.pop(uid)
        if not group.pods:
            del self._groups[group.key]
            for plugin in group.plugins:
                groups = self._by_plugin[plugin]
                del groups[group.key]
                if not groups:
                    del self._by_plugin[plugin]
        return member

    def _key(self, queued: QueuedPod) -> GroupKey:
        pod = queued.pod
        if queued.gating_plugin or pod.is_large:
            return pod.uid
        scope = self._scope_of(queued)
        if scope is HintScope.POD:
            return pod.uid
        read = pod.signature if scope is HintScope.SIGNATURE else pod.signature.template
        return read, queued.unschedulable_plugins, queued.pending_plugins


def _holders(queued: QueuedPod) -> tuple[ProfilePlugin, ...]:
    """Return the plugins of which the events concern the pod."""
    gate = queued.gating_plugin
    return plugins_of_profile(queued.pod.scheduler_name, frozenset({gate})) if gate else rejectors_of(queued)
