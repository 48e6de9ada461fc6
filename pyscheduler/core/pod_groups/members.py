"""Members of all pod groups and what they request: the books from which the manager answers.

The members are the pods that declare the group, whichever scheduler is responsible for them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, Concatenate, ParamSpec, TypeVar

from pyscheduler.api.events import ClusterEvent
from pyscheduler.api.outcome import Rejection
from pyscheduler.api.plugin import Plugin
from pyscheduler.api.pod import Pod
from pyscheduler.api.pod_group import PodGroup, PodGroupKey
from pyscheduler.api.pod_group_plugins import PodGroupPlugin, QuotaPlugin
from pyscheduler.api.resources import Amounts
from pyscheduler.api.steps import Steps
from pyscheduler.core.framework.plugin_failure import PluginFailed, raise_plugin_failed
from pyscheduler.core.instrument import Instrument
from pyscheduler.core.pod_groups.claim_usage import TERMINATING, ClaimUsage, Holder
from pyscheduler.core.pod_groups.group_results import call_quota, group_of, pod_group_of, role_of
from pyscheduler.core.pod_groups.pod_group_state import PodGroupState
from pyscheduler.core.pod_groups.queue_gate import GateRemovals, is_admitted
from pyscheduler.core.pod_groups.terminating import TerminatingPods
from pyscheduler.core.pod_groups.usage import QueuesInUse, ReportedUsage, UsageByGroup

P = ParamSpec("P")
T = TypeVar("T")
D = TypeVar("D")
SINGLE_POD = "Pod"
"""API of the key of a pod without a group, which is a group of its own if there are queues."""
POD_GROUP, QUOTA = "PodGroup", "Quota"
"""Names of the extension points passed to `Instrument.plugin_failed`."""


class PodGroupStates:
    """Members of all pod groups of the cluster; empty if no profile has a PodGroup plugin."""

    def __init__(self, instrument: Instrument) -> None:
        self._instrument = instrument
        self._plugins: Mapping[str, PodGroupPlugin] = {}
        self.is_enabled = False
        """True if a profile has a PodGroup plugin."""
        self._groups: dict[PodGroupKey, PodGroupState] = {}
        self._declared: dict[PodGroupKey, PodGroupState] = {}
        """Those of the groups that are not single pods."""
        self._key_of: dict[str, PodGroupKey] = {}
        """Group of each member, succeeded ones included, by UID."""
        self.changed: dict[PodGroupKey, None] = {}
        """Groups with other members or requirements since the last `take_changed`."""
        self.regrouped: dict[str, None] = {}
        """UIDs of pods that an object has moved to another group, and the queue has not yet."""
        self._awaited: dict[PodGroupKey, Pod] = {}
        """Members that have to be bound before others of their groups, since their bindings were refused before."""
        self.gate_removals = GateRemovals()
        self.quota: QuotaPlugin | None = None
        """The plugin that divides the cluster among queues, or None."""
        self._claims = ClaimUsage(self._claims_of)
        self.usage, self._reported = UsageByGroup(self._claims), ReportedUsage()
        self._queues_in_use = QueuesInUse()
        self._terminating = TerminatingPods(self._claims)
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
        self._claims = ClaimUsage(self._claims_of)
        self.usage, self._reported = UsageByGroup(self._claims), ReportedUsage()
        self._queues_in_use = QueuesInUse()
        self._terminating = TerminatingPods(self._claims)
        self.is_enabled = bool(plugins)
        self._adopted = []
        if quota is not None and quota.tracks_time and self._time >= 0:
            self.call_quota(None, QuotaPlugin.set_time, self._time)
        self._groups, self._declared, self._key_of, self.changed, self.regrouped = {}, {}, {}, {}, {}
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

    def declared(self) -> Iterable[PodGroupState]:
        """Return the groups with members that are not single pods."""
        return self._declared.values()

    def get(self, key: PodGroupKey) -> PodGroupState | None:
        """Return the group, or None if it has no members."""
        return self._groups.get(key)

    def key_of(self, pod: Pod) -> PodGroupKey | None:
        """Return the group in which the pod is scheduled; None for a pod that is scheduled by itself."""
        if not self._plugins or pod.scheduler_name not in self._plugins:
            return None
        return self._key_of.get(pod.uid)

    @property
    def has_member(self) -> Callable[[str], bool]:
        """Function that returns True for the UID of a member of a group, whichever scheduler is responsible for it."""
        return self._key_of.__contains__

    # -- members -------------------------------------------------------------------------------------------------

    def set_pod(self, pod: Pod) -> None:
        """Add a pod that exists and has not ended, or replace it by its new version."""
        if not self._plugins:
            return
        uid = pod.uid
        before = self._key_of.get(uid)
        known = None if before is None else self._groups[before].pods.get(uid)
        key = before if known is not None and known.signature is pod.signature else self._group_of(pod)
        if before is not None and (key != before or pod.deleting):
            self.remove(uid)
            known = None
        if key is None or pod.deleting:
            return
        group = self._groups.get(key)
        if group is None:
            group = self._add_group(key)
        was_placed = uid in group.placed
        group.pods[uid] = pod
        self._key_of[uid] = key
        if pod.node_name and isinstance(group.requirements, Rejection) and not (known and known.node_name):
            # With a node, a pod that differs from the others no longer makes the group invalid. An assumed pod is in
            # `placed` without a node in its object, which is what plugins read: so this does not test `was_placed`.
            group.invalidate()
            self.changed[key] = None
        if pod.node_name and not was_placed:
            group.placed.add(uid)
            self.changed[key] = None
            if known is None and self.quota is not None and self.quota.tracks_time:
                self._adopted.append((key, pod))
        is_new_signature = known is None or known.signature is not pod.signature
        is_placed = was_placed or bool(pod.node_name)
        has_new_claims = known is not None and known.claim_statuses != pod.claim_statuses
        if self.quota is not None and (is_new_signature or is_placed != was_placed or has_new_claims):
            is_gated = self.usage.is_gated(key, uid)
            if known is not None:
                self.usage.remove(key, known, placed=was_placed)
            self.usage.add(key, pod, placed=is_placed)
            if is_gated and not is_placed:
                self.usage.set_gated(key, pod, is_gated=True)
            self._set_gate(key, known, pod, is_placed=is_placed)
        if is_new_signature:
            self._set_signature(group, known, pod)

    def _set_gate(self, key: PodGroupKey, known: Pod | None, pod: Pod, *, is_placed: bool) -> None:
        """Record that the gate of a pod was removed, now or before the scheduler started: its quota is kept for it.

        Any tenant may write the annotation of admitted pods, but not the condition of pods that were attempted.
        """
        if self.gate_removals and not pod.spec.scheduling_gates:
            self.gate_removals.end(key, pod.uid)
        if is_placed:
            self.usage.unreserve(key, pod.uid)
        elif known is None and is_admitted(pod) and pod.scheduler_name in self._plugins and was_unschedulable(pod):
            self.usage.claim(key, pod)

    def _set_signature(self, group: PodGroupState, known: Pod | None, pod: Pod) -> None:
        """Invalidate the requirements of a group with a new pod, or a pod with another signature."""
        self.changed[group.key] = None
        self.usage.touch(group.key)
        if known is not None or group.newest is not pod.signature:
            before_it = group.previous or group.requirements
            group.invalidate()
            group.newest = pod.signature
            if known is None and isinstance(before_it, PodGroup) and not self._may_lower_minimum(group, before_it, pod):
                group.previous = before_it

    def _may_lower_minimum(self, group: PodGroupState, before: PodGroup, pod: Pod) -> bool:
        """Return True if a pod of a new template may lower the minimum of a started group."""
        if not group.placed:
            return False
        plugin = self._plugin_of(pod)
        alone = self._call(None, plugin, POD_GROUP, pod_group_of, plugin, group.key, [pod])
        return isinstance(alone, PodGroup) and alone.min_count < before.min_count

    def _add_group(self, key: PodGroupKey) -> PodGroupState:
        group = self._groups[key] = PodGroupState(key)
        if key.api != SINGLE_POD:
            self._declared[key] = group
        return group

    def remove(self, uid: str) -> None:
        """Remove a pod that has ended, was deleted or is terminating; others are ignored."""
        self.binding_ended(uid)
        key = self._key_of.pop(uid, None)
        if key is None:
            return
        group = self._groups[key]
        pod = group.pods.pop(uid, None)
        self.gate_removals.end(key, uid)
        if pod is not None:
            if self.quota is not None:
                if uid not in group.placed:
                    self.usage.unreserve(key, uid)
                self.usage.remove(key, pod, placed=uid in group.placed)
            group.placed.discard(uid)
        else:
            del group.succeeded[uid]
        group.invalidate()
        self.changed[key] = None
        if not group.pods and not group.succeeded:
            del self._groups[key]
            self._declared.pop(key, None)
            self.usage.drop(key)

    def add_succeeded(self, pod: Pod) -> bool:
        """Add a pod that has succeeded. Return True if it is a member of a group."""
        key = self._group_of(pod) if self._plugins else None
        if key is None:
            return False
        self.remove(pod.uid)
        group = self._groups.get(key) or self._add_group(key)
        group.succeeded[pod.uid] = pod
        self._key_of[pod.uid] = key
        self.changed[key] = None
        return True

    def place(self, uid: str) -> None:
        """Count a member that is assumed."""
        key = self._key_of.get(uid)
        group = None if key is None else self._groups[key]
        pod = None if group is None else group.pods.get(uid)
        if key is None or group is None or pod is None or uid in group.placed:
            return
        group.placed.add(uid)
        if self.quota is not None:
            self.usage.move(key, pod, placed=True)

    def set_gated(self, uid: str, is_gated: bool) -> None:
        """Set whether a PreEnqueue plugin gates a pending pod, such as one that waits for a claim."""
        key = self._key_of.get(uid) if self.quota is not None else None
        pod = None if key is None else self._groups[key].pods.get(uid)
        if key is not None and pod is not None and uid not in self._groups[key].placed:
            self.usage.set_gated(key, pod, is_gated=is_gated)

    def await_binding(self, key: PodGroupKey, pod: Pod) -> None:
        """Hold the group until the binding of this member has ended."""
        self._awaited[key] = pod

    def binding_ended(self, uid: str) -> None:
        """Release the group of a member that it was held for."""
        if not self._awaited:
            return
        key = self._key_of.get(uid)
        if key is not None and key in self._awaited and self._awaited[key].uid == uid:
            del self._awaited[key]
            self.changed[key] = None

    def displace(self, uid: str) -> None:
        """Stop counting a member that was assumed, unless it is bound."""
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
        key = self._call(None, plugin, POD_GROUP, group_of, plugin, pod)
        if key is None and self.quota is not None and pod.scheduler_name in self._plugins:
            return PodGroupKey(pod.namespace, pod.uid, SINGLE_POD)
        return key

    def _claims_of(self, pod: Pod) -> Mapping[str, Amounts]:
        """Return what the pod requests by its ResourceClaims, as the Quota plugin counts it, by the names of these."""
        empty: Mapping[str, Amounts] = {}
        return self.call_quota(empty, QuotaPlugin.claims_of, pod)

    def claims_of(self, pods: Iterable[Pod]) -> set[str]:
        """Return the names of the claims of these pods that count toward quotas."""
        return {name for pod in pods if pod.spec.resource_claims for name in self._claims_of(pod)}

    def take_recounted_claims(self) -> Collection[str]:
        """Return the claims that may count toward other groups, or toward none any more, since the last call."""
        recounted, self._claims.recounted = self._claims.recounted, {}
        return recounted

    def take_changed(self) -> list[PodGroupKey]:
        """Return the groups with other members or requirements since the last call, removed groups included."""
        changed = list(self.changed)
        self.changed.clear()
        return changed

    def _regroup(self, group: PodGroupState) -> None:
        """Move members to another group if an object has changed it: that of the root of their CompositePodGroups."""
        adopted = len(self._adopted)
        for pod in [pod for pod in group.pods.values() if self._group_of(pod) != group.key]:
            was_placed = pod.uid in group.placed
            self.remove(pod.uid)
            self.set_pod(pod)
            if was_placed:
                self.place(pod.uid)
            self.regrouped[pod.uid] = None
        for pod in [pod for pod in group.succeeded.values() if self._group_of(pod) != group.key]:
            self.add_succeeded(pod)
        del self._adopted[adopted:]  # their usage has been counted since their start

    def role_of(self, pod: Pod) -> str:
        """Return the pod's role in its group."""
        plugin = self._plugin_of(pod)
        return self._call("", plugin, POD_GROUP, role_of, plugin, pod)

    def size_of(self, pod: Pod) -> tuple[int, int]:
        """Return a sort key of pods: what their claims request, and what they request themselves."""
        claims = self._claims_of(pod).values() if pod.spec.resource_claims else ()
        return sum(sum(amounts.values()) for amounts in claims), sum(pod.requests.effective.values())

    def _update_claims(self, event: ClusterEvent) -> None:
        """Count claims as a changed object declares them."""
        none: Mapping[str, Amounts] = {}
        for name, amounts in self.call_quota(none, QuotaPlugin.changed_claims, event).items():
            self._touch(self._claims.set_claim(name, amounts))

    def _touch(self, holders: Iterable[Holder]) -> None:
        """Report the usage of these holders of claims again."""
        for holder in holders:
            if holder.rank == TERMINATING:
                self._terminating.touch(holder.key)
            else:
                self.usage.touch(holder.key)

    def _plugin_of(self, pod: Pod) -> PodGroupPlugin:
        """Return the plugin of the pod's profile; that of any profile for a pod of another scheduler."""
        return self._plugins.get(pod.scheduler_name) or next(iter(self._plugins.values()))

    def call_quota(
        self, default: D, method: Callable[Concatenate[QuotaPlugin, P], T], *args: P.args, **_: P.kwargs
    ) -> T | D:
        """Return what a method of the Quota plugin returns; the default if it fails, or if there is none."""
        quota = self.quota
        return default if quota is None else self._call(default, quota, QUOTA, call_quota, quota, method, args)

    def _call(self, default: D, plugin: Plugin, point: str, method: Callable[..., T], *args: Any) -> T | D:
        """Return what a method of a plugin returns; the default if it raises, which is reported."""
        try:
            return method(*args)  # as in `call_guarded`, inlined because it runs several times for every pod
        except BaseException as error:
            return self._failed(default, plugin, point, error)

    def _run_plugin_steps(self, default: D, plugin: Plugin, point: str, steps: Steps[T]) -> Steps[T | D]:
        """Return the result of a plugin's steps; the default if they raise, which is reported."""
        try:
            return (yield from steps)
        except BaseException as error:
            return self._failed(default, plugin, point, error)

    def _failed(self, default: D, plugin: Plugin, point: str, error: BaseException) -> D:
        try:
            raise_plugin_failed(plugin.name, point, error)
        except PluginFailed as failed:
            failed.report_to(self._instrument)
        return default


def was_unschedulable(pod: Pod) -> bool:
    """Return True if an attempt found no node for the pod, by its condition PodScheduled."""
    return any((each.type, each.reason) == ("PodScheduled", "Unschedulable") for each in pod.conditions)
