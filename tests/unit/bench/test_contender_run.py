"""A whole turn of this scheduler against the embedded API server: figures and cleanup."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Self

import pytest

from bench import bulk, compare
from bench.balance import Balance
from bench.cluster_setup import ClusterSetup
from bench.compare import Plan, outcome_of
from bench.contender_run import BenchEnvironment, ContenderRun, run_contender
from bench.contenders import CONTENDERS, OURS, Contender, Running, Site
from bench.program import Program, compiled
from bench.suite import SuiteError
from bench.watch import BindWatch, Unfinished
from pyscheduler.cli.progress_bar import ProgressBar
from tests.controlplane.cluster import ControlPlane
from tests.controlplane.process import ProcessFailed
from tests.e2e.plane import Plane
from tests.unit.bench.cases import case, program
from tests.unit.bench.contender_runs import turn
from tests.unit.cli.terminal import CLEAR, Terminal
from tests.unit.kube.virtual import SteppedClock

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")

MEASURED = "{opcode: createPods, count: 1, collectMetrics: true}"
# Eight pods of half a CPU fill the only node. The measured pods fit once they are deleted; one of them is gated until
# the others are bound, so that the scheduler is certainly active between the first binding and the last.
OPERATIONS = """
- {opcode: createNodes, count: 1}
- {opcode: createPods, count: 8, namespace: before}
- {opcode: createPods, count: 3, namespace: measured, collectMetrics: true}
- opcode: createPods
  count: 1
  namespace: held
  podTemplate:
    kind: Pod
    metadata: {name: "held-{{.Index}}"}
    spec: {schedulingGates: [{name: a.b/c}], containers: [{name: a, image: b}]}
  collectMetrics: true
- {opcode: churn, mode: create, number: 1, namespace: churned, templates: [{kind: Service, spec: {ports: [{port: 1}]}}]}
- {opcode: barrier, stageRequirement: Attempted}
- {opcode: deletePods, namespace: before, skipWaitToCompletion: true}
- {opcode: barrier, namespaces: [measured]}
- opcode: updateAny
  namespace: held
  template: {kind: Pod, metadata: {name: "held-{{.Index}}"}, spec: {schedulingGates: null}}
"""


async def objects_of(plane: Plane, program: Program) -> dict[str, list[str]]:
    """Return the names of all pods, and of all services except the API server's own."""
    found = {}
    for namespace in program.namespaces:
        for kind in ("pods", "services"):
            objects = await plane.api.list(f"/api/v1/namespaces/{namespace}/{kind}")
            found[f"{namespace}/{kind}"] = sorted(each["metadata"]["name"] for each in objects)
    return found


@asynccontextmanager
async def prepared(plane: Plane, program: Program) -> AsyncIterator[ClusterSetup]:
    """Yield a cluster in the initial state of the program."""
    async with bulk.connect(plane.api) as calls:
        setup = ClusterSetup(calls, calls)
        await setup.prepare(program)
        yield setup


async def test_turn_measures_its_pods_and_restores_the_cluster(plane: Plane, tmp_path: Path) -> None:
    small_program = program(OPERATIONS)
    async with prepared(plane, small_program) as setup:
        before = await objects_of(plane, small_program)

        turn = await run_contender(BenchEnvironment(plane, setup, small_program, 30.0), CONTENDERS[OURS], 1, tmp_path)

        assert await objects_of(plane, small_program) == before
    assert len(before["before/pods"]) == 8
    assert before["measured/pods"] == before["churned/services"] == []
    assert (turn.contender, turn.pods) == (OURS, 4)
    assert turn.balance == Balance(nodes_used=1, most_on_a_node=4, deviation=0.0, cpu_deviation=0.0)
    assert 0 < turn.first_bind <= turn.last_bind
    assert turn.attempt_p99 is not None
    assert turn.burst is not None
    assert 0 < turn.burst.own < turn.cpu
    assert turn.burst.bench > 0
    assert turn.events >= 4


@asynccontextmanager
async def dead_at_once(site: Site, scheduler_name: str, folder: Path) -> AsyncIterator[Running]:
    """A contender with a process that has ended."""
    log = folder / "log"
    log.write_text("out of memory")
    yield Running(0, lambda: False, log)


async def test_contender_that_ends_fails_and_leaves_nothing(plane: Plane, tmp_path: Path) -> None:
    small_program = program(OPERATIONS)
    async with prepared(plane, small_program) as setup:
        before = await objects_of(plane, small_program)

        with pytest.raises(
            Unfinished, match=r"0 of 4 pods were bound when its process ended; its log ends:\nout of memory"
        ):
            await run_contender(
                BenchEnvironment(plane, setup, small_program, 30.0), Contender("dead", dead_at_once), 1, tmp_path
            )

        assert await objects_of(plane, small_program) == before


class RestartRecorder(ControlPlane):
    """A control plane that only records restarts."""

    def __init__(self, steps: list[str]) -> None:
        super().__init__()
        self._steps = steps

    async def restart(self, name: str) -> None:
        self._steps.append(f"{name} restarted")


async def test_every_contender_gets_a_restarted_api_server(
    plane: Plane, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[str] = []

    class Watch(BindWatch):
        async def __aenter__(self) -> Self:
            opened = await super().__aenter__()
            steps.append("watch opened")
            return opened

    async def collected(_: bulk.BulkClient) -> None:
        steps.append("garbage collected")

    @asynccontextmanager
    async def starts(site: Site, scheduler_name: str, folder: Path) -> AsyncIterator[Running]:
        pods = await site.plane.api.list("/api/v1/namespaces/measured/pods")
        steps.append(f"contender started with {len(pods)} pods")
        async with dead_at_once(site, scheduler_name, folder) as running:
            yield running

    monkeypatch.setattr("bench.contender_run.BindWatch", Watch)
    monkeypatch.setattr(bulk.BulkClient, "collect_garbage", collected)
    small_program = program(OPERATIONS)
    real = replace(plane, real=RestartRecorder(steps))
    async with prepared(plane, small_program) as setup:
        with pytest.raises(Unfinished):
            await run_contender(
                BenchEnvironment(real, setup, small_program, 30.0), Contender("dead", starts), 1, tmp_path
            )

    assert steps == [
        "kube-apiserver restarted",
        "watch opened",
        "garbage collected",
        "contender started with 3 pods",
    ]


class FailingRestart(ControlPlane):
    """A control plane with an API server that does not restart."""

    async def restart(self, name: str) -> None:
        raise ProcessFailed(f"{name} was not ready in time")


async def test_failed_api_server_restart_creates_nothing(plane: Plane, tmp_path: Path) -> None:
    small_program = program(OPERATIONS)
    async with prepared(plane, small_program) as setup:
        before = await objects_of(plane, small_program)
        env = BenchEnvironment(replace(plane, real=FailingRestart()), setup, small_program, 30.0)

        with pytest.raises(ProcessFailed, match="kube-apiserver was not ready in time"):
            await run_contender(env, Contender("dead", dead_at_once), 1, tmp_path)

        assert await objects_of(plane, small_program) == before


async def test_workload_that_the_api_server_rejects_fails_all_contenders(plane: Plane) -> None:
    node = "{kind: Node, metadata: {name: 'not a name'}, status: {capacity: {cpu: '4'}}}"
    rejected = case(f"[{{opcode: createNodes, count: 1, nodeTemplate: {node}}}, {MEASURED}]")
    plan = Plan([Contender("dead", dead_at_once)], [rejected], 2, 1.0)
    async with bulk.connect(plane.api) as calls:
        env = BenchEnvironment(plane, ClusterSetup(calls, calls), compiled(rejected), 1.0)
        outcome = await outcome_of(plan, rejected, env, ProgressBar("bench"))

    assert not outcome.turns
    [failure] = outcome.failures
    assert (failure.contender, failure.round) == ("dead", 0)
    assert "not a name" in failure.reason


async def test_failed_contender_gets_no_further_turn(plane: Plane) -> None:
    started: list[str] = []

    @asynccontextmanager
    async def starts(site: Site, scheduler_name: str, folder: Path) -> AsyncIterator[Running]:
        started.append(scheduler_name)
        async with dead_at_once(site, scheduler_name, folder) as running:
            yield running

    workload = case(f"[{{opcode: createNodes, count: 1}}, {MEASURED}]")
    plan = Plan([Contender("late", starts), Contender("dead", starts)], [workload], 2, 1.0)
    async with bulk.connect(plane.api) as calls:
        env = BenchEnvironment(plane, ClusterSetup(calls, calls), compiled(workload), 1.0)
        outcome = await outcome_of(plan, workload, env, ProgressBar("bench"))

    assert started == ["bench-late", "bench-dead"]
    assert [(failure.contender, failure.round) for failure in outcome.failures] == [("late", 1), ("dead", 1)]


async def test_bar_shows_the_running_turn_and_is_gone_before_its_result(
    plane: Plane, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, terminal = SteppedClock(), Terminal()
    shown: list[str] = []

    async def ran(_env: object, contender: Contender, number: int, _folder: Path) -> ContenderRun:
        await clock.advance(10.0)
        shown.append(terminal.getvalue().rpartition(CLEAR)[2])
        if contender.name == "dead":
            raise Unfinished("0 of 1 pods were bound")
        return turn(contender.name, number)

    monkeypatch.setattr(compare, "run_contender", ran)
    monkeypatch.setattr(sys, "stderr", terminal)
    first, second = (case(f"[{{opcode: createNodes, count: 1}}, {MEASURED}]") for _ in range(2))
    plan = Plan([Contender("alive", dead_at_once), Contender("dead", dead_at_once)], [first, second], 2, 1.0)
    async with bulk.connect(plane.api) as calls:
        env = BenchEnvironment(plane, ClusterSetup(calls, calls), compiled(second), 1.0)
        await outcome_of(plan, second, env, ProgressBar("bench", stream=terminal, clock=clock))

    assert shown == [  # the failed contender has no second turn
        "[############------------] bench: Case/small: round 1, alive, 4 of 8, 10 s",
        "[###############---------] bench: Case/small: round 1, dead, 5 of 8, 20 s",
        "[#####################---] bench: Case/small: round 2, alive, 7 of 8, 30 s",
    ]
    visible = [line.rpartition(CLEAR)[2] for line in terminal.getvalue().split("\n")]
    assert [line.partition(" bound")[0] for line in visible[1:-1]] == [
        "Case/small: round 1: alive",
        "Case/small: round 1: dead failed: 0 of 1 pods were",
        "Case/small: round 2: alive",
    ]


async def test_contenders_warm_up_before_the_first_workload_only(plane: Plane, monkeypatch: pytest.MonkeyPatch) -> None:
    warmed: list[str] = []

    async def warm_up(plan: Plan, *_: object) -> None:
        warmed.extend(plan.names)

    monkeypatch.setattr(compare, "_warm_up", warm_up)
    first, second = (case(f"[{{opcode: createNodes, count: 1}}, {MEASURED}]") for _ in range(2))
    plan = Plan([Contender("dead", dead_at_once)], [first, second], 1, 1.0)
    for each in plan.cases:
        await compare.measure(plan, each, compiled(each), plane, ProgressBar("bench"))

    assert warmed == ["dead"]


async def test_failed_warm_up_ends_the_run(plane: Plane) -> None:
    workload = case(f"[{{opcode: createNodes, count: 1}}, {MEASURED}]")
    plan = Plan([Contender("dead", dead_at_once)], [workload], 1, 1.0)

    with pytest.raises(SuiteError, match=r"dead does not work here: 0 of 200 pods were bound when its process ended"):
        await compare.measure(plan, workload, compiled(workload), plane, ProgressBar("bench"))


async def nodes_of(plane: Plane) -> dict[str, str]:
    """Return the uid of each node."""
    return {node["metadata"]["name"]: node["metadata"]["uid"] for node in await plane.api.list("/api/v1/nodes")}


async def test_objects_of_an_earlier_workload_are_deleted(plane: Plane) -> None:
    nodes, pods = "{opcode: createNodes, count: 2}", "{opcode: createPods, count: 2, namespace: first}"
    async with bulk.connect(plane.api) as calls:
        setup = ClusterSetup(calls, calls)
        await setup.prepare(program(f"[{nodes}, {pods}, {MEASURED}]"))
        first = await nodes_of(plane)
        assert len(await calls.names("/api/v1/namespaces/first/pods")) == 2

        await setup.prepare(program(f"[{nodes}, {MEASURED}]"))
        second = await nodes_of(plane)
        assert len(first) == len(second) == 2
        assert not first.items() & second.items()
        assert await calls.names("/api/v1/namespaces/first/pods") == []
