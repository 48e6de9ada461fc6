"""Random batch clusters with queues, roles, topologies, quotas, preemption and reclaim."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyscheduler.api import EvictionUnit, Pod, PodGroup
from pyscheduler.api.steps import Steps
from pyscheduler.core.pod_groups import placement, preemption
from pyscheduler.core.pod_groups.manager import PodGroupManager
from pyscheduler.core.pod_groups.min_run_time import MinRunTime
from pyscheduler.core.pod_groups.terminating import TerminatingPods
from pyscheduler.core.pod_groups.usage import UsageByGroup
from pyscheduler_plugins.queues import reclaim
from pyscheduler_plugins.queues.max_min import Claim, max_min
from pyscheduler_plugins.queues.plugin import Queues
from pyscheduler_plugins.queues.tree import QueueTree
from pyscheduler_plugins.queues.victim_search import _Search
from tests.properties.batch_model import (
    CHANGES,
    QUEUE_NAMES,
    BatchCluster,
    Case,
    Change,
    Job,
    QueueSpec,
    cases,
    config,
    jobs,
    path,
)
from tests.properties.profiles import quick
from tests.scenarios.batch.cluster import Cluster
from tests.scenarios.batch.manifests import VOLCANO, Manifest, gang, in_queue, node, pod, queue

SETTLED = 700
"""Seconds after which all waiting groups have been tried twice."""
HOUR = 3600
MIXED = cases(jobs() | jobs() | jobs() | CHANGES)


def run(case: Case, restart_after: int | None = None) -> BatchCluster:
    """Run a case. The scheduler may be restarted after a step."""
    cluster = BatchCluster(case)
    for number, step in enumerate(case.steps):
        cluster.do(number, step)
        if number == restart_after:
            cluster.restart()
    cluster.advance(SETTLED)
    return cluster


def check_evictions_end(case: Case, restart_after: int | None = None) -> None:
    """Evictions end though the evicted pods are created anew; all that is checked at every instant holds."""
    cluster = run(case, restart_after)
    evictions = len(cluster.evictions)
    cluster.advance(SETTLED / 2)
    assert len(cluster.evictions) == evictions, f"{cluster.evicted_names[evictions:]} are evicted without end"


@quick(25)
@given(MIXED)
def test_evictions_end_and_every_instant_is_valid(case: Case) -> None:
    check_evictions_end(case)


@quick(25)
@given(MIXED, st.integers(0, 7))
def test_every_instant_is_valid_after_a_restart(case: Case, restart_after: int) -> None:
    """What is tried first after a restart may differ, since backoffs are lost."""
    check_evictions_end(case, restart_after % max(1, len(case.steps)))


def check_restart(case: Case) -> None:
    """A restart starts and evicts nothing when all has been tried before."""
    cluster = run(case)
    running, evicted = cluster.counts(), cluster.evicted_names
    cluster.restart()
    cluster.advance(SETTLED)
    assert cluster.counts() == running, "other pods run after a restart"
    assert cluster.evicted_names == evicted, "pods are evicted after a restart"


@quick(20)
@given(MIXED)
def test_restart_of_a_settled_cluster_changes_nothing(case: Case) -> None:
    check_restart(case)


# -- starvation ----------------------------------------------------------------------------------------------------

WORKLOADS = st.tuples(cases(jobs()), st.lists(st.integers(1, 20), min_size=12, max_size=12))


def check_completion(drawn: tuple[Case, list[int]]) -> None:
    """Every job that fits into the empty cluster and the limits of its queue runs to its end."""
    case, seconds = drawn
    cluster = BatchCluster(case)
    for number, step in enumerate(case.steps):
        if isinstance(step, Job) and _is_feasible(cluster, case, step):
            cluster.advance(step.delay)
            cluster.start(f"j{number}", step, runs=seconds[number])
    cluster.advance(HOUR)
    keys = [key for group in cluster.groups.values() for key in group.keys]
    assert [key for key in keys if cluster.phase(key) != "Succeeded"] == [], "starve"


def _is_feasible(cluster: BatchCluster, case: Case, job: Job) -> bool:
    limits = [cluster.specs[name].capability for name in path(job.queue)]
    places = [sum(cpu // job.cpu for cpu in rack) for rack in case.racks]
    room = max(places) if job.in_one_rack else sum(places)
    return room >= job.size and all(limit < 0 or limit >= job.size * job.cpu for limit in limits)


@quick(25)
@given(WORKLOADS)
def test_no_job_starves(drawn: tuple[Case, list[int]]) -> None:
    check_completion(drawn)


# -- shares --------------------------------------------------------------------------------------------------------


class Team(NamedTuple):
    """A queue and the number of its pods of one GPU."""

    delay: int
    pods: int
    claim: Claim

    @property
    def limit(self) -> int:
        """Most pods that the queue may run."""
        return min(self.pods, self.claim.limit)

    def manifest(self, name: str) -> Manifest:
        claim = self.claim
        amounts = {"capability": claim.limit, "guarantee": claim.guarantee, "deserved": claim.deserved}
        spec: dict[str, Any] = {field: {"gpu": n} for field, n in amounts.items() if n}
        return queue(name, weight=claim.weight, **spec)

    def claimed(self) -> Claim:
        """Return what the queue claims: not more than its deserved amount, if it has one."""
        claim, limit = self.claim, min(self.limit, self.claim.deserved or self.limit)
        return Claim(claim.weight, limit, min(claim.guarantee, limit), min(claim.deserved, limit))


@st.composite
def teams(draw: st.DrawFn) -> Team:
    capability = draw(st.sampled_from([20, 20, 2, 5]))
    deserved = draw(st.integers(0, capability) | st.just(0))
    claim = Claim(draw(st.integers(0, 3)), capability, draw(st.integers(0, min(deserved, 4))), deserved)
    return Team(draw(st.sampled_from([0, 5])), draw(st.integers(1, 12)), claim)


TEAMS = st.tuples(st.integers(2, 12), st.lists(teams(), min_size=2, max_size=4))


def check_shares(drawn: tuple[int, list[Team]]) -> None:
    """The whole cluster is used or all requests are met, and each queue has its share."""
    gpus, of = drawn
    cluster = Cluster(node("n1", 1, gpu=gpus), config=config())
    for i, team in enumerate(of):
        cluster.apply(team.manifest(f"q{i}"))
    for i, team in enumerate(of):
        cluster.advance(team.delay)
        cluster.submit(*(in_queue(f"q{i}", pod(f"q{i}-{k}", 0, gpu=1)) for k in range(team.pods)))
    cluster.advance(SETTLED)
    running = [cluster.members(f"q{i}-") for i in range(len(of))]
    shares = max_min(gpus, [team.claimed() for team in of])
    assert sum(running) == min(gpus, sum(team.limit for team in of)), f"{running} run"
    assert all(n >= share for n, share in zip(running, shares, strict=True)), f"{running} run, the shares are {shares}"


@quick(40)
@given(TEAMS)
def test_queues_reach_their_shares(drawn: tuple[int, list[Team]]) -> None:
    check_shares(drawn)


def test_room_for_a_whole_pod_is_used_if_no_queue_deserves_it() -> None:
    cluster = Cluster(node("n1", 3), queue("a", weight=1), queue("b", weight=1))
    cluster.submit(*(in_queue(name, pod(f"{name}{i}")) for name in "ab" for i in range(3)))
    cluster.advance(HOUR)
    assert cluster.members("") == 3


@pytest.mark.parametrize("slots", [2, 3])
def test_pod_of_a_needed_role_is_placed_before_surplus(slots: int) -> None:
    cluster = BatchCluster(_case(racks=((slots,),)))
    cluster.start("j0", Job(minimum=slots, surplus=1, has_roles=True))
    cluster.advance(SETTLED)
    assert cluster.counts() == {"j0": slots}


def test_groups_that_are_larger_than_the_shares_run_one_after_another() -> None:
    cluster = Cluster(node("n1", 4), queue("a", weight=1), queue("b", weight=1))
    groups = [gang(name, 3, api=VOLCANO, queue=name) for name in "ab"]
    cluster.submit(*groups, runs=30)
    cluster.advance(HOUR)
    assert [cluster.phase(key) for group in groups for key in group.keys] == ["Succeeded"] * 6
    assert cluster.evictions == []


# -- planted bugs --------------------------------------------------------------------------------------------------

Plant = Callable[[pytest.MonkeyPatch], None]


def _exceed_limits(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(QueueTree, "allows", lambda *_: ())


def _exceed_deserved_amounts(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(reclaim, "_excesses", lambda *_: {})


def _ignore_roles(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(PodGroup, "shortage", lambda *_: "")
    patch.setattr(placement.PlacementSearch, "_needed_roles_first", lambda self, members: list(members))


def _ignore_topology(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(placement, "candidate_domains", lambda *_: iter([None]))


def _evict_unneeded(patch: pytest.MonkeyPatch) -> None:
    def put_none_back(
        self: preemption.GroupPreemptionSearch, removed: Sequence[EvictionUnit], terminating: Sequence[Pod]
    ) -> Steps[list[EvictionUnit]]:
        yield from ()
        return list(removed)

    patch.setattr(preemption, "depends_on_other_nodes", lambda _: True)  # otherwise nodes without room are left out
    patch.setattr(preemption.GroupPreemptionSearch, "_without_unneeded", put_none_back)


def _ignore_guarantees(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(_Search, "_keeps_guarantees", lambda *_: True)


def _ignore_run_times(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(MinRunTime, "_has_run", lambda *_: True)


def _ignore_terminating_pods(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(TerminatingPods, "add", lambda *_: None)


def _case(*steps: Job | Change, racks: tuple[tuple[int, ...], ...] = ((3,),), **specs: QueueSpec) -> Case:
    """Return a case; queues without a specification have the weight 1."""
    return Case(racks, tuple(specs.get(name, QueueSpec()) for name in QUEUE_NAMES), steps)


_GANGS = (Job(minimum=3), Job(queue="q1", minimum=3))
_GUARANTEED = _case(Job(queue="q1", minimum=3), Job(), q0=QueueSpec(deserved=1), q1=QueueSpec(1, 2, 2))
_STARTED_LATE = _case(Job(surplus=2), Job(queue="q1"), q0=QueueSpec(deserved=1, min_run=6), q1=QueueSpec(deserved=2))
_OVER_QUOTA = _case(Job(minimum=2, grace=3), Job(minimum=2, priority=10), racks=((3, 3),), q0=QueueSpec(capability=2))
_ON_TWO_NODES = (Job(cpu=2), Job(priority=10), Job(), Job(cpu=2, priority=10))


@pytest.mark.parametrize(
    ("plant", "case", "message"),
    [
        (_exceed_limits, _case(Job(surplus=2), q0=QueueSpec(capability=2)), "queue q0 has 3000"),
        (_exceed_deserved_amounts, _case(*_GANGS), "without end"),
        (_ignore_roles, _case(Job(minimum=2, surplus=1, has_roles=True), racks=((2,),)), "without its driver"),
        (_ignore_topology, _case(Job(minimum=3, in_one_rack=True), racks=((2,), (2,))), "runs in"),
        (_evict_unneeded, _case(*_ON_TWO_NODES, racks=((2,), (2,))), "without need"),
        (_ignore_guarantees, _GUARANTEED, "has a guarantee"),
        (_ignore_run_times, _STARTED_LATE, "before it has run for 6 s"),
        (_ignore_terminating_pods, _OVER_QUOTA, "queue q0 has 4000"),
    ],
)
def test_property_catches_planted_bug(plant: Plant, case: Case, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    check_evictions_end(case)
    plant(monkeypatch)
    with pytest.raises(AssertionError, match=message):
        check_evictions_end(case)


def test_restart_property_catches_usage_that_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    set_pod = PodGroupManager.set_pod

    def set_pending(self: PodGroupManager, pod: Pod) -> None:
        is_known = pod.uid in self._key_of
        set_pod(self, pod)
        if pod.node_name and not is_known and self.quota is not None and pod.uid in self._key_of:
            self.usage.move(self._key_of[pod.uid], pod, placed=False)

    case = _case(Job(minimum=2), Job(), q0=QueueSpec(capability=2))
    check_restart(case)
    monkeypatch.setattr(PodGroupManager, "set_pod", set_pending)
    with pytest.raises(AssertionError, match="queue q0 has 3000"):
        check_restart(case)


def test_completion_property_catches_usage_of_ended_pods(monkeypatch: pytest.MonkeyPatch) -> None:
    case = _case(Job(minimum=2), Job(minimum=2), q0=QueueSpec(capability=2)), [5, 5]
    check_completion(case)
    monkeypatch.setattr(UsageByGroup, "remove", lambda self, key, pod, *, placed: None)
    with pytest.raises(AssertionError, match="starve"):
        check_completion(case)


def test_share_property_catches_missing_reclaim(monkeypatch: pytest.MonkeyPatch) -> None:
    def find_nothing(*_: object) -> Steps[Sequence[EvictionUnit]]:
        yield from ()
        return ()

    case = 4, [Team(0, 4, Claim(1, 20)), Team(5, 4, Claim(1, 20))]
    check_shares(case)
    monkeypatch.setattr(Queues, "reclaim_steps", find_nothing)
    with pytest.raises(AssertionError, match="the shares are"):
        check_shares(case)
