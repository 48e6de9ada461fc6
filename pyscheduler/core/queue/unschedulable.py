"""Pods that wait for an event: rejected ones, and gated ones.

A busy cluster has many events while tens of thousands of pods wait, most of them from a few templates. Therefore pods
are grouped by what the queueing hints of their rejectors read: a hint is called once for a group. Groups are indexed by
plugin, and an event is evaluated only for the groups of the plugins that registered for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import chain, count

from pyscheduler.api.events import ClusterEvent
from pyscheduler.api.pod import Pod, PodSignature, PodSignatureGroup
from pyscheduler.api.queued import QueuedPod
from pyscheduler.core.queue.entry import TierIndex
from pyscheduler.core.queue.hints import HintScope
from pyscheduler.core.queue.queued_pod_group import QueuedPodGroup
from pyscheduler.core.queue.rejections import ProfilePlugin, plugins_of_profile, rejectors_of

GroupKey = tuple[PodSignature | PodSignatureGroup, frozenset[str], frozenset[str]] | str
"""Fields of a pod that hints read, its rejectors, and the pending ones of these; or the UID of a single pod."""
GateObject = tuple[str, str, str]
"""Kind, namespace and name of the object without which a pod stays gated."""


class HintGroup:
    """Pods with the same rejectors for which a queueing hint returns the same result; or one gated pod."""

    __slots__ = ("_tier", "gate_object", "is_gated", "key", "plugins", "pods")

    def __init__(self, tier: UnschedulablePods, key: GroupKey, first: QueuedPod) -> None:
        self._tier = tier
        self.key = key
        self.plugins = _holders(first)
        """Plugins that rejected the pods, or the one that gates the only pod."""
        self.is_gated = bool(first.gating_plugin)
        self.gate_object: GateObject | None = None
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
        """Groups of pods that any event may concern."""
        self._by_object: dict[GateObject, Groups] = {}
        """Pods that stay gated without an object."""

    @property
    def is_empty(self) -> bool:
        return not self._open and not self._by_object

    def concerned_by(self, event: ClusterEvent) -> list[HintGroup]:
        """Return the groups that an event may concern."""
        found, changed = list(self._open.values()), event.new or event.old
        if self._by_object and isinstance(changed, dict):
            meta = changed["metadata"]
            found += self._by_object.get((event.resource, meta.get("namespace", ""), meta["name"]), {}).values()
        return found

    def add(self, group: HintGroup) -> None:
        """Add a group by its gate object."""
        needed = group.gate_object
        (self._open if needed is None else self._by_object.setdefault(needed, {}))[group.key] = group

    def remove(self, group: HintGroup) -> None:
        """Remove a group, which still has the gate object with which it was added."""
        needed = group.gate_object
        groups = self._open if needed is None else self._by_object[needed]
        del groups[group.key]
        if needed is not None and not groups:
            del self._by_object[needed]


class UnschedulablePods:
    """kube-scheduler's unschedulablePods. Only events of the plugin that gates a pod can requeue a gated pod.

    The index has the group of each pod, which has the pod.
    """

    def __init__(
        self,
        index: TierIndex,
        scope_of: Callable[[QueuedPod], HintScope],
        gate_object_of: Callable[[QueuedPod], GateObject | None],
    ) -> None:
        """`scope_of` returns what the hints of a rejected pod's rejectors read of it.

        `gate_object_of` returns the object without which a gated pod stays gated.
        """
        self.rejected = 0
        """Number of pods that are not gated."""
        self.gated = 0
        """Number of gated pods."""
        self._index = index
        self._scope_of = scope_of
        self._gate_object_of = gate_object_of
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
            group = self._groups[key] = HintGroup(self, key, queued)
            if group.is_gated and not isinstance(queued, QueuedPodGroup):
                group.gate_object = self._gate_object_of(queued)
            self._register(group)
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
            group.gate_object = self._gate_object_of(next(queued for _, queued in group.pods.values()))
            self._register(group)

    def _register(self, group: HintGroup) -> None:
        for plugin in group.plugins:
            self._by_plugin.setdefault(plugin, _PluginGroups()).add(group)

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

    def groups_held_by(self, plugin: ProfilePlugin, event: ClusterEvent) -> list[HintGroup]:
        """Return the groups of the pods that the plugin rejected or gates, and that the event may concern."""
        groups = self._by_plugin.get(plugin)
        return [] if groups is None else groups.concerned_by(event)

    def _key(self, queued: QueuedPod) -> GroupKey:
        pod = queued.pod
        if queued.gating_plugin or pod.is_large or isinstance(queued, QueuedPodGroup):
            return pod.uid
        rejected, pending = queued.unschedulable_plugins, queued.pending_plugins
        key = pod.signature.template, rejected, pending
        if key in self._groups:
            return key  # so hints read no more than the template; to determine that would take longer
        scope = self._scope_of(queued)
        if scope is HintScope.POD:
            return pod.uid
        return key if scope is HintScope.SIGNATURE_GROUP else (pod.signature, rejected, pending)


def _holders(queued: QueuedPod) -> tuple[ProfilePlugin, ...]:
    """Return the plugins of which the events concern the pod."""
    gate = queued.gating_plugin
    return plugins_of_profile(queued.pod.scheduler_name, frozenset({gate})) if gate else rejectors_of(queued)
