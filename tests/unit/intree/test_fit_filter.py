"""NodeResourcesFit as a filter: is there room, and would evicting somebody make room?"""

from __future__ import annotations

import pytest

from pyscheduler.api import Action, ClusterEvent
from pyscheduler.intree import NodeResourcesFit
from pyscheduler.testing import NodeBuilder, PodBuilder, node, pod

from .cluster import (
    Answer,
    build,
    node_added,
    node_updated,
    pod_deleted,
    pod_updated,
    reasons,
    rejections,
    wakes,
)

GPU = "nvidia.com/gpu"
SMALL = node("n", cpu="2", memory="4Gi", pods="3").has("ephemeral-storage", "10Gi").has(GPU, "2")


@pytest.mark.parametrize(
    ("of", "running", "answer"),
    [
        pytest.param(pod().requests(cpu="2", memory="4Gi"), pod("u"), None, id="to the last bit"),
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
        pytest.param(pod().request("x.io/y", "1"), pod("u"), ("Insufficient x.io/y",), id="a resource it has not"),
        pytest.param(pod().request("x.io/y", "0"), pod("u"), None, id="nothing of a resource it has not"),
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
def test_room_for_requests(of: PodBuilder, running: PodBuilder, answer: Answer) -> None:
    assert reasons(build(NodeResourcesFit), of, [SMALL], [running.on("n")]) == [answer]


def test_a_node_takes_only_so_many_pods() -> None:
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
        pytest.param(pod().requests(cpu="2", memory="5Gi"), False, id="one resource can be freed, the other not"),
        pytest.param(pod().requests(cpu="2").request("x.io/y", "1"), False, id="the node has none of it"),
    ],
)
def test_only_what_the_node_has_can_be_freed(of: PodBuilder, resolvable: bool) -> None:
    (answer,) = rejections(build(NodeResourcesFit), of, [SMALL], [pod("u").requests(cpu="1").on("n")])
    assert answer is not None
    assert answer.resolvable is resolvable


@pytest.mark.parametrize(
    ("args", "answer"),
    [
        pytest.param({}, (f"Insufficient {GPU}",), id="by default"),
        pytest.param({"ignored_resources": (GPU,)}, None, id="by name"),
        pytest.param({"ignored_resources": ("nvidia.com/mig",)}, (f"Insufficient {GPU}",), id="another name"),
        pytest.param({"ignored_resource_groups": ("nvidia.com",)}, None, id="by group"),
        pytest.param({"ignored_resource_groups": ("amd.com",)}, (f"Insufficient {GPU}",), id="another group"),
    ],
)
def test_extended_resources_may_be_ignored(args: dict[str, tuple[str, ...]], answer: Answer) -> None:
    assert reasons(build(NodeResourcesFit, **args), pod().request(GPU, "9"), [SMALL]) == [answer]


def test_only_extended_resources_may_be_ignored() -> None:
    fit = build(NodeResourcesFit, ignored_resources=("cpu", "hugepages-2Mi"))
    asks = pod().requests(cpu="9").request("hugepages-2Mi", "2Mi")
    assert reasons(fit, asks, [SMALL]) == [("Insufficient cpu", "Insufficient hugepages-2Mi")]


def test_more_resources_than_bits_are_told_one_by_one() -> None:
    asks = pod()
    for i in range(20):
        asks = asks.request(f"x.io/r{i}", "1")
    assert reasons(build(NodeResourcesFit), asks, [SMALL]) == [tuple(f"Insufficient x.io/r{i}" for i in range(20))]


HUNGRY = pod("me").requests(cpu="2").request(GPU, "1")


def grown(old: NodeBuilder, new: NodeBuilder) -> ClusterEvent:
    return node_updated(Action.UPDATE_NODE_ALLOCATABLE, old, new)


@pytest.mark.parametrize(
    ("event", "woken"),
    [
        pytest.param(pod_deleted(pod("u").on("n")), True, id="a pod on a node is gone"),
        pytest.param(pod_deleted(pod("u").nominated("n")), True, id="a pod nominated to a node is gone"),
        pytest.param(pod_deleted(pod("u")), False, id="a pod without a place is gone"),
        pytest.param(node_added(SMALL), True, id="a node that it fits is added"),
        pytest.param(node_added(SMALL.has(GPU, "0")), False, id="a node that it does not fit is added"),
        pytest.param(node_added(SMALL.has("pods", "0")), False, id="a node without room for any pod is added"),
        pytest.param(grown(SMALL.has("cpu", "1"), SMALL), True, id="a node grew in what it asks for"),
        pytest.param(grown(SMALL.has(GPU, "0"), SMALL), True, id="a node grew in an extended resource"),
        pytest.param(grown(SMALL.has("pods", "2"), SMALL), True, id="a node takes more pods"),
        pytest.param(grown(SMALL.has("memory", "1Gi"), SMALL), False, id="a node grew in something else"),
        pytest.param(grown(SMALL, SMALL.has("cpu", "1")), False, id="a node shrank"),
    ],
)
def test_what_helps_a_pod_without_room(event: ClusterEvent, woken: bool) -> None:
    assert wakes(build(NodeResourcesFit), HUNGRY, event) is woken


@pytest.mark.parametrize(
    ("old", "new", "woken"),
    [
        pytest.param(pod("me").requests(cpu="3"), pod("me").requests(cpu="1"), True, id="itself"),
        pytest.param(pod("u").requests(cpu="3").on("n"), pod("u").requests(cpu="1").on("n"), True, id="a placed pod"),
        pytest.param(pod("u").requests(cpu="3"), pod("u").requests(cpu="1"), False, id="a pod without a node"),
        pytest.param(
            pod("u").requests(memory="3").on("n"), pod("u").requests(memory="1").on("n"), False, id="something else"
        ),
    ],
)
def test_which_shrinking_pods_help(old: PodBuilder, new: PodBuilder, woken: bool) -> None:
    event = pod_updated(Action.UPDATE_POD_SCALE_DOWN, old, new)
    assert wakes(build(NodeResourcesFit), HUNGRY, event) is woken
