"""Leads each task from its submission to its end: sees, decides, writes down, acts, tells.

The order of these makes any crash harmless. What is decided is a function of record and pods; it is durable before
anything is done or told; and what was not done is decided again, because the pod that it is about is kept by our
finalizer until its end is on record.
"""

from __future__ import annotations

import asyncio
import heapq
import logging
import math
import random
from collections import defaultdict
from collections.abc import Callable, Iterable

import msgspec

from pyscheduler.backend.bell import Bell
from pyscheduler.backend.client import ClusterProblem
from pyscheduler.backend.decide import Call, Create, Delete, Look, Refusal, Release, Sight, act, observe
from pyscheduler.backend.guard import UpdateGuard
from pyscheduler.backend.hands import Errand, Hands
from pyscheduler.backend.outcomes import Outcome
from pyscheduler.backend.pauses import Pauses
from pyscheduler.backend.pods import PodsSnapshot, PodState
from pyscheduler.backend.settings import BackendSettings
from pyscheduler.backend.state import StateLost, StateProblem
from pyscheduler.backend.store import Subscription
from pyscheduler.backend.task import TaskRecord
from pyscheduler.backend.template import pod_name

REPEAT_SECONDS = 30.0
"""After which a deletion that was granted, and of which nothing is seen, is asked for again."""
_FORBIDDEN, _SERVER_FAILED = 403, 500
_log = logging.getLogger(__name__)


class _Moment(msgspec.Struct):
    """What is remembered of one task while this process lives; all of it can be lost."""

    busy: bool = False
    unsure: bool = False
    refusal: Refusal | None = None
    retry_at: float = 0.0
    pauses: Pauses | None = None
    gone: dict[str, PodState] = {}
    """By uid: pods of it that went and are not on record yet."""
    asked: dict[tuple[str, str], float] = {}
    """By uid and kind of call: when it was granted."""


class TaskPodsLifecycleManager:
    """The subscriber of the pod store that updates tasks, deletes their pods, and so gives back what they hold.

    `tell` is called with each durable record that the owner should see. Nothing is acted on that is not durable.
    """

    def __init__(
        self,
        guard: UpdateGuard,
        settings: BackendSettings,
        subscription: Subscription,
        tell: Callable[[TaskRecord], None],
        clock: Callable[[], float],
        chance: random.Random,
    ) -> None:
        self.settled = Bell()
        """Rings after each commit."""
        self._guard, self._settings, self._subscription = guard, settings, subscription
        self._tell, self._clock, self._chance = tell, clock, chance
        self._pods: defaultdict[str, dict[str, PodState]] = defaultdict(dict)
        self._moments: defaultdict[str, _Moment] = defaultdict(_Moment)
        self._dirty: dict[str, None] = dict.fromkeys(guard.records)
        self._timers: list[tuple[float, str]] = []
        self._due: dict[str, float] = {}
        self._synced = False
        self._place_at = -math.inf
        self._warned: set[str] = set()
        self._stopping = False
        self._hands: Hands | None = None
        self._wake = asyncio.Event()
        self._round = asyncio.Lock()

    @property
    def strangers(self) -> dict[str, PodState]:
        """Pods that bear the backend's label and are of no task that is known here, by name. They are left alone."""
        return {pod.name: pod for pods in self._pods.values() for pod in pods.values() if self._is_strange(pod)}

    def stop(self) -> None:
        """Have `run` return after the round under way."""
        self._stopping = True
        self._wake.set()

    # -- what happens ----------------------------------------------------------------------------------------------

    def kick(self, *tasks: str) -> None:
        """Their records have been changed, or should be looked at again."""
        self._dirty.update(dict.fromkeys(tasks))
        self._wake.set()

    async def pods_changed(self, told: PodsSnapshot) -> None:
        """The store tells. Returns once what came before has been decided; the store merges what comes meanwhile."""
        self._fold(told)
        self._wake.set()
        async with self._round:
            pass

    def answered(self, errand: Errand, answer: PodState | ClusterProblem | None) -> None:
        """A call is done: it failed, or was granted; for a create or a look with the newest state of the pod."""
        task, now = errand.record.id, self._clock()
        moment = self._moments[task]
        moment.busy = False
        self.kick(task)
        if not isinstance(answer, ClusterProblem):
            self._granted(moment, errand, now)
            if answer is not None:
                self._fold(PodsSnapshot(pods={answer.name: answer}))  # before we decide that there is none
            return
        problem = answer
        if isinstance(errand.call, Create) and (problem.status == 0 or problem.status >= _SERVER_FAILED):
            moment.unsure = True
        refused = isinstance(errand.call, Create) and 400 <= problem.status < 500
        if refused and (problem.status == _FORBIDDEN or not problem.passing):
            outcome = Outcome.QUOTA if "quota" in str(problem) else Outcome.REFUSED
            since = moment.refusal.since if moment.refusal is not None else now
            moment.refusal = Refusal(outcome, str(problem), since, problem.passing)
        moment.pauses = moment.pauses or Pauses(self._chance)
        moment.retry_at = now + moment.pauses.failed(problem.retry_after)
        _log.info("task %r: the call failed, again in %.1f s if need be: %s", task, moment.retry_at - now, problem)

    def _granted(self, moment: _Moment, errand: Errand, now: float) -> None:
        moment.refusal, moment.pauses, moment.retry_at = None, None, 0.0
        if isinstance(errand.call, Create | Look):
            moment.unsure = False
        if isinstance(errand.call, Delete | Release):
            moment.asked = {**moment.asked, _kind(errand.call): now}

    def _fold(self, told: PodsSnapshot) -> None:
        if told.complete:
            self._synced = True
            self._dirty.update(dict.fromkeys(self._guard.records))
        for pod in told.gone.values():
            self._went(pod)
        for pod in told.pods.values():
            if self._is_strange(pod):
                self._warn(pod)
            before = self._pods[pod.task].get(pod.name)
            if before is not None and before.uid != pod.uid:
                self._went(before)
            self._pods[pod.task][pod.name] = pod
            self._dirty[pod.task] = None

    def _went(self, pod: PodState) -> None:
        self._warned.discard(pod.uid)
        seen = self._pods.get(pod.task, {})
        if pod.name in seen and seen[pod.name].uid == pod.uid:
            del seen[pod.name]
            if not seen:
                del self._pods[pod.task]
        if pod.task in self._guard.records:
            moment = self._moments[pod.task]
            moment.gone = {**moment.gone, pod.uid: pod}
            moment.asked = {key: at for key, at in moment.asked.items() if key[0] != pod.uid}
            self._dirty[pod.task] = None

    def _is_strange(self, pod: PodState) -> bool:
        known = pod.task in self._guard.records
        return not known or pod.name != pod_name(self._settings.name, pod.task, pod.attempt)

    def _warn(self, pod: PodState) -> None:
        if pod.uid not in self._warned:
            self._warned.add(pod.uid)
            _log.warning(
                "pod %s bears the backend's label but is of no task known here (%r); it is left alone",
                pod.name,
                pod.task,
            )

    # -- rounds ----------------------------------------------------------------------------------------------------

    async def run(self, hands: Hands) -> None:
        """Decide, write down, act, until stopped. StateLost when the state is no longer ours."""
        self._hands = hands
        pauses = Pauses(self._chance)
        while not self._stopping:
            await self._sleep()
            try:
                async with self._round:
                    await self._go_round()
            except StateLost:
                raise
            except StateProblem as problem:
                pause = pauses.failed()
                _log.error("the state could not be written; again in %.1f s: %s", pause, problem)
                await asyncio.sleep(pause)
                self._wake.set()
            else:
                pauses.well()

    async def _sleep(self) -> None:
        until = min(self._timers[0][0] if self._timers else math.inf, self._place_at + self._settings.place_seconds)
        seconds = until - self._clock()
        try:
            async with asyncio.timeout(max(0.0, seconds) if math.isfinite(seconds) else None):
                await self._wake.wait()
        except TimeoutError:
            return

    async def _go_round(self) -> None:
        """One round over all tasks that something has happened to."""
        self._wake.clear()
        now = self._clock()
        self._ring_timers(now)
        tasks, self._dirty = self._dirty, {}
        try:
            for task in tasks:
                self._decide(task, now)
            due = bool(tasks) or now >= self._place_at + self._settings.place_seconds
            place = self._subscription.place if due else None
            seen = await self._guard.commit(None if place is None else str(place))
            self._place_at = now if due else self._place_at
        except BaseException:
            self._dirty = {**tasks, **self._dirty}
            raise
        for record in seen:
            self._tell(record)
            self._drop_group(record)
        self._act_on(tasks)
        self.settled.ring()

    def _drop_group(self, record: TaskRecord) -> None:
        """Its gang's PodGroup is of no use once all its tasks are final."""
        gang = record.spec.gang
        if record.final and gang is not None and not self._guard.gang_size(gang.name) and self._hands is not None:
            self._hands.drop_group(gang.name)

    def _decide(self, task: str, now: float) -> None:
        record = self._guard.records.get(task)
        if record is None:
            return
        sight = self._sight(record)
        while True:
            new = observe(record, sight, now, self._settings)
            if new is record:
                break
            self._guard.change(record, new)
            if new.attempt != record.attempt:
                self._moments[task].refusal, self._moments[task].unsure = None, False
            record, sight = new, self._sight(new)
        moment = self._moments[task]
        if moment.gone:
            moment.gone = {}  # whatever they meant is in the record

    def _act_on(self, tasks: Iterable[str]) -> None:
        now = self._clock()
        for task in tasks:
            record = self._guard.records.get(task)
            if record is None or task in self._dirty or not self._guard.is_durable(task):
                continue  # it has changed meanwhile: the next round decides on what it is now
            self._act(record, now)

    def _act(self, record: TaskRecord, now: float) -> None:
        moment = self._moments[record.id]
        call: Call | None
        call, wake = act(record, self._sight(record), now, self._settings)
        if call is not None and now < moment.retry_at:
            call, wake = None, moment.retry_at
        if isinstance(call, Delete | Release):
            repeat_at = moment.asked.get(_kind(call), -math.inf) + REPEAT_SECONDS
            call, wake = (None, repeat_at) if now < repeat_at else (call, wake)
        if call is not None and self._hands is not None:
            moment.busy = True
            self._hands.take(Errand(record, call))
        if math.isfinite(wake):
            self._set_timer(record.id, wake)
        elif record.settled and record.id not in self._pods:
            del self._moments[record.id]

    # -- what is seen ----------------------------------------------------------------------------------------------

    def _sight(self, record: TaskRecord) -> Sight:
        moment = self._moments[record.id]
        name = pod_name(self._settings.name, record.id, record.attempt)
        pod, others = None, []
        for found in self._pods.get(record.id, {}).values():
            if (found.uid, "release") in moment.asked:
                continue  # let go of
            if found.name == name and record.pod_uid in ("", found.uid):
                pod = found
            elif found.attempt <= record.attempt and not self._is_strange(found):
                others.append(found)
        gone = next((p for p in moment.gone.values() if p.name == name and record.pod_uid in ("", p.uid)), None)
        return Sight(
            synced=self._synced,
            pod=pod,
            gone=gone,
            others=tuple(others),
            busy=moment.busy,
            unsure=moment.unsure,
            refusal=moment.refusal,
        )

    # -- timers ----------------------------------------------------------------------------------------------------

    def _set_timer(self, task: str, at: float) -> None:
        if self._due.get(task) != at:
            self._due[task] = at
            heapq.heappush(self._timers, (at, task))

    def _ring_timers(self, now: float) -> None:
        while self._timers and self._timers[0][0] <= now:
            at, task = heapq.heappop(self._timers)
            if self._due.get(task) == at:
                del self._due[task]
                self._dirty[task] = None


def _kind(call: Delete | Release) -> tuple[str, str]:
    if isinstance(call, Release):
        return call.pod.uid, "release"
    return call.pod.uid, "force" if call.grace == 0 else "delete"
