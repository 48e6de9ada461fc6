"""The scheduler as a state machine: `handle` takes events, `cycle` makes one attempt, both give commands.

These are its only two doors. It has no clock and no chance of its own: the same events and cycles at the same times
give the same commands, in production, in the simulator and in replay.

No call is long. What an event means for many pods (they are moved, released from their backoff, admitted anew, adopted,
let out of Permit) is done in slices: the call that brings the event does the first, and while the machine is `busy`
each further call does one more. A call of `cycle` makes no attempt then, so attempts see what they would have seen if
all had been done at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from pyscheduler.core import intake
from pyscheduler.core.attempts import attempt, broken, consulted, overtaken, resumed
from pyscheduler.core.binding import bind_failed, bound, look_up, looked_up
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
    PodFound,
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

TOPOLOGY_KEYS: Final = ("kubernetes.io/hostname", "topology.kubernetes.io/zone")
"""Those of the default topology spread constraints, which apply to nearly every pod."""


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
        consulting = self.context.consulting
        if consulting is not None and consulting.paused:
            consulting.outdated = True
        commands = self._dispatch(event) + self._advance(event.at)
        if self.context.called_off:
            commands += map(CallOff, self.context.called_off)
            self.context.called_off.clear()
        return commands

    def cycle(self, now: float) -> list[Command] | None:
        """Make one scheduling attempt or the next step of one, or go on with what is under way if the machine is busy.

        None when no pod is ready for an attempt, or one waits for extenders.
        """
        context = self.context
        if self.busy:
            return self._advance(now)
        consulting = context.consulting
        if consulting is not None and self.attempting:
            return resumed(context, consulting, now) + self._advance(now)
        queued = context.queue.pop(now) if consulting is None else overtaken(context, now)
        if queued is None:
            return None
        queued.tried = now
        try:
            commands = attempt(context, queued, now)
        except BaseException as error:
            commands = broken(context, queued, error, now)
        return commands + self._advance(now)

    def warm_up(self) -> Iterator[None]:
        """Build what the first attempt needs of all nodes, step by step, since it takes 60 ms for 50,000 nodes."""
        for key in TOPOLOGY_KEYS:
            self.context.state.topology(key)
            yield

    @property
    def busy(self) -> bool:
        """Return True if work is under way that has to be done before the next attempt."""
        context = self.context
        return context.queue.busy or context.settling or context.adopting is not None

    @property
    def attempting(self) -> bool:
        """Return True between two steps of an attempt, which an event would void."""
        consulting = self.context.consulting
        return consulting is not None and consulting.paused and not consulting.outdated

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
        due += [wake for wake in (queue, self.context.unconfirmed.next_due()) if wake is not None]
        return min(due, default=None)

    def _dispatch(self, event: Event) -> list[Command]:
        context = self.context
        match event:
            case PodChanged():
                intake.pod_changed(context, event.object, event.at)
            case PodFound():
                intake.pod_changed(context, event.object, event.at)
                return looked_up(context, event.object.metadata.uid, event.at)
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
                return pass_time(context, event.at) + look_up(context, event.at)
        return []

    def _advance(self, now: float) -> list[Command]:
        """Do a slice of what is under way."""
        commands = self._follow_up(now)
        context = self.context
        if context.queue.busy:
            context.queue.advance()
        elif context.adopting is not None:
            intake.advance_adoption(context, context.adopting, now)
        return commands

    def _follow_up(self, now: float) -> list[Command]:
        """Carry out what plugins have requested during their calls; giving back a place may lead to more requests."""
        commands = self._apply_requests(now)
        if self.context.handle.waiting:
            commands += settle(self.context, now)
            commands += self._apply_requests(now)
        else:
            self.context.settling = False
        self.context.wake_for_freed_rooms(now)
        return commands + gated(self.context)

    def _apply_requests(self, now: float) -> list[Command]:
        handle = self.context.handle
        commands = clear_nominations(self.context, pods, now) if (pods := handle.take_unnominated()) else []
        if activated := handle.take_activated():
            self.context.queue.activate(activated, now)
        return commands


def _key(event: PodGone) -> str:
    return f"{event.namespace}/{event.name}"
