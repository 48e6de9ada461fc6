"""Volcano's subGroupPolicy: subgroups of one PodGroup, each scheduled as a whole."""

from __future__ import annotations

from typing import Any

import pytest

from pyscheduler.core.pod_groups import subgroups
from tests.scenarios.batch.cluster import Cluster
from tests.scenarios.batch.manifests import VOLCANO, Gang, Manifest, gang, node, pod, slots
from tests.scenarios.batch.test_composite_groups import bound, message
from tests.scenarios.batch.test_hyper_nodes import hyper_node, pattern

RING = "ring"


def policy(size: int, needed: int = 0, name: str = "rings", **fields: Any) -> Manifest:
    return {"name": name, "subGroupSize": size, "minSubGroups": needed, "matchLabelKeys": [RING], **fields}


def labelled(name: str, **labels: str) -> Manifest:
    manifest = pod(name)
    manifest["metadata"]["labels"] = labels
    return manifest


def rings(minimum: int, pods: list[Manifest], *policies: Manifest) -> Gang:
    """Return a PodGroup of Volcano with these policies."""
    built = gang("g", minimum, pods, api=VOLCANO)
    for each in built.objects:
        each["spec"]["subGroupPolicy"] = list(policies)
    return built


def in_rings(count: int, size: int = 2) -> list[Manifest]:
    """Return the pods of rings: `a0`, `a1` of ring `a`, and so on."""
    return [labelled(f"{ring}{i}", ring=ring) for ring in "abcd"[:count] for i in range(size)]


def test_a_subgroup_gets_nodes_as_a_whole_or_not_at_all() -> None:
    cluster = Cluster(*slots(5), rings(2, in_rings(3), policy(2)))
    cluster.run()
    assert len(bound(cluster)) == 4
    assert all(len({name for name in bound(cluster) if name[0] == ring}) in (0, 2) for ring in "abc")
    cluster.submit(node("another"))
    cluster.advance(30)
    assert len(bound(cluster)) == 6


def test_the_minimum_of_subgroups_starts_together() -> None:
    cluster = Cluster(*slots(3), rings(1, in_rings(2), policy(2, needed=2)))
    cluster.run()
    assert not cluster.bindings
    cluster.submit(node("another"))
    cluster.advance(30)
    assert len(bound(cluster)) == 4


def test_min_member_counts_as_well() -> None:
    cluster = Cluster(*slots(3), rings(4, in_rings(2), policy(2)))
    cluster.run()
    assert not cluster.bindings
    cluster.submit(node("another"))
    cluster.advance(30)
    assert len(bound(cluster)) == 4


def test_pods_of_no_subgroup_start_with_the_others() -> None:
    cluster = Cluster(*slots(2), rings(3, [*in_rings(1), pod("master")], policy(2, needed=1)))
    cluster.run()
    assert not cluster.bindings
    cluster.submit(node("another"))
    cluster.advance(30)
    assert bound(cluster) == {"a0", "a1", "master"}


def test_each_subgroup_is_within_one_hyper_node() -> None:
    leaves = [node(f"{leaf}{i}") for leaf, size in (("x", 3), ("y", 3)) for i in range(size)]
    topology = {"mode": "hard", "highestTierAllowed": 1}
    cluster = Cluster(*leaves, hyper_node("leaf-x", 1, pattern("^x")), hyper_node("leaf-y", 1, pattern("^y")))
    cluster.submit(rings(4, in_rings(2), policy(2, needed=2, networkTopology=topology)))
    for ring in "ab":
        assert len({cluster.bindings[f"default/{ring}{i}"][0] for i in range(2)}) == 1
    assert len(cluster.bindings) == 4


def test_a_subgroup_that_fits_into_no_hyper_node_keeps_the_group_waiting() -> None:
    leaves = [node("x0"), node("x1"), node("y0"), node("z0")]
    tiers = [hyper_node(f"leaf-{leaf}", 1, pattern(f"^{leaf}")) for leaf in "xyz"]
    topology = {"mode": "hard", "highestTierAllowed": 1}
    cluster = Cluster(*leaves, *tiers, rings(4, in_rings(2), policy(2, needed=2, networkTopology=topology)))
    cluster.advance(30)
    assert not cluster.bindings
    assert "fits into no single domain of HyperNodes of tier 1" in message(cluster, "b0")


def test_policies_divide_the_pods_by_selectors() -> None:
    pods = [labelled("t0", task="trainer"), labelled("t1", task="trainer"), labelled("e0", task="evaluator")]
    policies = [
        {"name": name, "subGroupSize": size, "minSubGroups": 1, "labelSelector": {"matchLabels": {"task": name}}}
        for name, size in (("trainer", 2), ("evaluator", 1))
    ]
    cluster = Cluster(*slots(2), rings(1, pods, *policies))
    cluster.run()
    assert not cluster.bindings
    cluster.submit(node("another"))
    cluster.advance(30)
    assert len(cluster.bindings) == 3


def test_a_group_waits_for_the_pods_of_its_subgroups() -> None:
    cluster = Cluster(*slots(4), rings(3, in_rings(2)[:3], policy(2, needed=2)))
    cluster.advance(5)
    assert message(cluster, "a0") == (
        "pod group default/g has only 3 of the 4 pods that it needs, default/g/rings/b has only 1 of the 2 pods"
    )


@pytest.mark.parametrize(
    ("invalid", "text"),
    [
        pytest.param({"name": "a"}, "[1]: labelSelector or matchLabelKeys is required", id="all pods"),
        pytest.param(policy(2), '[1].name: Duplicate value: "rings"', id="one name twice"),
        pytest.param(policy(0, name="b"), "[1].subGroupSize: Invalid value: expected int >= 1", id="size 0"),
        pytest.param(policy(2, name="a/b"), "[1].name: Invalid value: expected str matching regex '^[^/]+$'", id="/"),
        pytest.param(
            policy(2, name="b", networkTopology={"mode": "hard", "highestTierAllowed": 1}),
            "[1].networkTopology: no HyperNode of tier 1 or lower exists",
            id="no HyperNode",
        ),
        pytest.param(
            policy(2, name="b", labelSelector={"matchExpressions": [{"key": "a", "operator": "Gt", "values": ["1"]}]}),
            '[1].labelSelector.matchExpressions.operator: Invalid value: "Gt" is not one of '
            "In, NotIn, Exists, DoesNotExist",
            id="operator",
        ),
    ],
)
def test_an_invalid_policy_is_reported(invalid: Manifest, text: str) -> None:
    cluster = Cluster(*slots(4), rings(1, in_rings(1), policy(2), invalid))
    cluster.advance(5)
    assert message(cluster, "a0") == f"PodGroup default/g (scheduling.volcano.sh): spec.subGroupPolicy{text}"


@pytest.mark.parametrize(
    ("policies", "text"),
    [
        ([policy(2, name=f"p{i}") for i in range(101)], "must have at most 100 items"),
        (
            [policy(2, labelSelector={"matchExpressions": [{"key": "a", "operator": "In", "values": ["b"] * 1000}]})],
            "must have at most 1000 labels, requirements and values",
        ),
    ],
    ids=["policies", "values"],
)
def test_policies_that_are_long_to_evaluate_are_reported(policies: list[Manifest], text: str) -> None:
    cluster = Cluster(*slots(4), rings(1, in_rings(1), *policies))
    cluster.advance(5)
    expected = f"PodGroup default/g (scheduling.volcano.sh): spec.subGroupPolicy: Too many: {text}"
    assert message(cluster, "a0") == expected


def test_minimums_of_subgroups_are_not_counted_again_for_each_placed_pod(monkeypatch: pytest.MonkeyPatch) -> None:
    counted = 0
    shortage = subgroups.shortage

    def count(*arguments: Any) -> str:
        nonlocal counted
        counted += 1
        return shortage(*arguments)

    pods = [labelled(f"p{i}", ring=f"r{i}") for i in range(30)]
    cluster = Cluster(rings(1, pods, policy(1, needed=1)))
    cluster.run()
    monkeypatch.setattr(subgroups, "shortage", count)
    cluster.submit(*slots(30))
    cluster.advance(30)
    assert len(bound(cluster)) == 30
    assert counted < 10, "one count for each attempt"
