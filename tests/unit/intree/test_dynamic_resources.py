"""DynamicResources: pods without claims, args, and requests for extended resources."""

from __future__ import annotations

from typing import Any

import pytest

from pyscheduler.api import SKIP_SIGNATURE_GROUP, Diagnosis, Rejection, StatusError
from pyscheduler.core.framework.handle import empty_handle
from pyscheduler.intree import DynamicResources
from pyscheduler.intree.resource_claims.extended_resources import RequestsOnNode, requests_on_node
from pyscheduler.intree.resource_claims.objects import DEVICE_CLASS
from pyscheduler.testing import PodBuilder, node, pod

from .cluster import build, cycle, table

CLAIMS = pod("claims").spec(resourceClaims=[{"name": "gpu", "resourceClaimTemplateName": "gpu"}])
GPU = "example.com/gpu"
NAMED = "deviceclass.resource.kubernetes.io/gpu"


def device_class(name: str, resource: str | None = None, created: str = "") -> dict[str, Any]:
    spec = {"extendedResourceName": resource} if resource else {}
    return {"metadata": {"name": name, "creationTimestamp": created or None}, "spec": spec}


def plugin(*classes: dict[str, Any]) -> DynamicResources:
    handle = empty_handle()
    for one in classes:
        handle.objects.set(DEVICE_CLASS, one)
    return DynamicResources(DynamicResources.Args(), handle)


@pytest.mark.parametrize(
    ("of", "needs_devices"),
    [
        pytest.param(pod(), False, id="no claims"),
        pytest.param(pod().spec(resourceClaims=[]), False, id="an empty list of claims"),
        pytest.param(CLAIMS, True, id="claims"),
        pytest.param(pod().request(GPU, "1"), True, id="resource of a device class"),
        pytest.param(pod().request(GPU, "0"), False, id="request of 0"),
        pytest.param(pod().request(NAMED, "1"), True, id="a device class by its name"),
        pytest.param(pod().request(f"{NAMED}x", "1"), False, id="a class that does not exist"),
        pytest.param(pod().request("example.com/nic", "1"), False, id="a resource of no class"),
    ],
)
def test_only_pods_that_need_devices_are_filtered(of: PodBuilder, needs_devices: bool) -> None:
    subject = plugin(device_class("gpu", GPU), device_class("plain"), {"metadata": {"name": "bare"}})
    built, plain = of.build(), pod().build()
    assert (subject.sign_group(built.signature.template) != subject.sign_group(plain.signature.template)) == (
        needs_devices
    )
    is_skipped = subject.pre_filter(cycle(), built, table([node()])) is SKIP_SIGNATURE_GROUP
    assert is_skipped == (not needs_devices)


def test_pod_is_gated_until_its_claim_exists() -> None:
    reason = 'pod "default/claims": ResourceClaim not created yet'
    assert plugin().pre_enqueue(CLAIMS.build()) == Rejection(reason, resolvable=False)
    assert plugin().pre_enqueue(pod().build()) is None


def test_nodes_score_0_without_claims() -> None:
    subject, attempt, nodes = plugin(), cycle(), table([node("a"), node("b")])
    subject.pre_filter(attempt, pod().build(), nodes)
    assert subject.score_all(attempt, pod().build(), nodes).tolist() == [0, 0]


def test_post_filter_rejects_without_claims_to_deallocate() -> None:
    subject, attempt = plugin(), cycle()
    subject.pre_filter(attempt, pod().build(), table([node()]))
    assert subject.post_filter(attempt, pod().build(), Diagnosis(1)) == Rejection()


def test_post_filter_raises_if_pre_filter_did_not_run() -> None:
    with pytest.raises(StatusError, match=r"^not found$"):
        plugin().post_filter(cycle(), pod().build(), Diagnosis(1))


def test_newest_class_provides_a_resource_and_of_equally_old_ones_the_first_by_name() -> None:
    ages = {"c": "2026-01-01T00:00:00Z", "b": "", "a": ""}
    classes = [device_class(name, GPU, created) for name, created in ages.items()]
    assert plugin(*classes)._classes.of_resource(GPU) == "c"
    assert plugin(*classes[1:])._classes.of_resource(GPU) == "a"


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


# -- extended resources ------------------------------------------------------------------------------------------------


def container(name: str, amount: int, **fields: Any) -> dict[str, Any]:
    requests = {"cpu": "1", GPU: str(amount)} if amount else {"cpu": "1"}
    return {"name": name, "resources": {"requests": requests}, **fields}


def requests_of(init: list[dict[str, Any]], containers: list[dict[str, Any]]) -> RequestsOnNode:
    spec = {"initContainers": init, "containers": containers}
    built = PodBuilder({"metadata": {"name": "p", "namespace": "default"}, "spec": spec})
    return requests_on_node(built.build(), [GPU], lambda _: "class")


@pytest.mark.parametrize(
    ("init", "containers", "requests", "mappings"),
    [
        pytest.param(
            [], [("m", 2)], {"container-0-request-1": 2}, {"m": ["container-0-request-1"]}, id="one container"
        ),
        pytest.param(
            [],
            [("m", 1), ("n", 2), ("o", 0)],
            {"container-0-request-1": 1, "container-1-request-1": 2},
            {"m": ["container-0-request-1"], "n": ["container-1-request-1"]},
            id="containers have requests of their own",
        ),
        pytest.param(
            [("i", 2)],
            [("m", 2)],
            {"container-1-request-1": 2},
            {"m": ["container-1-request-1"], "i": ["container-1-request-1"]},
            id="an init container gets the devices of later containers",
        ),
        pytest.param(
            [("i", 3), ("j", 5)],
            [("m", 2)],
            {"container-1-request-1": 3, "container-2-request-1": 2},
            {
                "m": ["container-2-request-1"],
                "i": ["container-2-request-1", "container-1-request-1"],
                "j": ["container-2-request-1", "container-1-request-1"],
            },
            id="init containers share the largest rest",
        ),
    ],
)
def test_containers_get_requests_of_the_claim(
    init: list[tuple[str, int]],
    containers: list[tuple[str, int]],
    requests: dict[str, int],
    mappings: dict[str, list[str]],
) -> None:
    found = requests_of([container(*each) for each in init], [container(*each) for each in containers])
    assert {each.name: each.exactly.count for each in found.requests if each.exactly} == requests
    shown: dict[str, list[str]] = {}
    for each in found.mappings:
        shown.setdefault(each.container_name, []).append(each.request_name)
    assert shown == mappings


def test_sidecar_has_a_request_of_its_own() -> None:
    found = requests_of([container("side", 1, restartPolicy="Always")], [container("m", 1)])
    assert [each.name for each in found.requests] == ["container-0-request-1", "container-1-request-1"]
