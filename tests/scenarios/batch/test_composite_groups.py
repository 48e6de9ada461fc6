"""CompositePodGroups: trees of PodGroups that are scheduled as one group."""

from __future__ import annotations

from typing import Any

import pytest

from pyscheduler.api import ResourceKind
from tests.scenarios.batch.cluster import Cluster
from tests.scenarios.batch.manifests import (
    BLOCK,
    NATIVE,
    NATIVE_ALPHA,
    RACK,
    Gang,
    Manifest,
    composite,
    gang,
    node,
    pod,
    priority_class,
    slots,
)

POD_GROUP = ResourceKind("scheduling.k8s.io", "v1beta1", "podgroups", "PodGroup", optional=True)
COMPOSITE_POD_GROUP = ResourceKind(
    "scheduling.k8s.io", "v1alpha3", "compositepodgroups", "CompositePodGroup", optional=True
)


def bound(cluster: Cluster) -> set[str]:
    """Return the names of the pods that have been bound."""
    return {key.partition("/")[2] for key in cluster.bindings}


def message(cluster: Cluster, name: str) -> str:
    """Return the message of a pod's PodScheduled condition."""
    conditions = cluster.pods[f"default/{name}"].manifest.get("status", {}).get("conditions", [])
    return next((each["message"] for each in conditions if each["type"] == "PodScheduled"), "")


def two_jobs(size: int = 2, **spec: Any) -> list[Gang]:
    return [gang(name, size, parent="root", **spec) for name in "ab"]


def nodes_of(cluster: Cluster, label: str, *names: str) -> set[str]:
    """Return the values of a label of the nodes of these pods."""
    nodes = {cluster.bindings[f"default/{name}"] for name in names}
    return {cluster.nodes[name]["metadata"]["labels"][label] for name in nodes}


def test_all_groups_of_a_tree_start_together() -> None:
    cluster = Cluster(*slots(3), composite("root", 2))
    cluster.submit(*two_jobs())
    assert not cluster.bindings
    cluster.submit(node("another"))
    cluster.advance(30)
    assert bound(cluster) == {"a0", "a1", "b0", "b1"}


def test_a_group_that_does_not_fit_is_left_out_if_enough_others_do() -> None:
    cluster = Cluster(*slots(3), composite("root", 1))
    cluster.submit(*two_jobs())
    assert bound(cluster) == {"a0", "a1"}
    assert "does not fit" not in message(cluster, "b0")
    cluster.submit(node("another"))
    cluster.advance(30)
    assert bound(cluster) == {"a0", "a1", "b0", "b1"}


def test_a_large_group_does_not_keep_out_the_small_ones_that_suffice() -> None:
    cluster = Cluster(*slots(4), composite("root", 2))
    cluster.submit(*(gang(name, size, parent="root") for name, size in (("a", 4), ("b", 2), ("c", 2))))
    assert bound(cluster) == {"b0", "b1", "c0", "c1"}


def test_groups_of_a_basic_composite_start_one_by_one() -> None:
    cluster = Cluster(*slots(2), composite("root"))
    cluster.submit(*two_jobs())
    assert bound(cluster) == {"a0", "a1"}


def test_a_tree_waits_for_its_groups() -> None:
    first, second = two_jobs()
    cluster = Cluster(*slots(4), composite("root", 2), first)
    cluster.advance(5)
    assert not cluster.bindings
    assert message(cluster, "a0") == "pod group default/root has only 1 of the 2 groups that it needs"
    cluster.submit(*second.objects, second.pods[0])
    cluster.advance(5)
    assert message(cluster, "b0") == (
        "pod group default/root has only 3 of the 4 pods that it needs, default/b has only 1 of the 2 pods"
    )
    cluster.submit(second.pods[1])
    assert bound(cluster) == {"a0", "a1", "b0", "b1"}


def test_objects_may_come_in_any_order() -> None:
    cluster = Cluster(*slots(4))
    first, second = two_jobs()
    cluster.submit(*first.pods, *second.pods)
    cluster.advance(5)
    assert message(cluster, "a0") == "waiting for PodGroup default/a (scheduling.k8s.io) to appear"
    cluster.submit(*first.objects)
    cluster.advance(5)
    assert message(cluster, "a0") == "waiting for CompositePodGroup default/root (scheduling.k8s.io) to appear"
    cluster.submit(*second.objects)
    cluster.submit(composite("root", 2))
    assert bound(cluster) == {"a0", "a1", "b0", "b1"}


@pytest.mark.parametrize(
    ("composites", "text"),
    [
        pytest.param([], "waiting for CompositePodGroup default/root (scheduling.k8s.io) to appear", id="no parent"),
        pytest.param(
            [composite("root", 1, "up")],
            "waiting for CompositePodGroup default/up (scheduling.k8s.io) to appear",
            id="no parent of the parent",
        ),
        pytest.param(
            [composite("root", 1, "up"), composite("up", 1, "root")],
            "CompositePodGroup default/root (scheduling.k8s.io): spec.parentCompositePodGroupName: "
            "the parents form a cycle",
            id="cycle",
        ),
        pytest.param(
            [
                composite("root", 1, "p1"),
                *(composite(f"p{i}", 1, f"p{i + 1}") for i in range(1, 4)),
                composite("p4", 1),
            ],
            "PodGroup default/a (scheduling.k8s.io): spec.parentCompositePodGroupName: "
            "the tree has more than 4 levels of CompositePodGroups",
            id="too deep",
        ),
        pytest.param(
            [{**composite("root", 1), "spec": {}}],
            "CompositePodGroup default/root (scheduling.k8s.io): spec.schedulingPolicy: Required value",
            id="no policy",
        ),
    ],
)
def test_a_broken_tree_is_held_with_one_reason(composites: list[Manifest], text: str) -> None:
    cluster = Cluster(*slots(4), *composites, gang("a", 1, parent="root"))
    cluster.advance(5)
    assert message(cluster, "a0") == text
    assert not cluster.bindings


def test_a_branch_that_is_too_deep_holds_the_whole_tree() -> None:
    deep = [composite(f"p{i}", 1, f"p{i - 1}" if i else "root") for i in range(4)]
    cluster = Cluster(*slots(4), composite("root", 1), *deep, gang("a", 1, parent="root"))
    cluster.advance(5)
    assert message(cluster, "a0").endswith("the tree has more than 4 levels of CompositePodGroups")


def test_four_levels_are_scheduled() -> None:
    parents = [composite(f"p{i}", 1, f"p{i + 1}") for i in range(3)]
    cluster = Cluster(*slots(4), *parents, composite("p3", 1), gang("a", 2, parent="p0"))
    cluster.run()
    assert bound(cluster) == {"a0", "a1"}


def test_a_mended_tree_is_scheduled() -> None:
    cluster = Cluster(*slots(4), composite("root", 1, "up"), gang("a", 2, parent="root"))
    cluster.advance(5)
    cluster.delete("CompositePodGroup.scheduling.k8s.io", "root")
    cluster.submit(composite("root", 1))
    assert bound(cluster) == {"a0", "a1"}


def racks(*sizes: int, block: str = "") -> list[Manifest]:
    """Return racks with so many slots each."""
    return [
        node(f"{block}r{i}-{j}", 1, {RACK: f"{block}r{i}", BLOCK: block})
        for i, size in enumerate(sizes)
        for j in range(size)
    ]


def test_each_group_is_in_one_domain_of_its_topology_within_that_of_the_tree() -> None:
    cluster = Cluster(*racks(2, 1, block="x"), *racks(2, 2, block="y"), composite("root", 2, topology=BLOCK))
    cluster.submit(*two_jobs(topology=RACK))
    assert nodes_of(cluster, BLOCK, "a0", "a1", "b0", "b1") == {"y"}
    assert len(nodes_of(cluster, RACK, "a0", "a1")) == len(nodes_of(cluster, RACK, "b0", "b1")) == 1


def test_a_tree_whose_groups_fit_into_no_domain_is_not_started() -> None:
    cluster = Cluster(*racks(2, 1, 1), composite("root", 2))
    cluster.submit(*two_jobs(topology=RACK))
    cluster.advance(30)
    assert not cluster.bindings
    text = "pod group default/b fits into no single domain of example.com/rack"
    assert message(cluster, "b0").endswith(text) or message(cluster, "a0").endswith(text.replace("/b ", "/a "))


def test_the_domain_of_a_group_is_changed_for_the_next_one() -> None:
    """The group without a topology is the larger one, and would take the rack that the other needs."""
    cluster = Cluster(*racks(2, 1, 1), composite("root", 2))
    cluster.submit(gang("a", 2, parent="root"), gang("b", 2, parent="root", topology=RACK))
    assert bound(cluster) == {"a0", "a1", "b0", "b1"}


def test_new_pods_of_a_group_join_its_domain() -> None:
    first = gang("a", 2, 3, parent="root", topology=RACK)
    cluster = Cluster(*racks(3, 3), composite("root", 1), *first.objects, *first.pods[:2])
    cluster.run()
    cluster.submit(first.pods[2])
    assert len(nodes_of(cluster, RACK, "a0", "a1", "a2")) == 1


def test_a_tree_preempts_for_all_its_groups_or_for_none() -> None:
    cluster = Cluster(*slots(4), *(pod(f"low{i}") for i in range(3)))
    cluster.run()
    high = [priority_class(9), composite("root", 2, priority=9)]
    cluster.submit(*high, *two_jobs(3))
    cluster.advance(30)
    assert not cluster.evictions
    cluster.delete("PodGroup.scheduling.k8s.io", "b")
    for i in range(3):
        cluster.delete("Pod", f"b{i}")
    cluster.submit(gang("b", 1, parent="root"))
    cluster.advance(30)
    assert {"a0", "a1", "a2", "b0"} <= bound(cluster)
    assert len(cluster.evictions) == 3


def test_surplus_groups_are_evicted_before_the_groups_that_a_tree_needs() -> None:
    cluster = Cluster(*slots(4), composite("root", 1))
    cluster.submit(*two_jobs())
    cluster.submit(pod("high", priority=9))
    cluster.advance(30)
    assert "high" in bound(cluster)
    victims = {key.partition("/")[2][0] for _, key in cluster.evictions}
    assert len(cluster.evictions) == 2
    assert len(victims) == 1, "one group is evicted as a whole"


def test_pods_above_the_minimum_of_a_group_are_evicted_first() -> None:
    cluster = Cluster(*slots(5), composite("root", 2))
    cluster.submit(gang("a", 2, parent="root"), gang("b", 2, 3, parent="root"))
    cluster.submit(pod("high", priority=9))
    cluster.advance(5)
    assert [key for _, key in cluster.evictions] == ["default/b2"]


def test_a_tree_of_disruption_mode_all_is_evicted_as_a_whole() -> None:
    cluster = Cluster(*slots(4), composite("root", 1, disruption_mode="all"))
    cluster.submit(*two_jobs())
    cluster.submit(pod("high", priority=9))
    cluster.advance(5)
    assert len(cluster.evictions) == 4


def test_a_group_of_disruption_mode_all_keeps_its_surplus() -> None:
    cluster = Cluster(*slots(5), composite("root", 2))
    cluster.submit(gang("a", 2, 3, parent="root", disruption_mode="all"), gang("b", 1, 2, parent="root"))
    cluster.submit(pod("high", priority=9))
    cluster.advance(5)
    assert [key for _, key in cluster.evictions] == ["default/b1"]


def test_restart_with_one_pod_bound_completes_that_group() -> None:
    first, second = two_jobs()
    bound_before = {**first.pods[0], "spec": {**first.pods[0]["spec"], "nodeName": "slot0"}}
    cluster = Cluster(*slots(3), composite("root", 1), *first.objects, *second.objects)
    cluster.exempt(first)
    cluster.submit(bound_before, first.pods[1], *second.pods)
    assert "a1" in bound(cluster)
    assert not {"b0", "b1"} & bound(cluster)


def test_a_lost_pod_is_replaced_within_its_group() -> None:
    first, second = two_jobs()
    cluster = Cluster(*slots(4), composite("root", 1))
    cluster.submit(first, second)
    cluster.exempt(first)
    cluster.delete("Pod", "a0")
    cluster.submit(first.pods[0])
    assert {"a0", "a1", "b0", "b1"} <= bound(cluster)


def test_conditions_are_written_to_each_object_of_a_tree() -> None:
    cluster = Cluster(*slots(3), composite("root", 1))
    cluster.submit(*two_jobs())

    def condition(kind: ResourceKind, name: str) -> dict[str, str]:
        obj = cluster.object(kind, name, "default")
        assert obj is not None
        (found,) = obj["status"]["conditions"]
        return {key: found[key] for key in ("type", "status", "reason", "message")}

    assert condition(COMPOSITE_POD_GROUP, "root") == {
        "type": "CompositePodGroupInitiallyScheduled",
        "status": "True",
        "reason": "Scheduled",
        "message": "the 1 groups that it needs have a node",
    }
    assert condition(POD_GROUP, "a") == {
        "type": "PodGroupInitiallyScheduled",
        "status": "True",
        "reason": "Scheduled",
        "message": "the 2 pods that it needs have a node",
    }
    assert condition(POD_GROUP, "b")["status"] == "False"


@pytest.mark.parametrize("api", [NATIVE, NATIVE_ALPHA])
def test_pod_groups_of_each_version_may_have_parents(api: str) -> None:
    cluster = Cluster(*slots(4), composite("root", 2))
    cluster.submit(*(gang(name, 2, api=api, parent="root") for name in "ab"))
    assert bound(cluster) == {"a0", "a1", "b0", "b1"}
