"""Events that requeue a pod that InterPodAffinity rejected."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from msgspec.structs import replace

from pyscheduler.api import ASSIGNED_POD, NODE, UNSCHEDULED_POD, Action, ClusterEvent
from pyscheduler.core.framework.handle import empty_handle
from pyscheduler.intree import InterPodAffinity
from pyscheduler.testing import NodeBuilder, PodBuilder, node, pod

from .affinity import DB, HOST, IS_DB, WEB, has, label_namespace, term
from .cluster import node_added, node_updated, pod_deleted, pod_updated, requeues, state_of

FRONT = pod("front").label("app", "front")
NEAR_WEB, APART_WEB = FRONT.pod_affinity(term()), FRONT.pod_anti_affinity(term())
TIER = WEB.label("tier")
NEAR_BOTH = FRONT.pod_affinity(term(), term(has("tier", "Exists"), HOST))
APART_BOTH = FRONT.pod_anti_affinity(term(), term(has("tier", "Exists"), HOST))
UNREADABLE = term(has("app", "Gt", "1"))
SELF = WEB.pod_affinity(term())


def hinted(*running: PodBuilder, namespaces: Mapping[str, Mapping[str, str]] | None = None) -> InterPodAffinity:
    """Return the plugin with the pods that run after the event."""
    handle = replace(empty_handle(), nodes=state_of([node("n").zone("a")], running))
    for name, labels in (namespaces or {"blue": {"team": "blue"}}).items():
        label_namespace(handle, name, labels)
    return InterPodAffinity(InterPodAffinity.Args(), handle)


def node_deleted(old: NodeBuilder) -> ClusterEvent:
    return ClusterEvent(NODE, Action.DELETE, old.build(), None)


def added(of: PodBuilder) -> ClusterEvent:
    new = of.build()
    return ClusterEvent(ASSIGNED_POD if new.node_name else UNSCHEDULED_POD, Action.ADD, None, new)


def relabelled(old: PodBuilder, new: PodBuilder) -> ClusterEvent:
    return pod_updated(Action.UPDATE_POD_LABEL, old, new)


@pytest.mark.parametrize(
    ("of", "event", "requeued"),
    [
        pytest.param(NEAR_WEB, added(WEB.on("n")), True, id="added: matching pod"),
        pytest.param(NEAR_WEB, added(WEB.nominated("n")), True, id="added: nominated"),
        pytest.param(NEAR_WEB, added(WEB), False, id="added: pending"),
        pytest.param(NEAR_WEB, added(DB.on("n")), False, id="added: another pod"),
        pytest.param(NEAR_BOTH, added(WEB.on("n")), False, id="added: matches one of two terms"),
        pytest.param(NEAR_BOTH, added(TIER.on("n")), True, id="added: matches both terms"),
        pytest.param(APART_WEB, added(DB.on("n")), False, id="added: other pod, anti-affinity"),
        pytest.param(FRONT.pod_affinity(UNREADABLE), added(DB.on("n")), True, id="added: invalid own terms"),
        pytest.param(APART_WEB, pod_deleted(WEB.on("n")), True, id="deleted: conflicting pod"),
        pytest.param(APART_WEB, pod_deleted(WEB.nominated("n")), True, id="deleted: nominated"),
        pytest.param(APART_WEB, pod_deleted(WEB), False, id="deleted: pending"),
        pytest.param(APART_WEB, pod_deleted(DB.on("n")), False, id="deleted: another pod"),
        pytest.param(APART_BOTH, pod_deleted(WEB.on("n")), True, id="deleted: matched one of two terms"),
        pytest.param(APART_BOTH, pod_deleted(TIER.on("n")), True, id="deleted: matched both terms"),
        pytest.param(NEAR_WEB, pod_deleted(WEB.on("n")), False, id="deleted: matching pod"),
        pytest.param(
            FRONT,
            pod_deleted(DB.pod_anti_affinity(term({})).on("n")),
            True,
            id="deleted: pod with matching anti-affinity",
        ),
        pytest.param(
            FRONT, pod_deleted(DB.pod_anti_affinity(term()).on("n")), False, id="deleted: pod with other anti-affinity"
        ),
        pytest.param(
            FRONT, pod_deleted(DB.pod_anti_affinity(term({}), term()).on("n")), True, id="deleted: by one of two terms"
        ),
        pytest.param(
            FRONT, pod_deleted(DB.pod_anti_affinity(UNREADABLE).on("n")), True, id="deleted: pod with invalid terms"
        ),
        pytest.param(NEAR_WEB, relabelled(DB.on("n"), WEB.on("n")), True, id="relabelled: matches now"),
        pytest.param(NEAR_WEB, relabelled(WEB.on("n"), TIER.on("n")), False, id="relabelled: matched before"),
        pytest.param(NEAR_WEB, relabelled(WEB.on("n"), DB.on("n")), False, id="relabelled: no longer matches affinity"),
        pytest.param(NEAR_WEB, relabelled(DB, WEB), False, id="relabelled: pending"),
        pytest.param(
            APART_WEB, relabelled(WEB.on("n"), DB.on("n")), True, id="relabelled: no longer matches anti-affinity"
        ),
        pytest.param(APART_WEB, relabelled(DB.on("n"), WEB.on("n")), False, id="relabelled: matches anti-affinity now"),
        pytest.param(APART_BOTH, relabelled(WEB.on("n"), DB.on("n")), True, id="relabelled: matched one of two terms"),
        pytest.param(FRONT, relabelled(FRONT, FRONT.label("x")), True, id="relabelled: itself"),
        pytest.param(FRONT, pod_updated(Action.UPDATE_POD_SCALE_DOWN, FRONT, FRONT), False, id="resized: itself"),
        pytest.param(
            FRONT.pod_anti_affinity(term(namespaceSelector={"matchLabels": {"team": "blue"}})),
            pod_deleted(WEB.namespace("blue").on("n")),
            True,
            id="deleted: by the labels of its namespace",
        ),
        pytest.param(
            FRONT.pod_anti_affinity(term(namespaceSelector={"matchLabels": {"team": "red"}})),
            pod_deleted(WEB.namespace("blue").on("n")),
            False,
            id="deleted: its namespace has other labels",
        ),
        pytest.param(
            FRONT.pod_affinity(term(namespaceSelector={"matchLabels": {"team": "blue"}})),
            added(WEB.namespace("blue").on("n")),
            True,
            id="added: by the labels of its namespace",
        ),
        pytest.param(
            FRONT.namespace("blue"),
            pod_deleted(WEB.pod_anti_affinity(term({}, namespaceSelector={"matchLabels": {"team": "blue"}})).on("n")),
            True,
            id="deleted: anti-affinity selecting the namespace",
        ),
        pytest.param(SELF, pod_deleted(SELF.on("n")), True, id="deleted: the last one of its own group"),
        pytest.param(SELF, relabelled(SELF.on("n"), DB.on("n")), True, id="relabelled: the last one of its own group"),
        pytest.param(SELF, relabelled(DB.on("n"), DB.label("x").on("n")), False, id="relabelled: one of another group"),
        pytest.param(
            FRONT.pod_anti_affinity(term(namespaceSelector={})),
            pod_deleted(WEB.namespace("blue").on("n")),
            True,
            id="all namespaces",
        ),
    ],
)
def test_requeue_on_pod_event(of: PodBuilder, event: ClusterEvent, requeued: bool) -> None:
    assert requeues(hinted(), of, event) is requeued


def test_deleted_member_of_remaining_group_requeues_no_member() -> None:
    assert not requeues(hinted(SELF.on("n")), SELF, pod_deleted(SELF.on("n")))


A, B, BARE = node("n").zone("a"), node("n").zone("b"), node("n")
LABEL = Action.UPDATE_NODE_LABEL
NAMELESS = {**BARE.manifest, "metadata": {"name": "n"}}


@pytest.mark.parametrize(
    ("of", "event", "requeued"),
    [
        pytest.param(NEAR_WEB, node_added(A), True, id="affinity: a node in the topology"),
        pytest.param(NEAR_WEB, node_added(BARE), False, id="affinity: a node outside"),
        pytest.param(NEAR_BOTH, node_added(BARE), True, id="affinity: a node in one of the topologies"),
        pytest.param(NEAR_WEB, node_updated(LABEL, BARE, A), True, id="affinity: a node comes into the topology"),
        pytest.param(NEAR_WEB, node_updated(LABEL, A, B), True, id="affinity: a node moves"),
        pytest.param(NEAR_WEB, node_updated(LABEL, A, BARE), False, id="affinity: a node leaves the topology"),
        pytest.param(SELF, node_updated(LABEL, A, BARE), True, id="affinity: node of the last group member leaves"),
        pytest.param(SELF, node_deleted(A), True, id="affinity: node of the last group member deleted"),
        pytest.param(FRONT, node_deleted(A), True, id="existing anti-affinity: a node is deleted"),
        pytest.param(APART_WEB, node_deleted(A), True, id="anti-affinity: a node is deleted"),
        pytest.param(
            APART_WEB, node_deleted(NodeBuilder(NAMELESS)), False, id="anti-affinity: a node without labels is deleted"
        ),
        pytest.param(NEAR_WEB, node_updated(LABEL, A, A.label("x")), False, id="affinity: another label"),
        pytest.param(APART_WEB, node_added(A), True, id="anti-affinity: a node in the topology"),
        pytest.param(APART_WEB, node_added(BARE), True, id="anti-affinity: a node outside"),
        pytest.param(APART_WEB, node_updated(LABEL, A, BARE), True, id="anti-affinity: a node leaves the topology"),
        pytest.param(APART_WEB, node_updated(LABEL, A, B), True, id="anti-affinity: a node moves"),
        pytest.param(
            APART_WEB, node_updated(LABEL, BARE, A), False, id="anti-affinity: a node comes into the topology"
        ),
        pytest.param(APART_WEB, node_updated(LABEL, A, A.label("x")), False, id="anti-affinity: another label"),
        pytest.param(FRONT, node_added(A), True, id="existing anti-affinity: a new node"),
        pytest.param(FRONT.preferred_pod_affinity(1, term(IS_DB)), node_added(A), True, id="preferences do not matter"),
        pytest.param(FRONT.pod_affinity(UNREADABLE), node_added(BARE), True, id="invalid own terms"),
        pytest.param(NEAR_WEB, node_updated(Action.UPDATE_NODE_TAINT, BARE, A), False, id="taints do not matter"),
    ],
)
def test_requeue_on_node_event(of: PodBuilder, event: ClusterEvent, requeued: bool) -> None:
    assert requeues(hinted(), of, event) is requeued


@pytest.mark.parametrize(
    ("event", "requeued"),
    [
        pytest.param(node_updated(LABEL, A, B), True, id="moves"),
        pytest.param(node_updated(LABEL, A, A.label("x")), False, id="another label"),
        pytest.param(node_deleted(A), True, id="is deleted"),
    ],
)
def test_requeue_when_node_of_matching_anti_affinity_changes(event: ClusterEvent, requeued: bool) -> None:
    assert requeues(hinted(DB.pod_anti_affinity(term({})).on("n")), FRONT, event) is requeued
    if event.new is not None:
        assert not requeues(hinted(DB.pod_anti_affinity(term()).on("n")), FRONT, event)


BLUE, RED = {"team": "blue"}, {"team": "red"}
OF_BLUE = term({}, namespaceSelector={"matchLabels": BLUE})


@pytest.mark.parametrize(
    ("of", "before", "now", "requeued"),
    [
        pytest.param(FRONT.pod_affinity(OF_BLUE), RED, BLUE, True, id="affinity: namespace newly selected"),
        pytest.param(FRONT.pod_affinity(OF_BLUE), BLUE, RED, True, id="affinity: pod may be the first of its group"),
        pytest.param(FRONT.pod_affinity(OF_BLUE), None, BLUE, True, id="affinity: a new namespace"),
        pytest.param(FRONT.pod_affinity(OF_BLUE), BLUE, BLUE, False, id="affinity: nothing has changed"),
        pytest.param(
            FRONT.pod_anti_affinity(OF_BLUE), BLUE, RED, True, id="anti-affinity: namespace no longer selected"
        ),
        pytest.param(FRONT.pod_anti_affinity(OF_BLUE), BLUE, None, True, id="anti-affinity: deleted"),
        pytest.param(FRONT.pod_anti_affinity(OF_BLUE), RED, BLUE, False, id="anti-affinity: namespace newly selected"),
        pytest.param(FRONT, BLUE, RED, True, id="existing anti-affinity no longer selects the namespace"),
        pytest.param(FRONT, RED, BLUE, False, id="existing anti-affinity newly selects the namespace"),
        pytest.param(FRONT.namespace("green"), BLUE, RED, False, id="another namespace"),
    ],
)
def test_requeue_on_namespace_event(
    of: PodBuilder, before: Mapping[str, str] | None, now: Mapping[str, str] | None, requeued: bool
) -> None:
    old, new = (None if side is None else {"metadata": {"name": "default", "labels": side}} for side in (before, now))
    action = Action.ADD if old is None else Action.DELETE if new is None else Action.UPDATE_OTHER
    keeper = DB.pod_anti_affinity(OF_BLUE).on("n")
    subject = hinted(keeper, namespaces={} if now is None else {"default": now})
    assert requeues(subject, of, ClusterEvent("Namespace", action, old, new)) is requeued
