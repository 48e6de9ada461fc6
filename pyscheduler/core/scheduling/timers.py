"""Timers of plugins whose decisions change at known times: what they evict, and which pods are retried."""

from __future__ import annotations

import math
from collections.abc import Iterable

from pyscheduler.api.events import TIME, Action, ClusterEvent
from pyscheduler.api.pod import Pod
from pyscheduler.api.timed import TimedPlugin, TimeUpdate
from pyscheduler.core.commands import Command, EventType, Evict, Record
from pyscheduler.core.context import Context
from pyscheduler.core.framework.plugin_calls import call_guarded
from pyscheduler.core.framework.plugin_failure import PluginFailed
from pyscheduler.core.scheduling.failure_handler import report_plugin_failure

ADVANCE_TO = "AdvanceTo"
"""Name passed to `Instrument.plugin_failed`."""
_RETRY = 60.0
"""Seconds until a plugin is called again that has raised."""
_ELAPSED = ClusterEvent(TIME, Action.UPDATE_OTHER, label="TimeElapsed")


class Timers:
    """Timed plugins of all profiles. Times are those of the scheduler's clock."""

    def __init__(self) -> None:
        self._plugins: dict[int, TimedPlugin] = {}
        self._due: dict[int, float] = {}
        self.next = math.inf
        """Time of the next call; infinity if there is none."""

    def use(self, plugins: Iterable[object]) -> None:
        """Use the timed plugins of these; new ones are called before the next attempt."""
        timed = {id(plugin): plugin for plugin in plugins if isinstance(plugin, TimedPlugin)}
        self._plugins, self._due = timed, {key: self._due.get(key, 0.0) for key in timed}
        self.next = min(self._due.values(), default=math.inf)

    def run(self, context: Context, now: float) -> list[Command]:
        """Call the plugins whose time has come, and return the commands that evict pods."""
        if now < self.next:
            return []
        evicted: dict[str, tuple[Pod, str]] = {}
        has_changed = False
        for key in [key for key, at in self._due.items() if at <= now]:
            update = self._call(context, key, now)
            has_changed |= update.has_changed
            for pod, message in update.evicted:
                if context.is_responsible_for(pod):
                    evicted.setdefault(pod.uid, (pod, message))
        self.next = min(self._due.values(), default=math.inf)
        if has_changed:
            context.queue.move_all(_ELAPSED, now)
        return [
            Evict(pod, pod, message, Record(EventType.NORMAL, "TimeElapsed", "Evicting", message, pod))
            for pod, message in evicted.values()
        ]

    def _call(self, context: Context, key: int, now: float) -> TimeUpdate:
        plugin, epoch = self._plugins[key], context.settings.epoch
        self._due[key] = now + _RETRY
        try:
            update = call_guarded(plugin.name, ADVANCE_TO, plugin.advance_to, now + epoch)
            at = call_guarded(plugin.name, ADVANCE_TO, plugin.next_time)
        except PluginFailed as failed:
            report_plugin_failure(context, failed)
            return TimeUpdate()
        self._due[key] = math.inf if at is None else at - epoch
        return update
