"""The check that runs after every story finds what it is there to find."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pyscheduler.api.queued import QueuedPod
from pyscheduler.core.context import Context, SuspendedAttempt
from pyscheduler.core.framework.handle import WaitingPodState
from pyscheduler.core.invariants import validate
from pyscheduler.testing import Harness, node, pod


def _lose(context: Context) -> None:
    context.queue.delete("waits")


def _place_and_keep(context: Context) -> None:
    context.state.place(context.pods["waits"], "n1")


def _forget_who_waits(context: Context) -> None:
    del context.pods["waits"]


def _forget_who_is_held(context: Context) -> None:
    del context.pods["held"]


def _forget_place(context: Context) -> None:
    context.state.remove("held")


def _park_nobody(context: Context) -> None:
    context.handle.waiting["waits"] = WaitingPodState(context.pods["waits"], "n1", 0.0, {})


def _park_who_is_bound(context: Context) -> None:
    context.handle.waiting["held"] = WaitingPodState(context.pods["held"], "n1", 0.0, {})


def _consult_about_who_waits(context: Context) -> None:
    waits = context.pods["waits"]
    context.suspended = SuspendedAttempt(QueuedPod(waits, 0.0), waits, (_ for _ in ()))


def _miscount(context: Context) -> None:
    context.state.rows[0].requested["cpu"] += 1


def _miscount_column(context: Context) -> None:
    context.state.columns.set_requested(0, "cpu", 7)


def _miscount_pods(context: Context) -> None:
    context.state.columns.pod_counts.set(0, 7)


def _swap_rows(context: Context) -> None:
    context.state.rows.reverse()


@pytest.mark.parametrize(
    ("damage", "complaint"),
    [
        (_lose, r"Pod\(default/waits\) is lost: in no queue and on no node"),
        (_place_and_keep, r"Pod\(default/waits\) is in queue and a node"),
        (_forget_who_waits, r"Pod\(default/waits\) is in the queue and no longer exists"),
        (_forget_who_is_held, r"Pod\(default/held\) is on n1 and no longer exists"),
        (_forget_place, r"Pod\(default/held\) (is assumed but on no node|is lost)"),
        (_park_nobody, r"Pod\(default/waits\) waits in Permit but is not assumed"),
        (_park_who_is_bound, r"Pod\(default/held\) waits in Permit in stage BINDING"),
        (_consult_about_who_waits, r"Pod\(default/waits\) has a suspended attempt but is not in flight"),
        (_miscount, "n1 has .* requested, its pods request"),
        (_miscount_column, "n1 has 1000 cpu requested, its column has 7"),
        (_miscount_pods, "n1 has 1 pods, its column has 7"),
        (_swap_rows, "n2 is in row 0, its row attribute is 1"),
    ],
)
def test_a_contradiction_is_named(damage: Callable[[Context], None], complaint: str) -> None:
    world = Harness()
    world.complete_bindings = False
    world.add(node("n1", cpu="2"), node("n2", cpu="1m"))
    world.add(pod("held").requests(cpu="1"), pod("waits").requests(cpu="64"))
    world.run()
    context = world.machine.context
    validate(context)
    damage(context)
    with pytest.raises(AssertionError, match=complaint):
        validate(context)
