"""TaintToleration: rejection by hard taints and scores by soft ones."""

from __future__ import annotations

import pytest

from pyscheduler.api import Action, ClusterEvent
from pyscheduler.intree import TaintToleration
from pyscheduler.testing import NodeBuilder, PodBuilder, node, pod

from .cluster import Reasons, build, final_scores, node_added, node_updated, pod_updated, reasons, requeues, scores

KEPT_AWAY = ("node(s) had untolerated taint(s)",)
SOFT = "PreferNoSchedule"


@pytest.mark.parametrize(
    ("of", "on", "expected"),
    [
        pytest.param(pod(), node(), None, id="no taints"),
        pytest.param(pod(), node().taint("k", "v"), KEPT_AWAY, id="NoSchedule"),
        pytest.param(pod(), node().taint("k", "v", "NoExecute"), KEPT_AWAY, id="NoExecute"),
        pytest.param(pod(), node().taint("k", "v", SOFT), None, id="PreferNoSchedule does not reject"),
        pytest.param(pod().tolerates("k", "v"), node().taint("k", "v"), None, id="equal, any effect"),
        pytest.param(
            pod().tolerates("k", "v", operator=""), node().taint("k", "v"), None, id="no operator means Equal"
        ),
        pytest.param(pod().tolerates("k", "w"), node().taint("k", "v"), KEPT_AWAY, id="other value"),
        pytest.param(pod().tolerates("k", operator="Exists"), node().taint("k", "v"), None, id="any value"),
        pytest.param(pod().tolerates(operator="Exists"), node().taint("k", "v", "NoExecute"), None, id="everything"),
        pytest.param(pod().tolerates("k", "v", "NoExecute"), node().taint("k", "v"), KEPT_AWAY, id="other effect"),
        pytest.param(pod().tolerates("k", "v"), node().taint("k", "v").taint("x"), KEPT_AWAY, id="one of two taints"),
        pytest.param(pod().tolerates("k", "1", operator="Gt"), node().taint("k", "2"), KEPT_AWAY, id="Gt is disabled"),
    ],
)
def test_untolerated_taints_reject_pod(of: PodBuilder, on: NodeBuilder, expected: Reasons) -> None:
    assert reasons(build(TaintToleration), of, [on]) == [expected]


def test_fewer_untolerated_soft_taints_score_higher() -> None:
    two = node("two").taint("a", effect=SOFT).taint("b", effect=SOFT)
    nodes = [node("none"), node("one").taint("a", effect=SOFT), two, node("hard").taint("c")]
    assert scores(build(TaintToleration), pod(), nodes) == [0, 1, 2, 0]
    assert final_scores(build(TaintToleration), pod(), nodes) == [100, 50, 0, 100]


@pytest.mark.parametrize(
    ("of", "score"),
    [
        pytest.param(pod().tolerates("a", operator="Exists"), 0, id="any effect"),
        pytest.param(pod().tolerates("a", effect=SOFT, operator="Exists"), 0, id="just this effect"),
        pytest.param(pod().tolerates("a", effect="NoSchedule", operator="Exists"), 1, id="another effect"),
    ],
)
def test_only_tolerations_of_soft_taints_count_in_scores(of: PodBuilder, score: int) -> None:
    assert scores(build(TaintToleration), of, [node().taint("a", effect=SOFT)]) == [score]


def test_all_nodes_score_100_without_soft_taints() -> None:
    assert final_scores(build(TaintToleration), pod(), [node("a"), node("b")]) == [100, 100]


@pytest.mark.parametrize(
    ("event", "requeued"),
    [
        pytest.param(node_added(node()), True, id="an untainted node is added"),
        pytest.param(node_added(node().taint("k")), False, id="a tainted node is added"),
        pytest.param(
            node_updated(Action.UPDATE_NODE_TAINT, node().taint("k"), node()), True, id="the taint is taken away"
        ),
        pytest.param(
            node_updated(Action.UPDATE_NODE_TAINT, node().taint("k").taint("l"), node().taint("l")),
            False,
            id="one taint of two is taken away",
        ),
        pytest.param(
            node_updated(Action.UPDATE_NODE_TAINT, node().taint("k", effect=SOFT), node()),
            False,
            id="node was tolerated before",
        ),
        pytest.param(pod_updated(Action.UPDATE_POD_TOLERATION, pod("me"), pod("me")), True, id="its own tolerations"),
        pytest.param(
            pod_updated(Action.UPDATE_POD_TOLERATION, pod("it"), pod("it")), False, id="another's tolerations"
        ),
    ],
)
def test_requeue_of_pod_rejected_by_taint(event: ClusterEvent, requeued: bool) -> None:
    assert requeues(build(TaintToleration), pod("me"), event) is requeued
