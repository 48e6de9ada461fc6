"""Check of the moves that pods make between their stages in each call into a machine."""

from __future__ import annotations

from weakref import WeakKeyDictionary

import pytest

from pyscheduler.core.commands import Command
from pyscheduler.core.events import Event
from pyscheduler.core.invariants import stages_of_pods
from pyscheduler.core.machine import Machine
from pyscheduler.core.scheduling.pod_stages import Stage, may_become

Stages = dict[str, Stage]


def check_stage_moves(patch: pytest.MonkeyPatch) -> None:
    """Make every call into a machine raise AssertionError if a pod has made a move that `MOVES` does not allow."""
    handle, cycle = Machine.handle, Machine.cycle
    last: WeakKeyDictionary[Machine, Stages] = WeakKeyDictionary()

    def handle_and_check(self: Machine, event: Event) -> list[Command]:
        commands = handle(self, event)
        last[self] = _check(last.get(self, {}), self, in_attempt=False)
        return commands

    def cycle_and_check(self: Machine, now: float) -> list[Command] | None:
        commands = cycle(self, now)
        last[self] = _check(last.get(self, {}), self, in_attempt=True)
        return commands

    patch.setattr(Machine, "handle", handle_and_check)
    patch.setattr(Machine, "cycle", cycle_and_check)


def _check(before: Stages, machine: Machine, *, in_attempt: bool) -> Stages:
    if machine.context.state.is_dry_run:  # a paused attempt has placed pods on nodes, or removed them
        return before
    after = {uid: stages[0] for uid, stages in stages_of_pods(machine.context).items() if stages}
    for uid in before.keys() | after.keys():
        left, entered = before.get(uid, Stage.NONE), after.get(uid, Stage.NONE)
        if left is not entered:
            call = "a cycle" if in_attempt else "an event"
            assert may_become(left, entered, in_attempt=in_attempt), (
                f"{machine.context.pods.get(uid, uid)} was {left.value} and is {entered.value} after {call}"
            )
    return after
