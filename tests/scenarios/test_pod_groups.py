"""Pods with spec.schedulingGroup and the feature gate GenericWorkload: the pods of a group are bound together."""

from __future__ import annotations

import itertools
from collections import Counter
from typing import Any

import pytest

from pyscheduler.config.gates import parse
from pyscheduler.config.load import LoadedConfig, default, loads
from pyscheduler.core.commands import PatchPodGroup
from pyscheduler.intree.gang_scheduling import POD_GROUPS
from pyscheduler.testing import Harness, PodBuilder, node, pod
from tests.unit.config.files import config

from .devices import DRIVER, claim, device_class, devices_of, resource_slice, user, users_of

ON = default(parse(["GenericWorkload=true"]))
TOPOLOGY_AWARE = default(parse(["GenericWorkload=true,TopologyAwareWorkloadScheduling=true"]))
RACK = "example.com/rack"
NO_VICTIMS = "pod group preemption: No preemption victims found for incoming preemptor"
NO_CPU = "0/1 nodes are available: 1 Insufficient cpu."


def member(name: str, group: str = "team") -> PodBuilder:
    builder = pod(name).requests(cpu="1")
    builder.manifest["spec"]["schedulingGroup"] = {"podGroupName": group}
    return builder


def add_group(harness: Harness, name: str = "team", min_count: int = 3, **fields: Any) -> None:
    spec = {"schedulingPolicy": {"gang": {"minCount": min_count}}, **fields}
    harness.add_object(
        POD_GROUPS[0], {"metadata": {"namespace": "default", "name": name, "uid": f"uid-of-{name}"}, "spec": spec}
    )


def room_for_two() -> Harness:
    harness = Harness(ON)
    harness.add(node("n1", cpu="2"))
    return harness


def incomplete_gang() -> Harness:
    """Return a cluster in which two members of a gang of three would fit."""
    harness = room_for_two()
    add_group(harness)
    harness.add(member("a"), member("b"), member("c"))
    harness.run()
    return harness


def condition(harness: Harness, name: str = "team") -> dict[str, str]:
    """Return the condition of the PodGroup without its times."""
    found = harness.object(POD_GROUPS[0], name, "default")
    assert found is not None
    (only,) = found["status"]["conditions"]
    return {key: only[key] for key in ("type", "status", "reason", "message")}


def test_no_member_is_bound_while_one_of_three_fits_no_node() -> None:
    harness = incomplete_gang()
    harness.advance(60)
    assert harness.assignments == {}
    harness.add(pod("other").requests(cpu="1"))
    harness.run()
    assert harness.assignments == {"other": "n1"}, "the gang holds no node"


def test_messages_are_those_of_kube_scheduler() -> None:
    harness = incomplete_gang()
    whole = f"minCount (3) cannot be satisfied: 2 scheduled, 0 remaining, {NO_VICTIMS}"
    fits = f"pod group is unschedulable, {whole}"
    assert sorted(map(harness.pending_message, "abc")) == sorted([NO_CPU, fits, fits])
    not_scheduled = {"type": "PodGroupInitiallyScheduled", "status": "False", "reason": "Unschedulable"}
    assert condition(harness) == {**not_scheduled, "message": whole}
    harness.add(node("n2", cpu="1"))
    harness.advance(15)
    assert condition(harness) == {**not_scheduled, "status": "True", "reason": "Scheduled", "message": ""}


def test_attempt_ends_as_soon_as_too_few_members_are_left() -> None:
    harness = room_for_two()
    add_group(harness, min_count=4)
    harness.add(*map(member, "abcde"))
    harness.run()
    whole = "minCount (4) cannot be satisfied: 2 scheduled, 1 remaining"
    fits = f"pod group is unschedulable, {whole}, {NO_VICTIMS}"
    messages = Counter(map(harness.pending_message, "abcde"))
    assert messages == {fits: 2, NO_CPU: 2, whole: 1}


def test_group_that_never_preempts_has_the_reason() -> None:
    harness = room_for_two()
    add_group(harness)
    harness.add(*(member(name).spec(preemptionPolicy="Never") for name in "abc"))
    harness.run()
    reasons = (
        "minCount (3) cannot be satisfied: 2 scheduled, 0 remaining",
        "deallocation and deletion of ResourceClaims completed",
        "pod group preemption: not eligible due to preemptionPolicy=Never.",
    )
    assert condition(harness)["message"] == ", ".join(reasons)


@pytest.mark.parametrize(
    ("users", "nodes"),
    [
        pytest.param([], {"p": "n2", "q": "n2"}, id="free"),
        pytest.param(["uid-of-another"], {}, id="reserved for another pod"),
    ],
)
def test_claim_that_no_pod_of_the_group_can_use_is_deallocated(users: list[str], nodes: dict[str, str]) -> None:
    harness = Harness(ON)
    harness.apply(device_class())
    for name in ("n1", "n2"):
        harness.add(node(name).unschedulable() if name == "n1" else node(name))
        harness.apply(resource_slice(name, "gpu"))
    here = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}
    result = {"request": "r", "driver": DRIVER, "pool": "n1", "device": "gpu"}
    allocation = {"devices": {"results": [result]}, "nodeSelector": {"nodeSelectorTerms": [here]}}
    reserved = [{"resource": "pods", "name": uid, "uid": uid} for uid in users]
    harness.apply({**claim("c"), "status": {"allocation": allocation, "reservedFor": reserved}})
    add_group(harness, min_count=2)
    for name in "pq":
        harness.apply(user(name, "c", schedulingGroup={"podGroupName": "team"}))
    harness.advance(30)
    assert harness.assignments == nodes
    assert devices_of(harness, "c") == (["n2/gpu"] if nodes else ["n1/gpu"])


def sharing(*names: str, group: str = "team") -> Harness:
    """Return a cluster with one device, and a claim for it that these pods of a group share."""
    harness = Harness(ON)
    harness.apply(device_class())
    harness.add(node("n1"), node("n2"))
    harness.apply(resource_slice("n2", "gpu"))
    harness.apply(claim("c"))
    add_group(harness, group, min_count=len(names))
    for name in names:
        harness.apply(user(name, "c", schedulingGroup={"podGroupName": group}))
    return harness


def test_pods_of_a_group_share_a_claim_that_is_allocated_for_the_first_of_them() -> None:
    harness = sharing("p", "q", "r")
    harness.advance(1)  # pods write the claim at the same time, so that some read it again
    assert harness.assignments == {"p": "n2", "q": "n2", "r": "n2"}
    assert (devices_of(harness, "c"), sorted(users_of(harness, "c"))) == (["n2/gpu"], ["p", "q", "r"])


def test_shared_claim_is_allocated_for_the_others_if_the_binding_of_the_first_is_refused() -> None:
    harness = sharing("p", "q")
    harness.binding_error = lambda pod, _node: "refused" if pod.name == "p" else ""
    harness.run()
    assert (harness.assignments, users_of(harness, "c")) == ({"q": "n2"}, ["q"])
    harness.binding_error = lambda _pod, _node: ""
    harness.advance(60)
    assert harness.assignments == {"p": "n2", "q": "n2"}
    assert sorted(users_of(harness, "c")) == ["p", "q"]


@pytest.mark.parametrize("group", ["", "other"])
def test_pod_outside_the_group_waits_until_the_claim_is_allocated(group: str) -> None:
    harness = sharing("p", "q")
    harness.complete_bindings = False
    harness.run()
    if group:
        add_group(harness, group, min_count=1)
    harness.apply(user("z", "c", **({"schedulingGroup": {"podGroupName": group}} if group else {})))
    harness.run()
    assert "resource claim default/c is in the process of being allocated" in harness.pending_message("z")


def test_all_members_are_bound_once_the_last_one_fits() -> None:
    harness = incomplete_gang()
    harness.add(node("n2", cpu="1"))
    harness.advance(15)
    assert sorted(harness.assignments) == ["a", "b", "c"]
    assert sorted(harness.assignments.values()) == ["n1", "n1", "n2"]


@pytest.mark.parametrize("order", list(itertools.permutations(["group", "a", "b", "c"])))
def test_group_and_members_may_be_created_in_any_order(order: tuple[str, ...]) -> None:
    harness = Harness(ON)
    harness.add(node("n1", cpu="3"))
    for name in order:
        assert harness.assignments == {}
        if name == "group":
            add_group(harness)
        else:
            harness.add(member(name))
        harness.run()
    assert set(harness.assignments) == {"a", "b", "c"}


def test_gated_members_cause_no_attempts_and_no_commands() -> None:
    harness = room_for_two()
    harness.add(member("a"), member("b"), member("c"))
    harness.run()
    add_group(harness, min_count=4)
    harness.run()
    assert harness.commands == []


def test_bound_members_count() -> None:
    harness = room_for_two()
    add_group(harness)
    harness.add(node("elsewhere").unschedulable(), member("a").on("elsewhere"), member("b"), member("c"))
    harness.run()
    assert {"b": "n1", "c": "n1"}.items() <= harness.assignments.items()


def test_new_member_replaces_a_deleted_one() -> None:
    harness = incomplete_gang()
    harness.delete_pod("a")
    harness.add(member("d"))
    harness.advance(15)
    assert harness.assignments == {}
    harness.add(node("n2", cpu="1"))
    harness.advance(15)
    assert len(harness.assignments) == 3
    assert "d" in harness.assignments


def test_members_beyond_min_count_are_bound_at_once() -> None:
    harness = incomplete_gang()
    harness.add(node("n2", cpu="2"))
    harness.advance(15)
    harness.add(member("d"))
    harness.run()
    assert set(harness.assignments) == {"a", "b", "c", "d"}


def test_pod_with_a_group_is_scheduled_alone_without_the_gate() -> None:
    harness = Harness()
    harness.add(node("n1", cpu="2"), member("a"))
    harness.run()
    assert harness.assignments == {"a": "n1"}


@pytest.mark.parametrize(("config", "watched"), [(ON, True), (None, False)])
def test_pod_groups_are_watched_only_with_the_gate(config: LoadedConfig | None, watched: bool) -> None:
    (profile,) = Harness(config).machine.context.profiles.values()
    assert (POD_GROUPS[0] in profile.watches) == watched


def end(harness: Harness, name: str, phase: str) -> None:
    harness.add(member(name).on("n1").phase(phase))


def test_succeeded_members_count_and_failed_ones_do_not() -> None:
    harness = Harness(ON)
    harness.add(node("n1", cpu="3"))
    add_group(harness)
    harness.add(member("a"), member("b"), member("c"))
    harness.run()
    end(harness, "a", "Succeeded")
    end(harness, "b", "Failed")
    harness.add(member("d"))
    harness.run()
    assert "d" in harness.assignments


def test_no_pod_is_evicted_for_a_group_that_would_still_not_fit() -> None:
    harness = room_for_two()
    harness.add(pod("low0").requests(cpu="1"), pod("low1").requests(cpu="1"))
    harness.run()
    add_group(harness, priority=100)
    harness.add(*(member(name).priority(100) for name in "abc"))
    harness.run()
    harness.advance(600)
    assert harness.evicted() == []
    assert len(harness.machine.context.queue.nominator) == 0


def test_group_preempts_pods_if_all_members_fit_afterwards() -> None:
    harness = room_for_two()
    harness.add(pod("low0").requests(cpu="1"), pod("low1").requests(cpu="1"))
    harness.run()
    add_group(harness, priority=100)
    harness.add(*(member(name).priority(100) for name in "abc"), node("n2", cpu="1"))
    harness.run()
    harness.advance(15)
    assert sorted(harness.evicted()) == ["low0", "low1"]
    assert {"a", "b", "c"} <= set(harness.assignments)


@pytest.mark.parametrize(("mode", "evicted"), [("single", 1), ("all", 2)])
@pytest.mark.parametrize("is_group", [True, False], ids=["by a group", "by a pod"])
def test_disruption_mode_decides_how_many_pods_of_a_group_are_evicted(mode: str, evicted: int, is_group: bool) -> None:
    harness = room_for_two()
    add_group(harness, min_count=2, disruptionMode={mode: {}})
    harness.add(member("a"), member("b"))
    harness.run()
    assert len(harness.assignments) == 2
    if is_group:
        add_group(harness, "urgent", 1, priority=100)
    harness.add((member("high", "urgent") if is_group else pod("high").requests(cpu="1")).priority(100))
    harness.run()
    harness.advance(15)
    assert len(harness.evicted()) == evicted
    assert harness.assignments["high"] == "n1"


def test_result_of_preemption_is_in_the_condition() -> None:
    harness = room_for_two()
    harness.add(pod("low").requests(cpu="1"))
    harness.run()
    add_group(harness, min_count=2, priority=100)
    harness.add(*(member(name).priority(100) for name in "ab"))
    harness.run()
    written = [command.message for command in harness.commands if isinstance(command, PatchPodGroup)]
    reason = "pod group preemption: found a placement for podgroup, preempting 1 victims"
    assert written[0] == f"minCount (2) cannot be satisfied: 1 scheduled, 0 remaining, {reason}"


def test_event_of_a_victim_names_the_group() -> None:
    harness = room_for_two()
    harness.add(pod("low").requests(cpu="2"))
    harness.run()
    add_group(harness, min_count=2, priority=100)
    harness.add(*(member(name).priority(100) for name in "ab"))
    harness.run()
    assert ("Preempted", "Preempted by podgroup uid-of-team on node cluster") in harness.events("low")


def test_group_of_pods_with_another_priority_fails_with_the_error() -> None:
    harness = room_for_two()
    add_group(harness, min_count=2)
    harness.add(member("a"), member("b").priority(7))
    harness.run()
    text = "all pods in a single pod group should have the same priority as the pod group's priority, got 7 and 0"
    assert harness.assignments == {}
    assert {harness.pending_message(name) for name in "ab"} == {text}
    assert condition(harness) == {
        "type": "PodGroupInitiallyScheduled",
        "status": "False",
        "reason": "SchedulerError",
        "message": text,
    }
    harness.delete_pod("b")
    harness.add(member("c"))
    harness.advance(15)
    assert set(harness.assignments) == {"a", "c"}


def test_pending_pods_of_another_scheduler_do_not_count() -> None:
    harness = room_for_two()
    add_group(harness)
    harness.add(member("a"), member("b"), member("c").scheduler("theirs"))
    harness.run()
    assert harness.assignments == {}
    harness.add(node("n2"), member("c").scheduler("theirs").on("n2"))
    harness.advance(15)
    assert condition(harness)["reason"] == "SchedulerError", "it differs from the others, as in kube-scheduler"


def test_group_without_its_object_starts_again_once_it_is_there() -> None:
    harness = room_for_two()
    add_group(harness, min_count=2)
    harness.add(member("a"), member("b"))
    harness.remove_object(POD_GROUPS[0], "team")
    harness.advance(30)
    assert harness.assignments == {}
    add_group(harness, min_count=2)
    harness.advance(15)
    assert harness.assignments == {"a": "n1", "b": "n1"}


# -- topology ----------------------------------------------------------------------------------------------------------


def racks(**cpus: str) -> Harness:
    """Return a cluster with one node for each rack."""
    harness = Harness(TOPOLOGY_AWARE)
    harness.add(*(node(name, cpu=cpu).label(RACK, name) for name, cpu in cpus.items()))
    return harness


IN_ONE_RACK = {"topology": [{"key": RACK}]}


def test_group_is_placed_in_a_domain_with_room_for_all() -> None:
    harness = racks(r1="2", r2="3", r3="2")
    add_group(harness, schedulingConstraints=IN_ONE_RACK)
    harness.add(*map(member, "abc"))
    harness.run()
    assert set(harness.assignments.values()) == {"r2"}
    harness.add(member("d"))
    harness.run()
    assert "d" not in harness.assignments, "the domain of the others is full"
    harness.delete_pod("a")
    harness.advance(60)
    assert harness.assignments["d"] == "r2"


def test_domain_in_which_most_pods_fit_is_preferred() -> None:
    harness = racks(r1="2", r2="4", r3="3")
    harness.add(*map(member, "abcd"))
    add_group(harness, min_count=2, schedulingConstraints=IN_ONE_RACK)
    harness.run()
    assert list(harness.assignments.values()) == ["r2"] * 4


def test_fuller_domain_is_preferred_if_as_many_pods_fit() -> None:
    harness = racks(r1="8", r2="4", r3="6")
    harness.add(*map(member, "ab"))
    add_group(harness, min_count=2, schedulingConstraints=IN_ONE_RACK)
    harness.run()
    assert set(harness.assignments.values()) == {"r2"}


@pytest.mark.parametrize("disabled", ["PodGroupPodsCount", "NodeResourcesFit"])
def test_placement_score_plugins_can_be_disabled(disabled: str) -> None:
    gates = parse(["GenericWorkload=true,TopologyAwareWorkloadScheduling=true"])
    plugins = f"plugins: {{placementScore: {{disabled: [{{name: {disabled}}}]}}}}"
    harness = Harness(loads(config(f"profiles: [{{{plugins}}}]"), gates=gates))
    harness.add(node("r1", cpu="2").label(RACK, "r1"), node("r2", cpu="12").label(RACK, "r2"), *map(member, "abc"))
    add_group(harness, min_count=2, schedulingConstraints=IN_ONE_RACK)
    harness.run()
    assert set(harness.assignments.values()) == {"r1" if disabled == "PodGroupPodsCount" else "r2"}


def test_group_that_fits_in_no_domain_has_the_number_of_those() -> None:
    harness = racks(r1="2", r2="2")
    add_group(harness, schedulingConstraints=IN_ONE_RACK)
    harness.add(*map(member, "abc"))
    harness.run()
    why = f"minCount (3) cannot be satisfied: 2 scheduled, 0 remaining, {NO_VICTIMS}"
    assert condition(harness)["message"] == (
        f"pod group is unschedulable, 0/2 placements are available, first placement status: {why}"
    )
    assert NO_CPU in map(harness.pending_message, "abc"), "the nodes of the placement are counted"


def test_group_without_any_domain_waits_for_the_label() -> None:
    harness = Harness(TOPOLOGY_AWARE)
    harness.add(node("n1", cpu="4"))
    add_group(harness, schedulingConstraints=IN_ONE_RACK)
    harness.add(*map(member, "abc"))
    harness.run()
    assert condition(harness)["message"] == f"no feasible placements found, {NO_VICTIMS}"
    harness.add(node("n1", cpu="4").label(RACK, "r1"))
    harness.advance(15)
    assert len(harness.assignments) == 3


def test_group_with_pods_in_two_domains_fails_with_the_error() -> None:
    harness = racks(r1="4", r2="4")
    add_group(harness, schedulingConstraints=IN_ONE_RACK)
    harness.add(member("a").on("r1"), member("b").on("r2"), member("c"))
    harness.run()
    text = "cannot determine domain for already scheduled pods: more than 1 domain found for pod group: r1, r2"
    assert text in harness.pending_message("c")


def test_gang_preempts_in_one_domain() -> None:
    harness = racks(r1="2", r2="2")
    harness.add(pod("low1").requests(cpu="1").node_selector(**{RACK: "r1"}), pod("low2").requests(cpu="1").on("r2"))
    harness.run()
    add_group(harness, min_count=2, priority=100, schedulingConstraints=IN_ONE_RACK)
    harness.add(*(member(name).priority(100) for name in "ab"))
    harness.run()
    harness.advance(15)
    assert len(harness.evicted()) == 1
    assert len({harness.assignments["a"], harness.assignments["b"]}) == 1
