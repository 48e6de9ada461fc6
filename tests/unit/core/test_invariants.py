"""`invariants.validate` reports each kind of inconsistent state."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pyscheduler.api.pod import Pod
from pyscheduler.api.queued import QueuedPod
from pyscheduler.core.context import Context, SuspendedAttempt
from pyscheduler.core.framework.waiting_pods import WaitingPodState
from pyscheduler.core.invariants import validate
from pyscheduler.core.scheduling.pod_stages import Stage
from pyscheduler.testing import Harness, node, pod


def _remove_from_queue(context: Context) -> None:
    context.queue.delete("pending")


def _place_pending_pod(context: Context) -> None:
    context.state.place(context.pods["pending"], "n1")


def _drop_pending_pod(context: Context) -> None:
    del context.pods["pending"]


def _drop_assumed_pod(context: Context) -> None:
    del context.pods["assumed"]


def _name_deleted_pod(context: Context) -> None:
    context.handle.pods.set_pod(None, Pod("gone", "gone", context.pods["pending"].signature))


def _remove_from_node(context: Context) -> None:
    context.state.remove("assumed")


def _wait_in_permit_without_node(context: Context) -> None:
    context.handle.waiting_pods.by_uid["pending"] = WaitingPodState(context.pods["pending"], "n1", 0.0, {})


def _wait_in_permit_while_binding(context: Context) -> None:
    context.handle.waiting_pods.by_uid["assumed"] = WaitingPodState(context.pods["assumed"], "n1", 0.0, {})


def _keep_in_flight(context: Context) -> None:
    context.queue._in_flight.start(context.assumed["assumed"].queued)


def _reset_stage(context: Context) -> None:
    context.assumed["assumed"].stage = Stage.ASSUMED


def _suspend_attempt_of_pending_pod(context: Context) -> None:
    pending = context.pods["pending"]
    context.suspended = SuspendedAttempt(QueuedPod(pending, 0.0), pending, (_ for _ in ()))


def _falsify(context: Context) -> None:
    context.state.rows[0].requested["cpu"] += 1


def _falsify_column(context: Context) -> None:
    context.state.columns.set_requested(0, "cpu", 7)


def _falsify_pods(context: Context) -> None:
    context.state.columns.pod_counts.set(0, 7)


def _swap_rows(context: Context) -> None:
    context.state.rows.reverse()


@pytest.mark.parametrize(
    ("corrupt", "message"),
    [
        (_remove_from_queue, r"Pod\(default/pending\) is lost: in no queue and on no node"),
        (_place_pending_pod, r"Pod\(default/pending\) is in stages assigned and unschedulable"),
        (_drop_pending_pod, r"Pod\(default/pending\) is in the queue and no longer exists"),
        (_drop_assumed_pod, r"Pod\(default/assumed\) is on n1 and no longer exists"),
        (_name_deleted_pod, "the pod with UID gone is known by its name and no longer exists"),
        (_remove_from_node, r"Pod\(default/assumed\) (is assumed but on no node|is lost)"),
        (_wait_in_permit_without_node, r"Pod\(default/pending\) waits in Permit but is not assumed"),
        (_wait_in_permit_while_binding, r"Pod\(default/assumed\) waits in Permit in stage BINDING"),
        (_keep_in_flight, r"Pod\(default/assumed\) is in flight in stage BINDING"),
        (_reset_stage, r"Pod\(default/assumed\) is assumed and neither waits nor is being bound"),
        (_suspend_attempt_of_pending_pod, r"Pod\(default/pending\) has a suspended attempt but is not in flight"),
        (_falsify, "n1 has .* requested, its pods request"),
        (_falsify_column, "n1 has 1000 cpu requested, its column has 7"),
        (_falsify_pods, "n1 has 1 pods, its column has 7"),
        (_swap_rows, "n2 is in row 0, its row attribute is 1"),
    ],
)
def test_inconsistent_state_is_reported(corrupt: Callable[[Context], None], message: str) -> None:
    harness = Harness()
    harness.complete_bindings = False
    harness.add(node("n1", cpu="2"), node("n2", cpu="1m"))
    harness.add(pod("assumed").requests(cpu="1"), pod("pending").requests(cpu="64"))
    harness.run()
    context = harness.machine.context
    validate(context)
    corrupt(context)
    with pytest.raises(AssertionError, match=message):
        validate(context)
