"""Whatever happens: no pod is lost or bound twice, no node is oversold by us, and every binding is told of once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given

from pyscheduler.api import QueueingHint, Reads
from pyscheduler.core import binding, event_handlers, machine, scheduling_cycle
from pyscheduler.core.confirmation import Unconfirmed
from pyscheduler.core.context import AssumedPod, Context
from pyscheduler.core.decide import invalidation
from pyscheduler.core.decide.invalidation import Change, Scope
from pyscheduler.core.queue import SchedulingQueue
from pyscheduler.core.queue.backoff import BackoffQueue
from pyscheduler.intree import NodeResourcesFit
from tests.properties.machine_model import STEPS, Step, prove_sound, prove_woken
from tests.properties.profiles import assert_caught, quick


@quick(100)
@given(STEPS)
def test_nothing_is_lost_oversold_or_told_twice(script: list[Step]) -> None:
    prove_sound(script)


@quick(100)
@given(STEPS)
def test_nobody_sleeps_on_who_would_fit(script: list[Step]) -> None:
    prove_woken(script)


# -- planted bugs ------------------------------------------------------------------------------------------------


def _places_are_kept(patch: pytest.MonkeyPatch) -> None:
    release = binding.release

    def keep(context: Context, assumed: AssumedPod) -> None:
        assumed.confirmed = True
        release(context, assumed)

    for module in (scheduling_cycle, binding, event_handlers):
        patch.setattr(module, "release", keep)


def _usage_is_overlooked(patch: pytest.MonkeyPatch) -> None:
    patch.setitem(invalidation._SCOPES[Change.USAGE], Reads.OWN_NODE_AND_PODS, Scope.NOWHERE)


def _reservations_are_kept(patch: pytest.MonkeyPatch) -> None:
    unreserve = binding._unreserve

    def keep(context: Context, assumed: AssumedPod) -> None:
        if not assumed.pod.priority:
            unreserve(context, assumed)

    patch.setattr(binding, "_unreserve", keep)


def _seen_is_over(patch: pytest.MonkeyPatch) -> None:
    def forget(context: Context, pod: Any) -> None:
        context.unconfirmed.discard(pod.uid)
        del context.assumed[pod.uid]

    patch.setattr(event_handlers, "_confirm", forget)


def _failure_beats_the_watch(patch: pytest.MonkeyPatch) -> None:
    handle_bind_failed = binding.handle_bind_failed

    def fail(context: Context, event: Any) -> Any:
        if event.uid in context.assumed:
            context.assumed[event.uid].confirmed = False
        return handle_bind_failed(context, event)

    patch.setattr(machine, "handle_bind_failed", fail)


def _nobody_is_put_back(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(SchedulingQueue, "add_unschedulable", lambda self, queued, pod, *_: self.done(pod.uid))


def _the_dead_stay_assumed(patch: pytest.MonkeyPatch) -> None:
    handle_pod_deletion = event_handlers.handle_pod_deletion

    def gone(context: Context, uid: str, now: float) -> None:
        assumed = context.assumed.pop(uid, None)
        handle_pod_deletion(context, uid, now)
        if assumed is not None:
            context.assumed[uid] = assumed

    patch.setattr(event_handlers, "handle_pod_deletion", gone)


def _recorded_twice(patch: pytest.MonkeyPatch) -> None:
    bound = binding.handle_bound
    patch.setattr(machine, "handle_bound", lambda context, event: bound(context, event) * 2)


def _errors_never_end(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(BackoffQueue, "release", lambda self, now: None)


def _gates_stay_closed(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(SchedulingQueue, "update", lambda *_: None)


def _nothing_is_looked_up(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Unconfirmed, "take_due", lambda self, now: [])
    patch.setattr(Unconfirmed, "next_due", lambda self: None)


@pytest.mark.parametrize(
    ("plant", "complaint"),
    [
        (_places_are_kept, "is in queue and a node"),
        (_usage_is_overlooked, "asked for|takes . pods"),
        (_reservations_are_kept, "holds a reservation"),
        (_seen_is_over, "never told of"),
        (_failure_beats_the_watch, "never told of|is lost"),
        (_nobody_is_put_back, "is lost"),
        (_the_dead_stay_assumed, "assumed but on no node"),
        (_recorded_twice, "has 2 Scheduled events"),
        (_errors_never_end, "never bound"),
        (_gates_stay_closed, "never bound"),
        (_nothing_is_looked_up, "never bound"),
    ],
)
def test_a_broken_promise_is_noticed(
    plant: Callable[[pytest.MonkeyPatch], None], complaint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    assert_caught(prove_sound, STEPS, AssertionError, match=complaint)


def _nodes_wake_nobody(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(event_handlers, "node_events", lambda before, now: [])


def _freed_room_wakes_nobody(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(NodeResourcesFit, "_resources_freed", lambda self, pod, event: QueueingHint.SKIP)


@pytest.mark.parametrize("plant", [_nodes_wake_nobody, _freed_room_wakes_nobody])
def test_a_missed_event_is_noticed(
    plant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    # Freed room is seldom all that changes: another event may wake the pod.
    assert_caught(prove_woken, STEPS, AssertionError, match="would fit", examples=2_000)
