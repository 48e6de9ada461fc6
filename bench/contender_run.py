"""One turn: with pods pending, start a contender, wait until it has bound them, read its figures, delete the pods.

The pods are created before the contender runs, so that their creation does not share the CPU with it: what is measured
is scheduling at full speed from a cold start, equally for all contenders.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from bench import proc
from bench.api_latency import with_api_latency
from bench.balance import Balance, requested
from bench.burst import API_SERVER, ETCD, Burst
from bench.cluster_setup import ClusterSetup, MissingObjects
from bench.contenders import Contender, Running, Site
from bench.histogram import quantile, read_buckets
from bench.live import Live
from bench.program import Program
from bench.quiesce import wait_until_idle
from bench.scheduling_policy import batch_scheduling_policy
from bench.watch import BindWatch, Unfinished, WaitLimit
from tests.e2e.plane import Plane

ATTEMPTS = ("scheduler_scheduling_attempt_duration_seconds", {"result": "scheduled"})
PENDING = ("scheduler_pod_scheduling_sli_duration_seconds", dict[str, str]())
EVENTS = "/apis/events.k8s.io/v1/events"
_TAIL_LINES, _TAIL_COLUMNS = 5, 300
_EVENTS_POLL = 0.25
_EVENTS_STALLED = 3.0
"""Seconds without a new Event after which none are expected: kube-scheduler drops some under load."""


@dataclass(frozen=True, kw_only=True)
class ContenderRun:
    """Figures of one turn, in seconds where no other unit is given; CPU is user and system time."""

    contender: str
    round: int
    pods: int
    bound_in: float
    """From the first binding to the last."""
    ready: float
    first_bind: float
    last_bind: float
    last_event: float | None
    """Seconds since the start of the process; None for a contender without Events."""
    events: int
    cpu: float
    """CPU of the contender, startup and Events included."""
    api_server_cpu: float
    etcd_cpu: float
    watch_cpu: float
    """CPU of the measuring process."""
    burst: Burst | None
    """CPU by process between the first binding and the last; None if the contender had ended by then."""
    peak_memory: int
    """Bytes."""
    attempt_p50: float | None
    attempt_p99: float | None
    """Duration of a successful attempt by the contender's own metrics; None without metrics."""
    pending_p50: float | None
    pending_p99: float | None
    """Time from the contender's first sight of a pod to its binding, by its own metrics."""
    balance: Balance
    load: float
    """Load average over one minute when the contender was started."""
    others: float
    """Cores that unrelated processes used meanwhile."""


@dataclass(frozen=True)
class BenchEnvironment:
    """Control plane, initial state and program of turns.

    `seconds` is the time limit of one turn, `latency` the additional milliseconds of each call of a contender.
    """

    plane: Plane
    setup: ClusterSetup
    program: Program
    seconds: float
    latency: int = 0

    @property
    def control_plane_pids(self) -> dict[str, int]:
        """Process ids of the control plane by name."""
        real = self.plane.real
        return {} if real is None else {name: each.pid for name, each in real.processes.items() if each.alive}

    async def renew(self) -> None:
        """Restart the API server, so that every turn gets an equal one. ProcessFailed if it does not become ready.

        One that has served other turns keeps their objects, up to a hundred thousand of them, in its watch cache. Its
        heap grows by 100 MB a turn with them, and its garbage collection in a burst of 5,000 bindings changes: three
        times at first, then once, which takes a second of CPU.
        """
        if self.plane.real is not None:
            await self.plane.real.restart(API_SERVER)


async def run_contender(env: BenchEnvironment, contender: Contender, number: int, folder: Path) -> ContenderRun:
    """Run the contender once, and restore the cluster afterwards.

    Unfinished if it does not bind all pods; other exceptions come from a contender that does not start or stop, or from
    the API server before anything is created.
    """
    await env.renew()
    setup, program, name = env.setup, env.program, contender.scheduler_name
    changed: set[str] = set()
    try:
        for pods in program.pending:
            await setup.bulk.create(pods.batch.for_scheduler(name))
        measured = await _measured(env, contender, folder, changed)
        missing = await setup.find_missing()
        return _turn(env, contender, number, measured, missing)
    finally:
        await setup.clear([pods.batch for pods in program.scheduled], list(program.namespaces))
        await setup.bulk.delete_each(changed)
        await setup.restore(await setup.find_missing())
        await wait_until_idle(env.control_plane_pids.values())


@dataclass(frozen=True)
class _Measured:
    """Readings while the contender runs; `started` and `ready` are times of `proc.now`."""

    watch: BindWatch
    started: float
    ready: float
    load: float
    events: int
    last_event: float
    spent: _Readings
    burst: Burst | None
    cpu: float
    peak_memory: int
    metrics: str


async def _measured(env: BenchEnvironment, contender: Contender, folder: Path, changed: set[str]) -> _Measured:
    """Start the contender, wait until it has bound all pods, and read its figures before it is stopped."""
    plane, program, bulk, control_plane_pids = env.plane, env.program, env.setup.bulk, env.control_plane_pids
    async with BindWatch(plane.api, contender.scheduler_name, program.measured) as watch:
        await bulk.collect_garbage()
        await wait_until_idle(control_plane_pids.values())
        load, before = os.getloadavg()[0], _Readings.take(control_plane_pids)
        events_before, ends = await bulk.count(EVENTS), list[_Readings]()
        watch.at_end = partial(_take_reading, ends, control_plane_pids)
        async with (
            with_api_latency(plane, env.latency) as server,
            contender.start(Site(plane, server), contender.scheduler_name, folder) as running,
        ):
            ready = proc.now()
            live = Live(bulk, watch, contender.scheduler_name, program.pending, changed)
            try:
                with batch_scheduling_policy():
                    await live.run(program.steps, WaitLimit(proc.now() + env.seconds, running.alive))
            except Unfinished as problem:
                raise Unfinished(f"{problem}; its log ends:\n{_tail(running.log)}") from None
            events, last_event = await _wait_for_events(env, contender, events_before, watch.last)
            return _Measured(
                watch,
                proc.started_at(running.pid),
                ready,
                load,
                events,
                last_event,
                _Readings.take(control_plane_pids).since(before),
                _burst(ends, running.pid),
                proc.cpu_seconds(running.pid),
                proc.peak_memory(running.pid),
                await _metrics(running),
            )


def _turn(
    env: BenchEnvironment, contender: Contender, number: int, seen: _Measured, missing: list[MissingObjects]
) -> ContenderRun:
    """Return the figures of the readings."""
    watch, spent, program = seen.watch, seen.spent, env.program
    deleted = [(each.batch, i) for each in missing for i in each.numbers]
    measured = program.measured
    chosen = [node for pod, node in watch.placed.items() if pod in measured]
    attempts, pending = (read_buckets(seen.metrics, *which) for which in (ATTEMPTS, PENDING))
    return ContenderRun(
        contender=contender.name,
        round=number,
        pods=len(measured),
        bound_in=watch.last - watch.first,
        ready=seen.ready - seen.started,
        first_bind=watch.first - seen.started,
        last_bind=watch.last - seen.started,
        last_event=seen.last_event - seen.started if contender.writes_events else None,
        events=seen.events,
        cpu=seen.cpu,
        api_server_cpu=spent.cpu.get(API_SERVER, 0.0),
        etcd_cpu=spent.cpu.get(ETCD, 0.0),
        watch_cpu=spent.own,
        burst=seen.burst,
        peak_memory=seen.peak_memory,
        attempt_p50=quantile(attempts, 0.5),
        attempt_p99=quantile(attempts, 0.99),
        pending_p50=quantile(pending, 0.5),
        pending_p99=quantile(pending, 0.99),
        balance=Balance.of(chosen, requested(program, watch.placed, deleted)),
        load=seen.load,
        others=max(0.0, spent.machine - sum(spent.cpu.values()) - spent.own - seen.cpu) / spent.at,
    )


@dataclass(frozen=True)
class _Readings:
    """CPU seconds at one time, or (after `since`) over an interval: of machine, control plane and this process."""

    at: float
    machine: float
    own: float
    cpu: Mapping[str, float]

    @classmethod
    def take(cls, pids: Mapping[str, int]) -> _Readings:
        spent = {name: proc.cpu_seconds(pid) for name, pid in pids.items()}
        return cls(proc.now(), proc.busy_seconds(), proc.cpu_seconds(os.getpid()), spent)

    def since(self, before: _Readings) -> _Readings:
        spent = {name: seconds - before.cpu.get(name, 0.0) for name, seconds in self.cpu.items()}
        return _Readings(self.at - before.at, self.machine - before.machine, self.own - before.own, spent)


def _take_reading(ends: list[_Readings], control_plane_pids: Mapping[str, int]) -> None:
    """Append a reading of all child processes: the contender's process id may not be available yet when it binds."""
    with suppress(OSError):  # one of them has ended
        ends.append(_Readings.take({**{str(pid): pid for pid in proc.children()}, **control_plane_pids}))


def _burst(ends: list[_Readings], pid: int) -> Burst | None:
    """Return the CPU used between the first and the last reading, None if one is missing."""
    if len(ends) < 2:
        return None
    spent = ends[-1].since(ends[0])
    return Burst.of(spent.cpu[str(pid)], spent.cpu, spent.own)


async def _wait_for_events(env: BenchEnvironment, contender: Contender, before: int, since: float) -> tuple[int, float]:
    """Wait until the contender has written its Events; return their number and the time of the last."""
    seen, at = 0, since
    if not contender.writes_events:
        return seen, at
    expected = len(env.program.measured)
    while seen < expected and proc.now() - at < _EVENTS_STALLED:
        found = await env.setup.bulk.count(EVENTS) - before
        if found > seen:
            seen, at = found, proc.now()
        await asyncio.sleep(_EVENTS_POLL)
    return seen, at


async def _metrics(running: Running) -> str:
    return "" if running.metrics is None else await running.metrics()


def _tail(log: Path) -> str:
    return "\n".join(line[:_TAIL_COLUMNS] for line in log.read_text(errors="replace").splitlines()[-_TAIL_LINES:])
