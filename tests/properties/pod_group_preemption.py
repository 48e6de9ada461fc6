"""Small clusters in which a group, or a single pod, of high priority arrives. What has to happen is found by trying
everything.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple

from hypothesis import strategies as st

from tests.properties.pod_group_model import CALM, Uncontrolled, any_fit, config
from tests.scenarios.batch.manifests import VOLCANO, Gang, Manifest, annotated, gang, node, pod

PRIORITY = 10
"""Priority of the group that arrives last."""
NEVER = -1


class Workload(NamedTuple):
    """Pods that are in the cluster before: a single pod, or a group."""

    sizes: tuple[int, ...]
    """Cpus of the pods."""
    surplus: bool
    """True if the minimum of the group is one less than its size."""
    priority: int
    seconds: int
    """Seconds that an evicted pod takes to end."""

    @property
    def minimum(self) -> int:
        return max(1, len(self.sizes) - self.surplus)

    def create(self, name: str) -> Gang:
        """Return the group with its objects; one of one pod is a single pod."""
        ends = str(self.seconds)
        pods = [
            annotated(pod(f"{name}-{i}", size, priority=self.priority), ends_after=ends)
            for i, size in enumerate(self.sizes)
        ]
        return gang(name, self.minimum, pods, VOLCANO) if len(pods) > 1 else Gang(name, 1, pods, [])


class Case(NamedTuple):
    """A cluster, and the group that arrives last."""

    nodes: tuple[int, ...]
    workloads: tuple[Workload, ...]
    preemptor: Workload


def _workloads(longest: int, priorities: Sequence[int], seconds: Sequence[int]) -> st.SearchStrategy[Workload]:
    sizes = st.lists(st.sampled_from((1, 1, 2)), min_size=1, max_size=longest).map(tuple)
    return st.builds(Workload, sizes, st.booleans(), st.sampled_from(priorities), st.sampled_from(seconds))


def _by_priority(workloads: list[Workload]) -> tuple[Workload, ...]:
    """Return the workloads so that none preempts an earlier one."""
    return tuple(sorted(workloads, key=lambda workload: -workload.priority))


CASES = st.builds(
    Case,
    st.lists(st.integers(1, 3), min_size=1, max_size=4).map(tuple),
    st.lists(_workloads(3, (0, 0, 0, 1, 20), (0, 5)), max_size=4).map(_by_priority),
    _workloads(4, (PRIORITY,), (0,)),
)


_SINGLE_PODS = st.builds(
    Workload, st.sampled_from(((1,), (1,), (2,))), st.just(False), st.sampled_from((0, 0, 1)), st.just(0)
)
_DIFFERENT_MEMBERS = st.builds(
    Workload,
    st.lists(st.integers(2, 5), min_size=2, max_size=4).map(tuple),
    st.booleans(),
    st.just(PRIORITY),
    st.just(0),
)
CASES_OF_DIFFERENT_MEMBERS = st.builds(
    Case,
    st.lists(st.integers(3, 6), min_size=2, max_size=4).map(tuple),
    st.lists(_SINGLE_PODS, min_size=6, max_size=14).map(_by_priority),
    _DIFFERENT_MEMBERS,
)
"""Cases with many units, of which a member needs the room of some."""


class Outcome:
    """Run of a case. A pod that would fit where victims are terminating arrives while they do."""

    def __init__(self, case: Case, restart_at: int = NEVER) -> None:
        """`restart_at` is the number of the step after which the scheduler is restarted."""
        self.case, self._steps, self._restart_at = case, 0, restart_at
        self.cluster = Uncontrolled(*(node(f"n{i}", cpu) for i, cpu in enumerate(case.nodes)), config=config())
        for i, workload in enumerate(case.workloads):
            self.cluster.submit(workload.create(f"w{i}"))
            self._advance(1)
        self.before = self.cluster.assignments
        already_evicted = len(self.cluster.evictions)
        self.cluster.submit(case.preemptor.create("high"))
        self._advance(1)
        self.cluster.submit(_filler())
        for seconds in (1, CALM):
            self._advance(seconds)
        self.victims = set(self.cluster.evicted_names[already_evicted:])
        self.bound = {name for name in self.cluster.assignments if name.startswith("high")}

    def _advance(self, seconds: float) -> None:
        if self._steps == self._restart_at:
            self.cluster.restart()
        self._steps += 1
        self.cluster.advance(seconds)

    @property
    def steps(self) -> int:
        """Number of steps after which the scheduler can be restarted."""
        return self._steps

    def check(self, *, elsewhere: bool = True) -> None:
        """Check that the group is bound if it fits at all, and that no pod is evicted in vain.

        With `elsewhere`, a victim is evicted in vain if the group would fit on other nodes than it does without it.
        """
        high = self.case.preemptor
        evictable = {name for name in self.before if self._workload(name).priority < high.priority}
        assert self.victims <= evictable, f"{self.victims - evictable} must not be evicted"
        fits = self._fits_without(evictable)
        assert (len(self.bound) >= high.minimum) is fits, f"{self.bound} have a node, {fits=}"
        assert fits or not self.victims, f"{self.victims} were evicted for nothing"
        for i, workload in enumerate(self.case.workloads):
            self._check_workload(f"w{i}", workload, self._fits_without if elsewhere else self._fits_beside_members)

    def _check_workload(self, name: str, workload: Workload, fits_without: Callable[[Collection[str]], bool]) -> None:
        """Check that a workload lost no more than was needed."""
        pods = [f"{name}-{i}" for i in range(len(workload.sizes)) if f"{name}-{i}" in self.before]
        rest = len(set(pods) - self.victims)
        assert rest == 0 or rest >= workload.minimum, f"{rest} of {workload.minimum} pods of {name} are left"
        spared = [{each} for each in self.victims.intersection(pods)] if rest else [{*pods[: workload.minimum]}]
        for each in spared:
            if each and each <= self.victims:
                assert not fits_without(self.victims - each), f"{each} were evicted for nothing"

    def _workload(self, name: str) -> Workload:
        return self.case.workloads[int(name.partition("-")[0].removeprefix("w"))]

    def _fits_without(self, removed: Collection[str]) -> bool:
        """Return True if the group would have fitted if these pods had not been in the cluster."""
        free = self._free_without(removed)
        return any_fit([1000 * size for size in self.case.preemptor.sizes], self.case.preemptor.minimum, free)

    def _fits_beside_members(self, removed: Collection[str]) -> bool:
        """Return True if the bound members would have fitted on their nodes without these pods."""
        free = self._free_without(removed)
        for name in self.bound:
            size = self.case.preemptor.sizes[int(name.partition("-")[2])]
            free[int(self.cluster.assignments[name][1:])] -= 1000 * size
        return min(free) >= 0

    def _free_without(self, removed: Collection[str]) -> list[int]:
        """Return what each node would have had free without these pods, in millicpu."""
        free = [1000 * cpu for cpu in self.case.nodes]
        for name, node_name in self.before.items():
            if name not in removed:
                free[int(node_name[1:])] -= 1000 * self._workload(name).sizes[int(name.partition("-")[2])]
        return free


def _filler() -> Manifest:
    """Return a pod that would fit where victims are terminating, and may evict none itself."""
    filler = pod("filler", priority=5)
    filler["spec"]["preemptionPolicy"] = "Never"
    return filler


def check_preemption(case: Case) -> None:
    """Check the victims of a case."""
    Outcome(case).check()


def check_restarts(case: Case) -> None:
    """Check that the outcome is the same whenever the scheduler is restarted."""
    expected = Outcome(case)
    for step in range(expected.steps):
        outcome = Outcome(case, restart_at=step)
        assert (outcome.victims, outcome.bound) == (expected.victims, expected.bound), f"after a restart at {step}"
