"""Pods that belong to a group, or do not: namespaces, profiles, changed labels, other schedulers, missing objects."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import yaml

from tests.scenarios.batch.cluster import CONFIG, Cluster
from tests.scenarios.batch.manifests import (
    APIS,
    COSCHEDULING,
    NATIVE,
    VOLCANO,
    WITH_OBJECT,
    Manifest,
    gang,
    node,
    pod,
    slots,
)
from tests.scenarios.devices import claim, device_class, resource_slice


def in_namespace(manifest: Manifest, namespace: str) -> Manifest:
    changed = copy.deepcopy(manifest)
    changed["metadata"]["namespace"] = namespace
    return changed


def with_scheduler(manifest: Manifest, name: str) -> Manifest:
    return {**manifest, "spec": {**manifest["spec"], "schedulerName": name}}


@pytest.mark.parametrize("api", APIS)
def test_groups_of_the_same_name_in_two_namespaces_are_separate(api: str) -> None:
    cluster = Cluster(*slots(4))
    group = gang("a", 2, api=api)
    theirs = [in_namespace(each, "theirs") for each in group.manifests]
    cluster.submit(*group.objects, group.pods[0], *theirs[:-1])
    cluster.advance_to(30)
    assert cluster.bindings == {}
    cluster.submit(theirs[-1])
    cluster.advance_to(60)
    assert cluster.bindings.keys() == {"theirs/a0", "theirs/a1"}


@pytest.mark.parametrize("api", APIS)
def test_group_over_two_profiles_is_rejected_with_both_names(api: str) -> None:
    document: dict[str, Any] = yaml.safe_load(CONFIG.read_text())
    document["profiles"].append({**document["profiles"][0], "schedulerName": "second"})
    cluster = Cluster(*slots(2), config=yaml.safe_dump(document))
    group = gang("a", 2, api=api)
    cluster.declare(group)
    cluster.submit(*group.objects, group.pods[0], with_scheduler(group.pods[1], "second"))
    cluster.advance_to(60)
    assert cluster.members(group) == 0
    for name in ("a0", "a1"):
        assert '"pyscheduler" and "second"' in cluster.message(name)


@pytest.mark.parametrize("api", [COSCHEDULING, VOLCANO])
def test_pod_that_leaves_its_group_is_scheduled_alone(api: str) -> None:
    cluster = Cluster(*slots(2))
    group = gang("a", 3, api=api)
    cluster.submit(group)
    cluster.advance_to(5)
    cluster.exempt(group)
    cluster.submit(pod("a0"))
    cluster.advance_to(30)
    assert cluster.bindings.keys() == {"default/a0"}
    assert "only 2 of the 3 pods" in cluster.message("a1")


@pytest.mark.parametrize("api", [COSCHEDULING, VOLCANO])
def test_pending_pod_that_joins_a_group_is_placed_with_it(api: str) -> None:
    cluster = Cluster(*slots(1))
    group = gang("a", 2, [pod("a0"), pod("a1", 4)], api=api)
    cluster.declare(group)
    cluster.submit(*group.objects, group.pods[0], pod("a1", 4))
    cluster.advance_to(5)
    cluster.submit(group.pods[1])
    cluster.submit(node("large", 4))
    cluster.advance_to(30)
    assert cluster.members(group) == 2


@pytest.mark.parametrize("api", APIS)
def test_one_of_two_groups_starts_whose_pods_need_the_same_two_nodes(api: str) -> None:
    """The first pod of each group fits only where the second pod of the other does."""
    names = ("x", "y")
    cluster = Cluster(*(node(name, labels={"example.com/node": name}) for name in names))
    groups = [gang(name, 2, api=api) for name in ("a", "b")]
    for group, targets in zip(groups, (names, names[::-1]), strict=True):
        cluster.declare(group)
        cluster.apply_all(*group.objects)
        for each, target in zip(group.pods, targets, strict=True):
            each["spec"]["nodeSelector"] = {"example.com/node": target}
    for members in zip(*(group.pods for group in groups), strict=True):
        cluster.submit(*members)
    assert sorted(cluster.members(group) for group in groups) == [0, 2]


@pytest.mark.parametrize("api", APIS)
def test_group_with_a_missing_resource_claim_holds_nothing(api: str) -> None:
    cluster = Cluster(*slots(3))
    group = gang("a", 3, api=api)
    group.pods[2]["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimName": "missing"}]
    cluster.submit(group)
    cluster.submit(*(pod(f"single{i}") for i in range(3)))
    assert cluster.members("single") == 3
    assert cluster.members(group) == 0


@pytest.mark.parametrize(
    ("api", "condition_type"), [(NATIVE, "PodGroupInitiallyScheduled"), (VOLCANO, "Unschedulable")]
)
def test_pod_group_names_the_pod_whose_binding_is_refused(api: str, condition_type: str) -> None:
    cluster = Cluster(*slots(3))
    group = gang("a", 3, api=api)
    cluster.exempt(group)
    cluster.binding_error = lambda each, _node: "denied by policy" if each.name == "a1" else ""
    cluster.submit(group)
    cluster.advance_to(600)
    condition = cluster.condition("PodGroup", "default/a", condition_type)
    assert condition is not None
    assert condition["message"] == "waits for the binding of a1, which was refused before"
    assert "denied by policy" in cluster.message("a1")


@pytest.mark.parametrize("api", WITH_OBJECT)
def test_group_starts_when_a_pod_of_another_scheduler_has_a_node(api: str) -> None:
    cluster = Cluster(*slots(2))
    group = gang("a", 3, api=api)
    theirs = with_scheduler(group.pods[2], "theirs")
    cluster.exempt(group)
    cluster.submit(*group.objects, *group.pods[:2], theirs)
    cluster.advance_to(5)
    cluster.apply(node("theirs"))
    cluster.submit({**theirs, "spec": {**theirs["spec"], "nodeName": "theirs"}})
    cluster.advance_to(30)
    assert cluster.members(group) == 3


def without_queues() -> str:
    """Return the batch configuration without the plugin Queues."""
    lines = CONFIG.read_text(encoding="utf-8").splitlines(keepends=True)
    kept = [line for line in lines if "- name: Queues" not in line]
    assert len(kept) == len(lines) - 1
    return "".join(kept)


@pytest.mark.parametrize("config", [CONFIG, without_queues()], ids=["queues", "groups"])
@pytest.mark.parametrize("api", APIS)
def test_members_have_claims_of_templates(api: str, config: Any) -> None:
    """The claims are created after the pods, and their names are in the statuses of these."""
    cluster = Cluster(node("n", 4), config=config)
    cluster.apply(device_class())
    cluster.apply(resource_slice("n", "g0", "g1"))
    members = []
    for i in range(2):
        member = pod(f"a{i}")
        member["metadata"]["uid"] = f"uid-{i}"
        member["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimTemplateName": "template"}]
        members.append(member)
    group = gang("a", 2, members, api)
    cluster.submit(group)
    for i, member in enumerate(group.pods):
        assert cluster.members(group) == 0
        owner = {"apiVersion": "v1", "kind": "Pod", "name": f"a{i}", "uid": f"uid-{i}", "controller": True}
        cluster.apply(claim(f"c{i}", ownerReferences=[owner]))
        status = {"resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": f"c{i}"}]}
        cluster.submit({**member, "status": status})
    cluster.advance(10)
    assert cluster.members(group) == 2


def users_of_claims(count: int) -> list[Manifest]:
    """Return pods, each with its own claim, that fit a node which does not exist yet."""
    pods = [pod(f"a{i}") for i in range(count)]
    for i, each in enumerate(pods):
        claims = [{"name": "device", "resourceClaimName": f"c{i}"}]
        each["spec"] |= {"resourceClaims": claims, "nodeSelector": {"zone": "x"}}
    return pods


@pytest.mark.parametrize(
    ("minimum", "deleted", "bound"),
    [
        (1, (0,), (1, 2)),
        (1, (2,), (0, 1)),
        (1, (0, 1), (2,)),
        (2, (0,), (1, 2)),
        (2, (0, 1), ()),
        (2, (1, 2), ()),
        (3, (0,), ()),
    ],
)
def test_members_whose_claims_were_deleted_hold_back_no_others(
    minimum: int, deleted: tuple[int, ...], bound: tuple[int, ...]
) -> None:
    cluster = Cluster(device_class(), resource_slice("n", "g0", "g1", "g2"))
    group = gang("a", minimum, users_of_claims(3))
    cluster.submit(*(claim(f"c{i}") for i in range(3)), group)
    for i in deleted:
        cluster.delete("ResourceClaim", f"c{i}")
    cluster.advance(5)
    cluster.submit(node("n", 16, {"zone": "x"}))
    cluster.advance(700)
    assert cluster.bindings.keys() == {f"default/a{i}" for i in bound}
    cluster.submit(*(claim(f"c{i}") for i in deleted))
    cluster.advance(20)
    assert cluster.members(group) == 3
