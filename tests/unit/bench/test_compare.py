"""The compare command: contenders, order, sizes and failures."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from io import StringIO
from pathlib import Path

import pytest
from aiohttp import ClientConnectionError
from rich.console import Console

from bench import compare
from bench.compare import Plan, at_latencies, chosen, with_params
from bench.contenders import CONTENDERS
from bench.program import Program
from bench.report import Outcome
from bench.suite import Case, SuiteError, load, select
from pyscheduler.cli.progress_bar import ProgressBar
from tests.controlplane.process import ProcessFailed
from tests.e2e.plane import Plane
from tests.unit.bench.cases import case, program
from tests.unit.bench.contender_runs import turn

SUITE = load()


def test_every_other_round_is_in_reverse_order() -> None:
    plan = Plan(chosen("pyscheduler,kube-scheduler"), [], 2, 1.0)

    assert [(number, contender.name) for number, contender in plan.turns(case("[]"))] == [
        (1, "pyscheduler"),
        (1, "kube-scheduler"),
        (2, "kube-scheduler"),
        (2, "pyscheduler"),
    ]


def test_bare_clients_run_only_workloads_without_decisions() -> None:
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
        ClientConnectionError("Connection refused"),  # its API server ended, and objects cannot be deleted
    ],
)
async def test_failing_control_plane_fails_one_workload_only(
    monkeypatch: pytest.MonkeyPatch, problem: Exception
) -> None:
    def no_plane() -> AbstractAsyncContextManager[Plane]:
        raise problem

    monkeypatch.setattr(compare, "real_plane", no_plane)
    operations = "[{opcode: createPods, count: 1, collectMetrics: true}]"
    first, second = case(operations), case(operations)
    plan = Plan(chosen("pyscheduler,kube-scheduler"), [first, second], 1, 1.0)

    progress = ProgressBar("bench")
    [outcome] = [each async for each in compare._measure_workload(plan, [second], program(operations), progress)]
    assert [(each.contender, each.reason) for each in outcome.failures] == [
        ("pyscheduler", str(problem)),
        ("kube-scheduler", str(problem)),
    ]
    with pytest.raises(type(problem)):  # a failure of the first workload ends the run
        await anext(compare._measure_workload(plan, [first], program(operations), progress))


async def test_latencies_of_a_workload_share_a_control_plane(monkeypatch: pytest.MonkeyPatch) -> None:
    planes = list[object]()

    @asynccontextmanager
    async def a_plane() -> AsyncIterator[object]:
        planes.append(object())
        yield planes[-1]

    async def measured(_plan: Plan, case: Case, _program: Program, *_: object) -> Outcome:
        return Outcome(case)

    monkeypatch.setattr(compare, "real_plane", a_plane)
    monkeypatch.setattr(compare, "measure", measured)
    workloads = select(SUITE, ["LatencyPlain", "LatencySpreading"])
    plan = Plan(chosen("pyscheduler"), at_latencies(workloads, [5, 50]), 1, 1.0)

    outcomes = await compare._run(plan, compare.Output(), Console(file=StringIO()), ProgressBar("bench"))

    assert [outcome.case.latency for outcome in outcomes] == [5, 50, 5, 50]
    assert len(planes) == 2


def test_pods_per_second_are_written_as_a_plot(tmp_path: Path) -> None:
    plan = Plan(chosen("pyscheduler,kube-scheduler"), [case("[]")], 1, 1.0)
    output = compare.Output(svg=tmp_path / "plot.svg", html=tmp_path / "plot.html")

    output.write(plan, [Outcome(plan.cases[0], [turn("pyscheduler"), turn("kube-scheduler", bound_in=4.0)])])

    svg = (tmp_path / "plot.svg").read_text()
    assert "pods/s, pyscheduler / kube-scheduler" in svg
    assert svg in (tmp_path / "plot.html").read_text()


def test_contenders_have_different_scheduler_names() -> None:
    assert len({c.scheduler_name for c in CONTENDERS.values()}) == len(CONTENDERS)


def test_unknown_contender_is_reported_with_the_known_ones() -> None:
    with pytest.raises(SuiteError, match="there is no contender 'volcano'; there are pyscheduler, kube-scheduler"):
        chosen("pyscheduler,volcano")


def test_another_checkout_is_a_contender_with_a_scheduler_name_of_its_own() -> None:
    root = Path(__file__).parents[3]
    ours, base = chosen(f"pyscheduler,pyscheduler@{root}")
    assert base.name == f"pyscheduler@{root.name}"
    assert base.scheduler_name == f"bench-pyscheduler-{root.name.lower()}" != ours.scheduler_name


def test_folder_without_a_checkout_is_reported(tmp_path: Path) -> None:
    with pytest.raises(SuiteError, match="is not a checkout of pyscheduler"):
        chosen(f"pyscheduler@{tmp_path}")


def test_workload_with_another_size_keeps_other_parameters() -> None:
    [basic] = with_params(select(SUITE, ["SchedulingBasic/5000Nodes"]), {"measurePods": 7})

    assert basic.workload.params == {"initNodes": 5000, "initPods": 1000, "measurePods": 7}
    assert basic.targets["pods_per_second"] == 4


def test_parameter_that_no_workload_has_is_an_error() -> None:
    with pytest.raises(SuiteError, match="no selected workload has a parameter pods"):
        with_params(select(SUITE, ["SchedulingBasic"]), {"pods": 7})
