"""One turn of one contender: pods are there, it starts, it binds them all, it is measured, everything is cleared away.

The pods are made before the contender runs, so that making them does not share the CPU with it: what is measured is
scheduling at full speed, from a cold start, and all contenders get the same.
"""

from __future__ import annotations

import asyncio
import os
import statistics
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from bench import proc, workload
from bench.contenders import Contender, Running
from bench.histogram import quantile, read_buckets
from bench.watch import BindWatch, Unfinished
from tests.controlplane.cluster import ControlPlane

ATTEMPTS = "scheduler_scheduling_attempt_duration_seconds"
_EVENTS_POLL = 0.25
_EVENTS_STALLED = 5.0
"""Seconds without a new Event after which no more are expected: kube-scheduler drops some when it is in a hurry."""


@dataclass(frozen=True)
class Balance:
    """How evenly the pods lie. `deviation` is the standard deviation of pods per node, over all nodes."""

    nodes_used: int
    most_on_a_node: int
    deviation: float

    @classmethod
    def of(cls, chosen: Iterable[str], nodes: int) -> Balance:
        """From the node of each pod, in a cluster of `nodes`."""
        counts = Counter(chosen)
        return cls(
            len(counts),
            max(counts.values(), default=0),
            statistics.pstdev([*counts.values(), *[0] * (nodes - len(counts))]),
        )


@dataclass(frozen=True, kw_only=True)
class Turn:
    """What one turn measured. Seconds unless said otherwise; CPU is user and system time."""

    contender: str
    round: int
    pods: int
    bound_in: float
    """From the first binding to the last."""
    first_bind: float
    last_bind: float
    last_event: float | None
    """These three from the start of the process; None for a contender without Events."""
    events: int
    cpu: float
    """The contender's own, start-up and Events in it."""
    api_server_cpu: float
    etcd_cpu: float
    watch_cpu: float
    """The measuring process's own."""
    peak_memory: int
    """Bytes."""
    attempt_p50: float | None
    attempt_p99: float | None
    balance: Balance
    load: float
    """The machine's load average over a minute when the contender was started."""
    others: float
    """Cores that processes with no part in the comparison used meanwhile."""


@dataclass(frozen=True)
class Size:
    """How much there is to do. `seconds` is the patience with one turn."""

    nodes: int
    pods: int
    seconds: float


async def take_turn(plane: ControlPlane, contender: Contender, number: int, size: Size, folder: Path) -> Turn:
    """Run the contender once. Raises Unfinished if it does not bind all pods; leaves no pods behind."""
    backstage = [process.pid for process in plane.processes.values() if process.alive]
    try:
        await workload.create_pods(plane.api, size.pods, contender.scheduler_name)
        await workload.settle(backstage)
        return await _measured(plane, contender, number, size, folder)
    finally:
        await workload.clear(plane.api)
        await workload.settle(backstage)


async def _measured(plane: ControlPlane, contender: Contender, number: int, size: Size, folder: Path) -> Turn:
    """Start the contender, see it bind all pods, and read its figures before it is ended."""
    version = (await plane.api.get(workload.PODS, limit=1))["metadata"]["resourceVersion"]
    backstage = {name: process.pid for name, process in plane.processes.items() if process.alive}
    async with BindWatch(plane.api, contender.scheduler_name, size.pods, version) as watch:
        load, before = os.getloadavg()[0], _Readings.take(backstage)
        async with contender.start(plane, contender.scheduler_name, folder) as running:
            try:
                await watch.all_bound(size.seconds, running.alive)
            except Unfinished as problem:
                raise Unfinished(f"{contender.name}: {problem}; its log ends:\n{_tail(running.log)}") from None
            started = proc.started_at(running.pid)
            events, last_event = await _events(plane, contender, size, watch.last)
            spent, cpu = _Readings.take(backstage).since(before), proc.cpu_seconds(running.pid)
            p50, p99 = await _attempts(running)
            return Turn(
                contender=contender.name,
                round=number,
                pods=size.pods,
                bound_in=watch.last - watch.first,
                first_bind=watch.first - started,
                last_bind=watch.last - started,
                last_event=last_event - started if contender.writes_events else None,
                events=events,
                cpu=cpu,
                api_server_cpu=spent.cpu["kube-apiserver"],
                etcd_cpu=spent.cpu["etcd"],
                watch_cpu=spent.own,
                peak_memory=proc.peak_memory(running.pid),
                attempt_p50=p50,
                attempt_p99=p99,
                balance=Balance.of(watch.placed.values(), size.nodes),
                load=load,
                others=max(0.0, spent.machine - sum(spent.cpu.values()) - spent.own - cpu) / spent.at,
            )


@dataclass(frozen=True)
class _Readings:
    """CPU seconds at one moment, or (after `since`) over a span: the machine's, the control plane's, our own."""

    at: float
    machine: float
    own: float
    cpu: Mapping[str, float]

    @classmethod
    def take(cls, pids: Mapping[str, int]) -> _Readings:
        spent = {name: proc.cpu_seconds(pid) for name, pid in pids.items()}
        return cls(proc.now(), proc.busy_seconds(), proc.cpu_seconds(os.getpid()), spent)

    def since(self, before: _Readings) -> _Readings:
        spent = {name: seconds - before.cpu[name] for name, seconds in self.cpu.items()}
        return _Readings(self.at - before.at, self.machine - before.machine, self.own - before.own, spent)


async def _events(plane: ControlPlane, contender: Contender, size: Size, since: float) -> tuple[int, float]:
    """Wait until the contender has written its Events; how many there are, and when the last was seen."""
    seen, at = 0, since
    if not contender.writes_events:
        return seen, at
    while seen < size.pods and proc.now() - at < _EVENTS_STALLED:
        found = await workload.count(plane.api, workload.EVENTS)
        if found > seen:
            seen, at = found, proc.now()
        await asyncio.sleep(_EVENTS_POLL)
    return seen, at


async def _attempts(running: Running) -> tuple[float | None, float | None]:
    """The middle and the 99th percentile of a successful attempt, as the contender's own metrics have them."""
    if running.metrics is None:
        return None, None
    buckets = read_buckets(await running.metrics(), ATTEMPTS, {"result": "scheduled"})
    return quantile(buckets, 0.5), quantile(buckets, 0.99)


def _tail(log: Path) -> str:
    return "\n".join(log.read_text(errors="replace").splitlines()[-10:])
