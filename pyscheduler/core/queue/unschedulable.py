"""Pods that wait for an event: rejected ones, and gated ones.

A busy cluster has many events while tens of thousands of pods wait, most of them from a few templates. Therefore pods
are grouped by what the queueing hints of their rejectors read: a hint is called once for a group. Groups are indexed by
plugin, and an event is evaluated only for the groups of the plugins that registered for it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from itertools import chain, count
from typing import NamedTuple

from pyscheduler.api.events import ClusterEvent
from pyscheduler.api.pod import Pod, PodSignature, PodSignatureGroup
from pyscheduler.api.queued import QueuedPod
from pyscheduler.core.queue.entry import TierIndex
from pyscheduler.core.queue.hints import HintScope, ObjectKey, object_key
from pyscheduler.core.queue.queued_pod_group import QueuedPodGroup
from pyscheduler.core.queue.rejections import ProfilePlugin, plugins_of_profile, rejectors_of

GroupKey = tuple[PodSignature | PodSignatureGroup, frozenset[str], frozenset[str]] | str
"""Fields of a pod that hints read, its rejectors, and the pending ones of these; or the UID of a single pod."""


class HintReaders(NamedTuple):
    """Functions that return which events of a plugin's registrations may concern a pod."""

    scope_of: Callable[[QueuedPod], HintScope]
    """Returns what the hints of a rejected pod's rejectors read of it."""
    objects_of: Callable[[ProfilePlugin, QueuedPod], Collection[ObjectKey] | None]
    """Returns the objects of narrowed events of a plugin that the pod uses; None if all events may concern it."""
    gate_object_of: Callable[[QueuedPod], ObjectKey | None]
    """Returns the object without which a gated pod stays gated; None if it may be any."""


class HintGroup:
    """Pods with the same rejectors for which a queueing hint returns the same result; or one gated pod."""

    __slots__ = ("_tier", "gate_object", "is_gated", "key", "plugins", "pods")

    def __init__(self, tier: UnschedulablePods, key: GroupKey, first: QueuedPod) -> None:
        self._tier = tier
        self.key = key
        self.plugins = _holders(first)
        """Plugins that rejected the pods, or the one that gates the only pod."""
        self.is_gated = bool(first.gating_plugin)
        self.gate_object: ObjectKey | None = None
        """Object without which the pod stays gated; None if it may be any."""
        self.pods: dict[str, tuple[int, QueuedPod]] = {}
        """Pods by UID, with their arrival in the tier."""

    def representative(self, excluded: str) -> QueuedPod | None:
        """Return a pod of a group of several possible pods, other than the one with the excluded UID, or None."""
        if isinstance(self.key, str):
            return None
        return next((queued for uid, (_, queued) in self.pods.items() if uid != excluded), None)

    def get(self, uid: str) -> QueuedPod:
        return self.pods[uid][1]

    def replace(self, pod: Pod) -> None:
        """Replace a pod by its new version, which may belong to another group."""
        arrival, _ = self.pods[pod.uid]
        queued = self.remove(pod.uid)
        queued.pod = pod
        self._tier.add(queued, arrival)

    def remove(self, uid: str) -> QueuedPod:
        """Remove and return a pod."""
        return self._tier.remove(self, uid)


Groups = dict[GroupKey, HintGroup]


class _PluginGroups:
    """Groups of the pods that one plugin rejected or gates."""

    def __init__(self) -> None:
        self._open: Groups = {}
        """Groups of pods that any event may concern, unless it is narrowed to its object."""
        self._without_objects: Groups = {}
        """Those of them that narrowed events may concern too."""
        self._used: dict[GroupKey, Collection[ObjectKey]] = {}
        """Objects that the pods of each of the others use."""
        self._by_used: dict[ObjectKey, Groups] = {}
        self._by_gate: dict[ObjectKey, Groups] = {}
        """Pods that stay gated without an object."""

    @property
    def is_empty(self) -> bool:
        return not self._open and not self._by_gate

    def concerned_by(self, event: ClusterEvent, *, narrowed: bool) -> list[HintGroup]:
        """Return the groups that an event may concern; if it is narrowed, of those with objects the ones with its."""
        found = list((self._without_objects if narrowed else self._open).values())
        if (self._by_gate or narrowed) and (key := object_key(event)) is not None:
            found += self._by_gate.get(key, {}).values()
            if narrowed:
                found += self._by_used.get(key, {}).values()
        return found

    def add(self, group: HintGroup, used: Collection[ObjectKey] | None) -> None:
        """Add a group by its gate object; without one, by the objects that its pods use, unless they are None."""
        if group.gate_object is not None:
            self._by_gate.setdefault(group.gate_object, {})[group.key] = group
            return
        self._open[group.key] = group
        if used is None:
            self._without_objects[group.key] = group
            return
        self._used[group.key] = used
        for each in used:
            self._by_used.setdefault(each, {})[group.key] = group

    def remove(self, group: HintGroup) -> None:
        """Remove a group, which still has the gate object with which it was added."""
        if group.gate_object is not None:
            _remove(self._by_gate, group.gate_object, group)
            return
        del self._open[group.key]
        self._without_objects.pop(group.key, None)
        for each in set(self._used.pop(group.key, ())):
            _remove(self._by_used, each, group)


def _remove(groups_of: dict[ObjectKey, Groups], key: ObjectKey, group: HintGroup) -> None:
    groups = groups_of[key]
    del groups[group.key]
    if not groups:
        del groups_of[key]


class UnschedulablePods:
    """kube-scheduler's unschedulablePods. Only events of the plugin that gates a pod can requeue a gated pod.

    The index has the group of each pod, which has the pod.
    """

    def __init__(self, index: TierIndex, readers: HintReaders) -> None:
        self.rejected = 0
        """Number of pods that are not gated."""
        self.gated = 0
        """Number of gated pods."""
        self._index = index
        self._readers = readers
        self._arrivals = count()
        self._groups: Groups = {}
        self._by_plugin: dict[ProfilePlugin, _PluginGroups] = {}

    def __len__(self) -> int:
        return self.rejected + self.gated

    def __iter__(self) -> Iterator[QueuedPod]:
        yield from self.pods(gated=False)
        yield from self.pods(gated=True)

    @property
    def group_count(self) -> int:
        """Number of groups, for each of which an event is evaluated."""
        return len(self._groups)

    def pods(self, *, gated: bool) -> list[QueuedPod]:
        """Return the gated pods, or the others, in the order of their arrival."""
        groups = (group for group in self._groups.values() if group.is_gated is gated)
        return [queued for _, queued in sorted(chain.from_iterable(group.pods.values() for group in groups))]

    def group_of(self, uid: str) -> HintGroup | None:
        """Return the group of a pod, or None if it is not in this tier."""
        group = self._index.get(uid)
        return group if isinstance(group, HintGroup) else None

    def group_with(self, queued: QueuedPod) -> HintGroup | None:
        """Return the group that holds this entry of a pod, or None if the entry is not in this tier."""
        uid = queued.pod.uid
        group = self._index.get(uid)
        return group if isinstance(group, HintGroup) and group.pods[uid][1] is queued else None

    def get(self, uid: str) -> QueuedPod | None:
        group = self.group_of(uid)
        return None if group is None else group.get(uid)

    def add(self, queued: QueuedPod, arrival: int | None = None) -> None:
        """Add a pod that is not in yet; its rejectors and its gate must not change while it is."""
        key, uid = self._key(queued), queued.pod.uid
        group = self._groups.get(key)
        if group is None:
            group = HintGroup(self, key, queued)
            if group.is_gated and not isinstance(queued, QueuedPodGroup):
                group.gate_object = self._readers.gate_object_of(queued)
            self._register(group, queued)
            self._groups[key] = group
        group.pods[uid] = (next(self._arrivals) if arrival is None else arrival, queued)
        self._index[uid] = group
        if group.is_gated:
            self.gated += 1
        else:
            self.rejected += 1

    def discard(self, queued: QueuedPod) -> bool:
        """Remove a pod if it is in. Return True if it was."""
        group = self.group_with(queued)
        if group is None:
            return False
        self.remove(group, queued.pod.uid)
        return True

    def update_gate(self, group: HintGroup | None) -> None:
        """Determine again which object a gated pod needs, after an evaluation that left it gated."""
        if group is not None and group.gate_object is not None:
            self._unregister(group)
            _, queued = next(iter(group.pods.values()))
            group.gate_object = self._readers.gate_object_of(queued)
            self._register(group, queued)

    def _register(self, group: HintGroup, queued: QueuedPod) -> None:
        """Index the group of a pod by its plugins."""
        for plugin in group.plugins:
            used = None if group.is_gated else self._readers.objects_of(plugin, queued)
            self._by_plugin.setdefault(plugin, _PluginGroups()).add(group, used)

    def _unregister(self, group: HintGroup) -> None:
        for plugin in group.plugins:
            groups = self._by_plugin[plugin]
            groups.remove(group)
            if groups.is_empty:
                del self._by_plugin[plugin]

    def remove(self, group: HintGroup, uid: str) -> QueuedPod:
        """Remove a pod of the group and return it."""
        _, queued = group.pods.pop(uid)
        del self._index[uid]
        if group.is_gated:
            self.gated -= 1
        else:
            self.rejected -= 1
        if not group.pods:
            del self._groups[group.key]
            self._unregister(group)
        return queued

    def has_any(self, plugins: Iterable[ProfilePlugin] | None) -> bool:
        """Return True if one of the plugins rejected or gates any pod; None: if any pod is not gated."""
        return bool(self.rejected) if plugins is None else any(plugin in self._by_plugin for plugin in plugins)

    def groups_held_by(self, plugin: ProfilePlugin, event: ClusterEvent, *, narrowed: bool) -> list[HintGroup]:
        """Return the groups of the pods that the plugin rejected or gates, and that the event may concern.

        With `narrowed`, the event concerns of the rejected pods only those that use its object.
        """
        groups = self._by_plugin.get(plugin)
        return [] if groups is None else groups.concerned_by(event, narrowed=narrowed)

    def _key(self, queued: QueuedPod) -> GroupKey:
        pod = queued.pod
        if queued.gating_plugin or pod.is_large or pod.node_name or isinstance(queued, QueuedPodGroup):
            return pod.uid
        rejected, pending = queued.unschedulable_plugins, queued.pending_plugins
        key = pod.signature.template, rejected, pending
        if key in self._groups:
            return key  # so hints read no more than the template; to determine that would take longer
        scope = self._readers.scope_of(queued)
        if scope is HintScope.POD:
            return pod.uid
        return key if scope is HintScope.SIGNATURE_GROUP else (pod.signature, rejected, pending)


def _holders(queued: QueuedPod) -> tuple[ProfilePlugin, ...]:
    """Return the plugins of which the events concern the pod."""
    gate = queued.gating_plugin
    return plugins_of_profile(queued.pod.scheduler_name, frozenset({gate})) if gate else rejectors_of(queued)
