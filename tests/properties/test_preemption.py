"""Preemption's shortcuts do not change its result: dry runs leave no trace, and column checks agree with dry runs."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from numpy.typing import NDArray

from pyscheduler.api import (
    Cycle,
    Diagnosis,
    DryRun,
    DryRuns,
    Mask,
    NodeInfo,
    NodeTable,
    NodeToStatus,
    Pod,
    PotentialVictims,
    Reprieve,
    StatusError,
)
from pyscheduler.api.preemption import PreemptionSearch
from pyscheduler.api.topology import Domains
from pyscheduler.core.events import PodGone
from pyscheduler.core.framework.handle import CoreHandle
from pyscheduler.core.framework.plugin_failure import PluginFailed
from pyscheduler.core.scheduling.schedule_pod import schedule_pod
from pyscheduler.core.state import ClusterState
from pyscheduler.core.state.pod_counters import SumsByDomain
from pyscheduler.intree.default_preemption import DefaultPreemption
from pyscheduler.testing import Harness, NodeBuilder, PodBuilder, node, pod
from tests.properties import preemption_storage
from tests.properties.profiles import quick
from tests.properties.state_snapshot import of_cluster
from tests.unit.intree.storage import using

(PDB,) = DefaultPreemption.watches
HOST, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"
SELECTOR = {"matchLabels": {"app": "x"}}
SPREAD = [{"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": SELECTOR}]
DISK = [{"name": "disk", "gcePersistentDisk": {"pdName": "1"}}]
EXAMPLES = 60


def affinity(kind: str, key: str) -> dict[str, Any]:
    return {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [{"labelSelector": SELECTOR, "topologyKey": key}]}}


@st.composite
def pods(draw: st.DrawFn, name: str) -> PodBuilder:
    built = pod(name).requests(cpu=draw(st.sampled_from(["0", "500m", "1", "2"])))
    built = built.requests(memory=draw(st.sampled_from(["0", "1Gi", "2Gi", "9223372036854775807"])))
    extra = draw(st.integers(0, 10))
    variants = {
        1: built.host_port(80),
        2: built.spec(topologySpreadConstraints=SPREAD),
        3: built.spec(affinity=affinity("podAntiAffinity", HOST)),
        4: built.spec(affinity=affinity("podAffinity", ZONE)),
        5: built.spec(volumes=DISK),
        6: built.tolerates("team", operator="Exists"),
        **dict.fromkeys((7, 8), built.spec(volumes=draw(preemption_storage.volumes))),
    }
    return variants.get(extra, built).label("app", draw(st.sampled_from("xy")))


@st.composite
def nodes(draw: st.DrawFn, name: str) -> NodeBuilder:
    cpu, room = draw(st.sampled_from(["1", "2", "4"])), draw(st.sampled_from(["2", "110"]))
    memory = draw(st.sampled_from(["4Gi", "4Gi", "9223372036854775807"]))
    built = node(name, cpu=cpu, memory=memory, pods=room).zone(draw(st.sampled_from("ab")))
    return draw(st.sampled_from([built, built, built, built.taint("team"), built.unschedulable()]))


@st.composite
def pods_with_volumes(draw: st.DrawFn, name: str) -> PodBuilder:
    """Generate pods that differ in their volumes only."""
    return pod(name).spec(volumes=draw(preemption_storage.volumes))


@st.composite
def clusters(draw: st.DrawFn, pods: Callable[[str], st.SearchStrategy[PodBuilder]] = pods) -> Harness:
    """Generate a cluster full of pods of several priorities, some nominated to its nodes."""
    harness = Harness()
    harness.add_object(PDB, {"metadata": {"name": "b", "namespace": "default"}, "spec": {"selector": SELECTOR}})
    preemption_storage.add_storage(harness, "new", [f"p{i}" for i in range(10)])
    names = [f"n{i}" for i in range(draw(st.integers(1, 4)))]
    harness.add(*(draw(nodes(name)) for name in names))
    for i in range(draw(st.integers(0, 8))):
        placed = draw(pods(f"p{i}")).on(draw(st.sampled_from(names))).priority(draw(st.sampled_from([0, 1, 10])))
        harness.add(placed.deleting() if draw(st.booleans()) else placed)
    if draw(st.booleans()):
        harness.add(draw(pods("nominated")).priority(10).nominated(draw(st.sampled_from(names))))
    return harness


@st.composite
def preemptors(draw: st.DrawFn, pods: Callable[[str], st.SearchStrategy[PodBuilder]] = pods) -> PodBuilder:
    return draw(pods("new")).priority(draw(st.sampled_from([1, 5, 10])))


def run_schedule_pod(harness: Harness, preemptor: PodBuilder) -> tuple[Cycle, Pod, Diagnosis | None]:
    context = harness.machine.context
    pod = preemptor.build(context.shapes)
    cycle = Cycle(harness.now, pod.scheduler_name, pod.uid)
    try:
        choice = schedule_pod(context.runtimes[pod.scheduler_name], cycle, pod)
    except PluginFailed as failed:
        if not isinstance(failed.error, StatusError):
            raise
        return cycle, pod, None
    return cycle, pod, choice if isinstance(choice, Diagnosis) else None


def frozen(value: Any) -> Any:
    """Return a comparable copy of a plugin's state."""
    if isinstance(value, np.ndarray):
        return value.dtype.str, value.tolist()
    if isinstance(value, SumsByDomain):  # a live view of its counter, which refers to it
        return value.total, value.numbers.tolist()
    if isinstance(value, Domains):  # it computes more when it is read
        return value.ids.tolist(), {**value.known}
    if isinstance(value, NodeTable | NodeInfo | ClusterState | CoreHandle):
        return id(value)
    if isinstance(value, Mapping):
        return [(frozen(k), frozen(v)) for k, v in value.items()]
    if isinstance(value, list | tuple):
        return [frozen(v) for v in value]
    if dataclasses.is_dataclass(value):
        return [(f.name, frozen(getattr(value, f.name))) for f in dataclasses.fields(value)]
    slots = [name for cls in type(value).__mro__ for name in getattr(cls, "__slots__", ())]
    return [(name, frozen(getattr(value, name, None))) for name in slots] or value


@quick(EXAMPLES)
@given(clusters(), preemptors(), st.integers(0, 3))
def test_dry_run_leaves_no_trace(harness: Harness, preemptor: PodBuilder, ends_early: int) -> None:
    cycle, pod, diagnosis = run_schedule_pod(harness, preemptor)
    if diagnosis is not None and diagnosis.pre_filter is not None:
        return
    state = harness.machine.context.state
    before = of_cluster(state), frozen(cycle.state())
    for row in list(state.rows):
        steps = list(row.pods.values())
        try:
            with harness.handle.dry_runs.open(cycle, pod, row.name) as dry_run:
                for other in steps:
                    dry_run.remove(other)
                    dry_run.run_filters()
                for other in steps[ends_early:]:
                    dry_run.add(other)
                raise InterruptedError
        except InterruptedError:
            assert (of_cluster(state), frozen(cycle.state())) == before
    if diagnosis is not None:
        repeated = run_schedule_pod(harness, preemptor)[2]
        assert repeated is not None
        assert repeated.message == diagnosis.message


@quick(EXAMPLES)
@given(clusters(), preemptors())
def test_dry_run_with_pods_restored_gives_the_original_status(harness: Harness, preemptor: PodBuilder) -> None:
    cycle, pod, diagnosis = run_schedule_pod(harness, preemptor)
    if diagnosis is None or diagnosis.pre_filter is not None:
        return
    for row in harness.machine.context.state.rows:
        with harness.handle.dry_runs.open(cycle, pod, row.name) as dry_run:
            first = dry_run.run_filters()
            assert first == diagnosis.status_of(row.name)
            one_port_each = len(row.used_ports) == sum(len(p.signature.host_ports) for p in row.pods.values())
            if one_port_each and not any(p.deleting for p in row.pods.values()):
                for other in list(row.pods.values()):
                    dry_run.remove(other)
                    dry_run.add(other)
                assert dry_run.run_filters() == first


class SingleDryRuns(DryRuns):
    """Dry runs on one node at a time, without evaluations of all nodes at once."""

    def __init__(self, handle: CoreHandle) -> None:
        self._handle, self._dry_runs = handle, handle.dry_runs

    def open(self, cycle: Cycle, pod: Pod, node_name: str) -> AbstractContextManager[DryRun]:
        return self._dry_runs.open(cycle, pod, node_name)

    def filter_without_lower_priority(
        self, cycle: Cycle, pod: Pod, rows: NDArray[np.intp]
    ) -> tuple[NodeToStatus, Mask]:
        return NodeToStatus(len(rows)), np.ones(len(rows), np.bool_)

    def reprieve_pods(self, cycle: Cycle, pod: Pod, victims: PotentialVictims) -> Reprieve:
        return Reprieve(np.zeros(victims.pods.shape, np.bool_), np.ones(len(victims.rows), np.bool_))


def with_single_dry_runs(handle: CoreHandle) -> CoreHandle:
    return replace(handle, dry_runs=SingleDryRuns(handle))


def run_search(handle: Any, attempt: tuple[Cycle, Pod, Diagnosis]) -> tuple[PreemptionSearch, Any]:
    plugin = DefaultPreemption(DefaultPreemption.Args(), handle)
    try:
        answer: Any = plugin.post_filter(*attempt)
    except Exception as error:
        answer = repr(error)
    return plugin.search(*attempt), answer


@quick(2 * EXAMPLES)
@given(clusters(), preemptors())
def test_column_checks_find_the_same_candidates_as_dry_runs(harness: Harness, preemptor: PodBuilder) -> None:
    cycle, pod, diagnosis = run_schedule_pod(harness, preemptor)
    if diagnosis is not None:
        attempt = cycle, pod, diagnosis
        assert run_search(harness.handle, attempt) == run_search(with_single_dry_runs(harness.handle), attempt)


@quick(2 * EXAMPLES)
@given(clusters(pods_with_volumes), preemptors(pods_with_volumes))
def test_column_checks_agree_with_dry_runs_on_volumes(harness: Harness, preemptor: PodBuilder) -> None:
    cycle, pod, diagnosis = run_schedule_pod(harness, preemptor)
    if diagnosis is not None:
        attempt = cycle, pod, diagnosis
        assert run_search(harness.handle, attempt) == run_search(with_single_dry_runs(harness.handle), attempt)


def test_victim_is_found_because_of_its_volume() -> None:
    harness = Harness()
    preemption_storage.add_storage(harness, "new", ["other"])
    harness.add(node("n0").zone("a"), using("second", name="other").on("n0"), pod("bystander").on("n0"))
    cycle, preemptor, diagnosis = run_schedule_pod(harness, using("first", name="new").priority(5))
    assert diagnosis is not None
    for handle in (harness.handle, with_single_dry_runs(harness.handle)):
        (candidate,) = run_search(handle, (cycle, preemptor, diagnosis))[0].candidates.values()
        assert [victim.name for victim in candidate.victims] == ["other"]


@st.composite
def events(draw: st.DrawFn) -> Callable[[Harness], object]:
    """Generate an event that may change the result of a dry run."""
    name, on = f"p{draw(st.integers(0, 9))}", draw(st.sampled_from(["n0", "n1", "n2"]))
    new_pod = draw(pods(name)).on(on).priority(draw(st.sampled_from([0, 1, 10])))
    nominated = draw(pods("nominated")).priority(draw(st.sampled_from([0, 10]))).nominated(on)
    budget = {"metadata": {"name": "b", "namespace": "default"}, "spec": {"selector": SELECTOR}}
    another = draw(nodes(on))
    choices: list[Callable[[Harness], object]] = [
        lambda harness: harness.add(new_pod),
        lambda harness: harness.add(new_pod.deleting()),
        lambda harness: harness.add(new_pod.started("2026-01-01T00:00:00Z")),
        lambda harness: harness.handle_event(PodGone(harness.now, "default", name, "")),
        lambda harness: harness.add(nominated),
        lambda harness: harness.handle_event(PodGone(harness.now, "default", "nominated", "")),
        lambda harness: harness.add(another),
        lambda harness: harness.add_object(PDB, {**budget, "status": {"disruptionsAllowed": 1}}),
    ]
    return draw(st.sampled_from(choices))


@quick(3 * EXAMPLES)
@given(clusters(), preemptors(), st.lists(events(), max_size=5))
def test_cached_search_equals_repeated_search(
    harness: Harness, preemptor: PodBuilder, events: list[Callable[[Harness], object]]
) -> None:
    cached = DefaultPreemption(DefaultPreemption.Args(), harness.handle)
    for apply in [id, *events]:
        apply(harness)
        cycle, pod, diagnosis = run_schedule_pod(harness, preemptor)
        if diagnosis is not None:
            uncached = DefaultPreemption(DefaultPreemption.Args(), harness.handle).search(cycle, pod, diagnosis)
            assert cached.search(cycle, pod, diagnosis) == uncached


@quick(EXAMPLES)
@given(clusters(), preemptors())
def test_column_check_status_equals_dry_run_status(harness: Harness, preemptor: PodBuilder) -> None:
    cycle, pod, diagnosis = run_schedule_pod(harness, preemptor)
    if diagnosis is None:
        return
    rows = list(harness.machine.context.state.rows)
    statuses, undecided = harness.handle.dry_runs.filter_without_lower_priority(cycle, pod, np.arange(len(rows)))
    for index, row in enumerate(rows):
        expected = statuses.at(index)
        if undecided[index]:
            assert expected is None
            continue
        with harness.handle.dry_runs.open(cycle, pod, row.name) as dry_run:
            for other in [p for p in row.pods.values() if p.priority < pod.priority]:
                dry_run.remove(other)
            actual = dry_run.run_filters()
        assert (actual and (actual.code, actual.reasons)) == (expected and (expected.code, expected.reasons))
