"""Which events bring back a pod that InterPodAffinity rejected."""

from __future__ import annotations

import pytest

from pyscheduler.api import ASSIGNED_POD, UNSCHEDULABLE_POD, Action, ClusterEvent
from pyscheduler.testing import PodBuilder, node, pod

from .affinity import DB, HOST, IS_DB, WEB, has, plugin, term
from .cluster import node_added, node_updated, pod_deleted, pod_updated, wakes

FRONT = pod("front").label("app", "front")
NEAR_WEB, APART_WEB = FRONT.near(term()), FRONT.apart(term())
TIER = WEB.label("tier")
NEAR_BOTH = FRONT.near(term(), term(has("tier", "Exists"), HOST))
APART_BOTH = FRONT.apart(term(), term(has("tier", "Exists"), HOST))
UNREADABLE = term(has("app", "Gt", "1"))


def added(of: PodBuilder) -> ClusterEvent:
    new = of.build()
    return ClusterEvent(ASSIGNED_POD if new.node_name else UNSCHEDULABLE_POD, Action.ADD, None, new)


def relabelled(old: PodBuilder, new: PodBuilder) -> ClusterEvent:
    return pod_updated(Action.UPDATE_POD_LABEL, old, new)


@pytest.mark.parametrize(
    ("of", "event", "woken"),
    [
        pytest.param(NEAR_WEB, added(WEB.on("n")), True, id="added: a pod to be near to"),
        pytest.param(NEAR_WEB, added(WEB.nominated("n")), True, id="added: nominated"),
        pytest.param(NEAR_WEB, added(WEB), False, id="added: without a place"),
        pytest.param(NEAR_WEB, added(DB.on("n")), False, id="added: another pod"),
        pytest.param(NEAR_BOTH, added(WEB.on("n")), False, id="added: answers one of two terms"),
        pytest.param(NEAR_BOTH, added(TIER.on("n")), True, id="added: answers both"),
        pytest.param(APART_WEB, added(DB.on("n")), False, id="added: nothing to be near to"),
        pytest.param(FRONT.near(UNREADABLE), added(DB.on("n")), True, id="added: who knows"),
        pytest.param(APART_WEB, pod_deleted(WEB.on("n")), True, id="deleted: the one to keep apart from"),
        pytest.param(APART_WEB, pod_deleted(WEB.nominated("n")), True, id="deleted: nominated"),
        pytest.param(APART_WEB, pod_deleted(WEB), False, id="deleted: without a place"),
        pytest.param(APART_WEB, pod_deleted(DB.on("n")), False, id="deleted: another pod"),
        pytest.param(APART_BOTH, pod_deleted(WEB.on("n")), False, id="deleted: answers one of two terms"),
        pytest.param(APART_BOTH, pod_deleted(TIER.on("n")), True, id="deleted: answers both"),
        pytest.param(NEAR_WEB, pod_deleted(WEB.on("n")), False, id="deleted: the one to be near to"),
        pytest.param(FRONT, pod_deleted(DB.apart(term({})).on("n")), True, id="deleted: one that kept it off"),
        pytest.param(FRONT, pod_deleted(DB.apart(term()).on("n")), False, id="deleted: one that kept others off"),
        pytest.param(FRONT, pod_deleted(DB.apart(term({}), term()).on("n")), False, id="deleted: by one of two terms"),
        pytest.param(FRONT, pod_deleted(DB.apart(UNREADABLE).on("n")), True, id="deleted: who knows"),
        pytest.param(NEAR_WEB, relabelled(DB.on("n"), WEB.on("n")), True, id="relabelled: to be near to"),
        pytest.param(NEAR_WEB, relabelled(WEB.on("n"), TIER.on("n")), False, id="relabelled: it was before"),
        pytest.param(NEAR_WEB, relabelled(WEB.on("n"), DB.on("n")), False, id="relabelled: no longer near"),
        pytest.param(NEAR_WEB, relabelled(DB, WEB), False, id="relabelled: without a place"),
        pytest.param(
            APART_WEB, relabelled(WEB.on("n"), DB.on("n")), True, id="relabelled: no longer to keep apart from"
        ),
        pytest.param(APART_WEB, relabelled(DB.on("n"), WEB.on("n")), False, id="relabelled: now to keep apart from"),
        pytest.param(
            APART_BOTH, relabelled(WEB.on("n"), DB.on("n")), False, id="relabelled: answered one of two terms"
        ),
        pytest.param(FRONT, relabelled(FRONT, FRONT.label("x")), True, id="relabelled: itself"),
        pytest.param(FRONT, pod_updated(Action.UPDATE_POD_SCALE_DOWN, FRONT, FRONT), False, id="resized: itself"),
        pytest.param(
            FRONT.apart(term(namespaceSelector={"matchLabels": {"team": "blue"}})),
            pod_deleted(WEB.namespace("blue").on("n")),
            False,
            id="labels of namespaces are not looked at",
        ),
        pytest.param(
            FRONT.apart(term(namespaceSelector={})),
            pod_deleted(WEB.namespace("blue").on("n")),
            True,
            id="all namespaces",
        ),
    ],
)
def test_pods_that_help(of: PodBuilder, event: ClusterEvent, woken: bool) -> None:
    assert wakes(plugin({"blue": {"team": "blue"}}), of, event) is woken


A, B, BARE = node("n").zone("a"), node("n").zone("b"), node("n")
LABEL = Action.UPDATE_NODE_LABEL


@pytest.mark.parametrize(
    ("of", "event", "woken"),
    [
        pytest.param(NEAR_WEB, node_added(A), True, id="near: a node in the topology"),
        pytest.param(NEAR_WEB, node_added(BARE), False, id="near: a node outside"),
        pytest.param(NEAR_BOTH, node_added(BARE), True, id="near: a node in one of the topologies"),
        pytest.param(NEAR_WEB, node_updated(LABEL, BARE, A), True, id="near: a node comes into the topology"),
        pytest.param(NEAR_WEB, node_updated(LABEL, A, B), True, id="near: a node moves"),
        pytest.param(NEAR_WEB, node_updated(LABEL, A, BARE), False, id="near: a node leaves the topology"),
        pytest.param(NEAR_WEB, node_updated(LABEL, A, A.label("x")), False, id="near: another label"),
        pytest.param(APART_WEB, node_added(A), True, id="apart: a node in the topology"),
        pytest.param(APART_WEB, node_added(BARE), True, id="apart: a node outside"),
        pytest.param(APART_WEB, node_updated(LABEL, A, BARE), True, id="apart: a node leaves the topology"),
        pytest.param(APART_WEB, node_updated(LABEL, A, B), True, id="apart: a node moves"),
        pytest.param(APART_WEB, node_updated(LABEL, BARE, A), False, id="apart: a node comes into the topology"),
        pytest.param(APART_WEB, node_updated(LABEL, A, A.label("x")), False, id="apart: another label"),
        pytest.param(FRONT, node_added(A), False, id="kept off: new nodes do not help"),
        pytest.param(FRONT.prefers_near(1, term(IS_DB)), node_added(A), False, id="preferences do not matter"),
        pytest.param(FRONT.near(UNREADABLE), node_added(BARE), True, id="who knows"),
        pytest.param(NEAR_WEB, node_updated(Action.UPDATE_NODE_TAINT, BARE, A), False, id="taints do not matter"),
    ],
)
def test_nodes_that_help(of: PodBuilder, event: ClusterEvent, woken: bool) -> None:
    assert wakes(plugin(), of, event) is woken
