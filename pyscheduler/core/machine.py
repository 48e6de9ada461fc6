"""The scheduler as a deterministic state machine: `handle` applies an event, `cycle` makes an attempt.

Both return commands. The machine has no clock and no random source of its own: the same events and cycles at the same
times give the same commands, in production, in the simulator and in replay.

Work on many pods (to move them between queues, end backoffs, readmit or adopt them, bind those that Permit allowed) is
done in slices, so that no call is long: the call with the event does the first slice, and each further call one more,
until no backlog is left. `cycle` makes no attempt before, so attempts see the same state as if all had been done at
once.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Sized

from pyscheduler.api.queued import QueuedPod
from pyscheduler.core import event_handlers
from pyscheduler.core.commands import CancelBinding, Command
from pyscheduler.core.context import Context, ProfileBuilder, Settings
from pyscheduler.core.events import (
    BindFailed,
    Bound,
    Event,
    EvictFailed,
    ExtendersResponded,
    NodeChanged,
    NodeGone,
    ObjectChanged,
    ObjectGone,
    PodChanged,
    PodFound,
    PodGone,
    Reconfigured,
    SucceededPodGone,
    Tick,
)
from pyscheduler.core.extenders.schedule_one import schedule_one_with_extenders
from pyscheduler.core.instrument import Instrument
from pyscheduler.core.pod_groups.backfill import end_if_gone
from pyscheduler.core.pod_groups.quota_evictions import QuotaEvictions
from pyscheduler.core.pod_groups.stale_groups import StaleGroups
from pyscheduler.core.preemption.executor import clear_nominations
from pyscheduler.core.queue.queued_pod_group import QueuedPodGroup
from pyscheduler.core.reconfigure import reconfigure
from pyscheduler.core.scheduling.binding import handle_bind_failed, handle_bound, handle_looked_up, look_up_unconfirmed
from pyscheduler.core.scheduling.failure_handler import report_gated
from pyscheduler.core.scheduling.permit import expire_permits, process_waiting_pods
from pyscheduler.core.scheduling.schedule_one import schedule_one
from pyscheduler.core.scheduling.schedule_pod_group import schedule_pod_group
from pyscheduler.core.scheduling.suspended_attempts import (
    drop_stale_attempt,
    fail_broken_attempt,
    interrupt,
    resume,
    resume_with_responses,
)
from pyscheduler.core.scheduling.timers import Timers


class CycleStep(enum.Enum):
    """Work that the next call of `Machine.cycle` does."""

    BACKLOG = enum.auto()
    """A slice of the work that precedes the next attempt."""
    RESUME = enum.auto()
    """The next step of a paused attempt, which any event makes stale."""
    ATTEMPT = enum.auto()
    """An attempt of the next pod, if one is ready and the current attempt does not wait for extenders."""


class Machine:
    """Scheduler without I/O."""

    def __init__(
        self,
        build_profiles: ProfileBuilder,
        instrument: Instrument | None = None,
        settings: Settings | None = None,
    ) -> None:
        """Create a machine with an empty cluster."""
        self.context = Context.build(build_profiles, instrument or Instrument(), settings or Settings())
        self.nodes: Sized = self.context.state.rows
        self._stale_groups = StaleGroups()
        self._quota_evictions = QuotaEvictions()
        self._timers = Timers()
        self._is_reporting = True
        self._timers.use(self.context.profiles)

    def hold_reports(self) -> None:
        """Return no reports about pods until `release_reports`: another scheduler leads, and returns the same."""
        self._is_reporting = False

    def release_reports(self) -> list[Command]:
        """Return the reports about pods that are still pending, and all later ones as they arise."""
        self._is_reporting = True
        return self._reports()

    def handle(self, event: Event) -> list[Command]:
        """Apply one event. Raises ValueError, with nothing changed, for an object that cannot be parsed."""
        suspended = self.context.suspended
        if suspended is not None and suspended.paused:
            interrupt(self.context, suspended, event.at)
        if self.context.groups.quota is not None:
            self.context.groups.set_time(event.at + self.context.settings.epoch)
        commands = self._dispatch(event)
        commands += self._process_backlog(event.at)
        if self.context.cancelled_bindings:
            commands += map(CancelBinding, self.context.cancelled_bindings)
            self.context.cancelled_bindings.clear()
        return commands

    def cycle(self, now: float, step: CycleStep | None = None) -> list[Command] | None:
        """Do the next step: a slice of the backlog, or one scheduling attempt, made or resumed.

        Pods like one that has failed in the same state fail without an attempt, several in one call.
        `step` is `next_step` if the caller has read it. Returns None if no pod is ready for an attempt, or the current
        one waits for extenders.
        """
        context, step = self.context, step or self.next_step
        if step is CycleStep.BACKLOG:
            return self._process_backlog(now)
        suspended = context.suspended
        if suspended is not None and step is CycleStep.RESUME:
            return self._end_step(suspended.queued, resume(context, suspended, now), now)
        if now >= self._timers.next:
            return self._timers.run(context, now) + self._process_backlog(now)
        if context.groups.quota is not None:
            context.groups.set_time(now + context.settings.epoch)
            context.quota_waits.retry(now, is_idle=not context.queue.active.entries)
        queued = context.queue.pop(now) if suspended is None else drop_stale_attempt(context, now)
        if queued is None:
            return None
        queued.last_attempt = now
        try:
            if isinstance(queued, QueuedPodGroup):
                commands = schedule_pod_group(context, queued, now)
            else:
                attempt = schedule_one_with_extenders if context.settings.extenders else schedule_one
                commands = attempt(context, queued, now)
        except BaseException as error:
            commands = fail_broken_attempt(context, queued, error, now)
        if isinstance(queued, QueuedPodGroup):
            return self._end_step(queued, commands, now)
        return commands + self._process_backlog(now)

    def _end_step(self, queued: QueuedPod, commands: list[Command], now: float) -> list[Command]:
        """Return the commands of a step, and of the work that follows; that waits for the end of a group's attempt."""
        if isinstance(queued, QueuedPodGroup):
            if self.is_attempt_paused:
                return commands
            self._stale_groups.attempted(queued.key, now)
        return commands + self._process_backlog(now)

    @property
    def active_pods(self) -> Sized:
        """Pods in the active queue."""
        return self.context.queue.active.entries

    def build_topology_column(self, key: str) -> None:
        """Build the column of a topology key before an attempt needs it."""
        self.context.state.topology(key)

    @property
    def next_step(self) -> CycleStep | None:
        """Work for the next call of `cycle`; None if no pod is pending."""
        context = self.context
        if context.queue.backlog or context.processing_waiting_pods or context.adopting is not None:
            return CycleStep.BACKLOG
        if context.suspended is not None:
            return CycleStep.RESUME if self.is_attempt_paused else CycleStep.ATTEMPT
        return CycleStep.ATTEMPT if context.queue.tier_of else None

    @property
    def is_attempt_paused(self) -> bool:
        """Return True while an attempt is paused, which any event makes stale."""
        suspended = self.context.suspended
        return suspended is not None and suspended.paused and not suspended.is_stale

    def next_wake(self) -> float | None:
        """Return the time of the next Tick, in seconds on the machine's clock; None if no timer is pending."""
        context = self.context
        wake = context.queue.next_wake(popping=context.suspended is None)
        if context.unconfirmed.due:
            lookup = context.unconfirmed.next_due()
            wake = lookup if wake is None else min(wake, lookup)
        for waiting in context.handle.waiting_pods.by_uid.values():
            wake = waiting.next_wake if wake is None else min(wake, waiting.next_wake)
        if context.groups.is_enabled:
            for part in (self._stale_groups, context.quota_waits, self._quota_evictions):
                if (at := part.next_wake()) is not None:
                    wake = at if wake is None else min(wake, at)
        if (at := self._timers.next) != math.inf:
            wake = at if wake is None else min(wake, at)
        return wake

    def is_tick_due(self, now: float) -> bool:
        """Return True if a Tick may change something; the simulator leaves out others, such as before an early pop."""
        context = self.context
        if context.groups.is_enabled or context.handle.waiting_pods.by_uid or context.unconfirmed.due:
            return True  # these check their own timeouts on every Tick
        return now >= self._timers.next or context.queue.is_tick_due(now)

    def _dispatch(self, event: Event) -> list[Command]:
        context = self.context
        match event:
            case PodChanged():
                event_handlers.handle_pod_change(context, event.object, event.at)
            case PodFound():
                event_handlers.handle_pod_change(context, event.object, event.at)
                return handle_looked_up(context, event.object.metadata.uid, event.at)
            case PodGone():
                uid = event.uid or context.handle.pods.uid_of(event.namespace, event.name) or ""
                event_handlers.handle_pod_deletion(context, uid, event.at)
            case SucceededPodGone():
                event_handlers.handle_succeeded_pod_deletion(context, event.uid)
            case NodeChanged():
                event_handlers.handle_node_change(context, event.object, event.at)
            case NodeGone():
                event_handlers.handle_node_deletion(context, event.name, event.at)
            case ObjectChanged():
                event_handlers.handle_object_change(context, event.kind, event.object, event.at)
            case ObjectGone():
                event_handlers.handle_object_deletion(context, event.kind, event.namespace, event.name, event.at)
            case Bound():
                return handle_bound(context, event)
            case BindFailed():
                return handle_bind_failed(context, event)
            case EvictFailed():
                context.handle.evictions.end(event.victim_uid)
                preemptor = context.preemptor(event.preemptor_uid)
                context.queue.activate([preemptor] if preemptor else [], event.at)
            case Reconfigured():
                reconfigure(context, event)
                self._timers.use(context.profiles)
            case ExtendersResponded():
                return resume_with_responses(context, event)
            case Tick():
                context.queue.tick(event.at)
                context.quota_waits.wake(event.at)
                commands = expire_permits(context, event.at) + look_up_unconfirmed(context, event.at)
                commands += self._quota_evictions.evict(context, event.at)
                commands += self._timers.run(context, event.at)
                return commands + self._stale_groups.evict(context, event.at)
        return []

    def _process_backlog(self, now: float) -> list[Command]:
        """Do a slice of the pending work, first the requests that plugins made during their calls."""
        context, commands = self.context, list[Command]()
        handle = context.handle
        if handle.activated.pods or handle.nominator.cleared.pods or handle.api_dispatcher.added:
            commands += self._apply_requests(now)
        if handle.waiting_pods.by_uid:
            commands += process_waiting_pods(context, now)
            commands += self._apply_requests(now)
        else:
            context.processing_waiting_pods = False
        if context.groups.changed:
            self._stale_groups.changed(context.groups.changed, now)
            if context.groups.quota is not None:
                self._quota_evictions.changed(now)
            context.queue.update_groups(now)
        if context.reservations.current is not None:
            end_if_gone(context, now)
        if self._is_reporting and (context.queue.gates.reports or context.ignored_groups.events):
            commands += self._reports()
        if context.queue.nominator.freed:
            context.wake_for_freed_nominations(now)
        if context.queue.backlog:
            context.queue.process_backlog()
        elif context.adopting is not None:
            event_handlers.enqueue_adopted_pods(context, context.adopting, now)
        return commands

    def _reports(self) -> list[Command]:
        """Return what is to be reported of pods that are pending without an attempt."""
        return [*report_gated(self.context), *self.context.ignored_groups.take_events()]

    def _apply_requests(self, now: float) -> list[Command]:
        """Apply the requests that plugins made during their calls."""
        handle = self.context.handle
        commands: list[Command] = list(handle.api_dispatcher.take())
        if cleared := handle.nominator.cleared.take():
            commands += clear_nominations(self.context, cleared, now)
        if activated := handle.activated.take():
            self.context.queue.activate(activated, now)
        return commands
