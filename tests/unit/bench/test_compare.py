"""The command: who takes part in what, in which order and size, and what comes of a failure."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from io import StringIO

import pytest
from aiohttp import ClientConnectionError
from rich.console import Console

from bench import compare
from bench.compare import Plan, at_latencies, chosen, with_params
from bench.contenders import CONTENDERS
from bench.program import Program
from bench.report import Outcome
from bench.suite import Case, SuiteError, load, select
from tests.controlplane.process import ProcessFailed
from tests.e2e.plane import Plane
from tests.unit.bench.cases import case, program

SUITE = load()


def test_every_other_round_runs_the_other_way_around() -> None:
    plan = Plan(chosen("pyscheduler,kube-scheduler"), [], 2, 1.0)

    assert [(number, contender.name) for number, contender in plan.turns(case("[]"))] == [
        (1, "pyscheduler"),
        (1, "kube-scheduler"),
        (2, "kube-scheduler"),
        (2, "pyscheduler"),
    ]


def test_who_decides_nothing_takes_part_where_nothing_is_to_be_decided() -> None:
    plan = Plan(chosen("pyscheduler,bare-client"), [], 1, 1.0)
    *plain, spreading = select(
        SUITE,
        [
            "SchedulingBasic/500Nodes",
            "SchedulingDaemonsetOnEachNode/500Nodes",
            "EventHandlingPodUpdate/500Nodes",
            "TopologySpreading/500Nodes",
        ],
    )

    for nothing_to_decide in plain:
        assert [contender.name for _, contender in plan.turns(nothing_to_decide)] == ["pyscheduler", "bare-client"]
    assert [contender.name for _, contender in plan.turns(spreading)] == ["pyscheduler"]


@pytest.mark.parametrize(
    "problem",
    [
        ProcessFailed("etcd ended with 1"),  # it does not start
        ClientConnectionError("Connection refused"),  # its API server ended, and what was made cannot be taken away
    ],
)
async def test_a_control_plane_that_fails_costs_one_workload_and_not_what_was_measured_before(
    monkeypatch: pytest.MonkeyPatch, problem: Exception
) -> None:
    def no_plane() -> AbstractAsyncContextManager[Plane]:
        raise problem

    monkeypatch.setattr(compare, "real_plane", no_plane)
    operations = "[{opcode: createPods, count: 1, collectMetrics: true}]"
    first, second = case(operations), case(operations)
    plan = Plan(chosen("pyscheduler,kube-scheduler"), [first, second], 1, 1.0)

    [outcome] = [outcome async for outcome in compare._by_itself(plan, [second], program(operations))]
    assert [(each.contender, each.reason) for each in outcome.failures] == [
        ("pyscheduler", str(problem)),
        ("kube-scheduler", str(problem)),
    ]
    with pytest.raises(type(problem)):  # the first tells that nothing works here
        await anext(compare._by_itself(plan, [first], program(operations)))


async def test_latencies_of_a_workload_share_a_control_plane(monkeypatch: pytest.MonkeyPatch) -> None:
    planes = list[object]()

    @asynccontextmanager
    async def a_plane() -> AsyncIterator[object]:
        planes.append(object())
        yield planes[-1]

    async def measured(_plan: Plan, case: Case, _program: Program, _plane: Plane) -> Outcome:
        return Outcome(case)

    monkeypatch.setattr(compare, "real_plane", a_plane)
    monkeypatch.setattr(compare, "measure", measured)
    workloads = select(SUITE, ["LatencyPlain", "LatencySpreading"])
    plan = Plan(chosen("pyscheduler"), at_latencies(workloads, [5, 50]), 1, 1.0)

    outcomes = await compare._run(plan, compare.Output(), Console(file=StringIO()))

    assert [outcome.case.latency for outcome in outcomes] == [5, 50, 5, 50]
    assert len(planes) == 2


def test_all_pods_of_a_contender_are_its_own() -> None:
    assert len({c.scheduler_name for c in CONTENDERS.values()}) == len(CONTENDERS)


def test_an_unknown_contender_is_named_beside_those_there_are() -> None:
    with pytest.raises(SuiteError, match="there is no contender 'volcano'; there are pyscheduler, kube-scheduler"):
        chosen("pyscheduler,volcano")


def test_a_workload_in_another_size_keeps_the_rest() -> None:
    [basic] = with_params(select(SUITE, ["SchedulingBasic/5000Nodes"]), {"measurePods": 7})

    assert basic.workload.params == {"initNodes": 5000, "initPods": 1000, "measurePods": 7}
    assert basic.targets["pods_per_second"] == 4


def test_a_size_that_nothing_takes_is_an_error() -> None:
    with pytest.raises(SuiteError, match="no workload that was picked has a parameter pods"):
        with_params(select(SUITE, ["SchedulingBasic"]), {"pods": 7})
