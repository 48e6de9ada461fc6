"""Scheduling queue: every pending pod is in exactly one tier; all transitions between tiers are here.

`EventRequeuer` decides which events end the wait of an unschedulable pod, and calls back to requeue it.

    add, update ──PreEnqueue──▶ active ──pop──▶ in flight ──done──▶ (bound, deleted)
                      │           ▲  ▲              │ add_unschedulable
                      │      tick │  │ pop, when    ▼
                      │           │  │ active is empty
                      ▼           └─ backoff ◀── after backoff ── events since pop
                unschedulable ───────▲  (and straight to active: not backing off, or Pending) │
                (and gated)   move_all, update, activate, tick (5 minutes)  ◀──── none helps ─┘

It follows kube-scheduler 1.37's PriorityQueue with its gate SchedulerPopFromBackoffQ on.
It has no clock: `now` is seconds on the caller's monotonic clock. Nothing blocks: `pop` returns None if no pod is
ready, and `next_wake` is the time to `tick` and `pop` again. No call processes more than a slice of the pending pods:
the rest goes into the `backlog`, which `process_backlog` continues, and `pop` returns None until it is empty. It delays
early pops from backoff (constants of `backoff`) and records at most `inflight.MOST_EVENTS` events for pods in flight.

Rules for the caller:
- `pop` puts a pod in flight; each popped pod needs one `add_unschedulable` or one `done`. `done` is called before
  PreBind: a pod that is requeued later has missed events and is retried after its backoff.
- Never `update` assumed or bound pods, except for a deferred resize: the queue would add them as new pods, without
  their group. `delete` is for pods that left or were bound by another scheduler; pods in flight stay until `done`.
- `add_unschedulable` takes the pod's newest version and does not call `nominator.add`: the caller does.
- The caller requeues pods by `move_all(…, only=…)` for each result of `nominator.take_freed`.
- Methods that may move many pods only add to the backlog: `process_backlog` must follow.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from itertools import islice

from pyscheduler.api.events import ClusterEvent
from pyscheduler.api.pod import Pod
from pyscheduler.api.queued import QueuedPod
from pyscheduler.core.instrument import Instrument
from pyscheduler.core.pod_groups.manager import PodGroupManager
from pyscheduler.core.queue import labels
from pyscheduler.core.queue.backlog import SLICE, TIMEOUT, Backlog, Move, Readmission, Release, Task
from pyscheduler.core.queue.backoff import Backoff
from pyscheduler.core.queue.contents import QueueContents
from pyscheduler.core.queue.entry import Tier
from pyscheduler.core.queue.event_evaluator import EventEvaluator
from pyscheduler.core.queue.event_requeuer import EventRequeuer
from pyscheduler.core.queue.gates import Gates
from pyscheduler.core.queue.hints import Hints, QueueingStrategy, for_pod
from pyscheduler.core.queue.nominator import Nominator
from pyscheduler.core.queue.profile import QueueProfile
from pyscheduler.core.queue.queued_pod_group import QueuedPodGroup
from pyscheduler.core.queue.rejections import shared
from pyscheduler.core.queue.tiers import Tiers
from pyscheduler.core.queue.unschedulable import HintGroup

FLUSH_PERIOD = 30.0
"""Seconds between two checks for pods that have been unschedulable for too long."""

_SKIP, _AFTER_BACKOFF = QueueingStrategy.SKIP, QueueingStrategy.AFTER_BACKOFF
_IMMEDIATELY = QueueingStrategy.IMMEDIATELY
_ACTIVE, _BACKOFF, _UNSCHEDULABLE = Tier.ACTIVE.value, Tier.BACKOFF.value, Tier.UNSCHEDULABLE.value


class SchedulingQueue(QueueContents):
    """Pending pods of all profiles."""

    def __init__(
        self,
        profiles: Mapping[str, QueueProfile],
        backoff: Backoff,
        instrument: Instrument,
        nominator: Nominator,
        groups: PodGroupManager,
        max_in_unschedulable: float = 300.0,
        slice_pods: int = SLICE,
    ) -> None:
        """Create an empty queue; `slice_pods` is the maximum number of pending pods that one call processes."""
        super().__init__()
        self.nominator = nominator
        self._groups = groups
        self._slice = slice_pods
        self.backlog = Backlog()
        """Work that `process_backlog` does in slices; no pod is popped before it is done."""
        self._instrument = instrument
        self._max_in_unschedulable = max_in_unschedulable
        self._next_flush = 0.0
        self._set_profiles(profiles, backoff)

    def _set_profiles(
        self, profiles: Mapping[str, QueueProfile], backoff: Backoff, previous: Tiers | None = None
    ) -> None:
        """Set the plugins, and empty tiers that use them; the pods of the `previous` tiers are to be readmitted."""
        first, instrument = next(iter(profiles.values())), self._instrument
        self._profiles = profiles
        self._events = EventEvaluator(
            {name: Hints(each.events_to_register, instrument, each.hint_scopes) for name, each in profiles.items()}
        )
        self.gates = Gates(profiles, instrument, self._groups)
        self._backoff_policy = backoff
        in_flight = self._in_flight.pods
        self._tiers = Tiers(first, instrument, self._events, self.gates, self._groups, in_flight, previous)
        self.tier_of = self._tiers.index
        """The tier of every pod by UID; after a reconfiguration, of every pod that is readmitted."""
        self.active, self._backoff_queue = self._tiers.active, self._tiers.backoff
        self._unschedulable, self._members = self._tiers.unschedulable, self._tiers.members
        self._requeuer = EventRequeuer(self._tiers, self._events, self.gates, instrument, self._requeue)

    def reconfigure(self, profiles: Mapping[str, QueueProfile], backoff: Backoff, now: float) -> None:
        """Switch to new profiles: every pod is readmitted and may be retried at once; pods of removed profiles leave.

        Pods in flight stay in flight: the new plugins evaluate the events recorded for them. Those of removed profiles
        must end with `done`, not with `add_unschedulable`.
        """
        self._set_profiles(profiles, backoff, previous := self._tiers)
        self.backlog.restart(now, previous.drain())

    @property
    def needs_events(self) -> bool:
        """Return True if any pod is unschedulable, in flight or waiting in Permit; otherwise events may be dropped."""
        return bool(self._unschedulable.rejected or self._unschedulable.gated or self._in_flight.pods)

    # Pods are added, updated and deleted

    def add(self, pod: Pod, now: float) -> None:
        """Add a pending pod of one of the profiles; a pod that is already in is updated."""
        if pod.uid in self.tier_of or pod.uid in self._in_flight.pods or (self._tiers.previous and pod.uid in self):
            self.update(pod, pod, (), now)
        else:
            self._enter(QueuedPod(pod, now), labels.POD_ADD, now)

    def update(self, old: Pod, new: Pod, events: Sequence[ClusterEvent], now: float) -> None:
        """Update a pending pod; `events` are its changes (UpdatePodLabel …, or a plain Update).

        For a pod in flight the events are recorded; an active pod or one in backoff keeps its tier; an unschedulable
        one may be requeued by the events; an unknown one is added.
        """
        self._catch_up(new.uid)
        tier = self.tier_of.get(new.uid)
        if new.uid in self._in_flight.pods:
            for event in events:
                self._in_flight.record(event)
            if new.uid in self.nominator:
                self.nominator.update(old, new)
        elif tier is None:
            self._enter(QueuedPod(new, now), labels.POD_ADD, now)
        elif self._groups.is_enabled and self._members.has_other_group(new, tier):
            tier.replace(new)
            self.nominator.update(old, new)
            self._requeue(tier.remove(new.uid), _IMMEDIATELY, labels.POD_UPDATE, now)
        else:
            tier.replace(new)
            self.nominator.update(old, new)
            if (queued := self._waiting_for_events(new.uid)) is not None:
                self._requeuer.requeue_on(queued, events, now)

    def delete(self, uid: str, placed_on: str = "") -> None:
        """Remove a pod that was deleted, or bound to `placed_on` by another scheduler."""
        self.nominator.remove(uid, placed_on)
        self.gates.forget(uid)
        self._rejections.remove(uid)
        self._tiers.remove(uid)

    def _enter(self, queued: QueuedPod, label: str, now: float) -> None:
        queued.last_event_number = self.backlog.number
        if queued.pod.nominated_node_name:  # even if the pod is gated then
            self.nominator.add(queued.pod)
        self._requeue(queued, _IMMEDIATELY, label, now)

    def _waiting_for_events(self, uid: str) -> QueuedPod | None:
        """Return the pod, or its group, if that is unschedulable; otherwise None."""
        return self._unschedulable.get(uid if (entry := self._members.entry_of(uid)) is None else entry.pod.uid)

    def pop(self, now: float) -> QueuedPod | None:
        """Remove the pod to attempt next, put it in flight and return it; None if there is none.

        If no pod is active, a rejected pod is popped before its backoff ends. Returns None while the backlog is not
        empty, since a pod of a higher priority may become active.
        """
        if self.backlog:
            return None
        if (queued := self.active.pop()) is None:
            if (queued := self._backoff_queue.pop_early(now)) is None:
                return None
            self._instrument.queue_incoming(_ACTIVE, labels.POP_FROM_BACKOFF)
        if queued.initial_attempt is None:
            queued.initial_attempt = now
        queued.attempts += 1
        self._in_flight.start(queued)
        return queued

    def add_unschedulable(self, queued: QueuedPod, pod: Pod, rejected: Set[str], pending: Set[str], now: float) -> None:
        """Requeue a pod after a failed attempt (kube-scheduler's AddUnschedulableIfNotPresent).

        `pod` is its newest version. Without rejecting plugins the failure was an error. Ends the attempt like `done`. A
        pod that is already in the queue is not changed.
        """
        if pod.uid not in self:
            queued.pod = pod
            self._requeue_rejected(queued, rejected, pending, now)
        self._in_flight.done(pod.uid)

    def _requeue_rejected(self, queued: QueuedPod, rejected: Set[str], pending: Set[str], now: float) -> None:
        if queued.unschedulable_plugins != rejected or queued.pending_plugins != pending:
            queued.unschedulable_plugins = shared(frozenset(rejected))
            queued.pending_plugins = shared(frozenset(pending))
            self._rejections.remove(queued.pod.uid)
        if queued.pod.uid not in self._rejections.by_uid:
            self._rejections.set(queued)
        queued.flushed = False
        queued.timestamp = now
        queued.last_event_number = self.backlog.number
        self._backoff_policy.count_failure(queued)
        if isinstance(queued, QueuedPodGroup):
            self._members.rank(queued)
        self._backoff_queue.delay_early_pops(now, self.backlog.number)
        how = self._events.strategy_since(queued, self._in_flight.events_since_start(queued.pod.uid))
        self._requeue(queued, how, labels.ATTEMPT_FAILURE, now)

    def done(self, uid: str) -> None:
        """End the attempt of a pod: events need not be recorded for it any more."""
        if uid in self._in_flight.pods:
            self._in_flight.done(uid)
            if uid in self._rejections.by_uid:
                self._rejections.remove(uid)

    # Pod groups

    def _join(self, group: QueuedPodGroup, queued: QueuedPod, how: QueueingStrategy, label: str, now: float) -> None:
        """Requeue the group of a pod that has just become one of its pending members, unless it is active already."""
        tier = self.tier_of.get(uid := group.pod.uid)
        if uid in self._in_flight.pods or not (tier is None or isinstance(tier, HintGroup)):
            return
        group.inherit_history(queued)
        if tier is not None:
            tier.remove(uid)
            how = _AFTER_BACKOFF
        # The plugins have just been run for the only member.
        is_admitted = True if tier is None and len(group.members) == 1 else None
        self._requeue_or_hold(group, how, label, now, is_admitted)

    def _requeue_or_hold(
        self, group: QueuedPodGroup, how: QueueingStrategy, label: str, now: float, is_admitted: bool | None = None
    ) -> None:
        self._groups.changed.pop(group.key, None)  # this is what `update_groups` would do again
        if self._members.reason_to_wait(group):
            self._members.hold(group, now)
        else:
            self._requeue(group, how, label, now, is_admitted)

    def update_groups(self, now: float) -> None:
        """Requeue or hold the pod groups with other members or requirements than before."""
        for member in self._members.take_regrouped(self._in_flight.pods):
            self._requeue(member, _IMMEDIATELY, labels.POD_GROUP_CHANGED, now)
        for key in self._groups.take_changed():
            group = self._members.entries.get(key)
            if group is None or group.pod.uid in self._in_flight.pods:
                continue
            tier, was_incomplete = self.tier_of.get(group.pod.uid), group.is_incomplete
            if self._members.reason_to_wait(group):
                self._members.hold(group, now)
                if tier is not None:
                    tier.remove(group.pod.uid)
            elif tier is None:
                self._requeue(group, _IMMEDIATELY, labels.POD_GROUP_CHANGED, now)
            elif isinstance(tier, HintGroup) or group.is_incomplete > was_incomplete:
                tier.remove(group.pod.uid)
                self._requeue(group, _AFTER_BACKOFF, labels.POD_GROUP_CHANGED, now)

    def end_group_attempt(
        self, group: QueuedPodGroup, placed: Iterable[str], rejected: Set[str], pending: Set[str], now: float
    ) -> None:
        """End the attempt of a pod group: the placed members leave the queue, a group with others is requeued.

        If some were placed, the others are tried again at once, and preemption for them (as in kube-scheduler 1.37).
        Without rejecting plugins the failure was an error.
        """
        removed = [self._members.remove(uid) for uid in placed]
        if group.members and removed:
            group.unschedulable_count = group.error_count = 0
            self._requeue_or_hold(group, _IMMEDIATELY, labels.POD_GROUP_CHANGED, now)
        elif group.members:
            self._requeue_rejected(group, rejected, pending, now)
        self._in_flight.done(group.pod.uid)

    def retry_group(self, group: QueuedPodGroup, now: float) -> None:
        """End the attempt of a pod group without a result: it is tried again, or held until its gates are removed."""
        self._requeue_or_hold(group, _IMMEDIATELY, labels.POD_GROUP_CHANGED, now)
        self._in_flight.done(group.pod.uid)

    def hold(self, queued: QueuedPod) -> None:
        """Put a placed member of a pod group in flight: it waits in Permit, and events are recorded for it."""
        self._in_flight.start(queued)

    # Requeueing by events

    def move_all(self, event: ClusterEvent, now: float, only: Callable[[QueuedPod], bool] | None = None) -> None:
        """Record an event for the pods in flight, and evaluate it for the unschedulable pods (`only` some)."""
        plugins = self._events.registered_plugins(event)
        if plugins != []:
            self._in_flight.record(event)
            if self.backlog or self._unschedulable.has_any(plugins):
                self.backlog.move(event, now, plugins, only, narrowed=self._events.are_narrowed(plugins, event))
                self.backlog.limit(self._unschedulable.group_count)

    def process_backlog(self) -> int:
        """Process one slice of the backlog; returns the number of pods that moved to active or backoff."""
        moved, steps = 0, self._slice
        while steps > 0 and (task := self.backlog.first()) is not None:
            if task.steps is None:
                task.steps = self._steps(task)
            for has_moved in islice(task.steps, steps):
                moved += has_moved
                steps -= 1
            if steps > 0:
                self.backlog.finish()
                steps -= 1
        return moved

    def _steps(self, task: Task) -> Iterator[bool]:
        """Process a task; yields after each pod, or group of equal pods, True if an event has moved the pod."""
        if isinstance(task, Move):
            yield from self._requeuer.steps(task)
        elif isinstance(task, Release):
            while (batch := self._backoff_queue.expired(task.at)) is not None:
                for _ in self.active.take(batch):
                    self._instrument.queue_incoming(_ACTIVE, labels.BACKOFF_COMPLETE)
                    yield False
        else:
            for queued in task.pods:
                self._readmit(queued, task)
                yield False
            self._tiers.previous = None

    def _readmit(self, queued: QueuedPod, readmission: Readmission) -> None:
        self._rejections.remove(queued.pod.uid)
        if queued.pod.scheduler_name not in self._profiles:
            self.nominator.remove(queued.pod.uid)
            return
        queued.unschedulable_plugins, queued.pending_plugins, queued.gating_plugin = frozenset(), frozenset(), ""
        queued.last_event_number = readmission.number
        self._requeue(queued, _IMMEDIATELY, labels.RECONFIGURED, readmission.at)

    def _catch_up(self, uid: str) -> None:
        """Run the backlog's tasks for one pod, so that a change of it comes after them."""
        for task in self.backlog:
            if isinstance(task, Readmission):
                if self._tiers.previous is not None and (queued := self._tiers.previous.remove(uid)) is not None:
                    self._readmit(queued, task)
            elif isinstance(task, Move):
                self._requeuer.catch_up(uid, task)

    def activate(self, pods: Iterable[Pod], now: float) -> None:
        """Make pods active regardless of backoff; those in flight are retried afterwards. Gates still apply."""
        for pod in pods:
            entry = self._members.entry_of(pod.uid)
            uid = pod.uid if entry is None else entry.pod.uid
            self._catch_up(uid)
            tier = self.tier_of.get(uid)
            if uid in self._in_flight.pods:
                self._in_flight.record(for_pod(pod if entry is None else entry.pod, labels.FORCE_ACTIVATE))
            elif tier is not None and tier is not self.active:
                is_admitted = None if isinstance(tier, HintGroup) else True
                self._requeue(tier.remove(uid), _IMMEDIATELY, labels.FORCE_ACTIVATE, now, is_admitted)

    def requeue(self, pod: Pod, label: str, now: float) -> None:
        """Retry an unschedulable pod after its backoff, whichever plugins rejected it. Gates still apply."""
        self._catch_up(pod.uid)
        if pod.uid in self._in_flight.pods:
            self._in_flight.record(for_pod(pod, label))
        elif (queued := self._waiting_for_events(pod.uid)) is not None:
            self._requeuer.requeue_on(queued, (for_pod(queued.pod, label),), now)

    def tick(self, now: float) -> None:
        """End expired backoffs, and every 30 seconds retry the pods that have been unschedulable for too long."""
        self.gates.reports |= {pod.uid: (pod, reason) for pod, reason in self._members.take_reports(now)}
        if self.backlog or ((due := self._backoff_queue.next_release()) is not None and due <= now):
            self.backlog.release(now)
        if now >= self._next_flush:
            self._next_flush = (math.floor(now / FLUSH_PERIOD) + 1) * FLUSH_PERIOD
            self._flush(now)

    def is_tick_due(self, now: float) -> bool:
        """Return True if `tick` may have something to do."""
        release, report = self._backoff_queue.next_release(), self._members.next_report
        is_due = any(at is not None and at <= now for at in (release, report))
        return is_due or bool(self.backlog) or now >= self._next_flush

    def next_wake(self, popping: bool = True) -> float | None:
        """Return the time of the next `tick` (with `popping`: or `pop`), maybe in the past; None without timers."""
        if len(self.tier_of) == len(self.active.entries):
            return None  # no pod waits for its time
        wake = self._backoff_queue.next_release()
        if popping and not self.active.entries and (early := self._backoff_queue.next_early()) is not None:
            wake = early if wake is None else min(wake, early)
        if (report := self._members.next_report) is not None:
            wake = report if wake is None else min(wake, report)
        if self._unschedulable.rejected or self.gates.broken:
            wake = self._next_flush if wake is None else min(wake, self._next_flush)
        return wake

    def _flush(self, now: float) -> None:
        before, broken = now - self._max_in_unschedulable, self.gates.broken

        def has_expired(queued: QueuedPod) -> bool:
            waits_for_events = queued.gating_plugin and queued.pod.uid not in broken
            return not waits_for_events and max(queued.timestamp, queued.last_flush) < before

        if any(map(has_expired, self._unschedulable)):
            self._in_flight.record(TIMEOUT)
            self.backlog.move(TIMEOUT, now, None, has_expired).with_gated = True

    def _requeue(
        self, queued: QueuedPod, how: QueueingStrategy, label: str, now: float, is_admitted: bool | None = None
    ) -> bool:
        """Put a pod that is in no tier into the right one; returns False if it needs a further event.

        `is_admitted` is the result of the gates if they have just been run.
        """
        key = self._members.key_of(queued.pod) if self._groups.is_enabled else None
        if key is None and how is _SKIP:
            is_admitted = False
        elif is_admitted is None:
            is_admitted = self.gates.admit(queued)
        if not is_admitted:
            self._add_to_unschedulable(queued, label)
            return False
        if key is not None:
            self._join(self._members.add(queued, key, now), queued, how, label, now)
            return True
        if self._groups.is_enabled:
            self._members.restore_claim(queued)
        backs_off = how is _AFTER_BACKOFF and self._backoff_policy.is_backing_off(queued, now)
        if backs_off and not self._members.skips_backoff(queued, now):
            self._backoff_queue.add(queued)
            self._instrument.queue_incoming(_BACKOFF, label)
        else:
            if queued.initial_attempt is None:
                queued.initial_attempt = now
            self.active.add(queued)
            self._instrument.queue_incoming(_ACTIVE, label)
        return True

    def _add_to_unschedulable(self, queued: QueuedPod, label: str) -> None:
        self._unschedulable.add(queued)
        if queued.gating_plugin:
            self._rejections.set(queued)  # the gate is one of the rejectors now
        # Gated pods count here too: kube-scheduler's queue_incoming_pods_total has no separate queue for them.
        self._instrument.queue_incoming(_UNSCHEDULABLE, label)
