"""Scheduling loop: passes changes and events to the core, runs scheduling attempts and executes the resulting commands.

Scheduling runs in one thread. Attempts run in bursts of a few milliseconds, so that a long queue does not starve
watches and bindings, and no burst starts while the concurrency limit of bindings is reached. An event that arrives
between two steps of an attempt is deferred to its end, because it would invalidate the attempt.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any

from pyscheduler.api.events import ResourceKind
from pyscheduler.api.objects import NodeObject, PodObject
from pyscheduler.clock import Clock
from pyscheduler.core.events import (
    Event,
    NodeChanged,
    NodeGone,
    ObjectChanged,
    ObjectGone,
    PodChanged,
    PodGone,
    SucceededPodGone,
    Tick,
)
from pyscheduler.core.machine import CycleStep, Machine
from pyscheduler.kube.decode import Refusals
from pyscheduler.kube.reflector import Change, Deleted
from pyscheduler.shell.executor import EventHandler, Executor
from pyscheduler.shell.extenders.raw_objects import RawObjectCaches
from pyscheduler.shell.gc_tuning import CollectorBySize

ErrorHandler = Callable[[Exception], None]
BURST = 0.005
"""Seconds of attempts before the event loop gets a turn."""
COLLECT_AFTER = 32
"""Events and attempts after which garbage is collected, if their number is too small for a whole burst."""
MIN_TIMER_SECONDS = 0.001
"""Minimum seconds between two wake-ups by the timer."""


def _raise(problem: Exception) -> None:
    raise problem


class Loop:
    """Runs one `Machine` with one `Executor`. `handle_event` takes events at any time; attempts begin with `run`."""

    def __init__(
        self,
        machine: Machine,
        make_executor: Callable[[EventHandler], Executor],
        clock: Clock,
        observe_duration: Callable[[float], None] = lambda _: None,
    ) -> None:
        """`observe_duration` is called with the seconds of each attempt's decision."""
        self._machine = machine
        self.executor = make_executor(self.handle_event)
        self._clock = clock
        self._observe_duration = observe_duration
        self._awake = asyncio.Event()
        self._alarm: asyncio.TimerHandle | None = None
        self._alarm_at = 0.0
        self._attempt_seconds = 0.0
        """Seconds of the current attempt so far."""
        self._running = False
        self._deferred: deque[tuple[Event, ErrorHandler]] = deque()
        self._collector = CollectorBySize()
        self._handled = 0
        """Number of events and attempts since the collector was called."""

    def handle_event(self, event: Event, on_error: ErrorHandler = _raise) -> None:
        """Pass an event to the core, at once or after the current attempt.

        `on_error` is called with the exception that the core raises, a ValueError for an invalid object.
        """
        if self._running and (self._deferred or self._machine.is_attempt_paused):
            self._deferred.append((event, on_error))
        else:
            self._handle(event, on_error)
        self._awake.set()

    def _handle(self, event: Event, on_error: ErrorHandler) -> None:
        self._handled += 1
        try:
            commands = self._machine.handle(event)
        except Exception as problem:
            on_error(problem)
        else:
            handlers = self.executor.handlers
            for command in commands:
                handlers[type(command)](command)

    async def run(self) -> None:
        """Run attempts until cancelled."""
        self._running = True
        try:
            while True:
                self._tick()
                self._awake.clear()
                may_have_more = self._burst()
                if may_have_more or self._handled >= COLLECT_AFTER:
                    self._handled = 0
                    self._collector.collect()
                if may_have_more:
                    await asyncio.sleep(0)
                else:
                    self._set_alarm(self._machine.next_wake())
                    await self._awake.wait()
        finally:
            self._stop_alarm()
            self._running = False
            while self._deferred:
                self._handle(*self._deferred.popleft())

    def _tick(self) -> None:
        now, due = self._clock.now(), self._machine.next_wake()
        if due is not None and due <= now and not self._deferred and not self._machine.is_attempt_paused:
            self._handle(Tick(now), _raise)

    def _burst(self) -> bool:
        """Run attempts for a few milliseconds. Return True if there may be more."""
        machine, bindings, handlers = self._machine, self.executor.bindings, self.executor.handlers
        now = start = self._clock.now()
        while now - start < BURST:
            if self._deferred and not machine.is_attempt_paused:
                self._handle(*self._deferred.popleft())
                now = self._clock.now()
                continue
            step = machine.next_step
            if step is None:
                return False
            if step is CycleStep.ATTEMPT and bindings.is_full(len(machine.active_pods), len(machine.nodes)):
                return False
            commands = machine.cycle(now, step)
            if commands is None:
                return False
            before, now = now, self._clock.now()
            if step is not CycleStep.BACKLOG:
                self._attempt_seconds += now - before
                if not machine.is_attempt_paused:  # most attempts have one step
                    self._observe_duration(self._attempt_seconds)
                    self._attempt_seconds = 0.0
            for command in commands:
                handlers[type(command)](command)
            self._handled += 1
        return True

    def _set_alarm(self, due: float | None) -> None:
        """Set the timer for the next timed event; an earlier timer is kept rather than replaced."""
        if due is None or (self._alarm is not None and self._alarm_at <= due):
            return  # waking up too early is harmless
        self._stop_alarm()
        self._alarm_at = due
        self._alarm = asyncio.get_running_loop().call_later(max(due - self._clock.now(), MIN_TIMER_SECONDS), self._wake)

    def _stop_alarm(self) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None

    def _wake(self) -> None:
        self._alarm = None
        self._awake.set()


class ChangeHandlers:
    """Handlers of the watches: each passes the changes of one kind of objects to the loop, as events.

    Any tenant may create an invalid object; it is reported, and must not keep other pods from being scheduled.
    """

    def __init__(self, loop: Loop, clock: Clock, refusals: Refusals, raw_objects: RawObjectCaches) -> None:
        self._loop = loop
        self._clock = clock
        self._refusals = refusals
        self._raw_objects = raw_objects

    def pod(self, change: Change[Any]) -> None:
        """Handle a change of a pod that has not ended."""
        now = self._clock.now()
        if isinstance(change, Deleted):
            self._raw_objects.pods.drop(change.uid, change.name, change.namespace)
            self._loop.handle_event(PodGone(now, change.namespace, change.name, change.uid))
            return
        pod: PodObject = change.object
        refused = partial(self._refusals.report, "pods", pod.metadata.namespace, pod.metadata.name)
        self._loop.handle_event(PodChanged(now, pod), refused)

    def succeeded_pod(self, change: Change[Any]) -> None:
        """Handle a change of a pod of phase Succeeded."""
        if isinstance(change, Deleted):
            self._loop.handle_event(SucceededPodGone(self._clock.now(), change.uid))
        else:
            self.pod(change)

    def node(self, change: Change[Any]) -> None:
        """Handle a change of a node."""
        now = self._clock.now()
        if isinstance(change, Deleted):
            self._raw_objects.nodes.drop(change.uid, change.name)
            self._loop.handle_event(NodeGone(now, change.name))
            return
        node: NodeObject = change.object
        refused = partial(self._refusals.report, "nodes", "", node.metadata.name)
        self._loop.handle_event(NodeChanged(now, node), refused)

    def of(self, kind: ResourceKind) -> Callable[[Change[Any]], None]:
        """Return the handler of the objects of a kind that plugins read."""

        def handle(change: Change[Any]) -> None:
            now = self._clock.now()
            if isinstance(change, Deleted):
                self._loop.handle_event(ObjectGone(now, kind, change.namespace, change.name))
                return
            try:
                self._loop.handle_event(ObjectChanged(now, kind, change.object))
            except Exception as problem:
                metadata = change.object["metadata"]
                self._refusals.report(kind.plural, metadata.get("namespace", ""), metadata.get("name", ""), problem)

        return handle
