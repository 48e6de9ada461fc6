"""PreEnqueue plugins, which gate pods before they enter the active or the backoff queue.

A plugin that raises gates the pod like a rejection, since to admit it could break a scheduling gate. The UIDs of such
pods are recorded, so that they are retried after a timeout: no event would requeue them.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence

from pyscheduler.api.cycle import CallObserver
from pyscheduler.api.outcome import Code
from pyscheduler.api.plugin import PreEnqueuePlugin
from pyscheduler.api.pod import Pod
from pyscheduler.api.queued import QueuedPod
from pyscheduler.core.framework.plugin_calls import call_guarded
from pyscheduler.core.framework.plugin_failure import PluginFailed
from pyscheduler.core.instrument import SUCCESS, Instrument
from pyscheduler.core.queue.rejectors import shared

PRE_ENQUEUE = "PreEnqueue"


class Gates:
    """PreEnqueue plugins by scheduler name."""

    def __init__(self, plugins: Mapping[str, Sequence[PreEnqueuePlugin]], instrument: Instrument) -> None:
        self._plugins = plugins
        self._orders: dict[tuple[str, str], Sequence[PreEnqueuePlugin]] = {}
        """Plugins in calling order, by profile and by the plugin that gated the pod last."""
        self._instrument = instrument
        self._turn = 0
        self.broken: set[str] = set()
        """UIDs of pods that are gated because a plugin raised."""
        self._reports: list[tuple[Pod, str]] = []
        """Gated pods with new reasons to report."""
        self._reported: dict[str, str] = {}
        """Last reported reason by pod UID."""

    def take_reports(self) -> list[tuple[Pod, str]]:
        """Return the pods that were gated since the last call, with the reasons to report."""
        reports, self._reports = self._reports, []
        return reports

    def admit(self, queued: QueuedPod) -> bool:
        """Run the plugins, first the one that gated the pod last, and return True if none gates it.

        Sets `gating_plugin`, and adds the gating plugin to the rejectors.
        """
        profile = queued.pod.scheduler_name
        plugins = self._in_order(profile, queued.gating_plugin)
        if not plugins:
            return True
        self.broken.discard(queued.pod.uid)
        self._turn += 1
        watch = self._instrument.watch(self._turn)
        point = self._instrument.point(PRE_ENQUEUE, profile)
        point.enter()
        code = self._run(plugins, queued, watch)
        point.leave(SUCCESS if code is None else code.camel)
        return code is None

    def is_still_gated(self, queued: QueuedPod, gate_results: dict[Hashable, bool]) -> bool:
        """Return True if the plugin that gated the pod last still does; `gate_results` is the cache of one event."""
        gate, *_ = self._in_order(queued.pod.scheduler_name, queued.gating_plugin)
        if gate.name != queued.gating_plugin:
            return False
        try:
            key = call_guarded(gate.name, "GateKey", gate.gate_key, queued.pod)
            if key is None:
                return call_guarded(gate.name, PRE_ENQUEUE, gate.pre_enqueue, queued.pod) is not None
            gated = gate_results.get((id(gate), key))
            if gated is None:
                rejection = call_guarded(gate.name, PRE_ENQUEUE, gate.pre_enqueue, queued.pod)
                gated = gate_results[id(gate), key] = rejection is not None
            return gated
        except PluginFailed:
            return False  # `admit` calls the plugin again and reports the failure

    def _in_order(self, profile: str, gate: str) -> Sequence[PreEnqueuePlugin]:
        plugins = self._orders.get((profile, gate))
        if plugins is None:
            plugins = sorted(self._plugins.get(profile, ()), key=lambda plugin: plugin.name != gate)
            self._orders[profile, gate] = plugins
        return plugins

    def forget(self, uid: str) -> None:
        """Forget a pod that has left the queue."""
        self.broken.discard(uid)
        self._reported.pop(uid, None)

    def _run(self, plugins: Sequence[PreEnqueuePlugin], queued: QueuedPod, watch: CallObserver | None) -> Code | None:
        """Return the status code of the first plugin that gates the pod, or None."""
        for plugin in plugins:
            try:
                if watch is None:
                    rejection = call_guarded(plugin.name, PRE_ENQUEUE, plugin.pre_enqueue, queued.pod)
                else:
                    rejection = watch(
                        plugin.name, PRE_ENQUEUE, call_guarded, plugin.name, PRE_ENQUEUE, plugin.pre_enqueue, queued.pod
                    )
                code = None if rejection is None else rejection.code
                if rejection is not None and plugin.reports_gating:
                    self._report(queued.pod, rejection.message)
            except PluginFailed as failed:
                self._instrument.plugin_failed(failed.plugin, failed.point, failed.error)
                self.broken.add(queued.pod.uid)
                code = Code.ERROR
            if code is not None:
                queued.unschedulable_plugins = shared(queued.unschedulable_plugins | {plugin.name})
                queued.gating_plugin = plugin.name
                return code
        queued.gating_plugin = ""
        self._reported.pop(queued.pod.uid, None)
        return None

    def _report(self, pod: Pod, reason: str) -> None:
        if self._reported.get(pod.uid) != reason:
            self._reported[pod.uid] = reason
            self._reports.append((pod, reason))
