"""Stages of a pod: the table in the glossary equals the code's, and illegal moves are detected."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path

import pytest

from pyscheduler.api.pod import Pod
from pyscheduler.core import event_handlers, machine
from pyscheduler.core.commands import Command
from pyscheduler.core.context import Context
from pyscheduler.core.events import BindFailed
from pyscheduler.core.invariants import stages_of_pods
from pyscheduler.core.scheduling.pod_stages import MOVES, Stage, may_become
from pyscheduler.testing import Harness, node, pod
from tests.scenarios.stage_moves import check_stage_moves

ROOT = Path(__file__).parents[4]


def section(page: str, heading: str) -> str:
    return (ROOT / page).read_text().partition(f"\n## {heading}\n")[2].partition("\n## ")[0]


def test_table_of_stages_in_the_glossary_equals_the_moves() -> None:
    text = section("docs/glossary.md", "Stages of a pod")
    rows = re.findall(r"^\| (\w+) \| .+ \| ([\w, ]+) \|$", text, re.MULTILINE)
    documented = {name: following.split(", ") for name, following in rows if name != "stage"}
    assert documented == {
        stage.value: [following.value for following in Stage if following in moves] for stage, moves in MOVES.items()
    }


def test_usual_path_in_architecture_consists_of_legal_moves() -> None:
    (path,) = re.findall(r"^\w+(?: ─▶ \w+)+$", section("ARCHITECTURE.md", "Lifecycle of a pod"), re.MULTILINE)
    stages = [Stage(name) for name in path.split(" ─▶ ")]
    assert len(stages) > 3
    assert all(after in MOVES[before] for before, after in pairwise(stages))


@pytest.mark.parametrize(
    ("before", "after", "in_attempt"),
    [
        pytest.param(Stage.ASSIGNED, Stage.ACTIVE, True, id="assigned pod is scheduled again"),
        pytest.param(Stage.BOUND, Stage.BINDING, False, id="bound pod is bound again"),
        pytest.param(Stage.BINDING, Stage.UNSCHEDULABLE, False, id="failed binding waits for an event"),
        pytest.param(Stage.ACTIVE, Stage.WAITING, False, id="pod is assumed without an attempt"),
        pytest.param(Stage.NONE, Stage.BOUND, False, id="new pod is bound"),
    ],
)
def test_illegal_move(before: Stage, after: Stage, in_attempt: bool) -> None:
    assert not may_become(before, after, in_attempt=in_attempt)


def test_one_cycle_may_make_several_moves() -> None:
    assert may_become(Stage.BACKOFF, Stage.BINDING, in_attempt=True)


def test_stages_of_pods() -> None:
    harness = Harness()
    harness.complete_bindings = False
    harness.add(node("n1", cpu="1"), pod("here").on("n1"), pod("other").scheduler("another"))
    harness.add(pod("binds").requests(cpu="1").priority(1), pod("unschedulable").requests(cpu="1"))
    harness.add(pod("gated").gate("a"))
    harness.run()
    harness.add(pod("active"))
    assert stages_of_pods(harness.machine.context) == {
        "here": [Stage.ASSIGNED],
        "other": [],
        "binds": [Stage.BINDING],
        "unschedulable": [Stage.UNSCHEDULABLE],
        "gated": [Stage.GATED],
        "active": [Stage.ACTIVE],
    }


# -- planted bugs --------------------------------------------------------------------------------------------------


def test_check_catches_failed_binding_that_does_not_requeue_the_pod(monkeypatch: pytest.MonkeyPatch) -> None:
    def wait(context: Context, event: BindFailed) -> list[Command]:
        context.assumed[event.uid].stage = Stage.WAITING
        return []

    check_stage_moves(monkeypatch)
    monkeypatch.setattr(machine, "handle_bind_failed", wait)
    harness = Harness()
    harness.complete_bindings = False
    harness.add(node("n1"), pod("a"))
    harness.run()
    with pytest.raises(AssertionError, match="was binding and is waiting after an event"):
        harness.handle_event(BindFailed(harness.now, "a", "refused"))


def test_check_catches_assigned_pod_that_returns_to_the_queue(monkeypatch: pytest.MonkeyPatch) -> None:
    def enqueue(context: Context, _: Pod | None, pod: Pod, now: float) -> None:
        context.state.remove(pod.uid)
        context.queue.add(pod, now)

    check_stage_moves(monkeypatch)
    harness = Harness()
    harness.add(node("n1"), pod("a").on("n1"))
    monkeypatch.setattr(event_handlers, "_handle_assigned_pod", enqueue)
    with pytest.raises(AssertionError, match="was assigned and is active after an event"):
        harness.add(pod("a").on("n1").label("changed", "yes"))
