"""Pods with ResourceClaims: which devices they get, what is written, and what happens if a step fails."""

from __future__ import annotations

from typing import Any

import pytest

from pyscheduler.intree.resource_claims.objects import CLAIM
from pyscheduler.testing import Harness, node, pod

from .devices import (
    API,
    DRIVER,
    claim,
    device,
    device_class,
    devices_of,
    exactly,
    message,
    resource_slice,
    stored,
    user,
    users_of,
)

NOT_ALLOCATABLE = "cannot allocate all claims"
NOT_AVAILABLE = "resourceclaim not available on the node"


def cluster(**devices: list[Any]) -> Harness:
    """Return a cluster of nodes with these devices each, and a class of them all."""
    harness = Harness()
    harness.apply(device_class())
    for name, each in devices.items():
        harness.add(node(name))
        harness.apply(resource_slice(name, *each))
    return harness


def apply(harness: Harness, *objects: dict[str, Any]) -> None:
    for each in objects:
        harness.apply(each)
    harness.run()


# -- allocation --------------------------------------------------------------------------------------------------------


def test_each_pod_gets_a_device_of_its_own_until_there_are_none_left() -> None:
    harness = cluster(a=["g0", "g1"])
    apply(harness, *(claim(f"c{i}") for i in range(3)), *(user(f"p{i}", f"c{i}") for i in range(3)))
    assert harness.bindings == {"default/p0": "a", "default/p1": "a"}
    assert (devices_of(harness, "c0"), devices_of(harness, "c1")) == (["a/g0"], ["a/g1"])
    assert users_of(harness, "c0") == ["p0"]
    assert "resource.kubernetes.io/delete-protection" in stored(harness, "c0")["metadata"]["finalizers"]
    assert message(harness, "p2").startswith(f"0/1 nodes are available: 1 {NOT_ALLOCATABLE}.")


def test_waiting_pod_gets_the_device_of_a_claim_that_is_deallocated() -> None:
    harness = cluster(a=["g0"])
    apply(harness, claim("c0"), claim("c1"), user("p0", "c0"), user("p1", "c1"))
    assert "default/p1" not in harness.bindings
    harness.delete_pod("p0")
    harness.run()
    assert "default/p1" not in harness.bindings  # the claim outlives its pod
    harness.apply({**stored(harness, "c0"), "status": {"allocation": None, "reservedFor": None}})
    harness.advance(10)
    assert harness.bindings == {"default/p1": "a"}


def test_pods_that_share_a_claim_run_on_the_node_of_its_devices() -> None:
    harness = cluster(a=["g0"], b=["g0"])
    apply(harness, claim("shared"), user("p0", "shared"), user("p1", "shared"), user("p2", "shared"))
    assert len(set(harness.bindings.values())) == 1
    assert sorted(users_of(harness, "shared")) == ["p0", "p1", "p2"]


def test_claim_waits_while_it_is_being_allocated_for_another_pod() -> None:
    harness = cluster(a=["g0"])
    harness.complete_bindings = False
    apply(harness, claim("shared"), user("p0", "shared"), user("p1", "shared"))
    assert "resource claim default/shared is in the process of being allocated" in message(harness, "p1")
    harness.complete_bindings = True
    harness.finish_binding("p0")
    harness.advance(10)
    assert harness.bindings == {"default/p0": "a", "default/p1": "a"}


def test_selectors_of_class_and_request_choose_the_device() -> None:
    harness = cluster(a=[device("slow", "t4"), device("fast")], b=[device("slow", "t4")])
    apply(harness, claim("c", exactly(model="a100")), user("p", "c"))
    assert devices_of(harness, "c") == ["a/fast"]


def test_first_alternative_that_is_available_is_allocated_and_preferred() -> None:
    harness = cluster(a=[device("g", "t4")], b=[device("g", "a100")])
    alternatives = [{"name": "best", **exactly(model="a100")}, {"name": "good", **exactly(model="t4")}]
    apply(harness, claim("c", {"firstAvailable": alternatives}), user("p", "c"))
    result = stored(harness, "c")["status"]["allocation"]["devices"]["results"][0]
    assert (harness.bindings, result["request"]) == ({"default/p": "b"}, "r/best")


def test_several_devices_of_one_model_are_allocated_together() -> None:
    harness = cluster(a=[device("g0", "t4"), device("g1"), device("g2")])
    request = claim("c", exactly(count=2))
    request["spec"]["devices"]["constraints"] = [{"matchAttribute": f"{DRIVER}/model"}]
    apply(harness, request, user("p", "c"))
    assert devices_of(harness, "c") == ["a/g1", "a/g2"]


def test_tainted_device_is_allocated_for_a_toleration_only() -> None:
    harness = cluster(a=["g0"])
    rule = {
        "apiVersion": API,
        "kind": "DeviceTaintRule",
        "metadata": {"name": "broken"},
        "spec": {"deviceSelector": {"driver": DRIVER}, "taint": {"key": "broken", "effect": "NoSchedule"}},
    }
    apply(harness, rule, claim("c"), user("p", "c"))
    assert harness.bindings == {}
    apply(harness, claim("t", exactly(tolerations=[{"key": "broken", "operator": "Exists"}])), user("q", "t"))
    assert harness.bindings == {"default/q": "a"}
    apply(harness, claim("again"))
    harness.delete("ResourceClaim", "t")
    harness.delete("DeviceTaintRule", "broken", "")
    harness.advance(10)
    assert harness.bindings["default/p"] == "a"


def test_shares_of_a_device_are_allocated_until_its_capacity_is_consumed() -> None:
    memory = {"memory": {"value": "10Gi"}}
    harness = cluster(a=[device("g", capacity=memory, allowMultipleAllocations=True)])
    share = exactly(capacity={"requests": {"memory": "4Gi"}})
    apply(harness, *(claim(f"c{i}", share) for i in range(3)), *(user(f"p{i}", f"c{i}") for i in range(3)))
    assert sorted(harness.bindings) == ["default/p0", "default/p1"]
    results = [stored(harness, f"c{i}")["status"]["allocation"]["devices"]["results"][0] for i in range(2)]
    assert [result["consumedCapacity"] for result in results] == [{"memory": "4Gi"}] * 2
    assert results[0]["shareID"] != results[1]["shareID"]


def test_devices_of_all_claims_are_in_use_after_a_restart() -> None:
    harness = cluster(a=["g0"])
    apply(harness, claim("c0"), claim("c1"), user("p0", "c0"))
    harness.restart()
    apply(harness, user("p1", "c1"))
    assert harness.bindings == {"default/p0": "a"}
    assert NOT_ALLOCATABLE in message(harness, "p1")


def test_devices_with_admin_access_stay_free_for_others() -> None:
    harness = cluster(a=["g0"])
    apply(harness, claim("admin", exactly(adminAccess=True)), user("monitor", "admin"))
    apply(harness, claim("c"), user("p", "c"))
    assert harness.bindings == {"default/monitor": "a", "default/p": "a"}


# -- claims that cannot be used yet ------------------------------------------------------------------------------------


def from_template(name: str) -> dict[str, Any]:
    pod = user(name, "")
    pod["spec"]["resourceClaims"] = [{"name": "device", "resourceClaimTemplateName": "template"}]
    return pod


def owned(name: str, pod: str, uid: str) -> dict[str, Any]:
    owner = {"apiVersion": "v1", "kind": "Pod", "name": pod, "uid": uid, "controller": True}
    return claim(name, ownerReferences=[owner])


def test_pod_with_a_template_starts_once_its_claim_is_created() -> None:
    harness = cluster(a=["g0"])
    apply(harness, from_template("p"))
    pod = harness.pod("p")
    assert pod is not None
    apply(harness, owned("p-device", "p", pod["metadata"]["uid"]))
    assert harness.bindings == {}
    statuses = [{"name": "device", "resourceClaimName": "p-device"}]
    harness.apply({**from_template("p"), "status": {"resourceClaimStatuses": statuses}})
    harness.advance(1)
    assert harness.bindings == {"default/p": "a"}


def test_claim_that_was_made_for_another_pod_is_not_used() -> None:
    harness = cluster(a=["g0"])
    statuses = [{"name": "device", "resourceClaimName": "foreign"}]
    apply(
        harness,
        owned("foreign", "other", "other-uid"),
        {**from_template("p"), "status": {"resourceClaimStatuses": statuses}},
    )
    harness.advance(600)
    assert harness.bindings == {}


def test_pod_starts_once_the_class_of_its_claim_exists() -> None:
    harness = cluster(a=["g0"])
    apply(harness, claim("c", exactly("later")), user("p", "c"))
    assert "request r: device class later does not exist" in message(harness, "p")
    harness.apply(device_class("later"))
    harness.advance(10)
    assert harness.bindings == {"default/p": "a"}


def test_pod_starts_once_a_slice_has_devices() -> None:
    harness = cluster(a=[])
    apply(harness, claim("c"), user("p", "c"))
    assert harness.bindings == {}
    harness.apply(resource_slice("a", "g0"))
    harness.advance(10)
    assert harness.bindings == {"default/p": "a"}


@pytest.mark.parametrize(
    ("expression", "problem"),
    [
        ("device.attributes[", "CEL compile error"),
        (f'device.attributes["{DRIVER}"].missing == "x"', "no such key: missing. consider using CEL optional chaining"),
    ],
    ids=["syntax", "missing attribute"],
)
def test_error_in_a_selector_is_shown_and_costs_no_other_pod(expression: str, problem: str) -> None:
    harness = cluster(a=["g0", "g1"])
    request = exactly()
    request["selectors"] = [{"cel": {"expression": expression}}]
    apply(harness, claim("bad", request), user("p", "bad"), claim("c"), user("q", "c"))
    harness.advance(5)
    assert harness.bindings == {"default/q": "a"}
    assert problem in message(harness, "p")
    assert "claim default/bad: selector #0" in message(harness, "p")


# -- failures ----------------------------------------------------------------------------------------------------------


def test_refused_binding_releases_the_claim_and_the_next_attempt_uses_it_again() -> None:
    harness = cluster(a=["g0"])
    harness.binding_error = lambda _pod, _node: "refused"
    apply(harness, claim("c"), user("p", "c"))
    assert (harness.bindings, users_of(harness, "c"), devices_of(harness, "c")) == ({}, [], ["a/g0"])
    harness.binding_error = lambda _pod, _node: ""
    harness.advance(30)
    assert (harness.bindings, users_of(harness, "c")) == ({"default/p": "a"}, ["p"])


def test_allocated_claim_without_users_is_deallocated_if_its_node_has_no_room() -> None:
    harness = cluster(a=["g0"], b=["g0"])
    harness.apply(resource_slice("b"))
    harness.binding_error = lambda _pod, _node: "refused"
    apply(harness, claim("c"), user("p", "c"))
    assert devices_of(harness, "c") == ["a/g0"]
    harness.binding_error = lambda _pod, _node: ""
    harness.apply(resource_slice("b", "g0"))
    harness.add(node("a").unschedulable())
    harness.advance(60)
    assert (harness.bindings, devices_of(harness, "c")) == ({"default/p": "b"}, ["b/g0"])


def test_claim_that_another_scheduler_allocates_meanwhile_is_left_as_it_is() -> None:
    harness = cluster(a=["g0", "g1"])
    harness.complete_bindings = False
    apply(harness, claim("c"), user("p", "c"))
    theirs = {"devices": {"results": [{"request": "r", "driver": DRIVER, "pool": "a", "device": "g1"}]}}
    # The watch has not delivered it when the allocation is written.
    kind = harness.kinds["resourceclaims"]
    harness.add_object(kind, harness.versioned({**stored(harness, "c"), "status": {"allocation": theirs}}))
    harness.complete_bindings = True
    harness.finish_binding("p")
    assert devices_of(harness, "c") == ["a/g1"]
    harness.advance(30)
    assert (harness.bindings, devices_of(harness, "c")) == ({"default/p": "a"}, ["a/g1"])


# -- binding conditions ------------------------------------------------------------------------------------------------


ALLOCATED = "scheduler_dra_bindingconditions_allocations"
WAITED = "scheduler_dra_bindingconditions_wait_duration_seconds"


def attached(status: str, condition: str = "Attached") -> list[dict[str, Any]]:
    conditions = [{"type": condition, "status": status, "reason": "R", "message": "M"}]
    return [{"driver": DRIVER, "pool": "a", "device": "g0", "conditions": conditions}]


def conditional() -> dict[str, Any]:
    return device("g0", bindingConditions=["Attached"], bindingFailureConditions=["Failed"])


def set_devices(harness: Harness, devices: list[dict[str, Any]]) -> None:
    current = stored(harness, "c")
    harness.apply({**current, "status": {**current["status"], "devices": devices}})


def test_pod_is_bound_once_the_driver_has_attached_its_device() -> None:
    harness = cluster(a=[conditional()])
    apply(harness, claim("c"), user("p", "c"))
    harness.advance(20)
    assert (harness.bindings, users_of(harness, "c")) == ({}, ["p"])
    assert harness.events("p") == [("BindingConditionsPending", "waiting for binding conditions for device on node a")]
    set_devices(harness, attached("True"))
    harness.advance(5)
    assert harness.bindings == {"default/p": "a"}
    labels = ("default-scheduler", DRIVER, "success")
    assert harness.observed == [(WAITED, labels, 25.0), (ALLOCATED, labels, 1)]


def test_device_that_cannot_be_attached_is_replaced_by_another() -> None:
    harness = cluster(a=[conditional()], b=["spare"])
    harness.add(node("b").unschedulable())
    apply(harness, claim("c"), user("p", "c"))
    harness.add(node("b"))
    set_devices(harness, attached("True", "Failed"))
    harness.advance(120)
    assert (harness.bindings, devices_of(harness, "c")) == ({"default/p": "b"}, ["b/spare"])
    assert [(name, labels[-1]) for name, labels, _ in harness.observed] == [(WAITED, "failure"), (ALLOCATED, "failure")]


def test_device_that_is_not_attached_in_time_is_given_back() -> None:
    harness = cluster(a=[conditional()], b=["spare"])
    harness.add(node("b").unschedulable())
    apply(harness, claim("c"), user("p", "c"))
    harness.add(node("b"))
    harness.advance(700)
    assert (harness.bindings, devices_of(harness, "c")) == ({"default/p": "b"}, ["b/spare"])
    assert [(name, labels[-1]) for name, labels, _ in harness.observed] == [(WAITED, "timeout"), (ALLOCATED, "timeout")]
    assert harness.observed[0][2] == 600.0


def test_time_to_attach_a_device_counts_from_its_allocation_also_after_a_restart() -> None:
    harness = cluster(a=[conditional()], b=["spare"])
    harness.add(node("b").unschedulable())
    apply(harness, claim("c"), user("p", "c"))
    harness.add(node("b"))
    harness.advance(500)
    harness.restart()
    harness.advance(90)
    assert devices_of(harness, "c") == ["a/g0"]
    harness.advance(60)
    assert (harness.bindings, devices_of(harness, "c")) == ({"default/p": "b"}, ["b/spare"])


def test_pod_of_a_claim_that_is_deallocated_while_it_waits_is_not_bound() -> None:
    harness = cluster(a=[conditional()])
    apply(harness, claim("c"), user("p", "c"))
    harness.apply({**stored(harness, "c"), "status": {"allocation": None, "reservedFor": None}})
    harness.advance(60)
    assert harness.bindings == {}


# -- extended resources ------------------------------------------------------------------------------------------------

GPU = "example.com/gpu"


def requesting(name: str, amount: str = "1") -> dict[str, Any]:
    pod = user(name, "")
    pod["spec"] = {"containers": [{"name": "main", "resources": {"requests": {GPU: amount}, "limits": {GPU: amount}}}]}
    return pod


def claims_of(harness: Harness) -> list[str]:
    """Return the names of the claims for extended resources."""
    names = (name for _, name in harness.handle.objects[CLAIM])
    return [name for name in names if "-extended-resources-" in name]


def extended() -> Harness:
    harness = cluster(a=["g0", "g1"])
    harness.apply(device_class(extendedResourceName=GPU))
    return harness


def test_requests_for_an_extended_resource_become_a_claim() -> None:
    harness = extended()
    apply(harness, requesting("p", "2"))
    assert harness.bindings == {"default/p": "a"}
    (name,) = claims_of(harness)
    assert (devices_of(harness, name), users_of(harness, name)) == (["a/g0", "a/g1"], ["p"])
    assert stored(harness, name)["spec"]["devices"]["requests"][0]["name"] == "container-0-request-0"
    created = "dynamic_resource_allocation_resourceclaim_creates"
    assert harness.observed == [(created, ("success", "false", "", "Pod"), 1)]
    apply(harness, requesting("q"))
    assert NOT_ALLOCATABLE in message(harness, "q")


def test_node_with_a_device_plugin_serves_the_resource_without_a_claim() -> None:
    harness = extended()
    harness.add(node("plugin").has(GPU, "4"), node("a").unschedulable())
    apply(harness, requesting("p", "2"))
    assert (harness.bindings, claims_of(harness)) == ({"default/p": "plugin"}, [])


def test_claim_for_extended_resources_is_deleted_if_the_binding_is_refused() -> None:
    harness = extended()
    harness.binding_error = lambda _pod, _node: "refused"
    apply(harness, requesting("p"))
    assert (harness.bindings, claims_of(harness)) == ({}, [])
    harness.binding_error = lambda _pod, _node: ""
    harness.advance(60)
    assert (harness.bindings, len(claims_of(harness))) == ({"default/p": "a"}, 1)


def test_pods_wait_for_a_class_that_provides_their_resource() -> None:
    harness = cluster(a=["g0"])
    apply(harness, requesting("p"))
    assert "Insufficient example.com/gpu" in message(harness, "p")
    harness.apply(device_class(extendedResourceName=GPU))
    harness.advance(10)
    assert harness.bindings == {"default/p": "a"}


# -- pod groups --------------------------------------------------------------------------------------------------------


def test_members_of_a_pod_group_get_devices_also_on_other_nodes_than_the_best_ones() -> None:
    """The best node of the small member is the only one that has room for the large one."""
    harness = Harness("config/batch.yaml")
    harness.apply(device_class())
    for name, cpu in (("large", "2"), ("small", "1")):
        harness.add(node(name, cpu=cpu))
        harness.apply(resource_slice(name, "g0", "g1"))
    for i, cpu in enumerate(("1", "2")):
        harness.apply(claim(f"c{i}"))
        member = user(f"p{i}", f"c{i}")
        member["metadata"]["annotations"] = {"pyscheduler.io/pod-group": "g", "pyscheduler.io/pod-group-min-count": "2"}
        member["spec"]["containers"][0]["resources"] = {"requests": {"cpu": cpu}}
        harness.apply(member)
    harness.run()
    assert harness.bindings == {"default/p0": "small", "default/p1": "large"}
    assert (devices_of(harness, "c0"), devices_of(harness, "c1")) == (["small/g0"], ["large/g0"])


def slice_of(name: str, node_name: str, *, generation: int, count: int) -> dict[str, Any]:
    made = resource_slice(node_name, f"dev-{name}")
    made["metadata"]["name"] = name
    made["spec"]["pool"] = {"name": "p", "generation": generation, "resourceSliceCount": count}
    return made


def test_slices_of_an_older_generation_count_again_once_the_newer_one_is_deleted() -> None:
    """More nodes than are evaluated one by one, so that nodes with equal devices share a result."""
    harness = Harness()
    harness.apply(device_class())
    harness.add(*(node(f"n{i}") for i in range(1, 13)))
    for name, node_name, generation, count in (("a", "n1", 1, 2), ("b", "n3", 1, 2), ("c", "n2", 2, 1)):
        harness.apply(slice_of(name, node_name, generation=generation, count=count))
    for i in (1, 2):
        harness.apply(claim(f"c{i}"))
        harness.apply(user(f"p{i}", f"c{i}"))
        harness.run()
    assert harness.bindings == {"default/p1": "n2"}
    harness.delete("ResourceSlice", "c")
    harness.apply(claim("c3"))
    harness.apply(user("p3", "c3"))
    harness.run()
    assert harness.bindings["default/p3"] in ("n1", "n3")


@pytest.mark.parametrize("requests", ["a claim", "an extended resource"])
def test_pod_gets_a_device_of_nodes_with_a_label_that_a_node_gets_later(requests: str) -> None:
    harness, rack = Harness(), {"key": "rack", "operator": "In", "values": ["1"]}
    harness.apply(device_class(extendedResourceName="example.com/gpu"))
    shared = resource_slice("rack", "g0", "g1")
    del shared["spec"]["nodeName"]
    shared["spec"]["nodeSelector"] = {"nodeSelectorTerms": [{"matchExpressions": [rack]}]}
    harness.apply(shared)
    harness.add(*(node(f"n{i}") for i in range(12)))
    for i in range(2):
        if requests == "a claim":
            apply(harness, claim(f"c{i}"), user(f"p{i}", f"c{i}"))
        else:
            harness.add(pod(f"p{i}").request("example.com/gpu", "1"))
            harness.run()
    assert harness.bindings == {}
    harness.add(node("n7").label("rack", "1"))
    harness.advance(10)
    assert harness.bindings == {"default/p0": "n7", "default/p1": "n7"}
