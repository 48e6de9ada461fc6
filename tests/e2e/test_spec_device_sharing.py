"""Kubernetes' specs of devices that are divided, shared, tainted, or made ready while a pod waits.

docs/specs.md maps specs to tests.
"""

from __future__ import annotations

import pytest

from tests.e2e.client import Json
from tests.e2e.devices import NO_DEVICE, SLICES, Driver, exactly, quantities
from tests.e2e.story import HOSTNAME, Story, alive, condition, pod_anti_affinity

pytestmark = pytest.mark.asyncio(loop_scope="session")

READY, FAILED = "example.com/ready", "example.com/failed"
BINDING: Json = {"bindingConditions": [READY], "bindingFailureConditions": [FAILED]}
TAINT = {"key": "example.com/taint", "value": "tainted"}
FINALIZER = "example.com/kept"


# Partitionable devices


async def test_counters_are_consumed_and_released(story: Story) -> None:
    driver = Driver(story)
    await story.node("a")
    consumed = [{"counterSet": "set", "counters": quantities({"memory": "4Gi"})}]
    await driver.publish_counters(
        "a",
        [{"name": "set", "counters": quantities({"memory": "6Gi"})}],
        *({"name": name, "consumesCounters": consumed} for name in ("one", "two")),
    )
    of = await driver.device_class()
    for name in ("c1", "c2"):
        await driver.claim(name, exactly(of))
    await driver.pod("p1", "c1")
    assert await story.bound("p1") == "a"
    await driver.pod("p2", "c2")
    await story.unschedulable_with("p2", NO_DEVICE)
    await story.delete_pod("p1")
    assert await story.bound("p2") == "a"


async def test_partitions_of_one_device_exclude_each_other(story: Story) -> None:
    driver = Driver(story)
    await story.node("a")

    def part(name: str, memory: str, *slices: str) -> Json:
        counters = {"memory": memory, **dict.fromkeys(slices, "1")}
        return {"name": name, "consumesCounters": [{"counterSet": "gpu", "counters": quantities(counters)}]}

    await driver.publish_counters(
        "a",
        [{"name": "gpu", "counters": quantities({"memory": "40Gi", "slice-0": "1", "slice-1": "1"})}],
        part("whole", "40Gi", "slice-0", "slice-1"),
        part("left", "20Gi", "slice-0"),
        part("right", "20Gi", "slice-1"),
    )
    of = await driver.device_class()
    await driver.claim("c1", exactly(of))
    await driver.claim("two", exactly(of, count=2))
    await driver.pod("p", "two")
    assert await story.bound("p") == "a"
    assert await driver.results("two") == [("r", "a", "left"), ("r", "a", "right")]
    await driver.pod("p1", "c1")
    await story.unschedulable_with("p1", NO_DEVICE)
    await story.delete_pod("p")
    assert await story.bound("p1") == "a"
    assert await driver.results("c1") == [("r", "a", "whole")]


async def test_device_names_its_own_node(story: Story) -> None:
    driver = Driver(story)
    names = ("a", "b", "c")
    for name in names:
        await story.node(name)
    devices = [{"name": f"of-{name}", "nodeName": story.full_name(name)} for name in names]
    await driver.publish("", *devices, pool="shared", perDeviceNodeSelection=True)
    of = await driver.device_class()
    for name in names:
        await driver.claim(name, exactly(of))
        await driver.pod(name, name)
        node = await story.bound(name)
        assert await driver.results(name) == [("r", "shared", f"of-{node}")]
    assert await story.places(3) == dict.fromkeys(names, 1)


async def test_device_of_several_nodes_is_shared_by_their_pods(story: Story) -> None:
    driver = Driver(story)
    names = ("a", "b", "c", "d")
    for name in (*names, "outside"):
        await story.node(name)
    hosts = {"key": HOSTNAME, "operator": "In", "values": [story.full_name(name) for name in names]}
    selector = {"nodeSelectorTerms": [{"matchExpressions": [hosts]}]}
    await driver.publish("", {"name": "link", "nodeSelector": selector}, pool="shared", perDeviceNodeSelection=True)
    await driver.claim("c", exactly(await driver.device_class()))
    labels = {"app": "host"}
    for i in range(4):
        spec = story.spec(resourceClaims=[{"name": "c", "resourceClaimName": "c"}], affinity=pod_anti_affinity(labels))
        spec["containers"][0]["resources"] = {"claims": [{"name": "c"}]}
        await story.pod(f"p{i}", spec, labels)
    assert await story.places(4) == dict.fromkeys(names, 1)
    assert (await driver.allocated("c"))["nodeSelector"] == selector


# Consumable capacity


async def test_capacity_of_a_shared_device_is_consumed_and_released(story: Story) -> None:
    driver = Driver(story)
    await story.node("a")
    policy = {"default": "1Gi", "validRange": {"min": "1Gi"}}
    shared = {
        "name": "shared",
        "allowMultipleAllocations": True,
        "capacity": {"memory": {"value": "8Gi", "requestPolicy": policy}},
    }
    await driver.publish("a", shared)
    of = await driver.device_class()
    for name, amount in (("c1", "4Gi"), ("c2", "8Gi"), ("c3", "3Gi"), ("c4", "")):
        request: Json = {"capacity": {"requests": {"memory": amount}}} if amount else {}
        await driver.claim(name, exactly(of, **request))
    await driver.pod("p1", "c1")
    await story.bound("p1")
    await driver.pod("p2", "c2")
    await story.unschedulable_with("p2", NO_DEVICE)
    for name in ("3", "4"):
        await driver.pod(f"p{name}", f"c{name}")
        await story.bound(f"p{name}")
    shares = {}
    for name, amount in (("c1", "4Gi"), ("c3", "3Gi"), ("c4", "1Gi")):
        [result] = (await driver.allocated(name))["devices"]["results"]
        assert result["consumedCapacity"] == {"memory": amount}
        shares[result["shareID"]] = name
    assert len(shares) == 3
    for name in ("p1", "p3", "p4"):
        await story.delete_pod(name)
    assert await story.bound("p2") == "a"


# Device taints


@pytest.mark.parametrize("effect", ["NoSchedule", "NoExecute"])
async def test_tainted_device_needs_a_toleration(story: Story, effect: str) -> None:
    driver = Driver(story)
    await story.node("a")
    await driver.publish("a", {"name": "gpu", "taints": [{**TAINT, "effect": effect}]})
    of = await driver.device_class()
    await driver.template("intolerant", exactly(of))
    await driver.inline("p1", "intolerant")
    await story.unschedulable_with("p1", NO_DEVICE)
    other = {"operator": "Equal", "key": TAINT["key"], "value": "other", "effect": effect}
    await driver.template("other", exactly(of, tolerations=[other]))
    await driver.inline("p2", "other")
    await story.unschedulable_with("p2", NO_DEVICE)
    await driver.template("tolerant", exactly(of, tolerations=[{"operator": "Exists", "effect": effect}]))
    await driver.inline("p3", "tolerant")
    assert await story.bound("p3") == "a"


async def test_pod_waits_for_the_end_of_a_taint_rule(story: Story) -> None:
    driver = Driver(story)
    await story.node("a")
    rule = await driver.taint_rule("NoSchedule")
    await driver.publish("a", "gpu")
    of = await driver.device_class()
    await driver.until_excluded("a", of)
    await driver.template("gpu", exactly(of))
    await driver.inline("p", "gpu")
    await story.unschedulable_with("p", NO_DEVICE)
    await story.api.delete(rule)
    assert await story.bound("p") == "a"


async def test_taint_rule_selects_a_device_of_a_pool(story: Story) -> None:
    driver = Driver(story)
    for name in ("a", "b"):
        await story.node(name)
        await driver.publish(name, "one", "two")
    await driver.taint_rule("NoSchedule", pool=story.full_name("a"))
    of = await driver.device_class()
    await driver.until_excluded("a", of)
    await driver.claim("c", exactly(of, count=2))
    await driver.pod("p", "c")
    assert await story.bound("p") == "b"
    await driver.claim("d", exactly(of))
    await driver.pod("q", "d")
    await story.unschedulable_with("q", NO_DEVICE.replace("0/1", "0/2").replace(" 1 ", " 2 "))


async def test_taint_rule_evicts_a_pod_and_keeps_its_replacement_pending(story: Story) -> None:
    driver = Driver(story)
    await story.node("a")
    await driver.publish("a", "gpu")
    of = await driver.device_class()
    tolerations = [{"operator": "Exists", "effect": "NoSchedule"}]
    await driver.template("gpu", exactly(of, tolerations=tolerations))
    body = uses_device(story, "gpu")
    metadata = {"name": "p", "finalizers": [FINALIZER]}
    await story.api.create(story.pods, {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": body})
    assert await story.bound("p") == "a"
    await driver.taint_rule("NoExecute")
    found = await story.until(f"{story.pods}/p", lambda found: "deletionTimestamp" in found["metadata"])
    assert condition(found, "DisruptionTarget")["reason"] == "DeletionByDeviceTaintManager"
    await story.api.patch(f"{story.pods}/p", {"metadata": {"finalizers": None}})
    await story.until(story.pods, lambda found: not alive(found))
    await driver.inline("q", "gpu")
    await story.unschedulable_with("q", NO_DEVICE)


def uses_device(story: Story, template: str) -> Json:
    """Return the spec of a pod that uses a claim of a template."""
    spec = story.spec()
    spec["containers"][0]["resources"] = {"claims": [{"name": "device"}]}
    return {**spec, "resourceClaims": [{"name": "device", "resourceClaimTemplateName": template}]}


# Binding conditions


async def test_pod_is_bound_once_its_device_is_ready(story: Story) -> None:
    driver = Driver(story)
    await story.node("a")
    await driver.publish("a", {"name": "fabric", **BINDING}, pool="attached")
    await driver.publish("a", "local", pool="plain")
    of = await driver.device_class()
    for name in ("c1", "c2"):
        await driver.claim(name, exactly(of))
    await driver.pod("p1", "c1")
    assert await story.bound("p1") == "a"
    assert await driver.results("c1") == [("r", "plain", "local")], "devices without conditions come first"
    await driver.pod("p2", "c2")
    allocation = await driver.allocated("c2")
    [result] = allocation["devices"]["results"]
    assert (result["device"], {key: result[key] for key in BINDING}) == ("fabric", BINDING)
    assert allocation["allocationTimestamp"]
    [event] = await story.events("p2", "BindingConditionsPending")
    assert event["type"] == "Normal"
    await driver.report("c2", FAILED)
    await driver.allocated_again("c2")
    assert "nodeName" not in (await story.api.get(f"{story.pods}/p2"))["spec"]
    await driver.report("c2", READY)
    assert await story.bound("p2") == "a"


@pytest.mark.parametrize("how", ["tainted", "removed"])
async def test_pod_gets_another_device_after_a_failure(story: Story, how: str) -> None:
    driver = Driver(story)
    for name in ("a", "b"):
        await story.node(name)
    fabric: Json = {"name": "fabric", **BINDING}
    pool = await driver.publish("a", fabric)
    await driver.claim("c", exactly(await driver.device_class()))
    await driver.pod("p", "c")
    assert await driver.results("c") == [("r", "a", "fabric")]
    tainted = [{**fabric, "taints": [{**TAINT, "effect": "NoSchedule"}]}]
    await story.api.patch(f"{SLICES}/{pool}", {"spec": {"devices": tainted if how == "tainted" else None}})
    await driver.publish("b", "local")
    await driver.report("c", FAILED)
    assert await story.bound("p") == "b"
    assert await driver.results("c") == [("r", "b", "local")]
    claim = await story.api.get(f"{driver.claims}/c")
    assert "devices" not in claim["status"]
