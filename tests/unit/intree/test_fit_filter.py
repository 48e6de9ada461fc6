"""NodeResourcesFit as a filter: free resources, and rejections that evictions can resolve."""

from __future__ import annotations

import pytest

from pyscheduler.api import Action, ClusterEvent
from pyscheduler.intree import NodeResourcesFit
from pyscheduler.testing import Harness, NodeBuilder, PodBuilder, node, pod
from pyscheduler.testing.conformance import assert_filters_agree

from .cluster import (
    Reasons,
    build,
    cycle,
    node_added,
    node_updated,
    pod_deleted,
    pod_updated,
    reasons,
    rejections,
    requeues,
    table,
)

GPU = "nvidia.com/gpu"
SMALL = node("n", cpu="2", memory="4Gi", pods="3").has("ephemeral-storage", "10Gi").has(GPU, "2")


@pytest.mark.parametrize(
    ("of", "running", "expected"),
    [
        pytest.param(pod().requests(cpu="2", memory="4Gi"), pod("u"), None, id="exact fit"),
        pytest.param(pod().requests(cpu="1001m"), pod("u").requests(cpu="1"), ("Insufficient cpu",), id="cpu"),
        pytest.param(pod().requests(cpu="1000.5m"), pod("u").requests(cpu="1"), ("Insufficient cpu",), id="rounded up"),
        pytest.param(
            pod().requests(memory="3Gi"), pod("u").requests(memory="2Gi"), ("Insufficient memory",), id="memory"
        ),
        pytest.param(
            pod().requests(ephemeral_storage="11Gi"), pod("u"), ("Insufficient ephemeral-storage",), id="local storage"
        ),
        pytest.param(
            pod().request(GPU, "2"), pod("u").request(GPU, "1"), (f"Insufficient {GPU}",), id="an extended resource"
        ),
        pytest.param(pod().request("x.io/y", "1"), pod("u"), ("Insufficient x.io/y",), id="resource missing on node"),
        pytest.param(pod().request("x.io/y", "0"), pod("u"), None, id="request of 0 of a missing resource"),
        pytest.param(pod().request("hugepages-2Mi", "2Mi"), pod("u"), ("Insufficient hugepages-2Mi",), id="huge pages"),
        pytest.param(
            pod().requests(cpu="3", memory="5Gi").request(GPU, "3"),
            pod("u"),
            ("Insufficient cpu", "Insufficient memory", f"Insufficient {GPU}"),
            id="every reason, in order",
        ),
        pytest.param(
            pod().requests(cpu="1").init_container(resources={"requests": {"cpu": "3"}}),
            pod("u"),
            ("Insufficient cpu",),
            id="an init container that is larger than the rest",
        ),
        pytest.param(
            pod().requests(cpu="1").spec(overhead={"cpu": "1001m"}), pod("u"), ("Insufficient cpu",), id="overhead"
        ),
        pytest.param(
            pod().requests(cpu="1").spec(resources={"requests": {"cpu": "3"}}),
            pod("u"),
            ("Insufficient cpu",),
            id="pod-level requests instead of the containers'",
        ),
    ],
)
def test_fit_filter(of: PodBuilder, running: PodBuilder, expected: Reasons) -> None:
    assert reasons(build(NodeResourcesFit), of, [SMALL], [running.on("n")]) == [expected]


def test_pod_count_limit() -> None:
    running = [pod(f"u{i}").requests(cpu="600m").on("n") for i in range(3)]
    fit = build(NodeResourcesFit)
    assert reasons(fit, pod(), [SMALL], running[:2]) == [None]
    assert reasons(fit, pod(), [SMALL], running) == [("Too many pods",)]
    assert reasons(fit, pod().requests(cpu="1"), [SMALL], running) == [("Too many pods", "Insufficient cpu")]
    assert reasons(fit, pod(), [SMALL.has("pods", "0")]) == [("Too many pods",)]


@pytest.mark.parametrize(
    ("of", "resolvable"),
    [
        pytest.param(pod().requests(cpu="2"), True, id="would fit the empty node"),
        pytest.param(pod().requests(cpu="2001m"), False, id="would not fit the empty node"),
        pytest.param(pod().requests(cpu="2", memory="5Gi"), False, id="one resource resolvable, one not"),
        pytest.param(pod().requests(cpu="2").request("x.io/y", "1"), False, id="resource missing on node"),
    ],
)
def test_rejection_is_resolvable_only_within_allocatable(of: PodBuilder, resolvable: bool) -> None:
    (result,) = rejections(build(NodeResourcesFit), of, [SMALL], [pod("u").requests(cpu="1").on("n")])
    assert result is not None
    assert result.resolvable is resolvable


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        pytest.param({}, (f"Insufficient {GPU}",), id="by default"),
        pytest.param({"ignored_resources": (GPU,)}, None, id="by name"),
        pytest.param({"ignored_resources": ("nvidia.com/mig",)}, (f"Insufficient {GPU}",), id="another name"),
        pytest.param({"ignored_resource_groups": ("nvidia.com",)}, None, id="by group"),
        pytest.param({"ignored_resource_groups": ("amd.com",)}, (f"Insufficient {GPU}",), id="another group"),
    ],
)
def test_extended_resources_may_be_ignored(args: dict[str, tuple[str, ...]], expected: Reasons) -> None:
    assert reasons(build(NodeResourcesFit, **args), pod().request(GPU, "9"), [SMALL]) == [expected]


def test_only_extended_resources_may_be_ignored() -> None:
    fit = build(NodeResourcesFit, ignored_resources=("cpu", "hugepages-2Mi"))
    incoming = pod().requests(cpu="9").request("hugepages-2Mi", "2Mi")
    assert reasons(fit, incoming, [SMALL]) == [("Insufficient cpu", "Insufficient hugepages-2Mi")]


def test_more_resources_than_bits_are_all_reported() -> None:
    incoming = pod()
    for i in range(20):
        incoming = incoming.request(f"x.io/r{i}", "1")
    assert reasons(build(NodeResourcesFit), incoming, [SMALL]) == [tuple(f"Insufficient x.io/r{i}" for i in range(20))]


HUNGRY = pod("me").requests(cpu="2").request(GPU, "1")


def grown(old: NodeBuilder, new: NodeBuilder) -> ClusterEvent:
    return node_updated(Action.UPDATE_NODE_ALLOCATABLE, old, new)


@pytest.mark.parametrize(
    ("event", "requeued"),
    [
        pytest.param(pod_deleted(pod("u").on("n")), True, id="placed pod deleted"),
        pytest.param(pod_deleted(pod("u").nominated("n")), True, id="nominated pod deleted"),
        pytest.param(pod_deleted(pod("u")), False, id="pending pod deleted"),
        pytest.param(node_added(SMALL), True, id="a node that it fits is added"),
        pytest.param(node_added(SMALL.has(GPU, "0")), False, id="a node that it does not fit is added"),
        pytest.param(node_added(SMALL.has("pods", "0")), False, id="a node without room for any pod is added"),
        pytest.param(grown(SMALL.has("cpu", "1"), SMALL), True, id="node grew in a requested resource"),
        pytest.param(grown(SMALL.has(GPU, "0"), SMALL), True, id="a node grew in an extended resource"),
        pytest.param(grown(SMALL.has("pods", "2"), SMALL), True, id="a node takes more pods"),
        pytest.param(grown(SMALL.has("memory", "1Gi"), SMALL), False, id="node grew in another resource"),
        pytest.param(grown(SMALL, SMALL.has("cpu", "1")), False, id="a node shrank"),
    ],
)
def test_requeue_of_pod_rejected_by_fit(event: ClusterEvent, requeued: bool) -> None:
    assert requeues(build(NodeResourcesFit), HUNGRY, event) is requeued


@pytest.mark.parametrize(
    ("old", "new", "requeued"),
    [
        pytest.param(pod("me").requests(cpu="3"), pod("me").requests(cpu="1"), True, id="itself"),
        pytest.param(pod("u").requests(cpu="3").on("n"), pod("u").requests(cpu="1").on("n"), True, id="a placed pod"),
        pytest.param(pod("u").requests(cpu="3"), pod("u").requests(cpu="1"), False, id="a pod without a node"),
        pytest.param(
            pod("u").requests(memory="3").on("n"), pod("u").requests(memory="1").on("n"), False, id="something else"
        ),
    ],
)
def test_requeue_on_pod_scale_down(old: PodBuilder, new: PodBuilder, requeued: bool) -> None:
    event = pod_updated(Action.UPDATE_POD_SCALE_DOWN, old, new)
    assert requeues(build(NodeResourcesFit), HUNGRY, event) is requeued


def test_required_room_is_not_given_for_devices_or_resizes() -> None:
    """Devices are DynamicResources' to check where a node has none; a resized pod has its place already."""
    harness = Harness()
    device_class = {"metadata": {"name": "gpu"}, "spec": {"extendedResourceName": GPU}}
    harness.apply({"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", **device_class})
    plugin = NodeResourcesFit(NodeResourcesFit.Args(), harness.handle)
    full = table([node("n", cpu="2", pods="1")], [pod("u").on("n").requests(cpu="1")])
    resize, usual = cycle(), cycle()
    resize.is_resize = True
    assert_filters_agree(plugin, resize, pod("u").requests(cpu="2").build(), full)
    assert plugin.required_room(resize, pod("u").build()) is None
    assert_filters_agree(plugin, usual, pod().request(GPU, "1").build(), table([node("n")]))
    assert plugin.required_room(usual, pod().build()) is None
    assert_filters_agree(plugin, usual, pod().requests(cpu="1").build(), full)
    assert plugin.required_room(usual, pod().build()) == {"cpu": 1000}
