"""The binding cycles under way: begun, looked after, and ended before their time where that must be.

Bindings wait in one line and are made by a fixed set of workers, so that a burst neither opens a thousand connections
nor starves the watches. A decision that only waits for its turn is one on an older cluster: `is_full` stops the loop
from deciding on more pods while the concurrency limit is reached. PreBind may wait for minutes (volumes), so such pods
get a task of their own until they can be bound.

Once a second somebody looks after those that take long: a plugin that keeps a pod is named, others wait for it no more,
and when its time is up the cycle is called off. So is that of a pod that has lost its place.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any, Final

from pyscheduler.api.handle import ApiWriter
from pyscheduler.core.commands import Bind, Evict, Record
from pyscheduler.core.events import BindFailed, Bound, Event, Tick
from pyscheduler.core.instrument import Instrument
from pyscheduler.shell import logs
from pyscheduler.shell.binding.cancellation import resolve_outcome, wait_until_stopped
from pyscheduler.shell.binding.client import BindingClient
from pyscheduler.shell.binding.concurrency import TOO_LONG, ConcurrencyLimit
from pyscheduler.shell.binding.cycle import BIND, POST_BIND, PRE_BIND, bind, prepare
from pyscheduler.shell.binding.worker_pool import WorkerPool, cancel_and_wait
from pyscheduler.shell.clock import Clock
from pyscheduler.shell.kube.in_flight import InFlightCounter

LONG: Final = 5.0
"""Seconds that a worker's plugin may take, a binding's own call not counted, before nobody waits for it any more.

The more pods it keeps already, the fewer.
"""
SLOW_PRE_BIND: Final = 120.0
"""Seconds after which PreBind is said to take long; volumes may take a minute to be made."""
_LOOK_EVERY: Final = 1.0
log = logs.get("bindings")


@dataclass(frozen=True, slots=True)
class BindingPorts:
    """Where the outcomes of bindings go."""

    emit: Callable[[Event], None]
    """Receives the outcome of each binding cycle."""
    record: Callable[[Record], None]
    """Receives the Kubernetes Events of preempted pods."""
    withdraw: Callable[[str], asyncio.Event | None]
    """Drops the pending status write of a pod, by UID; returns what is set when a write in flight ends."""
    instrument: Instrument


class Bindings:
    """Takes pods to be bound, never blocks, and answers through `tell`."""

    def __init__(
        self,
        api: ApiWriter,
        in_flight: InFlightCounter,
        clock: Clock,
        limit: ConcurrencyLimit,
        ports: BindingPorts,
        timeout: float = 0.0,
    ) -> None:
        self.timeout = timeout
        """Seconds that PreBind, or Bind and PostBind, may take for a pod until it is called off; 0 for any time."""
        self.unfinished = 0
        """Binding cycles that have not ended."""
        self._api = api
        self._ports = ports
        self._in_flight = in_flight
        self._clock = clock
        self._limit = limit
        self._workers = WorkerPool(api, self._bind, limit.most)
        self._preparing: dict[str, BindingClient] = {}
        """Those in PreBind, by the pod's UID."""
        self._tasks: set[asyncio.Task[None]] = set()

    def is_full(self, waiting: int, nodes: int) -> bool:
        """Return True while the concurrency limit is reached, with `waiting` pods ready for an attempt.

        An event is emitted when it no longer is. Pods that PreBind has not let through yet, and those that a plugin
        keeps for long, wait for something else than a worker.
        """
        return self._workers.busy >= self._limit.limit(waiting, nodes)

    def detached_by_plugin(self) -> dict[tuple[str, ...], float]:
        """How many pods each plugin keeps for long, by its name and the extension point."""
        held = (hand for hand, _ in self._in_progress() if hand.is_detached and not hand.is_cancelled)
        return dict(Counter((hand.plugin, hand.point) for hand in held))

    def begin(self, command: Bind) -> None:
        """Bind a pod; how it came out is told."""
        self.unfinished += 1
        if command.plan.pre_bind:
            hand = self._preparing[command.pod.uid] = BindingClient(self._api)
            hand.start(command, self._clock.now())
            hand.point, hand.plugin = PRE_BIND, command.plan.pre_bind[0].name
            hand.task = self._spawn(self._pre_bind(hand, command))
        else:
            self._workers.put(command)

    def cancel(self, uid: str) -> None:
        """The pod has lost its place: end its cycle, of which nobody wants to hear any more."""
        if self._workers.remove(uid):
            self.unfinished -= 1
        for hand, command in self._in_progress():
            if command.pod.uid == uid and not hand.is_cancelled:
                self._cancel(hand, "gone", self._forget(hand))

    def preempt(self, eviction: Evict) -> bool:
        """End the cycle of a victim that is in PreBind; whether it is."""
        hand = self._preparing.get(eviction.victim.uid)
        if hand is not None and not hand.is_cancelled:
            self._cancel(hand, "preempted", self._finish_preempted(hand, eviction))
        return hand is not None

    async def run(self) -> None:
        """Work until cancelled."""
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._workers.run())
                group.create_task(self._check_periodically())
        finally:
            await cancel_and_wait(self._tasks)

    def look(self) -> None:
        """Look after the cycles under way."""
        now, held = self._clock.now(), self.detached_by_plugin()
        late: dict[tuple[str, str], list[BindingClient]] = {}
        for hand, command in self._in_progress():
            took, who = now - hand.began, (hand.plugin, hand.point)
            if hand.is_binding or hand.is_cancelled:
                continue
            if self.timeout and took > self.timeout:
                self._cancel(hand, "timeout", self._finish_timed_out(hand, command))
            elif not hand.is_detached and took > _long(hand.point) / (1 + held.get(who, 0)):
                late.setdefault(who, []).append(hand)
        for (plugin, point), hands in late.items():
            self._report_slow(plugin, point, hands, now)
        if late:
            self._ports.emit(Tick(now))  # it may be that there is room for more now

    def _report_slow(self, plugin: str, point: str, hands: Sequence[BindingClient], now: float) -> None:
        """One line for all of them: a plugin that never ends may keep hundreds."""
        first = min(hands, key=lambda hand: hand.began)
        if first.command is not None:
            pod, node, took = first.command.pod.key, first.command.node_name, round(now - first.began, 1)
            text = "A plugin takes long, and others wait no more"
            log.warning(text, plugin=plugin, point=point, pod=pod, node=node, seconds=took, pods=len(hands))
        for hand in hands:
            self._detach(hand)
            if point == POST_BIND and hand.command is not None:
                self._end(hand, Bound(now, hand.command.pod.uid))

    def _detach(self, hand: BindingClient) -> None:
        if hand.is_detached:
            return
        if hand in self._workers.clients:
            self._in_flight.end()
            self._workers.replace(hand)
        hand.is_detached = True

    def _in_progress(self) -> list[tuple[BindingClient, Bind]]:
        hands = (*self._preparing.values(), *self._workers.clients)
        return [(hand, hand.command) for hand in hands if hand.command is not None]

    def _spawn(self, doing: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(doing)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _check_periodically(self) -> None:
        while True:
            await asyncio.sleep(_LOOK_EVERY)
            self.look()

    async def _pre_bind(self, hand: BindingClient, command: Bind) -> None:
        failed = await prepare(command, hand, self._clock, self._ports.instrument)
        if hand.is_cancelled:
            return  # whoever did that sees to the rest
        self._pre_bind_done(hand)
        if failed is None:
            self._workers.put(command)
        else:
            self._end(hand, failed)

    def _pre_bind_done(self, hand: BindingClient) -> None:
        uid = hand.command.pod.uid if hand.command is not None else ""
        if self._preparing.get(uid) is hand:
            del self._preparing[uid]

    async def _bind(self, hand: BindingClient, command: Bind) -> None:
        began, in_flight = self._clock.now(), self._workers.busy
        hand.start(command, began)
        self._in_flight.begin()
        try:
            if not await self._wait_for_status_write(hand, command.pod.uid):
                return
            outcome = await bind(command, hand, self._clock, self._ports.instrument)
        finally:
            if not hand.is_detached:
                self._in_flight.end()
        if hand.is_cancelled:
            return
        took = self._clock.now() - began
        if isinstance(outcome, Bound) or took > TOO_LONG:  # what fails at once would make all others look slow
            self._limit.observe(took, in_flight)
        if isinstance(outcome, BindFailed) and hand.may_be_bound:
            outcome = await resolve_outcome(hand, command, outcome, self._api, self._clock)
        self._end(hand, outcome)

    async def _wait_for_status_write(self, hand: BindingClient, uid: str) -> bool:
        """Whether a pod is still to be bound once nothing is being said of it any more."""
        said = self._ports.withdraw(uid)
        if said is not None:
            hand.point, hand.plugin = BIND, ""  # no plugin is at work yet
            await hand.wait_for_write(said)
        return not hand.is_cancelled

    def _end(self, hand: BindingClient, outcome: Bound | BindFailed) -> None:
        if not hand.is_reported:
            hand.is_reported = True
            self.unfinished -= 1
            self._ports.emit(outcome)

    def _cancel(self, hand: BindingClient, reason: str, then: Coroutine[Any, Any, None]) -> None:
        """Have a cycle ended; nothing comes of it any more, but for what was sent to the API server already."""
        self._ports.instrument.called_off(hand.plugin, hand.point, reason)
        hand.cancel()
        self._detach(hand)
        self._spawn(then)

    async def _forget(self, hand: BindingClient) -> None:
        await wait_until_stopped(hand, self._ports.instrument)
        self._pre_bind_done(hand)
        if not hand.is_reported:
            hand.is_reported = True
            self.unfinished -= 1

    async def _finish_preempted(self, hand: BindingClient, eviction: Evict) -> None:
        await wait_until_stopped(hand, self._ports.instrument)
        self._pre_bind_done(hand)
        record = eviction.cancelled_record()
        if record is not None:
            self._ports.record(record)
        uid = eviction.victim.uid
        self._end(hand, BindFailed(self._clock.now(), uid, f"preempted by {eviction.plugin}"))

    async def _finish_timed_out(self, hand: BindingClient, command: Bind) -> None:
        point, plugin, uid = hand.point, hand.plugin, command.pod.uid
        message = f'running {point} plugin "{plugin}": no end after {self.timeout:g}s'
        await wait_until_stopped(hand, self._ports.instrument)
        self._pre_bind_done(hand)
        failed = BindFailed(self._clock.now(), uid, message, plugin)
        is_sure = point == PRE_BIND or hand.is_reported
        self._end(hand, failed if is_sure else await resolve_outcome(hand, command, failed, self._api, self._clock))


def _long(point: str) -> float:
    return SLOW_PRE_BIND if point == PRE_BIND else LONG
