"""HyperNodes of Volcano as topologies of groups."""

from __future__ import annotations

from typing import Any

import pytest

from tests.scenarios.batch.cluster import Cluster
from tests.scenarios.batch.manifests import VOLCANO, Gang, Manifest, gang, node

ZONE = "topology.kubernetes.io/zone"


def named(name: str) -> Manifest:
    return {"type": "Node", "selector": {"exactMatch": {"name": name}}}


def pattern(text: str) -> Manifest:
    return {"type": "Node", "selector": {"regexMatch": {"pattern": text}}}


def inner(text: str) -> Manifest:
    return {"type": "HyperNode", "selector": {"regexMatch": {"pattern": text}}}


def hyper_node(name: str, tier: int, *members: Manifest, tier_name: str = "") -> Manifest:
    spec = {"tier": tier, "tierName": tier_name, "members": list(members)}
    return {"apiVersion": "topology.volcano.sh/v1alpha1", "kind": "HyperNode", "metadata": {"name": name}, "spec": spec}


def group(size: int, **topology: Any) -> Gang:
    return gang("g", size, api=VOLCANO, network_topology=topology)


def tree() -> Cluster:
    """Return a cluster of two spines: the leaves a (3 nodes) and b (2) of the first, c (4) of the other."""
    sizes = {"a": 3, "b": 2, "c": 4}
    slots = [node(f"{leaf}{i}", labels={ZONE: leaf}) for leaf, size in sizes.items() for i in range(size)]
    return Cluster(
        *slots,
        hyper_node("leaf-a", 1, pattern("^a")),
        hyper_node("leaf-b", 1, named("b0"), named("b1")),
        hyper_node("leaf-c", 1, {"type": "Node", "selector": {"labelMatch": {"matchLabels": {ZONE: "c"}}}}),
        hyper_node("spine-ab", 2, inner("^leaf-[ab]$"), tier_name="spine"),
        hyper_node("spine-c", 2, inner("^leaf-c$"), tier_name="spine"),
    )


def leaves(cluster: Cluster) -> str:
    return "".join(sorted({at[0] for key, at in cluster.bindings.items() if key.startswith("default/g")}))


@pytest.mark.parametrize(
    ("size", "topology", "expected"),
    [
        pytest.param(2, {"highestTierAllowed": 1}, "b", id="the tightest leaf"),
        pytest.param(4, {"highestTierAllowed": 1}, "c", id="the only leaf with room"),
        pytest.param(5, {"highestTierAllowed": 1}, "", id="no leaf has room"),
        pytest.param(5, {"highestTierAllowed": 2}, "ab", id="a spine"),
        pytest.param(3, {"highestTierAllowed": 2}, "a", id="a leaf of a spine is better"),
        pytest.param(5, {"highestTierName": "spine"}, "ab", id="by the name of the tier"),
        pytest.param(6, {"highestTierAllowed": 2}, "", id="no spine has room"),
        pytest.param(6, {"mode": "soft"}, "abc", id="soft, so any nodes"),
        pytest.param(9, {"mode": "soft", "highestTierAllowed": 1}, "abc", id="soft beyond the tier"),
        pytest.param(4, {"mode": "soft"}, "c", id="soft, but one leaf is better"),
        pytest.param(7, {}, "abc", id="hard without a tier"),
    ],
)
def test_group_is_placed_within_the_lowest_tier_that_has_room(size: int, topology: Manifest, expected: str) -> None:
    cluster = tree()
    cluster.submit(group(size, **{"mode": "hard", **topology}))
    assert leaves(cluster) == expected


@pytest.mark.parametrize(
    ("topology", "message"),
    [
        ({"highestTierAllowed": 0}, "no HyperNode of tier 0 or lower exists"),
        ({"highestTierName": "rack"}, 'no HyperNode has the tierName "rack"'),
        ({"highestTierName": "spine", "highestTierAllowed": 2}, "highestTierAllowed and highestTierName are both set"),
        ({"mode": "firm"}, "Invalid value"),
    ],
)
def test_group_waits_with_the_reason_if_its_topology_cannot_be_read(topology: Manifest, message: str) -> None:
    cluster = tree()
    cluster.submit(group(2, **topology))
    cluster.advance(5)
    assert cluster.members("g") == 0
    assert "spec.networkTopology" in cluster.message("g0")
    assert message in cluster.message("g0")


def test_group_starts_when_its_hyper_node_appears() -> None:
    cluster = Cluster(*(node(f"a{i}") for i in range(3)))
    cluster.submit(group(3, mode="hard", highestTierAllowed=1))
    cluster.advance(5)
    assert cluster.members("g") == 0
    cluster.submit(hyper_node("leaf-a", 1, pattern("^a")))
    cluster.advance(15)
    assert cluster.members("g") == 3


def test_node_that_joins_belongs_to_the_hyper_node_whose_pattern_it_matches() -> None:
    cluster = Cluster(node("a0"), node("b0"), hyper_node("leaf-a", 1, pattern("^a")))
    cluster.submit(group(2, mode="hard", highestTierAllowed=1))
    assert cluster.members("g") == 0
    cluster.submit(node("a1"))
    cluster.advance(15)
    assert leaves(cluster) == "a"


@pytest.mark.parametrize(
    "broken",
    [
        hyper_node("leaf-a", 1, pattern("(")),
        hyper_node("leaf-a", 1, inner("^leaf-a$")),
        hyper_node("leaf-a", 1, {"type": "Node"}),
        {**hyper_node("leaf-a", 1), "spec": {"tier": 1, "members": "all"}},
    ],
    ids=["invalid pattern", "a cycle", "no selector", "no HyperNode"],
)
def test_invalid_hyper_node_has_no_members(broken: Manifest) -> None:
    cluster = Cluster(node("a0"), node("b0"), node("b1"), broken, hyper_node("leaf-b", 1, pattern("^b")))
    cluster.submit(group(2, mode="hard", highestTierAllowed=1))
    assert leaves(cluster) == "b"
