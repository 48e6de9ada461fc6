"""PreEnqueue plugins, which gate pods before they enter the active or the backoff queue.

A plugin that raises gates the pod like a rejection, since to admit it could break a scheduling gate. The UIDs of such
pods are recorded, so that they are retried after a timeout: no event would requeue them.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence, Set
from typing import TypeVar

from pyscheduler.api.cycle import CallObserver
from pyscheduler.api.outcome import Code, Rejection
from pyscheduler.api.plugin import PreEnqueuePlugin
from pyscheduler.api.pod import Pod
from pyscheduler.api.pod_group import PodGroup
from pyscheduler.api.queued import QueuedPod
from pyscheduler.api.return_values import InvalidReturnValue
from pyscheduler.core.framework.plugin_calls import call_guarded
from pyscheduler.core.framework.plugin_failure import PluginFailed, raise_plugin_failed
from pyscheduler.core.framework.result_checks import check_result, check_texts
from pyscheduler.core.instrument import SUCCESS, Instrument
from pyscheduler.core.pod_groups.manager import PodGroupManager
from pyscheduler.core.pod_groups.queue_gate import has_only_queue_gate, without_gates
from pyscheduler.core.queue.hints import WITHOUT_KEY, ObjectKey
from pyscheduler.core.queue.profile import QueueProfile
from pyscheduler.core.queue.queued_pod_group import QueuedPodGroup, pods_of
from pyscheduler.core.queue.rejections import shared
from pyscheduler.texts import text_of

T = TypeVar("T")
PRE_ENQUEUE = "PreEnqueue"


class Gates:
    """PreEnqueue plugins by scheduler name."""

    def __init__(self, profiles: Mapping[str, QueueProfile], instrument: Instrument, groups: PodGroupManager) -> None:
        """Create the gates. If there are queues, a pod is admitted that only its queue still gates."""
        self._plugins = {name: each.pre_enqueue for name, each in profiles.items()}
        self._has_queues = next(iter(profiles.values())).has_queues
        self._groups = groups
        self._orders: dict[tuple[str, str], Sequence[PreEnqueuePlugin]] = {}
        """Plugins in calling order for gated pods, by profile and by the plugin that gated the pod last."""
        self._instrument = instrument
        self._kinds = {name: _kinds_by_plugin(each) for name, each in profiles.items()}
        self._points = {profile: instrument.point(PRE_ENQUEUE, profile) for profile in profiles}
        self._runs = 0
        self.broken: set[str] = set()
        """UIDs of pods, and of the entries of pod groups, that are gated because a plugin raised."""
        self.reports: dict[str, tuple[Pod, str]] = {}
        """Gated pods with new reasons to report, by UID."""
        self._reported: dict[str, str] = {}
        """Last reported reason by pod UID."""

    def take_reports(self) -> list[tuple[Pod, str]]:
        """Return the pods that were gated since the last call, with the reasons to report."""
        reports, self.reports = self.reports, {}
        return list(reports.values())

    def admit(self, queued: QueuedPod) -> bool:
        """Run the plugins, first the one that gated the pod last, and return True if none gates it.

        Sets `gating_plugin`, and adds the gating plugin to the rejectors.
        """
        profile, gate = queued.pod.scheduler_name, queued.gating_plugin
        plugins = self._gate_first(profile, gate) if gate else self._plugins.get(profile)
        if not plugins:
            return True
        if self.broken:
            self.broken.discard(queued.pod.uid)
        self._runs += 1
        observer = self._instrument.call_observer(self._runs)
        point = self._points[profile]
        point.began = point.clock()
        code = self._run(plugins, queued, _first_pod(queued), observer)
        if code is not None and isinstance(queued, QueuedPodGroup):
            code = self._code_of_group(plugins, queued, code, observer)
        point.leave(SUCCESS if code is None else code.camel)
        if code is not None or gate:
            for each in pods_of(queued):
                self._groups.set_gated(each.pod.uid, code is not None)
        return code is None

    def is_still_gated(self, queued: QueuedPod, gate_results: dict[Hashable, bool]) -> bool:
        """Return True if the plugin that gated the pod last still does; `gate_results` is the cache of one event."""
        gate, *_ = self._gate_first(queued.pod.scheduler_name, queued.gating_plugin)
        if gate.name != queued.gating_plugin:
            return False

        def passes(pod: Pod) -> bool:
            return not self._gates(gate, self._as_read_by_plugins(pod), gate_results)

        try:
            return not (passes(_first_pod(queued)) or self._are_others_enough(queued, passes))
        except PluginFailed as failed:
            failed.drop_traceback()
            return False  # `admit` calls the plugin again and reports the failure

    def gate_object(self, queued: QueuedPod) -> ObjectKey | None:
        """Return the object without which a pod without a group stays gated; None if any, or if the plugin fails."""
        gate, *_ = self._gate_first(queued.pod.scheduler_name, queued.gating_plugin)
        return self._call(gate, "GateObject", self._object_of, queued.pod)

    def _object_of(self, gate: PreEnqueuePlugin, pod: Pod) -> ObjectKey | None:
        """Return the object without which the pod stays gated. InvalidReturnValue if no event would ever match it."""
        key = gate.gate_object(pod)
        if key is None:
            return None
        check_texts(gate.gate_object, key, 3, "None or the kind, namespace and name of an object")
        kinds = self._kinds[pod.scheduler_name].get(gate.name, frozenset())
        if key[0] not in kinds:
            registered = f"one of {', '.join(sorted(kinds))}" if kinds else "none yet"
            expected = f"None or an object of a kind that events_to_register has besides pods and nodes: {registered}"
            raise InvalidReturnValue(gate.gate_object, key, expected, shown=text_of(key, repr))
        return key

    def _gates(self, gate: PreEnqueuePlugin, pod: Pod, gate_results: dict[Hashable, bool]) -> bool:
        """Return True if the plugin gates the pod. PluginFailed if `pre_enqueue` raises.

        `gate_results` is the cache of one event. A pod whose `gate_key` fails is evaluated without it.
        """
        key = self._call(gate, "GateKey", _hashable_key, pod)
        gated = None if key is None else gate_results.get((id(gate), key))
        if gated is None:
            gated = call_guarded(gate.name, PRE_ENQUEUE, gate.pre_enqueue, pod) is not None
            if key is not None:
                gate_results[id(gate), key] = gated
        return gated

    def _call(
        self, gate: PreEnqueuePlugin, point: str, call: Callable[[PreEnqueuePlugin, Pod], T | None], pod: Pod
    ) -> T | None:
        """Return what a plugin returns for a pod; None if it fails, which is reported."""
        try:
            return call_guarded(gate.name, point, call, gate, pod)
        except PluginFailed as failed:
            failed.report_to(self._instrument)
            return None

    def _as_read_by_plugins(self, pod: Pod) -> Pod:
        """Return the pod, without the gate that its queue removes if it has no other one."""
        return without_gates(pod) if self._has_queues and has_only_queue_gate(pod) else pod

    def _gate_first(self, profile: str, gate: str) -> Sequence[PreEnqueuePlugin]:
        plugins = self._orders.get((profile, gate))
        if plugins is None:
            plugins = sorted(self._plugins.get(profile, ()), key=lambda plugin: plugin.name != gate)
            self._orders[profile, gate] = plugins
        return plugins

    def forget(self, uid: str) -> None:
        """Forget a pod, or the entry of a pod group, that has left the queue."""
        self.broken.discard(uid)
        self._reported.pop(uid, None)
        self.reports.pop(uid, None)

    def _code_of_group(
        self, plugins: Sequence[PreEnqueuePlugin], queued: QueuedPodGroup, code: Code, observer: CallObserver | None
    ) -> Code | None:
        """Return the status code of a group of which one member is gated; None if the others are enough."""
        gate = queued.gating_plugin
        if self._are_others_enough(queued, lambda pod: self._run(plugins, queued, pod, observer) is None):
            self.broken.discard(queued.pod.uid)
            queued.gating_plugin = ""
            return None
        queued.gating_plugin = gate
        return code

    def _are_others_enough(self, queued: QueuedPod, passes: Callable[[Pod], bool]) -> bool:
        """Return True if as many pods of a group pass as it needs, without the first one, so that it holds none back.

        The attempt has the reasons of those that do not. No pod is evaluated without need: a group may have thousands.
        """
        if not isinstance(queued, QueuedPodGroup):
            return False
        group, passing = self._groups.requirements(queued.key), 0
        needed = self._groups.needed_count(group) if isinstance(group, PodGroup) else 1
        left = len(queued.members) - 1
        for pod in queued.pods[1:] if needed <= left else ():
            passing += passes(pod)
            left -= 1
            if passing >= needed or passing + left < needed:
                break
        return passing >= needed

    def _run(
        self, plugins: Sequence[PreEnqueuePlugin], queued: QueuedPod, pod: Pod, observer: CallObserver | None
    ) -> Code | None:
        """Return the status code of the first plugin that gates this pod of an entry, or None."""
        if self._has_queues:
            pod = self._as_read_by_plugins(pod)
        spec = pod.spec
        for plugin in plugins:
            if (field := plugin.pre_enqueue_field) and observer is None and not getattr(spec, field):
                continue
            try:
                # As in `call_guarded`, inlined because it runs for every pod.
                if observer is not None:
                    rejection = observer(plugin.name, PRE_ENQUEUE, _call_checked, plugin, pod)
                elif (rejection := plugin.pre_enqueue(pod)) is not None:
                    check_result(PRE_ENQUEUE, plugin.pre_enqueue, rejection)
                if rejection is None:
                    continue
                code = rejection.code
                if plugin.reports_gating:
                    self._report(pod, rejection.message)
            except BaseException as error:
                code = self._handle_failure(plugin, queued.pod.uid, error)
            queued.unschedulable_plugins = shared(queued.unschedulable_plugins | {plugin.name})
            queued.gating_plugin = plugin.name
            return code
        queued.gating_plugin = ""
        if self._reported:
            self._reported.pop(pod.uid, None)
            self.reports.pop(pod.uid, None)
        return None

    def _handle_failure(self, plugin: PreEnqueuePlugin, uid: str, error: BaseException) -> Code:
        try:
            raise_plugin_failed(plugin.name, PRE_ENQUEUE, error)
        except PluginFailed as failed:
            failed.report_to(self._instrument)
        self.broken.add(uid)
        return Code.ERROR

    def _report(self, pod: Pod, reason: str) -> None:
        if self._reported.get(pod.uid) != reason:
            self._reported[pod.uid] = reason
            self.reports[pod.uid] = (pod, reason)


def _first_pod(queued: QueuedPod) -> Pod:
    """Return the pod for which plugins are called first: of a group, a member, since claims belong to pods."""
    return next(iter(queued.members.values())).pod if isinstance(queued, QueuedPodGroup) else queued.pod


def _hashable_key(gate: PreEnqueuePlugin, pod: Pod) -> Hashable | None:
    """Return the key of the gate. TypeError if it is not hashable."""
    key = gate.gate_key(pod)
    hash(key)
    return key


def _kinds_by_plugin(profile: QueueProfile) -> Mapping[str, Set[str]]:
    """Return by plugin the kinds of objects in its `events_to_register`, without Pod and Node."""
    kinds: dict[str, set[str]] = {}
    for plugin, interest in profile.events_to_register:
        if interest.resource not in WITHOUT_KEY:
            kinds.setdefault(plugin, set()).add(interest.resource)
    return kinds


def _call_checked(plugin: PreEnqueuePlugin, pod: Pod) -> Rejection | None:
    """Return the plugin's result. InvalidReturnValue if it is none, which an observer counts as an error."""
    rejection = plugin.pre_enqueue(pod)
    check_result(PRE_ENQUEUE, plugin.pre_enqueue, rejection)
    return rejection
