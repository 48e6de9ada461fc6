"""Queueing hints: which events requeue which pods, by the registrations of one profile's plugins (KEP-4247).

A plugin that rejects pods also registers for the events that may make it accept them. Only the hints of the plugins
that rejected a pod are called for it. A hint that raises counts as Queue: a needless attempt is cheap, a pod that
never returns is not.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Final

from pyscheduler.api.events import (
    ANY_RESOURCE,
    ASSIGNED_POD,
    NODE,
    POD,
    SUCCEEDED_POD,
    TARGET_POD,
    TIME,
    UNSCHEDULED_POD,
    Action,
    ClusterEvent,
    ClusterEventWithHint,
    PreQueueingHint,
    QueueingHint,
    QueueingHintFn,
)
from pyscheduler.api.plugin import Plugin
from pyscheduler.api.pod import Pod
from pyscheduler.api.queued import QueuedPod
from pyscheduler.api.return_values import InvalidReturnValue
from pyscheduler.core.framework.plugin_calls import call_guarded
from pyscheduler.core.framework.plugin_failure import PluginFailed
from pyscheduler.core.framework.profile import may_read_anything
from pyscheduler.core.framework.result_checks import check_texts
from pyscheduler.core.instrument import Instrument
from pyscheduler.core.queue.labels import label_of

QUEUEING_HINT = "QueueingHint"
"""Name of the point passed to `Instrument.plugin_failed` when a hint raises."""

PRE_QUEUEING_HINT = "PreQueueingHint"
_CACHED_SCOPES = 1024
Registrations = tuple[ClusterEventWithHint, ...]
ObjectKey = tuple[str, str, str]
"""Kind, namespace and name of an API object."""
WITHOUT_KEY: Final = frozenset((NODE, POD, ASSIGNED_POD, UNSCHEDULED_POD, TARGET_POD, SUCCEEDED_POD, TIME))
"""Resources without an `object_key`: their events concern all pods."""


class QueueingStrategy(enum.Enum):
    """Effect of an event on a pod (kube-scheduler's queueingStrategy)."""

    SKIP = "skip"
    """The pod stays unschedulable."""
    AFTER_BACKOFF = "after backoff"
    """The pod is retried after its backoff."""
    IMMEDIATELY = "immediately"
    """The pod is retried at once: the event is the one a plugin returned Pending for."""


class HintScope(enum.IntEnum):
    """Part of a pod that a plugin's queueing hints read besides the UID of the event's own pod."""

    SIGNATURE_GROUP = 0
    """The spec without claims and node names: the hints return the same for all pods of a template."""
    SIGNATURE = 1
    """The labels, annotations, claims or node names as well."""
    POD = 2
    """Anything."""

    @staticmethod
    def of(plugin: Plugin) -> HintScope:
        """Return the scope of a plugin: its hints read no more than its cached results depend on."""
        if plugin.hints_read_identity or may_read_anything(plugin):
            return HintScope.POD
        if plugin.reads_labels or plugin.reads_claims or plugin.reads_match_fields:
            return HintScope.SIGNATURE
        return HintScope.SIGNATURE_GROUP


class Hints:
    """Event registrations of one profile as (plugin name, interest), in calling order."""

    def __init__(
        self,
        events_to_register: Iterable[tuple[str, ClusterEventWithHint]],
        instrument: Instrument,
        scopes: Mapping[str, HintScope] | None = None,
    ) -> None:
        """`scopes` are those of the plugins by name; hints of other plugins are called for each pod."""
        self._instrument = instrument
        self._scopes = scopes or {}
        self.scope_of = lru_cache(_CACHED_SCOPES)(self._scope_of)
        """The widest scope of the hints of these plugins."""
        self._interests = list(events_to_register)
        self._by_kind: dict[tuple[str, int], Mapping[str, Registrations]] = {}
        self._with_pre_hint: dict[str, list[tuple[str, PreQueueingHint]]] = {}
        for plugin, interest in self._interests:
            if interest.pre_hint is not None:
                self._with_pre_hint.setdefault(plugin, []).append((interest.resource, interest.pre_hint))

    def _scope_of(self, plugins: frozenset[str]) -> HintScope:
        return max((self._scopes.get(plugin, HintScope.POD) for plugin in plugins), default=HintScope.POD)

    def interested(self, event: ClusterEvent) -> Mapping[str, Registrations]:
        """Return the plugins that registered for such an event, each with its registrations for it."""
        kind = (event.resource, event.action.value)
        plugins = self._by_kind.get(kind)
        if plugins is None:
            plugins = self._by_kind[kind] = self._find(event)
        return plugins

    def _find(self, event: ClusterEvent) -> Mapping[str, Registrations]:
        found: dict[str, Registrations] = {}
        for plugin, interest in self._interests:
            if interest.covers(event):
                found[plugin] = (*found.get(plugin, ()), interest)
        return found

    def is_narrowed(self, plugin: str, event: ClusterEvent) -> bool:
        """Return True if the hints of the plugin have to be called for those pods only that use the event's object."""
        can_be_narrowed = isinstance(event.new or event.old, dict | Pod)
        for interest in self.interested(event)[plugin]:
            if interest.pre_hint is None or not can_be_narrowed:
                return False
            try:
                if call_guarded(plugin, PRE_QUEUEING_HINT, _concerns_all, interest.pre_hint, event):
                    return False
            except PluginFailed as failed:
                failed.report_to(self._instrument)
                return False
        return True

    def objects_of(self, plugin: str, queued: QueuedPod) -> list[ObjectKey] | None:
        """Return the objects to which events are narrowed that the pod uses; None if none are narrowed for it."""
        pre_hints = self._with_pre_hint.get(plugin)
        if not pre_hints or queued.pod.is_large:
            return None
        try:
            return [
                (resource, *key)
                for resource, pre_hint in pre_hints
                for key in call_guarded(plugin, PRE_QUEUEING_HINT, _keys_of, pre_hint, queued.pod)
            ]
        except PluginFailed as failed:
            failed.report_to(self._instrument)
            return None

    def all_objects_of(self, queued: QueuedPod) -> set[ObjectKey]:
        """Return the objects that the pod uses and to which events of any plugin are narrowed."""
        return {key for plugin in self._with_pre_hint for key in self.objects_of(plugin, queued) or ()}

    def evaluate(self, queued: QueuedPod, event: ClusterEvent, member: Pod | None = None) -> QueueingStrategy:
        """Return the effect of the event on a pod that is unschedulable or returns from an attempt.

        For a pod group, `member` is the pod that the hints are called for.
        """
        pod = member or queued.pod
        rejected, pending = queued.unschedulable_plugins, queued.pending_plugins
        if not rejected and not pending:
            return QueueingStrategy.AFTER_BACKOFF
        if is_wildcard(event):
            return QueueingStrategy.AFTER_BACKOFF if _is_for(event, pod) else QueueingStrategy.SKIP
        strategy = QueueingStrategy.SKIP
        for plugin, interests in self.interested(event).items():
            if plugin in pending:
                if self._may_help(plugin, interests, pod, event):
                    return QueueingStrategy.IMMEDIATELY
            elif (
                plugin in rejected
                and strategy is QueueingStrategy.SKIP
                and (
                    pod.is_large  # hints would decode it at each event; its backoff is longer instead
                    or self._may_help(plugin, interests, pod, event)
                )
            ):
                strategy = QueueingStrategy.AFTER_BACKOFF
                if not pending:
                    break
        return strategy

    def _may_help(self, plugin: str, interests: Registrations, pod: Pod, event: ClusterEvent) -> bool:
        return any(each.hint is None or self._call(plugin, each.hint, pod, event) for each in interests)

    def _call(self, plugin: str, hint: QueueingHintFn, pod: Pod, event: ClusterEvent) -> bool:
        self._instrument.hint_entered()
        try:
            returned = call_guarded(plugin, QUEUEING_HINT, hint, pod, event)
            helps, result = (False, "QueueSkip") if returned is QueueingHint.SKIP else (True, "Queue")
        except PluginFailed as failed:
            failed.report_to(self._instrument)
            helps, result = True, "Error"
        self._instrument.hint_left(plugin, label_of(event), result)
        return helps


def _concerns_all(pre_hint: PreQueueingHint, event: ClusterEvent) -> bool:
    return bool(pre_hint.concerns_all(event))  # here, because the conversion may raise too


def _keys_of(pre_hint: PreQueueingHint, pod: Pod) -> list[tuple[str, str]]:
    """Return namespace and name of the objects that the pod uses. InvalidReturnValue if they are something else."""
    method, expected = pre_hint.objects_of, "a collection of (namespace, name)"
    returned: object = method(pod)
    if not isinstance(returned, Iterable):
        raise InvalidReturnValue(method, returned, expected)
    keys = list(returned)
    for key in keys:
        check_texts(method, key, 2, expected)
    return keys


def is_wildcard(event: ClusterEvent) -> bool:
    """Return True if the event requeues pods whatever plugins rejected them (ForceActivate, UnschedulableTimeout)."""
    return event.resource == ANY_RESOURCE and event.action == Action.ALL


def object_key(event: ClusterEvent) -> ObjectKey | None:
    """Return the key of the event's object; None for a pod, a node or no object."""
    changed = event.new or event.old
    if not isinstance(changed, dict):
        return None
    meta = changed["metadata"]
    return event.resource, meta.get("namespace", ""), meta["name"]


def for_pod(pod: Pod, label: str) -> ClusterEvent:
    """Return the event that requeues one pod, whichever plugins rejected it."""
    return ClusterEvent(ANY_RESOURCE, Action.ALL, new=pod, label=label)


def _is_for(event: ClusterEvent, pod: Pod) -> bool:
    return event.new is None or (isinstance(event.new, Pod) and event.new.uid == pod.uid)
