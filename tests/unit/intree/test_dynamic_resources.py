"""DynamicResources: kube-scheduler's results for pods without claims, and the rejection of pods with claims."""

from __future__ import annotations

from typing import Any

import pytest

from pyscheduler.api import SKIP, Action, ClusterEvent, Diagnosis, Rejection, StatusError
from pyscheduler.core.framework.handle import empty_handle
from pyscheduler.intree import DynamicResources
from pyscheduler.intree.dynamic_resources import DEVICE_CLASS
from pyscheduler.testing import NodeBuilder, PodBuilder, node, pod

from .cluster import build, cycle, node_added, requeues, scores, table

CLAIMS = pod("claims").spec(resourceClaims=[{"name": "gpu", "resourceClaimTemplateName": "gpu"}])
GPU = "example.com/gpu"
NAMED = "deviceclass.resource.kubernetes.io/gpu"
NO = "pod has resource claims, which this scheduler does not allocate yet"


def device_class(name: str, resource: str | None = None) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {"extendedResourceName": resource} if resource else {}}


def plugin(*classes: dict[str, Any]) -> DynamicResources:
    handle = empty_handle()
    for one in classes:
        handle.objects.set(DEVICE_CLASS, one)
    return DynamicResources(DynamicResources.Args(), handle)


@pytest.mark.parametrize(
    ("of", "nodes", "refused"),
    [
        pytest.param(pod(), [node()], False, id="no claims"),
        pytest.param(pod().spec(resourceClaims=[]), [node()], False, id="an empty list of claims"),
        pytest.param(CLAIMS, [node()], True, id="claims"),
        pytest.param(pod().request(GPU, "1"), [node()], True, id="resource of a device class only"),
        pytest.param(pod().request(GPU, "0"), [node()], False, id="request of 0"),
        pytest.param(pod().request(GPU, "1"), [node().has(GPU, "0")], True, id="node with allocatable 0"),
        pytest.param(pod().request(GPU, "1"), [node("a"), node("b").has(GPU, "2")], False, id="node with the resource"),
        pytest.param(pod().request(NAMED, "1"), [node()], True, id="a device class by its name"),
        pytest.param(pod().request(f"{NAMED}x", "1"), [node()], False, id="a class that does not exist"),
        pytest.param(pod().request("example.com/nic", "1"), [node()], False, id="a resource of no class"),
    ],
)
def test_only_pods_that_need_devices_are_rejected(of: PodBuilder, nodes: list[NodeBuilder], refused: bool) -> None:
    subject = plugin(device_class("gpu", GPU), device_class("plain"), {"metadata": {"name": "bare"}})
    result = subject.pre_filter(cycle(), of.build(), table(nodes))
    assert result == (Rejection(NO, resolvable=False) if refused else SKIP)
    assert subject.pre_enqueue(of.build()) is None


def test_every_node_passes_with_score_0() -> None:
    assert scores(plugin(), pod(), [node("a"), node("b")]) == [0, 0]
    subject, cluster = plugin(), table([node("a"), node("b")])
    assert [subject.filter(cycle(), pod().build(), n) for n in cluster] == [None, None]
    assert not subject.filter_all(cycle(), pod().build(), cluster).codes.any()


@pytest.mark.parametrize("of", [pod(), CLAIMS], ids=["no claims", "claims"])
def test_post_filter_rejects_without_claims_to_deallocate(of: PodBuilder) -> None:
    subject, attempt = plugin(), cycle()
    subject.pre_filter(attempt, of.build(), table([node()]))
    result = subject.post_filter(attempt, of.build(), Diagnosis(1))
    assert result == Rejection()


def test_post_filter_raises_if_pre_filter_did_not_run() -> None:
    with pytest.raises(StatusError, match=r"^not found$"):
        plugin().post_filter(cycle(), pod().build(), Diagnosis(1))


CLASS_ADDED = ClusterEvent("DeviceClass", Action.ADD, None, device_class("x"))


@pytest.mark.parametrize("event", [node_added(node()), CLASS_ADDED], ids=["a node", "a device class"])
def test_only_pods_with_extended_device_resources_are_requeued(event: ClusterEvent) -> None:
    assert requeues(plugin(), pod().request(GPU, "1"), event)
    assert not requeues(plugin(), CLAIMS, event)


@pytest.mark.parametrize(
    ("args", "problem"),
    [
        ({"filter_timeout": -1.0}, 'filterTimeout: Invalid value: "-1s": must be zero or positive'),
        ({"binding_timeout": 0.5}, 'bindingTimeout: Invalid value: "500ms": must be at least 1 second'),
    ],
)
def test_invalid_timeouts_are_rejected(args: dict[str, float], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        build(DynamicResources, **args)
    build(DynamicResources, filter_timeout=0.0, binding_timeout=1.0)
