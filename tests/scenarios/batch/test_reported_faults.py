"""Faults of gang schedulers that users have reported: none of them may appear here."""

from __future__ import annotations

import pytest

from tests.scenarios.batch.cluster import Cluster
from tests.scenarios.batch.manifests import (
    APIS,
    COSCHEDULING,
    NATIVE,
    VOLCANO,
    WITH_OBJECT,
    Gang,
    annotated,
    gang,
    node,
    pod,
    slots,
)

HOUR = 3600


# -- minimum resources, incomplete groups ------------------------------------------------------------------------------


@pytest.mark.parametrize("api", [VOLCANO, COSCHEDULING])
def test_drivers_do_not_take_the_room_of_their_executors(api: str) -> None:
    """Spark operators create executors once the driver runs, and declare the resources of both."""
    cluster = Cluster(node("n1", 4))
    apps = [gang(f"app{i}", 1, api=api, min_resources={"cpu": "3"}) for i in range(4)]
    cluster.submit(*apps)
    executors = {app.name: gang(app.name, 1, [pod(f"{app.name}-e{n}") for n in range(2)], api=api) for app in apps}
    for app in apps:
        if cluster.members(app):
            cluster.submit(*executors[app.name].pods)
    cluster.advance_to(HOUR)
    assert [cluster.members(app.name) for app in apps] == [3, 0, 0, 0]


@pytest.mark.parametrize("api", APIS)
def test_group_whose_last_pods_are_never_created_holds_nothing(api: str) -> None:
    cluster = Cluster(*slots(4))
    group = gang("a", 4, api=api)
    cluster.declare(group)
    cluster.submit(*group.objects, *group.pods[:3])
    cluster.submit(*(pod(f"single{i}") for i in range(4)))
    assert cluster.members("single") == 4


@pytest.mark.parametrize("api", APIS)
def test_recreated_pod_of_the_same_name_joins_its_group(api: str) -> None:
    cluster = Cluster(*slots(3))
    group = gang("a", 3, api=api)
    cluster.declare(group)
    cluster.submit(*group.objects, *group.pods[:2])
    cluster.delete("Pod", "a0")
    cluster.submit(*group.pods[:1])
    cluster.advance_to(10)
    assert cluster.members(group) == 0
    cluster.submit(group.pods[2])
    cluster.advance_to(20)
    assert cluster.members(group) == 3


@pytest.mark.parametrize("api", [NATIVE, COSCHEDULING])
def test_gated_pods_do_not_count_towards_the_minimum(api: str) -> None:
    cluster = Cluster(*slots(4))
    group = gang("a", 3, 4, api=api)
    cluster.declare(group)
    gates = {"schedulingGates": [{"name": "example.com/wait"}]}
    cluster.submit(*group.objects, *({**each, "spec": {**each["spec"], **gates}} for each in group.pods))
    bound = []
    for each in group.pods:
        cluster.submit(each)
        cluster.advance(5)
        bound.append(cluster.members(group))
    assert bound == [0, 0, 3, 4]


# -- declarations that cannot be honoured ------------------------------------------------------------------------------


@pytest.mark.parametrize("api", WITH_OBJECT)
def test_pods_of_a_missing_pod_group_are_not_scheduled_one_by_one(api: str) -> None:
    cluster = Cluster(*slots(2))
    cluster.submit(*gang("a", 3, api=api).pods)
    cluster.advance_to(60)
    assert cluster.bindings == {}
    assert "default/a" in cluster.message("a0"), "the missing PodGroup"


@pytest.mark.parametrize("api", APIS)
def test_group_with_two_schedulers_is_rejected_with_both_names(api: str) -> None:
    cluster = Cluster(*slots(3))
    group = gang("a", 3, api=api)
    cluster.declare(group)
    theirs = {**group.pods[2], "spec": {**group.pods[2]["spec"], "schedulerName": "theirs"}}
    cluster.submit(*group.objects, *group.pods[:2], theirs)
    cluster.submit(*(pod(f"single{i}") for i in range(3)))
    assert cluster.members("single") == 3, "the group holds nothing"
    cluster.advance_to(5)
    message = cluster.message("a0")
    assert '"pyscheduler"' in message
    assert '"theirs"' in message


@pytest.mark.parametrize("api", [NATIVE, COSCHEDULING])
def test_group_with_a_missing_claim_holds_nothing(api: str) -> None:
    cluster = Cluster(*slots(3))
    group = gang("a", 3, api=api)
    claim = {"name": "data", "persistentVolumeClaim": {"claimName": "missing"}}
    group.pods[2]["spec"]["volumes"] = [claim]
    cluster.submit(group)
    cluster.submit(*(pod(f"single{i}") for i in range(3)))
    assert cluster.members("single") == 3
    assert 'persistentvolumeclaim "missing" not found' in cluster.message("a2")


# -- bindings that fail ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("api", [NATIVE, COSCHEDULING])
def test_group_is_completed_once_a_refused_binding_is_accepted(api: str) -> None:
    cluster = Cluster(*slots(3))
    group = gang("a", 3, api=api)
    cluster.exempt(group)
    cluster.binding_error = lambda each, _node: "denied by policy" if each.name == "a1" else ""
    cluster.submit(group)
    cluster.advance_to(60)
    cluster.binding_error = lambda _pod, _node: ""
    cluster.advance_to(120)
    assert cluster.members(group) == 3


@pytest.mark.parametrize("api", [NATIVE, COSCHEDULING])
def test_group_with_a_binding_that_is_always_refused_gives_its_room_back(api: str) -> None:
    cluster = Cluster(*slots(3))
    group = gang("a", 3, api=api)
    cluster.exempt(group)
    cluster.binding_error = lambda each, _node: "denied by policy" if each.name == "a1" else ""
    cluster.submit(group)
    cluster.advance_to(600)
    assert "denied by policy" in cluster.message("a1")
    cluster.submit(*(pod(f"single{i}") for i in range(3)))
    cluster.advance_to(HOUR)
    assert cluster.members(group) == 0
    assert cluster.members("single") == 3


@pytest.mark.parametrize("api", [NATIVE, COSCHEDULING])
@pytest.mark.parametrize(
    ("accepted_from", "of_group", "singles"),
    [pytest.param(10, 3, 0, id="accepted in time"), pytest.param(HOUR, 0, 3, id="refused for ever")],
)
def test_no_group_stays_half_bound_because_others_take_the_room_of_a_refused_pod(
    accepted_from: float, of_group: int, singles: int, api: str
) -> None:
    """The room is held while the binding is repeated, and given back as a whole after some refusals."""
    cluster = Cluster(*slots(3))
    group = gang("a", 3, api=api)
    cluster.exempt(group)
    cluster.binding_error = lambda each, _: "denied by policy" * (each.name == "a1" and cluster.time < accepted_from)
    cluster.submit(group)
    cluster.submit(*(pod(f"single{i}") for i in range(3)))
    cluster.advance_to(600)
    assert (cluster.members(group), cluster.members("single")) == (of_group, singles)


@pytest.mark.parametrize("api", [NATIVE, COSCHEDULING])
def test_half_bound_group_is_completed_after_a_restart(api: str) -> None:
    cluster = Cluster(*slots(3))
    group = gang("a", 3, api=api)
    cluster.exempt(group)
    cluster.complete_bindings = False
    cluster.submit(group)
    cluster.finish_binding("a0")
    cluster.apply_all(*(pod(f"0-single{i}") for i in range(3)))  # listed before the pods of the group
    cluster.complete_bindings = True
    cluster.restart()
    cluster.run()
    assert cluster.members(group) == 3


# -- lost and replaced nodes -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize("time", [6, 9, 20, 40])
def test_broken_group_is_completed_before_pods_that_wait_longer(api: str, time: float) -> None:
    """Its backoff is no reason to give the new node to another pod, however often it has failed by then."""
    cluster = Cluster(*slots(2))
    group = gang("a", 2, api=api)
    cluster.submit(group)
    cluster.submit(pod("filler"))
    cluster.advance_to(5)
    lose(cluster, "slot1", group)
    cluster.advance_to(time)
    cluster.submit(node("slot2"))
    cluster.advance_to(time + 60)
    assert cluster.members(group) == 2
    assert "default/filler" not in cluster.bindings


def lose(cluster: Cluster, node: str, group: Gang) -> None:
    """Delete a node; its pod is deleted and created anew, as by its controller."""
    [lost] = [key.partition("/")[2] for key, at in cluster.bindings.items() if at == node]
    cluster.delete("Node", node)
    cluster.delete("Pod", lost)
    cluster.apply_all(*(each for each in group.pods if each["metadata"]["name"] == lost))


def test_group_that_is_broken_during_its_backoff_is_completed_first() -> None:
    """Its surplus pod, which a new node has woken, is backing off when a node is lost."""
    cluster = Cluster(*slots(2))
    group = gang("a", 2, 3)
    cluster.submit(group)
    unfit = node("unfit")
    unfit["spec"] = {"taints": [{"key": "reserved", "effect": "NoSchedule"}]}
    cluster.apply_all(unfit)
    lose(cluster, "slot1", group)
    cluster.submit(node("slot2"), pod("filler"))
    cluster.advance_to(60)
    assert cluster.members(group) == 2
    assert "default/filler" not in cluster.bindings


# -- deadlock ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize("seed", range(3))
def test_interleaved_groups_run_one_after_the_other(api: str, seed: int) -> None:
    cluster = Cluster(*slots(8))
    groups = [gang(f"job-{name}", 8, api=api) for name in "abcde"]
    for group in groups:
        cluster.declare(group)
        cluster.apply_all(*group.objects)
    for members in zip(*(group.pods for group in groups), strict=True):
        turn = seed % len(members)
        cluster.apply_all(*members[turn:], *members[:turn], runs=10)
    cluster.advance_to(120)
    assert sum(cluster.members(group) for group in groups) == 40


# -- preemption --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("api", [NATIVE, VOLCANO])
def test_evictions_for_a_group_do_not_repeat(api: str) -> None:
    cluster = Cluster(*slots(3))
    cluster.submit(*(annotated(pod(f"low{i}"), ends_after="30") for i in range(3)))
    pods = [pod(f"a{i}", priority=100) for i in range(3)]
    group = gang("a", 3, pods, api=api)
    cluster.submit(group)
    cluster.advance_to(HOUR)
    assert sorted(cluster.evicted_names) == ["low0", "low1", "low2"]
    assert cluster.members(group) == 3
