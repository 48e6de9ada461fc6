"""NodeDeclaredFeatures: a node must declare the kubelet features that the pod uses."""

from __future__ import annotations

from typing import Any

import pytest

from pyscheduler.api import SKIP, Action, ClusterEvent
from pyscheduler.intree import NodeDeclaredFeatures
from pyscheduler.testing import NodeBuilder, PodBuilder, node, pod

from .cluster import build, cycle, node_added, node_updated, pod_updated, rejections, requeues, table

RESTART, NETWORK = "RestartAllContainersOnContainerExits", "UserNamespacesHostNetworkSupport"
RULES: dict[str, Any] = {"restartPolicyRules": [{"action": "Restart"}, {"action": "RestartAllContainers"}]}
RESTARTS = pod("me").container(**RULES)
MOUNTS = "VolumeBindMountOptions"
NO_EXEC: dict[str, Any] = {"volumeMounts": [{"name": "a", "mountPath": "/a", "bindMountOptions": ["noexec"]}]}
OWN_USERS = pod("me").spec(hostNetwork=True, hostUsers=False)


def declares(*features: str) -> NodeBuilder:
    return node("-".join(features) or "none").declares(*features)


NODES = [node("silent"), declares("Other"), declares(RESTART), declares(NETWORK), declares(NETWORK, "Other", RESTART)]
NODES.append(declares(MOUNTS))


@pytest.mark.parametrize(
    ("of", "fits"),
    [
        pytest.param(RESTARTS, [False, False, True, False, True, False], id="a container restarts all"),
        pytest.param(
            pod().init_container(**RULES), [False, False, True, False, True, False], id="an init container does"
        ),
        pytest.param(OWN_USERS, [False, False, False, True, True, False], id="user namespace with host network"),
        pytest.param(pod().container(**NO_EXEC), [False] * 5 + [True], id="a container mounts with options"),
        pytest.param(pod().init_container(**NO_EXEC), [False] * 5 + [True], id="an init container does"),
        pytest.param(OWN_USERS.container(**RULES), [False, False, False, False, True, False], id="both"),
    ],
)
def test_node_must_declare_every_needed_feature(of: PodBuilder, fits: list[bool]) -> None:
    results = rejections(build(NodeDeclaredFeatures), of, NODES)
    assert [result is None for result in results] == fits
    (no,) = {result for result in results if result is not None}
    assert (no.message, no.resolvable) == ("node(s) didn't match Pod's required features", False)


@pytest.mark.parametrize(
    "of",
    [
        pytest.param(pod(), id="nothing"),
        pytest.param(pod().container(restartPolicyRules=[{"action": "Restart"}]), id="a container restarts itself"),
        pytest.param(pod().container(restartPolicyRules=[{}]), id="empty rule"),
        pytest.param(pod().container(volumeMounts=[{"name": "a", "mountPath": "/a"}]), id="mount without options"),
        pytest.param(pod().container(volumeMounts=[{"name": "a", "bindMountOptions": []}]), id="mount with no option"),
        pytest.param(pod().spec(hostNetwork=True), id="host network, hostUsers unset"),
        pytest.param(pod().spec(hostNetwork=True, hostUsers=True), id="host network and host users"),
        pytest.param(pod().spec(hostUsers=False), id="user namespace, pod network"),
    ],
)
def test_pre_filter_skips_pod_without_needed_features(of: PodBuilder) -> None:
    assert build(NodeDeclaredFeatures).pre_filter(cycle(), of.build(), table(NODES)) is SKIP


DECLARED = Action.UPDATE_NODE_DECLARED_FEATURE


@pytest.mark.parametrize(
    ("event", "requeued"),
    [
        pytest.param(node_added(declares()), True, id="any node is added"),
        pytest.param(node_updated(DECLARED, declares(), declares("Other")), True, id="any feature is declared"),
        pytest.param(
            node_updated(DECLARED, declares(RESTART), declares(RESTART)), False, id="declared features unchanged"
        ),
        pytest.param(node_updated(DECLARED, node(), declares()), False, id="empty list equals missing"),
        pytest.param(node_updated(Action.UPDATE_NODE_LABEL, declares(), declares(RESTART)), False, id="another change"),
        pytest.param(pod_updated(Action.UPDATE_OTHER, RESTARTS, pod("me")), True, id="pod no longer needs the feature"),
        pytest.param(
            pod_updated(Action.UPDATE_OTHER, RESTARTS, RESTARTS.label("a")), False, id="pod still needs the feature"
        ),
        pytest.param(
            pod_updated(Action.UPDATE_OTHER, RESTARTS.uid("it"), pod("me").uid("it")),
            False,
            id="another pod no longer needs it",
        ),
    ],
)
def test_requeue_of_pod_rejected_by_features(event: ClusterEvent, requeued: bool) -> None:
    assert requeues(build(NodeDeclaredFeatures), RESTARTS, event) is requeued
