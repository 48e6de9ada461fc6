"""Requeueing of unschedulable pods by events (kube-scheduler's requeuePodWithQueueingStrategy)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

from pyscheduler.api.events import ClusterEvent
from pyscheduler.api.queued import QueuedPod
from pyscheduler.core.instrument import Instrument
from pyscheduler.core.queue import labels
from pyscheduler.core.queue.backlog import TIMEOUT, Move
from pyscheduler.core.queue.entry import Tier
from pyscheduler.core.queue.event_evaluator import EventEvaluator
from pyscheduler.core.queue.gates import Gates
from pyscheduler.core.queue.hints import QueueingStrategy
from pyscheduler.core.queue.tiers import Tiers


class Requeue(Protocol):
    """Puts a pod that is in no tier into the right one."""

    def __call__(
        self, queued: QueuedPod, how: QueueingStrategy, label: str, now: float, is_admitted: bool | None = None
    ) -> bool:
        """Return False if the pod needs a further event; `is_admitted` is the result of the gates, None if not run."""


class EventRequeuer:
    """Evaluates events for the unschedulable tier, and requeues the pods that an event may help.

    A gated pod stays until its gates admit it. Calls of plugins may remove pods from the tier.
    """

    def __init__(
        self, tiers: Tiers, evaluator: EventEvaluator, gates: Gates, instrument: Instrument, requeue: Requeue
    ) -> None:
        self._unschedulable, self._backoff_queue = tiers.unschedulable, tiers.backoff
        self._evaluator = evaluator
        self._gates = gates
        self._instrument = instrument
        self._requeue = requeue

    def steps(self, move: Move) -> Iterator[bool]:
        """Evaluate an event; yields after each pod, or group of equal pods, True if the pod was requeued."""
        for candidate in self._evaluator.candidates(move, self._unschedulable):
            yield candidate is not None and self._evaluate(*candidate, move)

    def catch_up(self, uid: str, move: Move) -> None:
        """Evaluate an event for one pod, if it is in the tier and the event concerns it."""
        group = self._unschedulable.group_of(uid)
        if group is not None and move.concerns(group):
            self._evaluate(group.get(uid), None, move)

    def requeue_on(self, queued: QueuedPod, events: Sequence[ClusterEvent], now: float) -> None:
        """Requeue a pod by the first of its own changes that may help it."""
        for event in events:
            how = self._evaluator.strategy(queued, event)
            if how is not QueueingStrategy.SKIP and self._move_pod(queued, how, labels.label_of(event), now):
                self._backoff_queue.allow_early_pops()
                return

    def _evaluate(self, queued: QueuedPod, how: QueueingStrategy | None, move: Move) -> bool:
        """Evaluate an event for a pod once, unless it has left the tier; returns True if the pod was requeued.

        `how` is the effect of the event on all pods of its group, or None.
        """
        if queued.last_event_number >= move.number or (group := self._unschedulable.group_with(queued)) is None:
            return False
        queued.last_event_number = move.number
        if move.only is not None and not move.only(queued):
            return False
        if move.event is TIMEOUT:
            queued.flushed, queued.last_flush = True, move.at
        # Checked first, since hundreds of gated preemptors may wait, each with the events of all others' victims.
        if queued.gating_plugin and self._gates.is_still_gated(queued, move.gate_results):
            self._unschedulable.update_gate(group)
            return False
        if how is None:
            how = self._evaluator.strategy_in_group(queued, group, move)
        has_moved = how is not QueueingStrategy.SKIP and self._move_pod(queued, how, move.label, move.at)
        if has_moved:
            self._backoff_queue.allow_early_pops(move.number)
        return has_moved

    def _move_pod(self, queued: QueuedPod, how: QueueingStrategy, label: str, now: float) -> bool:
        """Requeue an unschedulable pod unless a plugin's call has removed it; returns False if it stays or is gated."""
        is_admitted: bool | None = None
        if gate := queued.gating_plugin:
            is_admitted = self._gates.admit(queued)
            if not is_admitted and queued.gating_plugin == gate:
                self._keep_gated(queued, label)
                return False
        return self._unschedulable.discard(queued) and self._requeue(queued, how, label, now, is_admitted)

    def _keep_gated(self, queued: QueuedPod, label: str) -> None:
        """Leave a pod that the same plugin still gates in its position."""
        self._unschedulable.update_gate(self._unschedulable.group_of(queued.pod.uid))
        self._instrument.queue_incoming(Tier.UNSCHEDULABLE.value, label)
