"""Members and requirements of all pod groups (kube-scheduler's PodGroupManager).

The members are the pods that declare the group, whichever scheduler is responsible for them. Requirements are read from
the group's object when they are needed first after a change.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, TypeVar

from msgspec.structs import replace

from pyscheduler.api.events import NODE, Action, ClusterEvent
from pyscheduler.api.outcome import Rejection
from pyscheduler.api.plugin import Plugin
from pyscheduler.api.pod import Pod
from pyscheduler.api.pod_group import EvictionUnit, PodGroup, PodGroupKey
from pyscheduler.api.pod_group_plugins import PodGroupPlugin, QuotaPlugin
from pyscheduler.core.framework.plugin_calls import call_guarded
from pyscheduler.core.framework.plugin_failure import PluginFailed
from pyscheduler.core.instrument import Instrument
from pyscheduler.core.pod_groups.state import PodGroupState
from pyscheduler.core.pod_groups.usage import QueuesInUse, ReportedUsage, UsageByGroup

T = TypeVar("T")
D = TypeVar("D")
SINGLE_POD = "Pod"
"""API of the key of a pod without a group, which is a group of its own if there are queues."""
_CAPACITY = Action.ADD | Action.DELETE | Action.UPDATE_NODE_ALLOCATABLE
POD_GROUP, QUOTA = "PodGroup", "Quota"
"""Names of the extension points passed to `Instrument.plugin_failed`."""


class PodGroupManager:
    """All pod groups of the cluster; empty if no profile has a PodGroup plugin."""

    def __init__(self, instrument: Instrument) -> None:
        self._instrument = instrument
        self._plugins: Mapping[str, PodGroupPlugin] = {}
        self.is_enabled = False
        """True if a profile has a PodGroup plugin."""
        self._groups: dict[PodGroupKey, PodGroupState] = {}
        self._key_of: dict[str, PodGroupKey] = {}
        """Group of each member, succeeded ones included, by UID."""
        self.changed: dict[PodGroupKey, None] = {}
        """Groups with other members or requirements since the last `take_changed`."""
        self._awaited: dict[PodGroupKey, Pod] = {}
        """Members that have to be bound before others of their groups, since their bindings were refused before."""
        self.quota: QuotaPlugin | None = None
        """The plugin that divides the cluster among queues, or None."""
        self.usage, self._reported = UsageByGroup(), ReportedUsage()
        self._queues_in_use = QueuesInUse()
        self._limits_changed = False
        self._time = -math.inf
        self._adopted: list[tuple[PodGroupKey, Pod]] = []
        """Pods that were on their nodes when they came, with their groups, until the time is set."""

    def use(
        self,
        plugins: Mapping[str, PodGroupPlugin],
        quota: QuotaPlugin | None,
        pods: Iterable[Pod],
        placed: Collection[str],
    ) -> None:
        """Use these plugins, by scheduler name, from now on. `pods` are all that exist, `placed` those with a node."""
        succeeded = [pod for group in self._groups.values() for pod in group.succeeded.values()]
        self._plugins, self.quota = plugins, quota
        self.usage, self._reported, self._queues_in_use = UsageByGroup(), ReportedUsage(), QueuesInUse()
        self.is_enabled = bool(plugins)
        self._adopted = []
        if quota is not None and quota.tracks_time and self._time >= 0:
            self._call(None, quota, QUOTA, quota.set_time, self._time)
        self._groups, self._key_of, self.changed = {}, {}, {}
        if plugins:
            for pod in pods:
                self.set_pod(pod)
                if pod.uid in placed:
                    self.place(pod.uid)
            for pod in succeeded:
                self.add_succeeded(pod)

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
        before = self._key_of.get(pod.uid)
        known = None if before is None else self._groups[before].pods.get(pod.uid)
        key = before if known is not None and known.signature is pod.signature else self._group_of(pod)
        if before is not None and (key != before or pod.deleting):
            self.remove(pod.uid)
        if key is None or pod.deleting:
            return
        group = self._groups.get(key)
        if group is None:
            group = self._groups[key] = PodGroupState(key)
        old, was_placed = group.pods.get(pod.uid), pod.uid in group.placed
        group.pods[pod.uid] = pod
        self._key_of[pod.uid] = key
        if pod.node_name and not was_placed:
            group.placed.add(pod.uid)
            self.changed[key] = None
            if isinstance(group.requirements, Rejection):
                group.invalidate()  # with a node, the pod of another scheduler no longer makes the group invalid
            if old is None and self.quota is not None and self.quota.tracks_time:
                self._adopted.append((key, pod))
        is_placed = was_placed or bool(pod.node_name)
        if self.quota is not None and (old is None or old.signature is not pod.signature or is_placed != was_placed):
            if old is not None:
                self.usage.remove(key, old, placed=was_placed)
            self.usage.add(key, pod, placed=is_placed)
        if old is None or old.signature is not pod.signature:
            self.changed[key] = None
            self.usage.touch(key)
            if old is not None or group.newest is not pod.signature:
                before_it = group.previous or group.requirements
                group.invalidate()
                group.newest = pod.signature
                if old is None and isinstance(before_it, PodGroup):
                    group.previous = before_it

    def remove(self, uid: str) -> None:
        """Remove a pod that has ended, was deleted or is terminating; others are ignored."""
        if self._awaited:
            self.binding_ended(uid)
        key = self._key_of.pop(uid, None)
        if key is None:
            return
        group = self._groups[key]
        pod = group.pods.pop(uid, None)
        if pod is not None:
            if self.quota is not None:
                self.usage.remove(key, pod, placed=uid in group.placed)
            group.placed.discard(uid)
        else:
            del group.succeeded[uid]
        group.invalidate()
        self.changed[key] = None
        if not group.pods and not group.succeeded:
            del self._groups[key]
            self.usage.drop(key)

    def add_succeeded(self, pod: Pod) -> bool:
        """Add a pod that has succeeded. Return True if it is a member of a group."""
        key = self._group_of(pod) if self._plugins else None
        if key is None:
            return False
        self.remove(pod.uid)
        self._groups.setdefault(key, PodGroupState(key)).succeeded[pod.uid] = pod
        self._key_of[pod.uid] = key
        self.changed[key] = None
        return True

    def place(self, uid: str) -> None:
        """Count a member that is assumed."""
        key = self._key_of.get(uid)
        pod = None if key is None else self._groups[key].pods.get(uid)
        if key is None or pod is None or uid in self._groups[key].placed:
            return
        self._groups[key].placed.add(uid)
        if self.quota is not None:
            self.usage.move(key, pod, placed=True)

    def await_binding(self, key: PodGroupKey, pod: Pod) -> None:
        """Hold the group until the binding of this member has ended."""
        self._awaited[key] = pod

    def binding_ended(self, uid: str) -> None:
        """Release the group of a member that it was held for."""
        key = self._key_of.get(uid)
        if key is not None and key in self._awaited and self._awaited[key].uid == uid:
            del self._awaited[key]
            self.changed[key] = None

    def displace(self, uid: str) -> None:
        """Stop counting a member that was assumed, unless it is bound."""
        if self._awaited:
            self.binding_ended(uid)
        key = self._key_of.get(uid)
        pod = None if key is None else self._groups[key].pods.get(uid)
        if key is None or pod is None or pod.node_name or uid not in self._groups[key].placed:
            return
        self._groups[key].placed.discard(uid)
        if self.quota is not None:
            self.usage.move(key, pod, placed=False)

    def _group_of(self, pod: Pod) -> PodGroupKey | None:
        """Return the group that the pod declares; other schedulers' pods are members too."""
        plugin = self._plugin_of(pod)
        key = self._call(None, plugin, POD_GROUP, plugin.group_of, pod)
        if key is None and self.quota is not None and pod.scheduler_name in self._plugins:
            return PodGroupKey(pod.namespace, pod.uid, SINGLE_POD)
        return key

    def _plugin_of(self, pod: Pod) -> PodGroupPlugin:
        """Return the plugin of the pod's profile; that of any profile for a pod of another scheduler."""
        return self._plugins.get(pod.scheduler_name) or next(iter(self._plugins.values()))

    def _call(self, default: D, plugin: Plugin, point: str, method: Callable[..., T], *args: Any) -> T | D:
        """Return what a method of a plugin returns; the default if it raises, which is reported."""
        try:
            return call_guarded(plugin.name, point, method, *args)
        except PluginFailed as failed:
            self._instrument.plugin_failed(failed.plugin, failed.point, failed.error)
            return default

    # -- requirements --------------------------------------------------------------------------------------------

    def requirements(self, key: PodGroupKey) -> PodGroup | Rejection:
        """Return the requirements of a group with members, or the reason why none of them can be scheduled."""
        group = self._groups[key]
        group.previous = None
        if group.requirements is not None:
            return group.requirements
        members = [*group.pods.values(), *group.succeeded.values()]
        if key.api == SINGLE_POD and self.quota is not None:
            pod = members[0]
            group.requirements = PodGroup(key, 1, queue=self._call("", self.quota, QUOTA, self.quota.queue_of, pod))
        else:
            ours = (pod for pod in members if pod.scheduler_name in self._plugins)
            plugin = self._plugin_of(next(ours, members[0]))
            try:
                group.requirements = call_guarded(plugin.name, POD_GROUP, plugin.pod_group, key, members)
            except PluginFailed as failed:
                self._instrument.plugin_failed(failed.plugin, failed.point, failed.error)
                group.requirements = Rejection(f"pod group {key}: {failed}", resolvable=False)
        if isinstance(group.requirements, PodGroup) and self.quota is not None:
            accounts = self.call_quota((), lambda quota: tuple(quota.accounts_of(members)))
            if accounts != group.requirements.accounts:
                group.requirements = replace(group.requirements, accounts=accounts)
        return group.requirements

    def reason_to_wait(self, key: PodGroupKey, pending: Collection[Pod]) -> str:
        """Return why the group cannot be scheduled with these pending pods and the started ones; "" if it can."""
        previous = self._groups[key].previous
        # The members of an Indexed Job all differ. To read all of them whenever one comes would take long.
        requirements = previous if previous and self.shortage(previous, pending) else self.requirements(key)
        if isinstance(requirements, Rejection):
            return requirements.message
        if short := self.shortage(requirements, pending):
            return f"pod group {key} has only {short} that it needs"
        if (awaited := self._awaited.get(key)) is not None:
            return f"pod group {key} waits for the binding of {awaited.name}, which was refused before"
        quota = self.quota
        if quota is None:
            return ""
        return self._call(f"plugin {quota.name} failed", quota, QUOTA, quota.unavailable, requirements)

    def shortage(self, group: PodGroup, pending: Collection[Pod]) -> str:
        """Return what the pods and those that have started lack of the group's minimums; "" if nothing."""
        state = self._groups.get(group.key)
        count = len(pending) + (0 if state is None else state.started_count)
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

    # -- quotas --------------------------------------------------------------------------------------------------

    @property
    def quota_name(self) -> str:
        """Name of the Quota plugin, "" if there is none."""
        return "" if self.quota is None else self.quota.name

    def call_quota(self, default: D, call: Callable[[QuotaPlugin], T]) -> T | D:
        """Return what a call of the Quota plugin returns; the default if it raises, or if there is none."""
        return default if self.quota is None else self._call(default, self.quota, QUOTA, call, self.quota)

    def exceeded(self, group: PodGroup, request: Mapping[str, int]) -> str:
        """Return why the group's queue may not allocate this much more, "" if it may or there are no queues."""
        if (quota := self.quota) is None:
            return ""
        self.report_usage()
        failed = f"plugin {quota.name} failed"
        exceeded = self._call(failed, quota, QUOTA, quota.exceeded, group, dict(request))
        return exceeded or self.exceeded_limit(group, request)

    def exceeded_limit(self, group: PodGroup, request: Mapping[str, int]) -> str:
        """Return which limit of its users the group exceeds with this request, "" if none."""
        if not group.accounts:
            return ""
        self.report_usage()
        return self.call_quota(f"plugin {self.quota_name} failed", lambda q: q.exceeded_limit(group, dict(request)))

    def queue_of(self, group: PodGroup) -> str:
        """Return the queue of the group."""
        return "" if self.quota is None else self._call("", self.quota, QUOTA, self.quota.queue_of_group, group)

    def queue_of_key(self, key: PodGroupKey) -> str:
        """Return the queue of the group with that key; "" if its requirements are not known."""
        group = self.requirements(key) if key in self._groups else None
        return self.queue_of(group) if isinstance(group, PodGroup) else ""

    def next_queue(self, requests: Mapping[str, dict[str, int]]) -> str:
        """Return the queue that is served next of those with groups that are ready; "" if the plugin fails."""
        self.report_usage()
        return "" if self.quota is None else self._call("", self.quota, QUOTA, self.quota.next_queue, requests)

    def has_strict_order(self, queue: str) -> bool:
        """Return True if the first group of the queue that cannot be scheduled holds back the others."""
        return self.quota is not None and self._call(False, self.quota, QUOTA, self.quota.has_strict_order, queue)

    def is_within_share(self, group: PodGroup, request: Mapping[str, int]) -> bool:
        """Return True if the group's queue would not be above its share with this request, or there are no queues."""
        self.report_usage()
        quota = self.quota
        return quota is None or self._call(True, quota, QUOTA, quota.is_within_share, group, dict(request))

    def may_reclaim(self, group: PodGroup, request: Mapping[str, int]) -> bool:
        """Return True if the group's queue may evict pods of other queues for the request."""
        self.report_usage()
        quota = self.quota
        return quota is not None and self._call(False, quota, QUOTA, quota.may_reclaim, group, dict(request))

    def take_quota_changes(self) -> bool:
        """Return True if the usage of a group, or what limits the queues, has changed since the last call."""
        self.report_usage()
        changed, self._limits_changed = self._limits_changed, False
        return self._reported.take_changed() or changed

    def may_preempt(self, group: PodGroup, other: PodGroup) -> bool:
        """Return True if the group may evict pods of another one that has a lower priority."""
        return self.quota is None or self._call(False, self.quota, QUOTA, self.quota.may_preempt, group, other)

    def reclaim(
        self,
        group: PodGroup,
        request: Mapping[str, int],
        free: Mapping[str, int],
        units: Sequence[tuple[EvictionUnit, PodGroup]],
    ) -> Sequence[EvictionUnit] | str:
        """Return the units of other queues that make room for the request, or why there are none."""
        if (quota := self.quota) is None:
            return ()
        self.report_usage()
        failed: Sequence[EvictionUnit] | str = f"plugin {quota.name} failed"
        return self._call(failed, quota, QUOTA, quota.reclaim, group, dict(request), dict(free), units)

    def has_reclaim_candidates(self, group: PodGroup) -> bool:
        """Return True if pods of other queues have a node."""
        self.report_usage()
        return self.quota is not None and any(
            not self.may_preempt(group, other) for other in self._queues_in_use.representatives()
        )

    def needed(self, group: PodGroup, pending: Collection[Pod]) -> Counter[str]:
        """Return what the least of the pending pods request that the group still needs for its minimum."""
        if len(pending) == 1:
            return Counter(next(iter(pending)).requests.effective)
        by_size = sorted((pod.requests.effective for pod in pending), key=lambda requests: sum(requests.values()))
        total = Counter[str]()
        for requests in by_size[: self.needed_count(group)]:
            total.update(requests)
        return total

    def needed_count(self, group: PodGroup) -> int:
        """Return the number of pods that the group still needs for its minimum, at least 1."""
        state = self._groups.get(group.key)
        return max(1, group.min_count - (0 if state is None else state.started_count))

    def report_usage(self) -> None:
        """Pass changed usage to the Quota plugin. Groups that wait for pods request nothing."""
        quota = self.quota
        if quota is None:
            return
        for key, usage in self.usage.take_stale():
            group = self.requirements(key) if usage is not None and key in self._groups else None
            if usage is None or not isinstance(group, PodGroup):
                self._queues_in_use.remove(key)
                self._call(None, quota, QUOTA, quota.remove_usage, key)
                self._reported.set(key, None)
                continue
            state = self._groups[key]
            allocated, pending = usage.reported(self.usage.reserved.get(key, {}))
            if key in self.usage.too_large or not self._has_minimum(group, state):
                pending = {}  # no share is kept for a group that cannot start
            is_started = bool(state.placed)
            self._queues_in_use.set(group, is_used=is_started)
            if group.accounts:
                self._call(None, quota, QUOTA, quota.set_placed, group, len(state.placed))
            self._call(None, quota, QUOTA, quota.set_usage, group, allocated, pending)
            self._reported.set(key, (group.queue, allocated, pending, is_started, group.accounts))

    def set_time(self, now: float) -> None:
        """Set the time, in seconds since 1970, if the Quota plugin needs it; the changes so far are reported before."""
        quota = self.quota
        if quota is None or not quota.tracks_time or (now == self._time and not self._adopted):
            return
        self.report_usage()
        for key, pod in self._adopted:
            group = self.requirements(key) if key in self._groups else None
            if isinstance(group, PodGroup) and pod.started < self._time:
                request = dict(pod.requests.effective)
                self._call(None, quota, QUOTA, quota.add_past_usage, group, request, self._time - pod.started)
        self._adopted.clear()
        self._time = now
        self._call(None, quota, QUOTA, quota.set_time, now)

    def _has_minimum(self, group: PodGroup, state: PodGroupState) -> bool:
        """Return True if the minimum of the group exists, with nodes or without."""
        if len(state.pods) + len(state.succeeded) < group.min_count:
            return False
        if not group.min_count_by_role:
            return True
        return not group.shortage([self.role_of(pod) for pod in (*state.pods.values(), *state.succeeded.values())])

    def without_usage(self, pods: Iterable[Pod]) -> AbstractContextManager[None]:
        """Report the usage without these placed pods within a `with` block, for a dry run of their eviction."""
        keys = ((self._key_of.get(pod.uid), pod) for pod in pods)
        return self.usage.without([(key, pod) for key, pod in keys if key and pod.uid in self._groups[key].placed])

    def reserve(self, key: PodGroupKey, pods: Iterable[Pod]) -> None:
        """Count pending pods of a group as allocated until its next attempt: others are being evicted for them."""
        requests = Counter[str]()
        for pod in pods:
            requests.update(pod.requests.effective)
        self.usage.reserve(key, requests)

    def is_broken(self, group: PodGroup) -> bool:
        """Return True if some pods of the group have a node, but fewer than it needs."""
        state = self._groups.get(group.key)
        return state is not None and bool(state.placed) and bool(self.shortage(group, ()))

    def role_of(self, pod: Pod) -> str:
        """Return the pod's role in its group."""
        plugin = self._plugin_of(pod)
        return self._call("", plugin, POD_GROUP, plugin.role_of, pod)

    def object_changed(self, event: ClusterEvent) -> None:
        """Read the requirements of the groups again that a changed object declares."""
        if self.quota is not None:
            self._limits_changed |= event.resource == NODE and bool(event.action & _CAPACITY)
            is_watched = any(kind.kind == event.resource for kind in self.quota.watches)
            if is_watched and self._call(True, self.quota, QUOTA, self.quota.changes_queues, event):
                self._limits_changed = True
                self.changed.update(dict.fromkeys(self._groups))
                for key in self._groups:
                    self.usage.touch(key)  # it may be in another queue
        for plugin in dict.fromkeys(self._plugins.values()):
            if any(kind.kind == event.resource for kind in plugin.watches):
                keys = self._call(None, plugin, POD_GROUP, lambda p: [*p.changed_groups(event)], plugin)
                for key in self._groups if keys is None else keys:
                    if (group := self._groups.get(key)) is not None:
                        self.usage.touch(key)
                        group.invalidate()
                        self.changed[key] = None

    def take_changed(self) -> list[PodGroupKey]:
        """Return the groups with other members or requirements since the last call, removed groups included."""
        changed = list(self.changed)
        self.changed.clear()
        return changed
