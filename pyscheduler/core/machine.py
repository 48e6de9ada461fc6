"""The scheduler as a state machine: `handle` takes events, `cycle` makes one attempt, both give commands.

These are its only two doors. It has no clock and no chance of its own: the same events and cycles at the same times
give the same commands, in production, in the simulator and in replay.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyscheduler.core import intake
from pyscheduler.core.attempts import attempt, broken, consulted, overtaken
from pyscheduler.core.binding import bind_failed, bound
from pyscheduler.core.commands import CallOff, Command
from pyscheduler.core.context import Context, Settings
from pyscheduler.core.events import (
    BindFailed,
    Bound,
    Consulted,
    Event,
    EvictFailed,
    NodeChanged,
    NodeGone,
    ObjectChanged,
    ObjectGone,
    PodChanged,
    PodGone,
    Reconfigured,
    SucceededPodGone,
    Tick,
)
from pyscheduler.core.failures import gated
from pyscheduler.core.framework.handle import CoreHandle
from pyscheduler.core.framework.profile import Profile
from pyscheduler.core.instrument import Instrument
from pyscheduler.core.preempting import clear_nominations
from pyscheduler.core.reconfigure import reconfigure
from pyscheduler.core.waiting import pass_time, settle


class Machine:
    """The whole of scheduling, without I/O."""

    def __init__(
        self,
        profiles: Sequence[Profile],
        handle: CoreHandle,
        instrument: Instrument | None = None,
        settings: Settings | None = None,
    ) -> None:
        """`handle` is the one that the profiles' plugins were built with."""
        self.context = Context.build(profiles, handle, instrument or Instrument(), settings or Settings())

    def handle(self, event: Event) -> list[Command]:
        """Take one event in. ValueError, with nothing changed, for an object that scheduling cannot read."""
        commands = self._dispatch(event) + self._follow_up(event.at)
        if self.context.called_off:
            commands += map(CallOff, self.context.called_off)
            self.context.called_off.clear()
        return commands

    def cycle(self, now: float) -> list[Command] | None:
        """Make one scheduling attempt; None when no pod is ready for one, or one is still under way."""
        context = self.context
        queued = context.queue.pop(now) if context.consulting is None else overtaken(context, now)
        if queued is None:
            return None
        queued.tried = now
        try:
            commands = attempt(context, queued, now)
        except Exception as error:
            commands = broken(context, queued, error, now)
        return commands + self._follow_up(now)

    @property
    def ready(self) -> int:
        """How many pods are ready for an attempt, those in backoff not counted."""
        return self.context.queue.ready

    @property
    def nodes(self) -> int:
        """How many nodes there are."""
        return len(self.context.state)

    def next_wake(self) -> float | None:
        """When a Tick is due, in seconds on the machine's clock; None if nothing waits for time to pass."""
        due = [waiting.next_wake for waiting in self.context.handle.waiting.values()]
        queue = self.context.queue.next_wake(popping=self.context.consulting is None)
        if queue is not None:
            due.append(queue)
        return min(due, default=None)

    def _dispatch(self, event: Event) -> list[Command]:
        context = self.context
        match event:
            case PodChanged():
                intake.pod_changed(context, event.object, event.at)
            case PodGone():
                intake.pod_gone(context, event.uid or context.uid_of.get(_key(event), ""), event.at)
            case SucceededPodGone():
                intake.succeeded_pod_gone(context, event.uid)
            case NodeChanged():
                intake.node_changed(context, event.object, event.at)
            case NodeGone():
                intake.node_gone(context, event.name, event.at)
            case ObjectChanged():
                intake.object_changed(context, event.kind, event.object, event.at)
            case ObjectGone():
                intake.object_gone(context, event.kind, event.namespace, event.name, event.at)
            case Bound():
                return bound(context, event)
            case BindFailed():
                return bind_failed(context, event)
            case EvictFailed():
                context.handle.evictions.end(event.victim_uid)
                preemptor = context.pods.get(event.preemptor_uid)
                context.queue.activate([preemptor] if preemptor else [], event.at)
            case Reconfigured():
                reconfigure(context, event)
            case Consulted():
                return consulted(context, event)
            case Tick():
                context.queue.tick(event.at)
                return pass_time(context, event.at)
        return []

    def _follow_up(self, now: float) -> list[Command]:
        """Do what plugins have asked for during their calls; giving back a place may make them ask for more."""
        commands = self._do_as_asked(now)
        if self.context.handle.waiting:
            commands += settle(self.context, now)
            commands += self._do_as_asked(now)
        return commands + gated(self.context)

    def _do_as_asked(self, now: float) -> list[Command]:
        handle = self.context.handle
        commands = clear_nominations(self.context, pods, now) if (pods := handle.take_unnominated()) else []
        if activated := handle.take_activated():
            self.context.queue.activate(activated, now)
        return commands


def _key(event: PodGone) -> str:
    return f"{event.namespace}/{event.name}"
