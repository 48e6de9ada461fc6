"""Invariants of the whole scheduler: no pod is lost or bound twice, no node is overcommitted, every binding has one
event.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given
from msgspec.structs import replace

from pyscheduler.api import QueueingHint, Reads
from pyscheduler.core import event_handlers, machine
from pyscheduler.core.context import AssumedPod, Context
from pyscheduler.core.queue import SchedulingQueue
from pyscheduler.core.queue.backoff import BackoffQueue
from pyscheduler.core.result_cache import invalidation
from pyscheduler.core.result_cache.invalidation import Change, Scope
from pyscheduler.core.scheduling import binding, schedule_one, suspended_attempts
from pyscheduler.core.scheduling.confirmation import Unconfirmed
from pyscheduler.intree import NodeResourcesFit
from tests.properties.machine_model import STEPS, Step, check_all_bound, check_no_missed_wakeup
from tests.properties.profiles import assert_caught, quick
from tests.scenarios.stage_moves import check_stage_moves


@pytest.fixture(autouse=True, scope="module")
def checked_stage_moves() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        check_stage_moves(patch)
        yield


@quick(100)
@given(STEPS)
def test_pods_are_bound_once_without_overcommitment(script: list[Step]) -> None:
    check_all_bound(script)


@quick(100)
@given(STEPS)
def test_no_feasible_pod_stays_parked(script: list[Step]) -> None:
    check_no_missed_wakeup(script)


# -- planted bugs --------------------------------------------------------------------------------------------------


def _keep_assumed_pods(patch: pytest.MonkeyPatch) -> None:
    def keep(assumed: AssumedPod) -> None:
        assumed.confirmed = True

    _before_forget_pod(patch, keep)


def _before_forget_pod(patch: pytest.MonkeyPatch, change: Callable[[AssumedPod], None]) -> None:
    forget_pod = binding.forget_pod

    def forget(context: Context, assumed: AssumedPod) -> None:
        change(assumed)
        forget_pod(context, assumed)

    for module in (schedule_one, binding, event_handlers, suspended_attempts):
        patch.setattr(module, "forget_pod", forget)


def _ignore_usage_changes(patch: pytest.MonkeyPatch) -> None:
    patch.setitem(invalidation._SCOPES[Change.USAGE], Reads.OWN_NODE_AND_PODS, Scope.NOWHERE)
    patch.setattr(invalidation, "_scopes", invalidation._scopes.__wrapped__)


def _skip_unreserve(patch: pytest.MonkeyPatch) -> None:
    def skip(assumed: AssumedPod) -> None:
        if assumed.pod.priority:
            assumed.profile = replace(assumed.profile, reserve=())

    _before_forget_pod(patch, skip)


def _forget_confirmed_pods(patch: pytest.MonkeyPatch) -> None:
    def forget(context: Context, pod: Any) -> None:
        context.unconfirmed.discard(pod.uid)
        del context.assumed[pod.uid]

    patch.setattr(event_handlers, "_confirm", forget)


def _failure_overrides_watch(patch: pytest.MonkeyPatch) -> None:
    handle_bind_failed = binding.handle_bind_failed

    def fail(context: Context, event: Any) -> Any:
        if event.uid in context.assumed:
            context.assumed[event.uid].confirmed = False
        return handle_bind_failed(context, event)

    patch.setattr(machine, "handle_bind_failed", fail)


def _drop_failed_pods(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(SchedulingQueue, "add_unschedulable", lambda self, queued, pod, *_: self.done(pod.uid))


def _keep_deleted_pods_assumed(patch: pytest.MonkeyPatch) -> None:
    handle_pod_deletion = event_handlers.handle_pod_deletion

    def gone(context: Context, uid: str, now: float) -> None:
        assumed = context.assumed.pop(uid, None)
        handle_pod_deletion(context, uid, now)
        if assumed is not None:
            context.assumed[uid] = assumed

    patch.setattr(event_handlers, "handle_pod_deletion", gone)


def _record_bindings_twice(patch: pytest.MonkeyPatch) -> None:
    bound = binding.handle_bound
    patch.setattr(machine, "handle_bound", lambda context, event: bound(context, event) * 2)


def _never_end_backoff(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(BackoffQueue, "expired", lambda self, now: None)


def _ignore_gate_removal(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(SchedulingQueue, "update", lambda *_: None)


def _skip_lookups(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Unconfirmed, "take_due", lambda self, now: [])
    patch.setattr(Unconfirmed, "next_due", lambda self: math.inf)


@pytest.mark.parametrize(
    ("plant", "message"),
    [
        (_keep_assumed_pods, "is in stages assigned and (backoff|unschedulable)"),
        (_ignore_usage_changes, "requested are|allows . pods"),
        (_skip_unreserve, "holds a reservation|requested are|allows . pods"),
        (_forget_confirmed_pods, "has no Scheduled event"),
        (_failure_overrides_watch, "has no Scheduled event|is lost"),
        (_drop_failed_pods, "is lost"),
        (_keep_deleted_pods_assumed, "assumed but on no node"),
        (_record_bindings_twice, "has 2 Scheduled events"),
        (_never_end_backoff, "never bound"),
        (_ignore_gate_removal, "never bound"),
        (_skip_lookups, "never bound"),
    ],
)
def test_property_catches_planted_bug(
    plant: Callable[[pytest.MonkeyPatch], None], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    assert_caught(check_all_bound, STEPS, AssertionError, match=message)


def _ignore_node_events(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(event_handlers, "node_events", lambda before, now: [])


def _ignore_freed_resources(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(NodeResourcesFit, "_resources_freed", lambda self, pod, event: QueueingHint.SKIP)


@pytest.mark.parametrize("plant", [_ignore_node_events, _ignore_freed_resources])
def test_property_catches_missed_event(
    plant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    # Freed resources are seldom the only change: another event may wake the pod.
    assert_caught(check_no_missed_wakeup, STEPS, AssertionError, match="would fit", examples=2_000)
