"""The handle that plugins receive: listers, label indexes and the pods waiting on Permit, all in memory.

Requests that plugins make during a call (`activate`, `allow`, `reject`) are only recorded; the machine applies them
after the call, so that a plugin never re-enters the scheduler.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence, Set
from contextlib import AbstractContextManager
from itertools import islice
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import msgspec

from pyscheduler.api.cycle import Cycle
from pyscheduler.api.events import ResourceKind
from pyscheduler.api.handle import DryRun
from pyscheduler.api.nodes import NodeInfo, NodeTable
from pyscheduler.api.outcome import NodeToStatus, Wait
from pyscheduler.api.pod import Pod
from pyscheduler.core.framework.evictions import Evictions

if TYPE_CHECKING:
    from pyscheduler.core.preemption.dry_run import DryRunner

_NO_PODS: Mapping[str, Pod] = MappingProxyType({})
MAX_PERMIT_WAIT = 15 * 60.0
"""Seconds; kube-scheduler caps every Permit wait at 15 minutes."""


class WaitingPodState(msgspec.Struct, eq=False):
    """A pod waiting on Permit: the plugins it waits for, their deadlines and reasons."""

    pod: Pod
    """The latest version of the pod."""
    node_name: str
    since: float
    deadlines: dict[str, float]
    reasons: dict[str, str] = msgspec.field(default_factory=dict)
    rechecks: dict[str, float] = msgspec.field(default_factory=dict)
    """Time of the next `permit` call of each plugin with `recheck_every`."""
    rejected_by: str = ""
    rejection: str = ""
    is_pending: bool = False
    """True if the rejection has the code Pending."""
    error: str = ""
    """Set if no plugin rejected the pod: a plugin failed, or the pod was preempted. It is requeued."""

    @property
    def pending_plugins(self) -> frozenset[str]:
        return frozenset(self.deadlines)

    @property
    def is_decided(self) -> bool:
        """True if no plugin holds the pod any more or one rejected it."""
        return bool(self.rejected_by) or not self.deadlines

    def is_held_by(self, plugin: str) -> bool:
        """Return True while the pod waits for the plugin and has not been rejected."""
        return plugin in self.deadlines and not self.rejected_by

    @property
    def reason(self) -> str:
        """Reasons for waiting, plugin by plugin."""
        return "; ".join(_wait_text(plugin, self.reasons.get(plugin, "")) for plugin in self.deadlines)

    @property
    def next_wake(self) -> float:
        """Time of the first deadline or recheck."""
        return min((*self.deadlines.values(), *self.rechecks.values()), default=math.inf)

    def hold(self, plugin: str, wait: Wait, now: float) -> None:
        """Store a plugin's Wait. The deadline of its first Wait stands."""
        self.deadlines.setdefault(plugin, now + min(wait.seconds, MAX_PERMIT_WAIT))
        self.reasons[plugin] = wait.reason
        if wait.recheck_every > 0:
            self.rechecks[plugin] = now + wait.recheck_every
        else:
            self.rechecks.pop(plugin, None)

    def is_due(self, plugin: str, now: float) -> bool:
        """Return True if the plugin's deadline or its next recheck has been reached."""
        return self.is_held_by(plugin) and now >= min(self.deadlines[plugin], self.rechecks.get(plugin, math.inf))

    def allow(self, plugin: str) -> None:
        self.deadlines.pop(plugin, None)
        self.rechecks.pop(plugin, None)

    def reject(self, plugin: str, message: str, *, is_pending: bool = False) -> None:
        if not self.rejected_by:
            self.rejected_by, self.rejection, self.is_pending = plugin, message, is_pending

    def preempt(self, plugin: str, why: str = "preempted") -> None:
        """Reject the pod because it was preempted or for `why`, whichever plugins hold it."""
        self.fail(plugin, f"waiting on permit for pod: {why}")

    def fail(self, plugin: str, error: str) -> None:
        """Reject the pod with an error, whichever plugins hold it; it is retried after its backoff."""
        self.rejected_by, self.error = plugin, error

    def expire(self, now: float) -> None:
        """Reject the pod if a deadline has passed, naming the plugin with the earliest deadline."""
        plugin = min(self.deadlines, key=self.deadlines.__getitem__, default=None)
        if plugin is not None and now >= self.deadlines[plugin]:
            waited = _format_duration(self.deadlines[plugin] - self.since)
            self.reject(plugin, f"rejected due to timeout after waiting {waited} at plugin {plugin}")


class CoreHandle:
    """Implementation of the public `Handle` protocol, shared by all plugins."""

    def __init__(self, scheduler_names: Collection[str] = ()) -> None:
        self.waiting: dict[str, WaitingPodState] = {}
        self.evictions = Evictions()
        self._scheduler_names = scheduler_names
        self._dry_runner: DryRunner | None = None
        self._watched: Set[ResourceKind] | None = None
        """Kinds that plugins of the profiles watch; None until there are profiles."""
        self.activated: list[Pod] = []
        """Pods that plugins activated, for `take_activated`."""
        self.unnominated: list[Pod] = []
        """Pods with nominations that plugins cleared, for `take_unnominated`."""
        self._objects: dict[ResourceKind, dict[tuple[str, str], dict[str, Any]]] = {}
        self._versions: Counter[ResourceKind] = Counter()
        self._labelled: dict[str, dict[tuple[str, str], dict[str, Pod]]] = {}
        self._grouped: dict[tuple[str, str], dict[str, Pod]] = {}
        self._counted: frozenset[str] = frozenset()
        self._succeeded: dict[str, Pod] = {}

    def use_profiles(self, scheduler_names: Collection[str], watched: Set[ResourceKind], dry_runner: DryRunner) -> None:
        """Serve the plugins of these profiles, which are built with the handle and so exist only after it."""
        self._scheduler_names, self._watched, self._dry_runner = scheduler_names, watched, dry_runner

    # -- for plugins ---------------------------------------------------------------------------------------------

    def waiting_pods(self) -> Iterable[WaitingPodState]:
        return tuple(self.waiting.values())

    def waiting_pod(self, uid: str) -> WaitingPodState | None:
        return self.waiting.get(uid)

    def activate(self, pods: Iterable[Pod]) -> None:
        self.activated.extend(pods)

    def clear_nominations(self, pods: Iterable[Pod]) -> None:
        self.unnominated.extend(pods)

    def objects(self, kind: ResourceKind) -> Mapping[tuple[str, str], dict[str, Any]]:
        self._check(kind)
        return self._objects.setdefault(kind, {})

    def objects_version(self, kind: ResourceKind) -> int:
        self._check(kind)
        return self._versions[kind]

    def pods_by_label(self, key: str, namespace: str, value: str) -> Mapping[str, Pod]:
        index = self._labelled.get(key)
        if index is None:
            raise LookupError(f'pods are not indexed by the label "{key}": add it to the `indexes` of the plugin')
        return index.get((namespace, value), _NO_PODS)

    def pods_by_pod_group(self, namespace: str, name: str) -> Mapping[str, Pod]:
        return self._grouped.get((namespace, name), _NO_PODS)

    def is_assigned_or_assumed(self, uid: str) -> bool:
        return self._cluster.is_assigned_or_assumed(uid)

    def nodes(self) -> NodeTable:
        return self._cluster.nodes()

    def nodes_without_lower_priority(self, priority: int) -> NodeTable:
        return self._cluster.nodes_without_lower_priority(priority)

    def dry_run(self, cycle: Cycle, pod: Pod, node_name: str) -> AbstractContextManager[DryRun]:
        return self._cluster.open(cycle, pod, node_name)

    def filter_without_lower_priority(self, cycle: Cycle, pod: Pod, priority: int) -> NodeToStatus:
        return self._cluster.filter_without_lower_priority(cycle, pod, priority)

    def reprieve_pods(
        self, cycle: Cycle, pod: Pod, orders: Mapping[int, Sequence[Pod]]
    ) -> Mapping[int, Sequence[bool]]:
        return self._cluster.reprieve_pods(cycle, pod, orders)

    def dry_run_cache_key(self, cycle: Cycle, pod: Pod, node: NodeInfo) -> Hashable | None:
        return self._cluster.dry_run_cache_key(cycle, pod, node)

    def nominated_node(self, pod: Pod) -> str:
        return self._cluster.nominator.nominated_node(pod)

    def is_preempting(self, uid: str) -> bool:
        return self.evictions.is_pending_for(uid)

    @property
    def _cluster(self) -> DryRunner:
        if self._dry_runner is None:
            raise RuntimeError(
                "there is no cluster state yet: read nodes in the plugin's calls, not in its constructor"
            )
        return self._dry_runner

    def _check(self, kind: ResourceKind) -> None:
        """Raise LookupError for a kind that no plugin watches, instead of returning no objects."""
        if self._watched is not None and kind not in self._watched and kind not in self._objects:
            name = f"{kind.plural}.{kind.group}".rstrip(".")
            raise LookupError(f"{name} are not watched: add the kind to the `watches` of the plugin")

    # -- for the machine -----------------------------------------------------------------------------------------

    def index(self, keys: Iterable[str], pods: Collection[Pod] = ()) -> None:
        """Index pods by these label keys; `pods` are those known already."""
        for key in keys:
            if key not in self._labelled:
                index = self._labelled[key] = {}
                for pod in (*pods, *self._succeeded.values()):
                    if (value := pod.labels.get(key)) is not None:
                        index.setdefault((pod.namespace, value), {})[pod.uid] = pod

    def take_activated(self) -> list[Pod]:
        """Return the pods that plugins activated since the last call."""
        pods, self.activated = self.activated, []
        return pods

    def take_unnominated(self) -> list[Pod]:
        """Return the pods with nominations that plugins cleared since the last call."""
        pods, self.unnominated = self.unnominated, []
        return pods

    def take_decided(self, limit: int) -> list[WaitingPodState]:
        """Remove up to `limit` waiting pods that were allowed or rejected, and return them."""
        decided = list(islice((w for w in self.waiting.values() if w.is_decided), limit))
        for waiting in decided:
            del self.waiting[waiting.pod.uid]
        return decided

    def set_object(self, kind: ResourceKind, obj: dict[str, Any]) -> dict[str, Any] | None:
        """Store an object and return the one it replaces."""
        store, key = self._objects.setdefault(kind, {}), _key(obj)
        before = store.get(key)
        store[key] = obj
        self._versions[kind] += 1
        return before

    def remove_object(self, kind: ResourceKind, namespace: str, name: str) -> dict[str, Any] | None:
        """Remove an object and return it; None if it was not stored."""
        self._versions[kind] += 1
        return self._objects.setdefault(kind, {}).pop((namespace, name), None)

    def set_pod(self, old: Pod | None, new: Pod | None) -> None:
        """Update the indexes with a pod's new version."""
        if old is not None and (group := self._group_of(old)) is not None:
            _drop(self._grouped, group, old.uid)
        if new is not None and (group := self._group_of(new)) is not None:
            self._grouped.setdefault(group, {})[new.uid] = new
        for key, index in self._labelled.items():
            if old is not None and (value := old.labels.get(key)) is not None:
                _drop(index, (old.namespace, value), old.uid)
            if new is not None and (value := new.labels.get(key)) is not None:
                index.setdefault((new.namespace, value), {})[new.uid] = new

    def is_indexed(self, pod: Pod) -> bool:
        """Return True if plugins look the pod up by one of its labels."""
        return any(key in pod.labels for key in self._labelled)

    def count_succeeded(self, keys: Iterable[str]) -> None:
        """Keep succeeded pods with these label keys from now on; "" stands for those of all pod groups."""
        self._counted = self._counted.union(keys)

    def has_succeeded(self, uid: str) -> bool:
        """Return True if the pod has terminated and is still indexed."""
        return uid in self._succeeded

    def keep_succeeded(self, pod: Pod) -> bool:
        """Keep a terminated pod in the indexes if plugins count it. Return True if it is new there."""
        counted = any(key in pod.labels for key in self._counted)
        if not counted and ("" not in self._counted or self._group_of(pod) is None):
            return False
        old = self._succeeded.get(pod.uid)
        self._succeeded[pod.uid] = pod
        self.set_pod(old, pod)
        return old is None

    def drop_succeeded(self, uid: str) -> None:
        """Remove a terminated pod from the indexes; unknown ones are ignored."""
        self.set_pod(self._succeeded.pop(uid, None), None)

    def _group_of(self, pod: Pod) -> tuple[str, str] | None:
        """Return namespace and name of the PodGroup that the pod counts for; None if there is none."""
        group = pod.spec.scheduling_group
        if group is None or not group.pod_group_name:
            return None
        is_ours = pod.node_name or pod.scheduler_name in self._scheduler_names
        return (pod.namespace, group.pod_group_name) if is_ours else None


def _drop(index: dict[tuple[str, str], dict[str, Pod]], at: tuple[str, str], uid: str) -> None:
    pods = index.get(at)
    if pods is not None:
        pods.pop(uid, None)
        if not pods:
            del index[at]


def _wait_text(plugin: str, reason: str) -> str:
    waits = f'waiting for plugin "{plugin}"'
    return f"{waits}: {reason}" if reason else waits


def _format_duration(seconds: float) -> str:
    """Format a duration as Go does in kube-scheduler's messages: 500ms, 5s, 1m30s, 15m0s."""
    if 0 < seconds < 1:
        return f"{seconds * 1000:g}ms"
    minutes, rest = divmod(round(seconds, 6), 60)
    return f"{int(minutes)}m{rest:g}s" if minutes else f"{rest:g}s"


def _key(obj: dict[str, Any]) -> tuple[str, str]:
    meta = obj.get("metadata") or {}
    return str(meta.get("namespace", "")), str(meta.get("name", ""))
