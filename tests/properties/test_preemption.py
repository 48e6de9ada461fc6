"""Preemption's shortcuts change nothing: trials leave no trace, and columns rule out what trials would rule out."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from pyscheduler.api import Cycle, Diagnosis, NodeInfo, NodeTable, NodeToStatus, Pod, StatusError
from pyscheduler.api.preemption import PreemptionSearch
from pyscheduler.core.events import PodGone
from pyscheduler.core.framework.handle import CoreHandle
from pyscheduler.core.framework.plugin_failure import PluginFailed
from pyscheduler.core.state import ClusterState
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
def claimants(draw: st.DrawFn, name: str) -> PodBuilder:
    """Pods that differ in their volumes, and fit otherwise."""
    return pod(name).spec(volumes=draw(preemption_storage.volumes))


@st.composite
def worlds(draw: st.DrawFn, pods: Callable[[str], st.SearchStrategy[PodBuilder]] = pods) -> Harness:
    """Nodes full of pods of several priorities, and others that have been promised a place there."""
    harness = Harness()
    harness.add_object(PDB, {"metadata": {"name": "b", "namespace": "default"}, "spec": {"selector": SELECTOR}})
    preemption_storage.add_storage(harness, "new", [f"p{i}" for i in range(10)])
    names = [f"n{i}" for i in range(draw(st.integers(1, 4)))]
    harness.add(*(draw(nodes(name)) for name in names))
    for i in range(draw(st.integers(0, 8))):
        placed = draw(pods(f"p{i}")).on(draw(st.sampled_from(names))).priority(draw(st.sampled_from([0, 1, 10])))
        harness.add(placed.deleting() if draw(st.booleans()) else placed)
    if draw(st.booleans()):
        harness.add(draw(pods("promised")).priority(10).nominated(draw(st.sampled_from(names))))
    return harness


@st.composite
def preemptors(draw: st.DrawFn, pods: Callable[[str], st.SearchStrategy[PodBuilder]] = pods) -> PodBuilder:
    return draw(pods("new")).priority(draw(st.sampled_from([1, 5, 10])))


def decided(harness: Harness, of: PodBuilder) -> tuple[Cycle, Pod, Diagnosis | None]:
    context = harness.machine.context
    pod = of.build(context.shapes)
    cycle = Cycle(harness.now, pod.scheduler_name, pod.uid)
    try:
        choice = context.deciders[pod.scheduler_name].decide(cycle, pod)
    except PluginFailed as failed:
        if not isinstance(failed.error, StatusError):
            raise
        return cycle, pod, None
    return cycle, pod, choice if isinstance(choice, Diagnosis) else None


def frozen(value: Any) -> Any:
    """A copy of some plugin's state that compares by what is in it."""
    if isinstance(value, np.ndarray):
        return value.dtype.str, value.tolist()
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
@given(worlds(), preemptors(), st.integers(0, 3))
def test_a_trial_leaves_no_trace(harness: Harness, of: PodBuilder, ends_early: int) -> None:
    cycle, pod, diagnosis = decided(harness, of)
    if diagnosis is not None and diagnosis.pre_filter is not None:
        return
    state = harness.machine.context.state
    before = of_cluster(state), frozen(cycle.state())
    for row in list(state.rows):
        steps = list(row.pods.values())
        try:
            with harness.handle.dry_run(cycle, pod, row.name) as trial:
                for other in steps:
                    trial.remove(other)
                    trial.run_filters()
                for other in steps[ends_early:]:
                    trial.add(other)
                raise InterruptedError
        except InterruptedError:
            assert (of_cluster(state), frozen(cycle.state())) == before
    if diagnosis is not None:
        again = decided(harness, of)[2]
        assert again is not None
        assert again.message == diagnosis.message


@quick(EXAMPLES)
@given(worlds(), preemptors())
def test_a_trial_that_ends_as_it_began_hears_the_same(harness: Harness, of: PodBuilder) -> None:
    cycle, pod, diagnosis = decided(harness, of)
    if diagnosis is None or diagnosis.pre_filter is not None:
        return
    for row in harness.machine.context.state.rows:
        with harness.handle.dry_run(cycle, pod, row.name) as trial:
            first = trial.run_filters()
            assert first == diagnosis.status_of(row.name)
            one_port_each = len(row.used_ports) == sum(len(p.signature.host_ports) for p in row.pods.values())
            if one_port_each and not any(p.deleting for p in row.pods.values()):
                for other in list(row.pods.values()):
                    trial.remove(other)
                    trial.add(other)
                assert trial.run_filters() == first


class Unseeing:
    """A handle that rules nothing out, and leaves everything to trials."""

    def __init__(self, handle: CoreHandle) -> None:
        self._handle = handle

    def filter_without_lower_priority(self, cycle: Cycle, pod: Pod, priority: int) -> NodeToStatus:
        return NodeToStatus(len(self._handle.nodes()))

    def reprieve_pods(
        self, cycle: Cycle, pod: Pod, orders: Mapping[int, Sequence[Pod]]
    ) -> Mapping[int, Sequence[bool]]:
        return {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._handle, name)


def searched(handle: Any, world: tuple[Cycle, Pod, Diagnosis]) -> tuple[PreemptionSearch, Any]:
    plugin = DefaultPreemption(DefaultPreemption.Args(), handle)
    try:
        answer: Any = plugin.post_filter(*world)
    except Exception as error:
        answer = repr(error)
    return plugin.search(*world), answer


@quick(2 * EXAMPLES)
@given(worlds(), preemptors())
def test_ruling_nodes_out_by_columns_finds_what_trials_find(harness: Harness, of: PodBuilder) -> None:
    cycle, pod, diagnosis = decided(harness, of)
    if diagnosis is not None:
        world = cycle, pod, diagnosis
        assert searched(harness.handle, world) == searched(Unseeing(harness.handle), world)


@quick(2 * EXAMPLES)
@given(worlds(claimants), preemptors(claimants))
def test_the_same_holds_where_volumes_decide(harness: Harness, of: PodBuilder) -> None:
    cycle, pod, diagnosis = decided(harness, of)
    if diagnosis is not None:
        world = cycle, pod, diagnosis
        assert searched(harness.handle, world) == searched(Unseeing(harness.handle), world)


def test_a_volume_may_have_to_go_for_another() -> None:
    harness = Harness()
    preemption_storage.add_storage(harness, "new", ["other"])
    harness.add(node("n0").zone("a"), using("second", name="other").on("n0"), pod("bystander").on("n0"))
    cycle, preemptor, diagnosis = decided(harness, using("first", name="new").priority(5))
    assert diagnosis is not None
    for handle in (harness.handle, Unseeing(harness.handle)):
        (candidate,) = searched(handle, (cycle, preemptor, diagnosis))[0].candidates.values()
        assert [victim.name for victim in candidate.victims] == ["other"]


@st.composite
def happenings(draw: st.DrawFn) -> Callable[[Harness], object]:
    """Something that may change what trying out a node shows."""
    name, on = f"p{draw(st.integers(0, 9))}", draw(st.sampled_from(["n0", "n1", "n2"]))
    comes = draw(pods(name)).on(on).priority(draw(st.sampled_from([0, 1, 10])))
    promised = draw(pods("promised")).priority(draw(st.sampled_from([0, 10]))).nominated(on)
    budget = {"metadata": {"name": "b", "namespace": "default"}, "spec": {"selector": SELECTOR}}
    another = draw(nodes(on))
    what: list[Callable[[Harness], object]] = [
        lambda harness: harness.add(comes),
        lambda harness: harness.add(comes.deleting()),
        lambda harness: harness.add(comes.started("2026-01-01T00:00:00Z")),
        lambda harness: harness.handle_event(PodGone(harness.now, "default", name, "")),
        lambda harness: harness.add(promised),
        lambda harness: harness.handle_event(PodGone(harness.now, "default", "promised", "")),
        lambda harness: harness.add(another),
        lambda harness: harness.add_object(PDB, {**budget, "status": {"disruptionsAllowed": 1}}),
    ]
    return draw(st.sampled_from(what))


@quick(3 * EXAMPLES)
@given(worlds(), preemptors(), st.lists(happenings(), max_size=5))
def test_what_is_remembered_is_what_trying_again_finds(
    harness: Harness, of: PodBuilder, happenings: list[Callable[[Harness], object]]
) -> None:
    remembers = DefaultPreemption(DefaultPreemption.Args(), harness.handle)
    for happen in [id, *happenings]:
        happen(harness)
        cycle, pod, diagnosis = decided(harness, of)
        if diagnosis is not None:
            afresh = DefaultPreemption(DefaultPreemption.Args(), harness.handle).search(cycle, pod, diagnosis)
            assert remembers.search(cycle, pod, diagnosis) == afresh


@quick(EXAMPLES)
@given(worlds(), preemptors())
def test_what_is_ruled_out_is_told_as_a_trial_would_hear_it(harness: Harness, of: PodBuilder) -> None:
    cycle, pod, diagnosis = decided(harness, of)
    if diagnosis is None:
        return
    verdicts = harness.handle.filter_without_lower_priority(cycle, pod, pod.priority)
    for place, row in enumerate(list(harness.machine.context.state.rows)):
        said = verdicts.at(place)
        if said is None:
            continue
        with harness.handle.dry_run(cycle, pod, row.name) as trial:
            for other in [p for p in row.pods.values() if p.priority < pod.priority]:
                trial.remove(other)
            heard = trial.run_filters()
        assert heard is not None
        assert (heard.code, heard.reasons) == (said.code, said.reasons)
