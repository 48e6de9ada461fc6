"""Timers of plugins with decisions that change at known times: pods are evicted, or retried."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from pyscheduler.api.events import TIME, Action, ClusterEvent
from pyscheduler.api.pod import Pod
from pyscheduler.api.return_values import InvalidReturnValue
from pyscheduler.api.timed import TimedPlugin, TimeUpdate
from pyscheduler.core.commands import Command, EventType, Evict, Record
from pyscheduler.core.context import Context
from pyscheduler.core.framework.plugin_calls import call_guarded
from pyscheduler.core.framework.plugin_failure import PluginFailed
from pyscheduler.core.framework.profile import Profile
from pyscheduler.core.scheduling.failure_handler import report_plugin_failure

ADVANCE_TO = "AdvanceTo"
"""Name passed to `Instrument.plugin_failed`."""
_RETRY = 60.0
"""Seconds until a plugin is called again that has failed."""
_MIN_INTERVAL = 0.1
"""Minimum number of seconds between two calls of a plugin, so that none keeps the scheduler from its work."""
_ELAPSED = ClusterEvent(TIME, Action.UPDATE_OTHER, label="TimeElapsed")


class Timers:
    """Timed plugins of all profiles. Times are those of the scheduler's clock."""

    def __init__(self) -> None:
        self._plugins: dict[int, TimedPlugin] = {}
        self._schedulers: dict[int, set[str]] = {}
        """Scheduler names of the profiles of each plugin."""
        self._due: dict[int, float] = {}
        self.next = math.inf
        """Time of the next call; infinity if there is none."""

    def use(self, profiles: Mapping[str, Profile]) -> None:
        """Use the timed plugins of these profiles by scheduler name; new ones are called before the next attempt."""
        due, self._plugins, self._schedulers = self._due, {}, {}
        for scheduler, profile in profiles.items():
            for plugin in profile.plugins:
                if isinstance(plugin, TimedPlugin):
                    self._plugins[id(plugin)] = plugin
                    self._schedulers.setdefault(id(plugin), set()).add(scheduler)
        self._due = {key: due.get(key, 0.0) for key in self._plugins}
        self.next = min(self._due.values(), default=math.inf)

    def run(self, context: Context, now: float) -> list[Command]:
        """Call the plugins that are due, and return the commands that evict pods."""
        if now < self.next:
            return []
        evicted: dict[str, tuple[Pod, str]] = {}
        has_changed = False
        for key in [key for key, at in self._due.items() if at <= now]:
            update = self._call(context, key, now)
            has_changed |= update.has_changed
            for pod, message in update.evicted:
                if pod.scheduler_name in self._schedulers[key]:
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
            update, at = call_guarded(plugin.name, ADVANCE_TO, _advance, plugin, now + epoch)
        except PluginFailed as failed:
            report_plugin_failure(context, failed)
            return TimeUpdate()
        self._due[key] = math.inf if at is None else max(at - epoch, now + _MIN_INTERVAL)
        return update


def _advance(plugin: TimedPlugin, now: float) -> tuple[TimeUpdate, float | None]:
    """Return the update of a plugin and the time of its next call. InvalidReturnValue if either is not valid."""
    update: object = plugin.advance_to(now)
    if not isinstance(update, TimeUpdate):
        raise InvalidReturnValue(plugin.advance_to, update, "TimeUpdate")
    evicted: Iterable[object] = update.evicted
    for each in evicted:
        if not (isinstance(each, tuple) and len(each) == 2 and isinstance(each[0], Pod) and isinstance(each[1], str)):
            raise InvalidReturnValue(plugin.advance_to, each, "pairs of a Pod and a message in `evicted`")
    at: object = plugin.next_time()
    if at is not None and (not isinstance(at, int | float) or math.isnan(at)):
        raise InvalidReturnValue(plugin.next_time, at, "a time in seconds, or None")
    return update, at
