"""Kubernetes' SchedulerPredicates and SchedulerPriorities specs.

docs/specs.md maps specs to tests.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import pytest

from tests.e2e.client import Json
from tests.e2e.story import HOSTNAME, ZONE, Story, condition, on_nodes_with, pod_affinity, pod_anti_affinity, spread
from tests.e2e.volumes import VOLUMES

pytestmark = pytest.mark.asyncio(loop_scope="session")

BEARDS = "example.com/beardsecond"
TRIED = "preemption: 0/{0} nodes are available: {0} "
NO_VICTIMS = f"{TRIED}No preemption victims found for incoming pod."
NO_HELP = f"{TRIED}Preemption is not helpful for scheduling."


@pytest.mark.parametrize("resource", ["cpu", "ephemeral-storage", BEARDS])
async def test_unschedulable_pod_is_bound_after_another_is_deleted(story: Story, resource: str) -> None:
    extra = {"ephemeral-storage": "10", BEARDS: "10"}
    for node in ("a", "b"):
        await story.node(node, cpu="10", extra=extra)
        await story.pod(f"filler-{node}", story.spec({resource: "7"}, on=node))
        assert await story.bound(f"filler-{node}") == node
    await story.pod("additional", story.spec({resource: "5"}))
    message = await story.unschedulable("additional")
    assert message == f"0/2 nodes are available: 2 Insufficient {resource}. {NO_VICTIMS.format(2)}"
    await story.delete_pod("filler-b")
    assert await story.bound("additional") == "b"


async def test_runtime_overhead_counts_as_requests(story: Story) -> None:
    overhead = {"handler": "test", "overhead": {"podFixed": {BEARDS: "250"}}}
    runtime = await story.create("/apis/node.k8s.io/v1/runtimeclasses", "heavy", overhead)
    await story.node("a", extra={BEARDS: "1000"})
    await story.pod("filler", story.spec({BEARDS: "500"}, runtimeClassName=runtime))
    assert await story.bound("filler") == "a"
    await story.pod("heavy", story.spec({BEARDS: "200"}, runtimeClassName=runtime))
    message = await story.unschedulable("heavy")
    assert message == f"0/1 nodes are available: 1 Insufficient {BEARDS}. {NO_VICTIMS.format(1)}"
    await story.pod("light", story.spec({BEARDS: "200"}))
    assert await story.bound("light") == "a"


class Wish(NamedTuple):
    """Specs of two pods, and the labels that `b` needs so that the rejected one fits too."""

    fits: Json
    """Fields of the pod that fits node `a` from the start."""
    refused: Json
    message: str
    labels: Mapping[str, str]


def _in(key: str, *values: str) -> Json:
    return on_nodes_with({"key": key, "operator": "In", "values": list(values)})


UNMATCHED = "2 node(s) didn't match Pod's node affinity/selector"


@pytest.mark.parametrize(
    "wish",
    [
        pytest.param(
            Wish({"where": {"disk": "ssd"}}, {"where": {"disk": "hdd"}}, UNMATCHED, {"disk": "hdd"}), id="NodeSelector"
        ),
        pytest.param(
            Wish(
                {"affinity": _in("disk", "ssd", "tape")}, {"affinity": _in("disk", "hdd")}, UNMATCHED, {"disk": "hdd"}
            ),
            id="NodeAffinity",
        ),
        pytest.param(
            Wish(
                {"affinity": on_nodes_with({"key": "size", "operator": "Gt", "values": ["2"]})},
                {"affinity": on_nodes_with({"key": "size", "operator": "Lt", "values": ["2"]})},
                UNMATCHED,
                {"size": "1"},
            ),
            id="NodeAffinity by number",
        ),
    ],
)
async def test_node_selector_and_affinity_match_node_labels(story: Story, wish: Wish) -> None:
    await story.node("a", labels={"disk": "ssd", "size": "3"})
    await story.node("b")
    await story.pod("fits", story.spec(**wish.fits))
    assert await story.bound("fits") == "a"
    await story.pod("refused", story.spec(**wish.refused))
    message = await story.unschedulable("refused")
    assert message == f"0/2 nodes are available: {wish.message}. {NO_HELP.format(2)}"
    await story.label("b", **wish.labels)
    assert await story.bound("refused") == "b"


async def test_pod_is_bound_to_the_node_named_by_affinity(story: Story) -> None:
    await story.node("a")
    by_name = {"key": "metadata.name", "operator": "In", "values": [await story.node("b")]}
    terms = {"nodeSelectorTerms": [{"matchFields": [by_name]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
    for number in range(3):
        await story.pod(f"p-{number}", story.spec(affinity=affinity))
    assert await story.places(3) == {"b": 3}


async def test_pods_without_toleration_avoid_a_tainted_node(story: Story) -> None:
    await story.node("a", taints=[{"key": "kind", "value": "rare", "effect": "NoSchedule"}])
    tolerates = {"key": "kind", "operator": "Equal", "value": "rare", "effect": "NoSchedule"}
    await story.pod("tolerates", story.spec(tolerations=[tolerates]))
    assert await story.bound("tolerates") == "a"
    await story.pod("does-not", story.spec(tolerations=[{**tolerates, "value": "other"}]))
    message = await story.unschedulable("does-not")
    assert message == f"0/1 nodes are available: 1 node(s) had untolerated taint(s). {NO_HELP.format(1)}"
    await story.api.patch(f"/api/v1/nodes/{story.full_name('a')}", {"spec": {"taints": None}})
    assert await story.bound("does-not") == "a"


async def test_cordoned_node_gets_no_pods_until_uncordoned(story: Story) -> None:
    await story.node("a")
    await story.change_node("a", unschedulable=True)
    await story.pod("late")
    await story.unschedulable_with(
        "late", f"0/1 nodes are available: 1 node(s) were unschedulable. {NO_HELP.format(1)}"
    )
    await story.change_node("a", unschedulable=False)
    assert await story.bound("late") == "a"


def _port(number: int, address: str = "", protocol: str = "TCP") -> Json:
    return {"containerPort": 8080, "hostPort": number, "hostIP": address, "protocol": protocol}


async def test_host_ports_of_other_addresses_and_protocols_do_not_conflict(story: Story) -> None:
    await story.node("a")
    for name, port in {
        "one": _port(54321, "127.0.0.1"),
        "other-address": _port(54321, "127.0.0.2"),
        "other-protocol": _port(54321, "127.0.0.2", "UDP"),
    }.items():
        await story.pod(name, story.spec(ports=[port]))
        assert await story.bound(name) == "a"


async def test_host_port_on_all_addresses_conflicts_with_one_address(story: Story) -> None:
    await story.node("a")
    await story.pod("all", story.spec(ports=[_port(54322)]))
    assert await story.bound("all") == "a"
    await story.pod("one", story.spec(ports=[_port(54322, "127.0.0.1")]))
    message = await story.unschedulable("one")
    ports = "1 node(s) didn't have free ports for the requested pod ports"
    assert message == f"0/1 nodes are available: {ports}. {NO_VICTIMS.format(1)}"
    await story.delete_pod("all")
    assert await story.bound("one") == "a"


async def test_four_pods_are_spread_evenly_over_two_nodes(story: Story) -> None:
    labels = {"app": "even"}
    await story.node("a", cpu="64")
    await story.node("b", cpu="1")
    await story.seen("a", "b")
    template = {"metadata": {"labels": labels}, "spec": story.spec(topologySpreadConstraints=spread(HOSTNAME, labels))}
    body = {"replicas": 4, "selector": {"matchLabels": labels}, "template": template}
    await story.api.create(story.at("apps/v1", "replicasets"), {"metadata": {"name": "even"}, "spec": body})
    assert await story.places(4) == {"a": 2, "b": 2}


async def test_gated_pod_waits_for_removal_of_its_last_gate(story: Story) -> None:
    await story.node("a")
    gates = [{"name": "example.com/quota"}, {"name": "example.com/audit"}]
    await story.pod("gated", story.spec(schedulingGates=gates))
    gated = await story.until(f"{story.pods}/gated", lambda found: condition(found, "PodScheduled"))
    assert condition(gated, "PodScheduled")["reason"] == "SchedulingGated"
    await story.api.patch(f"{story.pods}/gated", {"spec": {"schedulingGates": gates[1:]}})
    await story.pod("free")
    assert await story.bound("free") == "a"
    still = await story.api.get(f"{story.pods}/gated")
    assert "nodeName" not in still["spec"]
    assert condition(still, "PodScheduled")["reason"] == "SchedulingGated"
    await story.api.patch(f"{story.pods}/gated", {"spec": {"schedulingGates": None}})
    assert await story.bound("gated") == "a"


async def test_volume_may_name_nodes_that_do_not_exist(story: Story) -> None:
    labels = {"disk": "ssd"}
    await story.node("a", labels=labels)
    await story.node("b")
    hosts = {"key": HOSTNAME, "operator": "In", "values": [story.full_name("nowhere"), story.full_name("a")]}
    needs = {"required": {"nodeSelectorTerms": [{"matchExpressions": [hosts]}]}}
    shape = {"accessModes": ["ReadWriteOnce"], "storageClassName": story.full_name("manual")}
    source = {"capacity": {"storage": "1Gi"}, "local": {"path": "/mnt/test"}, "nodeAffinity": needs}
    made = await story.create(VOLUMES, "disk", {"spec": {**shape, **source}})
    await story.until(f"{VOLUMES}/{made}", lambda found: found["status"].get("phase") == "Available")
    claim = {**shape, "resources": {"requests": {"storage": "1Gi"}}}
    claims = story.at("v1", "persistentvolumeclaims")
    await story.api.create(claims, {"metadata": {"name": "disk"}, "spec": claim})
    await story.until(f"{claims}/disk", lambda found: found["status"].get("phase") == "Bound")
    uses = [{"name": "disk", "persistentVolumeClaim": {"claimName": "disk"}}]
    await story.pod("reader", story.spec(volumes=uses))
    assert await story.bound("reader") == "a"


async def test_limit_range_sets_default_requests(story: Story) -> None:
    limits = [{"type": "Container", "defaultRequest": {"cpu": "600m"}, "default": {"cpu": "1"}}]
    await story.api.create(story.at("v1", "limitranges"), {"metadata": {"name": "usual"}, "spec": {"limits": limits}})
    await story.node("a", cpu="1")
    await story.pod("first")
    assert await story.bound("first") == "a"
    await story.pod("second")
    assert await story.unschedulable("second") == f"0/1 nodes are available: 1 Insufficient cpu. {NO_VICTIMS.format(1)}"


async def test_required_affinity_and_anti_affinity_are_satisfied(story: Story) -> None:
    for node in ("a", "b"):
        await story.node(node)
    web, cache = {"app": "web"}, {"app": "cache"}
    await story.pod("cache", story.spec(affinity=pod_affinity(web)), cache)
    await story.unschedulable("cache", "0/2 nodes are available: 2 node(s) didn't match pod affinity rules")
    await story.pod("web", story.spec(on="b", affinity=pod_anti_affinity({"app": "rival"})), web)
    assert await story.bound("cache") == await story.bound("web") == "b"
    await story.pod("rival", story.spec(), {"app": "rival"})
    assert await story.bound("rival") == "a"


async def test_preferred_anti_affinity_avoids_nodes(story: Story) -> None:
    await story.node("a", cpu="64")
    await story.node("b", cpu="1")
    await story.seen("a", "b")
    security = {"security": "S1"}
    await story.pod("first", story.spec(on="a"), security)
    assert await story.bound("first") == "a"
    term = {"labelSelector": {"matchLabels": security}, "topologyKey": HOSTNAME}
    preferred = [{"weight": 10, "podAffinityTerm": term}]
    away = {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}
    await story.pod("second", story.spec({"cpu": "100m"}, affinity=away))
    assert await story.bound("second") == "b"


async def test_node_with_tolerated_taints_is_preferred(story: Story) -> None:
    for node in ("a", "b", "c"):
        taints = [{"key": f"{node}-{n}", "value": "soft", "effect": "PreferNoSchedule"} for n in range(10)]
        await story.node(node, cpu="1" if node == "b" else "64", taints=taints)
        await story.seen(node)
    tolerations = [{"key": f"b-{n}", "operator": "Exists", "effect": "PreferNoSchedule"} for n in range(10)]
    await story.pod("picky", story.spec({"cpu": "100m"}, tolerations=tolerations))
    assert await story.bound("picky") == "b"


async def test_node_that_evens_the_spread_is_preferred(story: Story) -> None:
    labels = {"app": "even"}
    await story.node("a", cpu="64")
    await story.node("b", cpu="1")
    await story.seen("a", "b")
    for number in range(4):
        await story.pod(f"there-{number}", story.spec(on="a"), labels)
    assert await story.places(4) == {"a": 4}
    wish = spread(HOSTNAME, labels, hard=False)
    await story.pod("last", story.spec({"cpu": "100m"}, topologySpreadConstraints=wish), labels)
    assert await story.bound("last") == "b"


@pytest.mark.parametrize("owner", ["service", "replication controller"])
async def test_pods_of_one_owner_are_spread_over_zones(story: Story, owner: str) -> None:
    labels = {"app": "spread"}
    for zone, cpu in {"x": "16", "y": "8", "z": "8"}.items():
        await story.node(zone, cpu=cpu, labels={ZONE: f"{story.namespace}-{zone}"})
        await story.seen(zone)
    if owner == "service":
        body: Json = {"selector": labels, "ports": [{"port": 80}]}
        await story.api.create(story.at("v1", "services"), {"metadata": {"name": "spread"}, "spec": body})
        for number in range(6):
            await story.pod(f"p-{number}", labels=labels)
    else:
        template = {"metadata": {"labels": labels}, "spec": story.spec()}
        body = {"replicas": 6, "selector": labels, "template": template}
        controllers = story.at("v1", "replicationcontrollers")
        await story.api.create(controllers, {"metadata": {"name": "spread"}, "spec": body})
    assert await story.places(6) == {"x": 2, "y": 2, "z": 2}
