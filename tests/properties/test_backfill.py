"""Random jobs that run as long as they declare: the head starts when its reservation says, and every job runs."""

from __future__ import annotations

from typing import Final, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyscheduler.core.pod_groups import backfill
from pyscheduler.core.pod_groups.run_times import UNKNOWN
from tests.properties.profiles import quick
from tests.scenarios.batch.cluster import Cluster
from tests.scenarios.batch.manifests import VOLCANO, gang, node, pod

_BACKOFF: Final = 10
"""Most seconds after which a group is tried that fits."""
_LONGEST: Final = 40
_JOBS: Final = 12


class Job(NamedTuple):
    """One job."""

    delay: int
    """Seconds after the job before."""
    size: int
    cpu: int
    seconds: int
    is_declared: bool


JOBS: Final = st.lists(
    st.builds(
        Job,
        st.integers(0, 6),
        st.integers(1, 4),
        st.integers(1, 2),
        st.integers(1, _LONGEST),
        st.sampled_from([True, True, False]),
    ),
    min_size=3,
    max_size=_JOBS,
)
NODES: Final = st.lists(st.integers(2, 3), min_size=4, max_size=5)


def run(nodes: list[int], jobs: list[Job]) -> list[str]:
    """Return the jobs that started later than promised, or never."""
    cluster = Cluster(*(node(f"n{i}", cpu) for i, cpu in enumerate(nodes)))
    promised: dict[str, float] = {}
    groups = {}
    for i, job in enumerate(jobs):
        for _ in range(job.delay):
            advance(cluster, promised)
        declared = job.seconds if job.is_declared else 0
        members = [pod(f"j{i}-{k}", job.cpu, runs=declared) for k in range(job.size)]
        groups[f"j{i}"] = gang(f"j{i}", job.size, members, api=VOLCANO)
        cluster.submit(groups[f"j{i}"], runs=job.seconds)
        record(cluster, promised)
    for _ in range(_JOBS * (_LONGEST + _BACKOFF)):
        if all(key in cluster.started for group in groups.values() for key in group.keys):
            break
        advance(cluster, promised)
    late = []
    for name, group in groups.items():
        starts = [cluster.started.get(key, UNKNOWN) for key in group.keys]
        if max(starts) == UNKNOWN or max(starts) > promised.get(name, UNKNOWN) + _BACKOFF:
            late.append(name)
    return late


def advance(cluster: Cluster, promised: dict[str, float]) -> None:
    cluster.advance(1)
    record(cluster, promised)


def record(cluster: Cluster, promised: dict[str, float]) -> None:
    """Record the earliest time promised to the head, and drop that of a former head that has not started."""
    current = cluster.machine.context.reservations.current
    name = "" if current is None else current.head.key.name
    for other in [other for other in promised if other != name and f"default/{other}-0" not in cluster.started]:
        del promised[other]
    if current is not None:
        promised[name] = min(promised.get(name, UNKNOWN), current.time - cluster.epoch)


@quick(60)
@given(NODES, JOBS)
def test_head_starts_in_time_and_no_job_starves(nodes: list[int], jobs: list[Job]) -> None:
    assert run(nodes, jobs) == []


def test_jobs_that_ignore_the_reservation_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def ignore(*_: object) -> str:
        return ""

    monkeypatch.setattr(backfill, "check_reservation", ignore)
    small = [Job(5, 1, 2, 30, is_declared=True)] * 8
    assert run([2, 2, 2, 2], [Job(0, 3, 2, 20, is_declared=True), Job(0, 4, 2, 10, is_declared=True), *small]) == ["j1"]
