"""Results of a simulation. The fields are the keys of the JSON output; times are seconds since the start."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec

from pyscheduler.api.resources import CPU
from pyscheduler.simulator.jobs import DEFAULT_QUEUE, SimulatedJob
from pyscheduler.simulator.usage import NodeUsage

_BUCKETS = 240


class PodCounts(msgspec.Struct, frozen=True, rename="camel"):
    """Numbers of pods."""

    created: int
    """Without those that were created anew."""
    bound: int
    """Bindings, also of pods that were created anew."""
    ended: int
    evicted: int
    lost: int
    """Pods that were lost with a removed node."""
    pending: int
    """Pods without a node at the end."""


class WaitTimes(msgspec.Struct, frozen=True, rename="camel"):
    """Seconds from the arrival of jobs to their start; a job that has not started counts until the end."""

    mean: float = 0.0
    p50: float = 0.0
    p95: float = 0.0
    longest: float = 0.0


class JobResult(msgspec.Struct, frozen=True, rename="camel"):
    """One job: a pod group, or a pod without one."""

    name: str
    group: bool
    arrival: str
    queue: str
    state: str
    """Waiting, Running, Ended, or Gone: evicted, without a controller that creates it anew."""
    pods: int
    minimum: int
    arrived: float
    started: float | None
    """First time at which the minimum had nodes."""
    ended: float | None
    waited: float
    nodes: tuple[str, ...]
    evictions: int
    lost: int
    cpu_seconds: float
    """Time that its pods had nodes, in core-seconds."""
    messages: tuple[str, ...]
    """Messages of the scheduler on why a pod waited: the first ones, and the last one."""
    pending: int
    """Number of pods without a node at the end."""


class JobSummary(msgspec.Struct, frozen=True, rename="camel"):
    """Jobs of one queue, or of one arrival."""

    name: str
    jobs: int
    started: int
    mean_wait: float
    longest_wait: float
    cpu_share: float
    """Share of the cpu time of all pods."""


class SeriesPoint(msgspec.Struct, frozen=True, rename="camel"):
    """Means over an interval that begins at a time."""

    at: float
    waiting: float
    used: tuple[float, ...]


class SimulationResult(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """Results with one configuration."""

    config: str
    seconds: float
    """Length of the simulation: until the last change, or `until`."""
    makespan: float
    """Time at which the last job that ends has ended."""
    nodes: int
    jobs_started: int
    pods: PodCounts
    waiting: WaitTimes
    utilization: Mapping[str, float]
    """Share of each resource that pods requested, weighted by time."""
    idle_cpu_seconds: float
    """Cpu time of pods with a node while their group lacked others of its minimum."""
    lost_cpu_seconds: float
    """Cpu time of runs that evictions and removed nodes cut short."""
    notes: tuple[str, ...]
    queues: tuple[JobSummary, ...]
    """None if there is no queue but the default one."""
    arrivals: tuple[JobSummary, ...]
    resources: tuple[str, ...]
    """Names of the resources in `series`."""
    series: tuple[SeriesPoint, ...]
    jobs: tuple[JobResult, ...]


def wait_times(waits: Iterable[float]) -> WaitTimes:
    """Return the mean, two percentiles (nearest rank) and the maximum."""
    ordered = sorted(waits)
    if not ordered:
        return WaitTimes()

    def percentile(share: float) -> float:
        return _rounded(ordered[max(0, math.ceil(share * len(ordered)) - 1)])

    return WaitTimes(_rounded(sum(ordered) / len(ordered)), percentile(0.5), percentile(0.95), _rounded(ordered[-1]))


def job_result(job: SimulatedJob, end: float, pending: int) -> JobResult:
    """Return the result of a job at the end of a simulation."""
    state = "Running" if job.is_running else "Waiting"
    if job.ended is not None:
        state = "Ended" if job.succeeded else "Gone"
    until = job.started if job.started is not None else end if job.ended is None else job.ended
    return JobResult(
        name=job.name,
        group=job.is_group,
        arrival=job.arrival,
        queue=job.queue,
        state=state,
        pods=job.created,
        minimum=job.minimum,
        arrived=job.arrived,
        started=job.started,
        ended=job.ended,
        waited=_rounded(until - job.arrived),
        nodes=tuple(job.nodes),
        evictions=job.evictions,
        lost=job.lost,
        cpu_seconds=_rounded(job.cpu_seconds),
        messages=tuple(job.messages),
        pending=pending,
    )


def queue_results(jobs: Sequence[JobResult], declared: Iterable[str]) -> list[JobSummary]:
    """Return the jobs by queue, of those that are declared or used; none if no queue but the default one is."""
    found = summaries(jobs, lambda job: job.queue, declared)
    return [] if {each.name for each in found} <= {DEFAULT_QUEUE} else found


def summaries(
    jobs: Sequence[JobResult], key: Callable[[JobResult], str], names: Iterable[str] = ()
) -> list[JobSummary]:
    """Return the jobs by a key, with the names of those that may have none."""
    by_key: dict[str, list[JobResult]] = {name: [] for name in names}
    for job in jobs:
        by_key.setdefault(key(job), []).append(job)
    total = sum(job.cpu_seconds for job in jobs) or 1.0
    rows = []
    for name, found in sorted(by_key.items()):
        waits = wait_times(job.waited for job in found)
        started = sum(job.started is not None for job in found)
        share = round(sum(job.cpu_seconds for job in found) / total, 4)
        rows.append(JobSummary(name, len(found), started, waits.mean, waits.longest, share))
    return rows


def series(usage: NodeUsage, end: float) -> tuple[SeriesPoint, ...]:
    """Return the means over intervals of equal length."""
    points, names = usage.points(), usage.resources
    if not points or end <= 0:
        return ()
    width = end / _BUCKETS
    sums = [[0.0] * (1 + len(names)) for _ in range(_BUCKETS)]
    for point, following in zip(points, [*(p.at for p in points[1:]), end], strict=True):
        at, last = point.at, min(following, end)
        while at < last:
            bucket = min(int(at / width), _BUCKETS - 1)
            to = last if bucket == _BUCKETS - 1 else min(last, max((bucket + 1) * width, math.nextafter(at, math.inf)))
            for i, value in enumerate((point.waiting, *point.used)):
                sums[bucket][i] += value * (to - at)
            at = to
    return tuple(
        SeriesPoint(_rounded(i * width), round(each[0] / width, 4), tuple(round(v / width, 4) for v in each[1:]))
        for i, each in enumerate(sums)
    )


def cpu_seconds(requests: Mapping[str, int], seconds: float) -> float:
    """Return the cpu time of a pod in core-seconds."""
    return requests.get(CPU, 0) / 1000 * max(seconds, 0.0)


def _rounded(seconds: float) -> float:
    return round(seconds, 3)
