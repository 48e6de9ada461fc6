"""Comparison of this scheduler with the real kube-scheduler, turn by turn on one control plane per workload.

Each workload has its own control plane, and each turn a newly started API server. The cost of a call depends on the
number of objects that API server and etcd have served before, so turns would otherwise influence each other.
See bench/README.md.
"""

from __future__ import annotations

import os
import platform
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, replace
from itertools import groupby, takewhile
from pathlib import Path
from typing import Any

import aiohttp
import uvloop
from rich.console import Console

from bench import bulk, report
from bench.cluster_setup import ClusterSetup
from bench.contender_run import BenchEnvironment, ContenderRun, run_contender
from bench.contenders import CONTENDERS, OURS, Contender, contender_of
from bench.etcd import Etcd, EtcdFailed
from bench.figures import per_second
from bench.opcodes import CreateNodes, CreatePods, TestCase, Workload
from bench.program import Program, compiled
from bench.report import Failure, Outcome
from bench.speed_plot import speed_plot
from bench.suite import WORKLOADS, Case, SuiteError
from bench.watch import Unfinished
from pyscheduler.cli.progress_bar import ProgressBar
from tests.controlplane.arguments import Options
from tests.controlplane.build import BuildError, kubernetes_version
from tests.controlplane.cluster import ControlPlane
from tests.controlplane.process import ProcessFailed
from tests.e2e.client import ApiError
from tests.e2e.plane import REAL, Plane
from tests.e2e.scheduler import install

_OPTIONS = Options(  # no controllers that would change nodes or pods during a turn
    controllers="serviceaccount-controller",
    taint_new_nodes=False,
    max_requests_inflight=3000,
    max_mutating_requests_inflight=1500,
    extra={
        "kube-apiserver": (
            "--delete-collection-workers=8",
            # Its finalizers would wait for controllers that do not run.
            "--disable-admission-plugins=StorageObjectInUseProtection",
        )
    },
)
_FAILURES = (Unfinished, ProcessFailed, AssertionError, ApiError, TimeoutError)
"""Failures of a contender or a workload, after which the next turn continues."""

_WARM_UP_SECONDS = 60.0
_WARM_UP = Case(
    TestCase(
        name="warm-up",
        workload_template=[
            CreateNodes(count=20),
            CreatePods(count=200, pod_template_path="../templates/pod-default.yaml", collect_metrics=True),
        ],
        workloads=[],
    ),
    Workload(name="once"),
    WORKLOADS,
    "warm-up",
)


@dataclass(frozen=True)
class Plan:
    """Contenders, workloads and number of rounds; `seconds` is the time limit of one turn."""

    contenders: Sequence[Contender]
    cases: Sequence[Case]
    rounds: int
    seconds: float

    @property
    def names(self) -> list[str]:
        """Names of the contenders; the others are compared with the first."""
        return [contender.name for contender in self.contenders]

    @property
    def title(self) -> str:
        """Title of the tables."""
        several = "workloads" if len(self.cases) > 1 else "workload"
        return f"{len(self.cases)} {several}, {self.rounds} rounds, Kubernetes {kubernetes_version()}"

    @property
    def turn_count(self) -> int:
        """Number of turns of all workloads."""
        return sum(len(list(self.turns(case))) for case in self.cases)

    def turns_before(self, case: Case) -> int:
        """Return the number of turns of the workloads before this one."""
        return sum(len(list(self.turns(each))) for each in takewhile(lambda each: each is not case, self.cases))

    def turns(self, case: Case) -> Iterator[tuple[int, Contender]]:
        """Yield round and contender of each turn; every other round runs in reverse order."""
        taking_part = [each for each in self.contenders if each.decides or case.test.nothing_to_decide]
        for number in range(1, self.rounds + 1):
            for contender in taking_part if number % 2 else taking_part[::-1]:
                yield number, contender


@asynccontextmanager
async def real_plane() -> AsyncIterator[Plane]:
    """Yield a control plane for a benchmark, with this scheduler's prerequisites installed. It shows its own bar."""
    async with ControlPlane(_OPTIONS) as plane:
        await install(plane.api)
        yield Plane(REAL, plane.kubeconfig, plane.api, plane)


async def measure(plan: Plan, case: Case, program: Program, plane: Plane, progress: ProgressBar) -> Outcome:
    """Run all rounds of one workload on a new control plane; `program` is the case's.

    All contenders are warmed up before the first workload. SuiteError if that fails.
    """
    async with bulk.connect(plane.api) as calls, aiohttp.ClientSession() as session:
        setup = ClusterSetup(calls, calls if plane.real is None else Etcd(plane.real.etcd, session))
        if case is plan.cases[0]:
            await _warm_up(plan, plane, setup, progress)
        env = BenchEnvironment(plane, setup, program, plan.seconds, case.latency)
        return await outcome_of(plan, case, env, progress)


async def _measure_workload(
    plan: Plan, cases: Sequence[Case], program: Program, progress: ProgressBar
) -> AsyncIterator[Outcome]:
    """Measure a workload at each of its latencies, which share a control plane.

    A failing control plane fails the workload and not the whole run, unless it is the first.
    """
    left = list(cases)
    try:
        async with real_plane() as plane:
            while left:
                outcome = await measure(plan, left[0], program, plane, progress)
                left.pop(0)
                yield outcome
    except (*_FAILURES, EtcdFailed, aiohttp.ClientError) as problem:
        if any(case is plan.cases[0] for case in left):
            raise
        for case in left:
            _print(f"{case.name}: the control plane failed: {problem}")
            yield Outcome(case, failures=_failures_of_all(plan, problem))


def _failures_of_all(plan: Plan, problem: Exception) -> list[Failure]:
    """Return a failure of each contender, for problems that no contender has caused."""
    return [Failure(name, 0, str(problem)) for name in plan.names]


async def _warm_up(plan: Plan, plane: Plane, setup: ClusterSetup, progress: ProgressBar) -> None:
    """Run each contender once without measuring: it compiles byte code and caches files. SuiteError if one fails."""
    warm_up = compiled(_WARM_UP)
    await setup.prepare(warm_up)
    env = BenchEnvironment(plane, setup, warm_up, _WARM_UP_SECONDS)
    for contender in plan.contenders:
        step = progress.step(f"warm-up, {contender.name}", 0, plan.turn_count)
        taken = await _turn(env, contender, "warm-up", 0, step)
        if isinstance(taken, Failure):
            raise SuiteError(f"{contender.name} does not work here: {taken.reason}")


async def outcome_of(plan: Plan, case: Case, env: BenchEnvironment, progress: ProgressBar) -> Outcome:
    """Run all rounds of one workload."""
    outcome, before, total = Outcome(case), plan.turns_before(case), plan.turn_count
    _print(f"{case.name}: {_size(env.program)}")
    try:
        async with progress.step(f"{case.name}: creating the cluster", before, total):
            await env.setup.prepare(env.program)
    except ApiError as problem:
        _print(f"{case.name}: the API server rejected the workload: {problem}")
        outcome.failures.extend(_failures_of_all(plan, problem))
    for done, (number, contender) in enumerate(plan.turns(case), before):
        if outcome.failed(contender.name):
            continue
        label = f"{case.name}: round {number}"
        step = progress.step(f"{label}, {contender.name}", done, total)
        taken = await _turn(env, contender, label, number, step)
        if isinstance(taken, Failure):
            outcome.failures.append(taken)
        else:
            outcome.turns.append(taken)
    return outcome


async def _turn(
    env: BenchEnvironment, contender: Contender, label: str, number: int, step: AbstractAsyncContextManager[None]
) -> ContenderRun | Failure:
    with tempfile.TemporaryDirectory(prefix="pyscheduler-bench-") as folder:
        try:
            async with step:
                turn = await run_contender(env, contender, number, Path(folder))
        except _FAILURES as problem:
            _print(f"{label}: {contender.name} failed: {problem}")
            return Failure(contender.name, number, str(problem))
    _print(
        f"{label}: {contender.name} bound {turn.pods} pods at {per_second(turn) or 0:.0f}/s with"
        f" {turn.cpu / turn.pods * 1000:.3f} ms of CPU each; others used {turn.others:.2f} cores"
    )
    return turn


def _size(program: Program) -> str:
    objects = sum(batch.count for batch in program.shared)
    return f"{len(program.node_names)} nodes, {objects} other objects, {len(program.measured)} measured pods"


@dataclass(frozen=True)
class Output:
    """Files to write in addition to the tables on the terminal."""

    json: Path | None = None
    markdown: Path | None = None
    svg: Path | None = None
    html: Path | None = None

    def write(self, plan: Plan, outcomes: Sequence[Outcome]) -> None:
        """Write the files; called after each workload, so that an interrupted run keeps its results."""
        if self.json:
            self.json.write_bytes(report.document(about(plan), outcomes, plan.names))
        if self.markdown:
            self.markdown.write_text(report.markdown(plan.title, outcomes, plan.names))
        if self.svg or self.html:
            speed_plot(plan.title, outcomes, plan.names).write(self.svg, self.html)


def about(plan: Plan) -> dict[str, Any]:
    """Return the versions and the hardware of the run."""
    return {
        "rounds": plan.rounds,
        "kubernetes": kubernetes_version(),
        "python": platform.python_version(),
        "cores": os.cpu_count(),
    }


def chosen(names: str) -> list[Contender]:
    """Return the contenders with these comma-separated names. SuiteError for an unknown name.

    `pyscheduler@FOLDER` is another checkout of this scheduler.
    """
    return [_contender(name.strip()) for name in names.split(",")]


def _contender(name: str) -> Contender:
    try:
        if name.startswith(f"{OURS}@"):
            return contender_of(Path(name.removeprefix(f"{OURS}@")))
        return CONTENDERS[name]
    except KeyError as unknown:
        raise SuiteError(f"there is no contender {unknown}; there are {', '.join(CONTENDERS)}") from None
    except ValueError as problem:
        raise SuiteError(str(problem)) from None


def with_params(cases: Sequence[Case], params: Mapping[str, int]) -> list[Case]:
    """Return the cases with other sizes, where they have these parameters. SuiteError for a parameter that none has."""
    for name in params:
        if not any(name in case.workload.params for case in cases):
            raise SuiteError(f"no selected workload has a parameter {name}")

    def changed(case: Case) -> Case:
        own = {name: params.get(name, value) for name, value in case.workload.params.items()}
        return replace(case, workload=Workload(**{**_fields(case.workload), "params": own}))

    return [changed(case) for case in cases]


def at_latencies(cases: Sequence[Case], milliseconds: Sequence[int]) -> list[Case]:
    """Return each case once for each latency."""
    return [replace(case, latency=latency) for case in cases for latency in milliseconds]


def _fields(workload: Workload) -> dict[str, Any]:
    return {name: getattr(workload, name) for name in workload.__struct_fields__}


async def _run(plan: Plan, output: Output, console: Console, progress: ProgressBar) -> list[Outcome]:
    outcomes: list[Outcome] = []
    workloads = [list(cases) for _, cases in groupby(plan.cases, key=lambda case: replace(case, latency=0))]
    programs = [compiled(cases[0]) for cases in workloads]  # report mistakes before anything is started
    for number, (cases, program) in enumerate(zip(workloads, programs, strict=True), 1):
        _print(f"{cases[0].name}: starting the control plane ({number} of {len(programs)} workloads)")
        async for outcome in _measure_workload(plan, cases, program, progress):
            outcomes.append(outcome)
            output.write(plan, outcomes)
            finished = report.finished_contenders(outcome, plan.names)
            if finished:
                console.print(report.table(outcome.case.name, report.figures(outcome.turns, finished)))
    return outcomes


def run(plan: Plan, output: Output) -> bool:
    """Measure, print and write; return True if every contender finished every workload. SuiteError."""
    # An installed scheduler has byte code; the warm-up writes it where it is missing.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    console = Console(width=None if sys.stdout.isatty() else 200)
    try:
        with ProgressBar("bench", lines=False) as progress:  # each turn prints a line
            outcomes = uvloop.run(_run(plan, output, console, progress))
    except (BuildError, ProcessFailed, EtcdFailed) as problem:
        raise SuiteError(str(problem)) from None
    console.print(report.table(plan.title, report.overview(outcomes, plan.names)))
    by_latency = report.latencies(outcomes, plan.names)
    if by_latency:
        console.print(report.table("By latency", by_latency))
    return not any(outcome.failures for outcome in outcomes)


def _print(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
