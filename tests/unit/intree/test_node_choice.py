"""NodeName, NodeUnschedulable and NodePorts."""

from __future__ import annotations

import pytest

from pyscheduler.api import SKIP, Action, ClusterEvent, NodeNames
from pyscheduler.intree import NodeName, NodePorts, NodeUnschedulable
from pyscheduler.testing import PodBuilder, node, pod

from .cluster import (
    Reasons,
    build,
    cycle,
    node_added,
    node_updated,
    pod_deleted,
    pod_updated,
    reasons,
    requeues,
    table,
)

CORDONED = ("node(s) were unschedulable",)
TAKEN = ("node(s) didn't have free ports for the requested pod ports",)
CORDON_KEY = "node.kubernetes.io/unschedulable"


def test_pod_with_node_name_fits_that_node_only() -> None:
    nodes = [node("a"), node("b")]
    assert reasons(build(NodeName), pod(), nodes) == [None, None]
    plugin, bound, cluster = build(NodeName), pod().on("b").build(), table(nodes)
    assert plugin.pre_filter(cycle(), bound, cluster) == NodeNames(frozenset({"b"}))
    results = [plugin.filter(cycle(), bound, each) for each in cluster]
    assert results[1] is None
    assert results[0] is not None
    assert results[0].reasons == ("node(s) didn't match the requested node name",)
    assert not results[0].resolvable
    assert requeues(build(NodeName), pod(), node_added(node("b")))


@pytest.mark.parametrize(
    ("of", "expected"),
    [
        pytest.param(pod(), CORDONED, id="nothing tolerated"),
        pytest.param(pod().tolerates(CORDON_KEY, operator="Exists"), None, id="tolerates the cordon"),
        pytest.param(pod().tolerates(operator="Exists"), None, id="tolerates everything"),
        pytest.param(pod().tolerates(CORDON_KEY, effect="NoExecute", operator="Exists"), CORDONED, id="other effect"),
        pytest.param(pod().tolerates(CORDON_KEY, value="x"), CORDONED, id="the cordon has no value"),
    ],
)
def test_cordoned_node_accepts_only_tolerating_pods(of: PodBuilder, expected: Reasons) -> None:
    assert reasons(build(NodeUnschedulable), of, [node("open"), node("shut").unschedulable()]) == [None, expected]


@pytest.mark.parametrize(
    ("event", "requeued"),
    [
        pytest.param(node_added(node()), True, id="schedulable node is added"),
        pytest.param(node_added(node().unschedulable()), False, id="a cordoned node is added"),
        pytest.param(
            node_updated(Action.UPDATE_NODE_TAINT, node().unschedulable(), node()), True, id="a node is uncordoned"
        ),
        pytest.param(node_updated(Action.UPDATE_NODE_TAINT, node(), node()), False, id="another taint changes"),
        pytest.param(
            pod_updated(Action.UPDATE_POD_TOLERATION, pod("me"), pod("me").tolerates(operator="Exists")),
            True,
            id="pod tolerates the cordon now",
        ),
        pytest.param(
            pod_updated(Action.UPDATE_POD_TOLERATION, pod("me"), pod("me").tolerates("x", operator="Exists")),
            False,
            id="pod tolerates another taint",
        ),
        pytest.param(
            pod_updated(Action.UPDATE_POD_TOLERATION, pod("it"), pod("it").tolerates(operator="Exists")),
            False,
            id="another pod tolerates now",
        ),
    ],
)
def test_requeue_of_pod_rejected_by_cordon(event: ClusterEvent, requeued: bool) -> None:
    assert requeues(build(NodeUnschedulable), pod("me"), event) is requeued


@pytest.mark.parametrize(
    ("wanted", "used", "expected"),
    [
        pytest.param(pod().host_port(80), pod("u").host_port(80), TAKEN, id="same port"),
        pytest.param(pod().host_port(80), pod("u").host_port(81), None, id="other port"),
        pytest.param(pod().host_port(80), pod("u").host_port(80, "UDP"), None, id="other protocol"),
        pytest.param(pod().host_port(80, ip="1.1.1.1"), pod("u").host_port(80, ip="2.2.2.2"), None, id="other address"),
        pytest.param(pod().host_port(80, ip="1.1.1.1"), pod("u").host_port(80, ip="1.1.1.1"), TAKEN, id="same address"),
        pytest.param(pod().host_port(80), pod("u").host_port(80, ip="1.1.1.1"), TAKEN, id="all against one address"),
        pytest.param(pod().host_port(80, ip="1.1.1.1"), pod("u").host_port(80), TAKEN, id="one against all addresses"),
        pytest.param(pod().host_port(80), pod("u").host_port(80, ip="::"), TAKEN, id="0.0.0.0 stands for :: as well"),
        pytest.param(
            pod().host_port(80, ip="::"), pod("u").host_port(80, ip="1.1.1.1"), None, id=":: stands for itself"
        ),
        pytest.param(pod().host_port(81).host_port(80), pod("u").host_port(80), TAKEN, id="one port of two"),
    ],
)
def test_host_port_conflicts(wanted: PodBuilder, used: PodBuilder, expected: Reasons) -> None:
    nodes = [node("free"), node("busy")]
    assert reasons(build(NodePorts), wanted, nodes, [used.on("busy")]) == [None, expected]


def test_sidecars_use_host_ports_and_init_containers_do_not() -> None:
    ports = [{"containerPort": 80, "hostPort": 80}]
    ordinary = pod("u").init_container(ports=ports).on("busy")
    sidecar = pod("u").init_container(ports=ports, restartPolicy="Always").on("busy")
    assert reasons(build(NodePorts), pod().host_port(80), [node("busy")], [ordinary]) == [None]
    assert reasons(build(NodePorts), pod().host_port(80), [node("busy")], [sidecar]) == [TAKEN]


def test_pre_filter_skips_pod_without_host_ports() -> None:
    assert build(NodePorts).pre_filter(cycle(), pod().build(), table([node()])) is SKIP


@pytest.mark.parametrize(
    ("event", "requeued"),
    [
        pytest.param(pod_deleted(pod("u").host_port(80).on("n")), True, id="the port was freed"),
        pytest.param(
            pod_deleted(pod("u").host_port(80).nominated("n")), True, id="nominated pod with the port deleted"
        ),
        pytest.param(pod_deleted(pod("u").host_port(80)), False, id="the other pod had no node"),
        pytest.param(pod_deleted(pod("u").host_port(81).on("n")), False, id="another port was freed"),
        pytest.param(pod_deleted(pod("u").on("n")), False, id="no port was freed"),
        pytest.param(node_added(node()), True, id="a node is added"),
    ],
)
def test_requeue_of_pod_rejected_by_ports(event: ClusterEvent, requeued: bool) -> None:
    assert requeues(build(NodePorts), pod("me").host_port(80), event) is requeued
