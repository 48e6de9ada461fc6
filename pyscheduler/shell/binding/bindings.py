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
from typing import Any, Final

from pyscheduler.api.handle import ApiWriter
from pyscheduler.core.commands import Bind, Evict, Record
from pyscheduler.core.events import BindFailed, Bound, Event, Tick
from pyscheduler.core.instrument import Instrument
from pyscheduler.shell import logs
from pyscheduler.shell.binding.calling_off import ended, settled
from pyscheduler.shell.binding.concurrency import TOO_LONG, ConcurrencyLimit
from pyscheduler.shell.binding.crew import Crew, stopped
from pyscheduler.shell.binding.cycle import BIND, POST_BIND, PRE_BIND, bind, prepare
from pyscheduler.shell.binding.hand import Hand
from pyscheduler.shell.clock import Clock
from pyscheduler.shell.kube.traffic import Traffic

LONG: Final = 5.0
"""Seconds that a worker's plugin may take, a binding's own call not counted, before nobody waits for it any more.

The more pods it keeps already, the fewer.
"""
LONG_PREPARING: Final = 120.0
"""Seconds after which PreBind is said to take long; volumes may take a minute to be made."""
_LOOK_EVERY: Final = 1.0
log = logs.get("bindings")


class Bindings:
    """Takes pods to be bound, never blocks, and answers through `tell`."""

    def __init__(self, api: ApiWriter, traffic: Traffic, clock: Clock, limit: ConcurrencyLimit) -> None:
        self.tell: Callable[[Event], None] = lambda _: None
        """Where outcomes go."""
        self.record: Callable[[Record], None] = lambda _: None
        """Where Events go."""
        self.withdraw: Callable[[str], asyncio.Event | None] = lambda _: None
        """Takes back what waits to be said of a pod without a node, by UID; what is set when a call under way ends."""
        self.instrument = Instrument()
        """Who is told how long it took."""
        self.timeout = 0.0
        """Seconds that PreBind, or Bind and PostBind, may take for a pod until it is called off; 0 for any time."""
        self.unfinished = 0
        """Binding cycles that have not ended."""
        self._api = api
        self._traffic = traffic
        self._clock = clock
        self._limit = limit
        self._crew = Crew(api, self._bind, limit.most)
        self._preparing: dict[str, Hand] = {}
        """Those in PreBind, by the pod's UID."""
        self._tasks: set[asyncio.Task[None]] = set()

    def is_full(self, waiting: int, nodes: int) -> bool:
        """Return True while the concurrency limit is reached, with `waiting` pods ready for an attempt.

        An event is emitted when it no longer is. Pods that PreBind has not let through yet, and those that a plugin
        keeps for long, wait for something else than a worker.
        """
        return self._crew.busy >= self._limit.limit(waiting, nodes)

    def held_up(self) -> dict[tuple[str, ...], float]:
        """How many pods each plugin keeps for long, by its name and the extension point."""
        held = (hand for hand, _ in self._at_work() if hand.is_set_aside and not hand.is_called_off)
        return dict(Counter((hand.plugin, hand.point) for hand in held))

    def begin(self, command: Bind) -> None:
        """Bind a pod; how it came out is told."""
        self.unfinished += 1
        if command.plan.pre_bind:
            hand = self._preparing[command.pod.uid] = Hand(self._api)
            hand.takes(command, self._clock.now())
            hand.point, hand.plugin = PRE_BIND, command.plan.pre_bind[0].name
            hand.task = self._spawn(self._pre_bind(hand, command))
        else:
            self._crew.put(command)

    def call_off(self, uid: str) -> None:
        """The pod has lost its place: end its cycle, of which nobody wants to hear any more."""
        if self._crew.take_back(uid):
            self.unfinished -= 1
        for hand, command in self._at_work():
            if command.pod.uid == uid and not hand.is_called_off:
                self._call_off(hand, "gone", self._forget(hand))

    def preempt(self, eviction: Evict) -> bool:
        """End the cycle of a victim that is in PreBind; whether it is."""
        hand = self._preparing.get(eviction.victim.uid)
        if hand is not None and not hand.is_called_off:
            self._call_off(hand, "preempted", self._make_room(hand, eviction))
        return hand is not None

    async def run(self) -> None:
        """Work until cancelled."""
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._crew.run())
                group.create_task(self._look_after())
        finally:
            await stopped(self._tasks)

    def look(self) -> None:
        """Look after the cycles under way."""
        now, held = self._clock.now(), self.held_up()
        late: dict[tuple[str, str], list[Hand]] = {}
        for hand, command in self._at_work():
            took, who = now - hand.began, (hand.plugin, hand.point)
            if hand.is_binding or hand.is_called_off:
                continue
            if self.timeout and took > self.timeout:
                self._call_off(hand, "timeout", self._give_up(hand, command))
            elif not hand.is_set_aside and took > _long(hand.point) / (1 + held.get(who, 0)):
                late.setdefault(who, []).append(hand)
        for (plugin, point), hands in late.items():
            self._tell_late(plugin, point, hands, now)
        if late:
            self.tell(Tick(now))  # it may be that there is room for more now

    def _tell_late(self, plugin: str, point: str, hands: Sequence[Hand], now: float) -> None:
        """One line for all of them: a plugin that never ends may keep hundreds."""
        first = min(hands, key=lambda hand: hand.began)
        if first.command is not None:
            pod, node, took = first.command.pod.key, first.command.node_name, round(now - first.began, 1)
            text = "A plugin takes long, and others wait no more"
            log.warning(text, plugin=plugin, point=point, pod=pod, node=node, seconds=took, pods=len(hands))
        for hand in hands:
            self._set_aside(hand)
            if point == POST_BIND and hand.command is not None:
                self._end(hand, Bound(now, hand.command.pod.uid))

    def _set_aside(self, hand: Hand) -> None:
        if hand.is_set_aside:
            return
        if hand in self._crew.hands:
            self._traffic.end()
            self._crew.replace(hand)
        hand.is_set_aside = True

    def _at_work(self) -> list[tuple[Hand, Bind]]:
        hands = (*self._preparing.values(), *self._crew.hands)
        return [(hand, hand.command) for hand in hands if hand.command is not None]

    def _spawn(self, doing: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(doing)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _look_after(self) -> None:
        while True:
            await asyncio.sleep(_LOOK_EVERY)
            self.look()

    async def _pre_bind(self, hand: Hand, command: Bind) -> None:
        failed = await prepare(command, hand, self._clock, self.instrument)
        if hand.is_called_off:
            return  # whoever did that sees to the rest
        self._prepared(hand)
        if failed is None:
            self._crew.put(command)
        else:
            self._end(hand, failed)

    def _prepared(self, hand: Hand) -> None:
        uid = hand.command.pod.uid if hand.command is not None else ""
        if self._preparing.get(uid) is hand:
            del self._preparing[uid]

    async def _bind(self, hand: Hand, command: Bind) -> None:
        began, in_flight = self._clock.now(), self._crew.busy
        hand.takes(command, began)
        self._traffic.begin()
        try:
            if not await self._may_begin(hand, command.pod.uid):
                return
            outcome = await bind(command, hand, self._clock, self.instrument)
        finally:
            if not hand.is_set_aside:
                self._traffic.end()
        if hand.is_called_off:
            return
        took = self._clock.now() - began
        if isinstance(outcome, Bound) or took > TOO_LONG:  # what fails at once would make all others look slow
            self._limit.observe(took, in_flight)
        if isinstance(outcome, BindFailed) and hand.is_unsure:
            outcome = await settled(hand, command, outcome, self._api, self._clock)
        self._end(hand, outcome)

    async def _may_begin(self, hand: Hand, uid: str) -> bool:
        """Whether a pod is still to be bound once nothing is being said of it any more."""
        said = self.withdraw(uid)
        if said is not None:
            hand.point, hand.plugin = BIND, ""  # no plugin is at work yet
            await hand.wait_behind(said)
        return not hand.is_called_off

    def _end(self, hand: Hand, outcome: Bound | BindFailed) -> None:
        if not hand.is_told:
            hand.is_told = True
            self.unfinished -= 1
            self.tell(outcome)

    def _call_off(self, hand: Hand, reason: str, then: Coroutine[Any, Any, None]) -> None:
        """Have a cycle ended; nothing comes of it any more, but for what was sent to the API server already."""
        self.instrument.called_off(hand.plugin, hand.point, reason)
        hand.shut()
        self._set_aside(hand)
        self._spawn(then)

    async def _forget(self, hand: Hand) -> None:
        await ended(hand, self.instrument)
        self._prepared(hand)
        if not hand.is_told:
            hand.is_told = True
            self.unfinished -= 1

    async def _make_room(self, hand: Hand, eviction: Evict) -> None:
        await ended(hand, self.instrument)
        self._prepared(hand)
        record = eviction.called_off()
        if record is not None:
            self.record(record)
        uid = eviction.victim.uid
        self._end(hand, BindFailed(self._clock.now(), uid, f"preempted by {eviction.plugin}"))

    async def _give_up(self, hand: Hand, command: Bind) -> None:
        point, plugin, uid = hand.point, hand.plugin, command.pod.uid
        message = f'running {point} plugin "{plugin}": no end after {self.timeout:g}s'
        await ended(hand, self.instrument)
        self._prepared(hand)
        failed = BindFailed(self._clock.now(), uid, message, plugin)
        is_sure = point == PRE_BIND or hand.is_told
        self._end(hand, failed if is_sure else await settled(hand, command, failed, self._api, self._clock))


def _long(point: str) -> float:
    return LONG_PREPARING if point == PRE_BIND else LONG
