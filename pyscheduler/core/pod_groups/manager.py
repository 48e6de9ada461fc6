"""Members and requirements of all pod groups (kube-scheduler's PodGroupManager).

The members are the pods that declare the group, whichever scheduler is responsible for them. Requirements are read from
the group's object when they are needed first after a change.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from pyscheduler.api.events import ClusterEvent
from pyscheduler.api.outcome import Rejection
from pyscheduler.api.plugin import PodGroupPlugin
from pyscheduler.api.pod import Pod, PodSignature
from pyscheduler.api.pod_group import PodGroup, PodGroupKey
from pyscheduler.core.framework.plugin_calls import call_guarded
from pyscheduler.core.framework.plugin_failure import PluginFailed
from pyscheduler.core.instrument import Instrument

POD_GROUP = "PodGroup"
"""Name of the extension point passed to `Instrument.plugin_failed`."""


class PodGroupState:
    """Members of one group."""

    __slots__ = ("condition", "key", "newest", "placed", "pods", "previous", "requirements", "succeeded")

    def __init__(self, key: PodGroupKey) -> None:
        self.key = key
        self.pods: dict[str, Pod] = {}
        """Pending and assigned pods by UID, without those that are terminating or have ended."""
        self.placed: set[str] = set()
        """UIDs of those that are assigned or assumed."""
        self.succeeded: dict[str, Pod] = {}
        """Pods that have succeeded and still exist; they count toward the minimum."""
        self.requirements: PodGroup | Rejection | None = None
        """Requirements, or the reason why no member can be scheduled; None if they have to be read."""
        self.previous: PodGroup | None = None
        """Requirements before the members since then came, if nothing else has changed; None if they are read."""
        self.newest: PodSignature | None = None
        """Signature of the last new pod; the requirements do not change with another pod of it."""

        self.condition = ("", "", "")
        """Status, reason and message of the condition that was written last."""

    def invalidate(self) -> None:
        """Read the requirements again when they are needed next."""
        self.requirements = self.previous = None

    @property
    def started(self) -> list[Pod]:
        """Members that have a node or have succeeded."""
        return [*(self.pods[uid] for uid in self.placed), *self.succeeded.values()]


class PodGroupManager:
    """All pod groups of the cluster; empty if no profile has a PodGroup plugin."""

    def __init__(self, instrument: Instrument) -> None:
        self._instrument = instrument
        self._plugins: Mapping[str, PodGroupPlugin] = {}
        self._groups: dict[PodGroupKey, PodGroupState] = {}
        self._key_of: dict[str, PodGroupKey] = {}
        """Group of each member, succeeded ones included, by UID."""
        self._changed: dict[PodGroupKey, None] = {}

    def use(self, plugins: Mapping[str, PodGroupPlugin], pods: Iterable[Pod], placed: Collection[str]) -> None:
        """Use these plugins, by scheduler name, from now on. `pods` are all that exist, `placed` those with a node."""
        succeeded = [pod for group in self._groups.values() for pod in group.succeeded.values()]
        self._plugins = plugins
        self._groups, self._key_of, self._changed = {}, {}, {}
        if plugins:
            for pod in pods:
                self.set_pod(pod)
                if pod.uid in placed:
                    self.place(pod.uid)
            for pod in succeeded:
                self.add_succeeded(pod)

    @property
    def is_enabled(self) -> bool:
        """Return True if a profile has a PodGroup plugin."""
        return bool(self._plugins)

    def __getitem__(self, key: PodGroupKey) -> PodGroupState:
        return self._groups[key]

    def items(self) -> Iterable[tuple[PodGroupKey, PodGroupState]]:
        """Return all groups with members."""
        return self._groups.items()

    def get(self, key: PodGroupKey) -> PodGroupState | None:
        """Return the group, or None if it has no members."""
        return self._groups.get(key)

    def key_of(self, pod: Pod) -> PodGroupKey | None:
        """Return the group in which the pod is scheduled; None for a pod that is scheduled by itself."""
        if not self._plugins or pod.scheduler_name not in self._plugins:
            return None
        return self._key_of.get(pod.uid)

    # -- members -------------------------------------------------------------------------------------------------

    def set_pod(self, pod: Pod) -> None:
        """Add a pod that exists and has not ended, or replace it by its new version."""
        if not self._plugins:
            return
        key, before = self._group_of(pod), self._key_of.get(pod.uid)
        if before is not None and (key != before or pod.deleting):
            self.remove(pod.uid)
        if key is None or pod.deleting:
            return
        group = self._groups.get(key)
        if group is None:
            group = self._groups[key] = PodGroupState(key)
        old = group.pods.get(pod.uid)
        group.pods[pod.uid] = pod
        self._key_of[pod.uid] = key
        if pod.node_name and pod.uid not in group.placed:
            group.placed.add(pod.uid)
            self._changed[key] = None
        if old is None or old.signature is not pod.signature:
            self._changed[key] = None
            if old is not None or group.newest is not pod.signature:
                before_it = group.previous or group.requirements
                group.invalidate()
                group.newest = pod.signature
                if old is None and isinstance(before_it, PodGroup):
                    group.previous = before_it

    def remove(self, uid: str) -> None:
        """Remove a pod that has ended, was deleted or is terminating; others are ignored."""
        key = self._key_of.pop(uid, None)
        if key is None:
            return
        group = self._groups[key]
        if group.pods.pop(uid, None) is not None:
            group.placed.discard(uid)
        else:
            del group.succeeded[uid]
        group.invalidate()
        self._changed[key] = None
        if not group.pods and not group.succeeded:
            del self._groups[key]

    def add_succeeded(self, pod: Pod) -> bool:
        """Add a pod that has succeeded. Return True if it is a member of a group."""
        key = self._group_of(pod) if self._plugins else None
        if key is None:
            return False
        self.remove(pod.uid)
        self._groups.setdefault(key, PodGroupState(key)).succeeded[pod.uid] = pod
        self._key_of[pod.uid] = key
        self._changed[key] = None
        return True

    def place(self, uid: str) -> None:
        """Count a member that is assumed."""
        key = self._key_of.get(uid)
        if key is not None and uid in self._groups[key].pods:
            self._groups[key].placed.add(uid)

    def displace(self, uid: str) -> None:
        """Stop counting a member that was assumed, unless it is bound."""
        key = self._key_of.get(uid)
        pod = None if key is None else self._groups[key].pods.get(uid)
        if key is not None and pod is not None and not pod.node_name:
            self._groups[key].placed.discard(uid)

    def _group_of(self, pod: Pod) -> PodGroupKey | None:
        """Return the group that the pod declares; other schedulers' pods are members too."""
        plugin = self._plugins.get(pod.scheduler_name) or next(iter(self._plugins.values()))
        try:
            return call_guarded(plugin.name, POD_GROUP, plugin.group_of, pod)
        except PluginFailed as failed:
            self._instrument.plugin_failed(failed.plugin, failed.point, failed.error)
            return None

    # -- requirements --------------------------------------------------------------------------------------------

    def requirements(self, key: PodGroupKey) -> PodGroup | Rejection:
        """Return the requirements of a group with members, or the reason why none of them can be scheduled."""
        group = self._groups[key]
        group.previous = None
        if group.requirements is None:
            members = [*group.pods.values(), *group.succeeded.values()]
            plugin = next(
                (p for pod in members if (p := self._plugins.get(pod.scheduler_name)) is not None),
                next(iter(self._plugins.values())),
            )
            try:
                group.requirements = call_guarded(plugin.name, POD_GROUP, plugin.pod_group, key, members)
            except PluginFailed as failed:
                self._instrument.plugin_failed(failed.plugin, failed.point, failed.error)
                group.requirements = Rejection(f"pod group {key}: {failed}", resolvable=False)
        return group.requirements

    def reason_to_wait(self, key: PodGroupKey, pending: Collection[Pod]) -> str:
        """Return why the group cannot be scheduled with these pending pods and the started ones; "" if it can."""
        previous = self._groups[key].previous
        # The members of an Indexed Job all differ. To read all of them whenever one comes would take long.
        requirements = previous if previous and self.shortage(previous, pending) else self.requirements(key)
        if isinstance(requirements, Rejection):
            return requirements.message
        short = self.shortage(requirements, pending)
        return f"pod group {key} has only {short} that it needs" if short else ""

    def shortage(self, group: PodGroup, pending: Collection[Pod]) -> str:
        """Return what the pods and those that have started lack of the group's minimums; "" if nothing."""
        state = self._groups.get(group.key)
        started = 0 if state is None else len(state.placed) + len(state.succeeded)
        count = len(pending) + started
        if count < group.min_count:
            return f"{count} of the {group.min_count} pods"
        if not group.min_count_by_role:
            return ""
        return group.shortage([self.role_of(pod) for pod in (*pending, *(state.started if state is not None else ()))])

    def priority_of(self, key: PodGroupKey, pods: Iterable[Pod]) -> int:
        """Return the priority of a group: its own, or the least of these members' priorities."""
        group = self.requirements(key)
        if isinstance(group, PodGroup) and group.priority is not None:
            return group.priority
        return min(pod.priority for pod in pods)

    def effective_priority(self, pod: Pod) -> int:
        """Return the priority of the pod's group if that has one of its own, otherwise the pod's."""
        key = self._key_of.get(pod.uid)
        group = None if key is None else self.requirements(key)
        return pod.priority if not isinstance(group, PodGroup) or group.priority is None else group.priority

    def is_broken(self, group: PodGroup) -> bool:
        """Return True if some pods of the group have a node, but fewer than it needs."""
        state = self._groups.get(group.key)
        return state is not None and bool(state.placed) and bool(self.shortage(group, ()))

    def role_of(self, pod: Pod) -> str:
        """Return the pod's role in its group."""
        plugin = self._plugins.get(pod.scheduler_name) or next(iter(self._plugins.values()))
        return call_guarded(plugin.name, POD_GROUP, plugin.role_of, pod)

    def object_changed(self, event: ClusterEvent) -> None:
        """Read the requirements of the groups again that a changed object declares."""
        for plugin in dict.fromkeys(self._plugins.values()):
            if any(kind.kind == event.resource for kind in plugin.watches):
                try:
                    keys = [*call_guarded(plugin.name, POD_GROUP, plugin.changed_groups, event)]
                except PluginFailed as failed:
                    self._instrument.plugin_failed(failed.plugin, failed.point, failed.error)
                    keys = list(self._groups)
                for key in keys:
                    if (group := self._groups.get(key)) is not None:
                        group.invalidate()
                        self._changed[key] = None

    @property
    def has_changes(self) -> bool:
        """Return True if `take_changed` returns any group."""
        return bool(self._changed)

    def take_changed(self) -> list[PodGroupKey]:
        """Return the groups with other members or requirements since the last call, removed groups included."""
        changed = list(self._changed)
        self._changed.clear()
        return changed
