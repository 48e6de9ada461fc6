"""A DaemonSet keeps one pod on each node that its template selects."""

from __future__ import annotations

from typing import Any

import pytest

from pyscheduler.embedded.workloads.daemon_nodes import DaemonNodes, pinned_affinity, pinned_node
from pyscheduler.embedded.workloads.daemonset import reconcile
from pyscheduler.embedded.workloads.revisions import HASH_LABEL, revision_name
from tests.unit.workloads.builders import Json, a_pod, created, deleted, status_of, terminating, workload

OLD = "old"


def daemon_set(**spec: Any) -> Json:
    return workload("DaemonSet", "d", **spec)


def node(name: str, *taints: Json, **labels: str) -> Json:
    return {"metadata": {"name": name, "labels": labels}, "spec": {"taints": list(taints)}}


def taint(key: str, effect: str = "NoSchedule") -> Json:
    return {"key": key, "effect": effect}


NEW = revision_name(daemon_set()).removeprefix("d-")
NODES = [node(name) for name in ("n1", "n2", "n3")]


def pod_on(name: str, revision: str = NEW, **more: Any) -> Json:
    pod = a_pod(f"p-{name}-{revision}", labels={HASH_LABEL: revision}, **more)
    pod["spec"]["nodeName"] = name
    return pod


def targets(plan: Any) -> list[str]:
    return [pinned_node(pod) for pod in created(plan) if pod["kind"] == "Pod"]


def test_pod_is_created_for_each_node_and_pinned_to_it() -> None:
    plan = reconcile(daemon_set(), [pod_on("n2")], [], NODES, 0.0)
    assert targets(plan) == ["n1", "n3"]
    pod = next(each for each in created(plan) if each["kind"] == "Pod")
    assert pod["metadata"]["labels"] == {"app": "d", HASH_LABEL: NEW}
    assert {"key": "node.kubernetes.io/unschedulable", "operator": "Exists", "effect": "NoSchedule"} in pod["spec"][
        "tolerations"
    ]
    assert "nodeName" not in pod["spec"]


def test_pending_pod_counts_for_the_node_that_it_is_pinned_to() -> None:
    pending = a_pod("p", "Pending", labels={HASH_LABEL: NEW})
    pending["spec"]["affinity"] = pinned_affinity(None, "n1")
    assert targets(reconcile(daemon_set(), [pending], [], NODES, 0.0)) == ["n2", "n3"]


@pytest.mark.parametrize(
    ("template", "nodes", "expected"),
    [
        pytest.param({"nodeSelector": {"disk": "ssd"}}, [node("a", disk="ssd"), node("b")], ["a"], id="node selector"),
        pytest.param({"nodeName": "b"}, [node("a"), node("b")], ["b"], id="node name"),
        pytest.param({}, [node("a", taint("x")), node("b")], ["b"], id="taint"),
        pytest.param(
            {"tolerations": [{"key": "x", "operator": "Exists"}]}, [node("a", taint("x"))], ["a"], id="tolerated taint"
        ),
        pytest.param({}, [node("a", taint("node.kubernetes.io/unschedulable"))], ["a"], id="cordoned"),
        pytest.param({}, [node("a", taint("node.kubernetes.io/not-ready", "NoExecute"))], ["a"], id="not ready"),
        pytest.param({}, [node("a", taint("node.kubernetes.io/network-unavailable"))], [], id="no network"),
        pytest.param(
            {"hostNetwork": True}, [node("a", taint("node.kubernetes.io/network-unavailable"))], ["a"], id="of the host"
        ),
        pytest.param(
            {
                "affinity": {
                    "nodeAffinity": {
                        "requiredDuringSchedulingIgnoredDuringExecution": {
                            "nodeSelectorTerms": [
                                {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}
                            ]
                        }
                    }
                }
            },
            [node("a", zone="a"), node("b", zone="b")],
            ["a"],
            id="node affinity",
        ),
    ],
)
def test_nodes_are_selected_by_the_template(template: Json, nodes: list[Json], expected: list[str]) -> None:
    rules = DaemonNodes({"spec": {"containers": [], **template}})
    assert [each["metadata"]["name"] for each in nodes if rules.should_run(each)] == expected


def test_pod_stays_on_a_node_that_is_tainted_later_unless_it_must_not_execute() -> None:
    nodes = [node("n1", taint("x")), node("n2", taint("x", "NoExecute"))]
    assert deleted(reconcile(daemon_set(), [pod_on("n1"), pod_on("n2")], [], nodes, 0.0)) == [f"p-n2-{NEW}"]


def test_pods_on_deleted_nodes_duplicates_and_failed_pods_are_deleted() -> None:
    duplicate = {**pod_on("n1"), "metadata": {**pod_on("n1")["metadata"], "name": "z"}}
    present = [pod_on("n1"), duplicate, pod_on("n2", phase="Failed"), pod_on("gone")]
    plan = reconcile(daemon_set(), present, [], NODES[:2], 0.0)
    assert sorted(deleted(plan)) == [f"p-gone-{NEW}", f"p-n2-{NEW}", "z"]


@pytest.mark.parametrize(
    ("present", "strategy", "deletions"),
    [
        pytest.param([pod_on(n, OLD) for n in ("n1", "n2", "n3")], {}, ["p-n1-old"], id="one at a time"),
        pytest.param(
            [pod_on(n, OLD) for n in ("n1", "n2", "n3")],
            {"rollingUpdate": {"maxUnavailable": 2}},
            ["p-n1-old", "p-n2-old"],
            id="two at a time",
        ),
        pytest.param(
            [pod_on("n1", ready=False), pod_on("n2", OLD), pod_on("n3", OLD)], {}, [], id="waits for the new pod"
        ),
        pytest.param(
            [pod_on("n1"), pod_on("n2", OLD, ready=False), pod_on("n3", OLD)], {}, ["p-n2-old"], id="unavailable first"
        ),
        pytest.param(
            [terminating(pod_on("n1", OLD)), pod_on("n2", OLD), pod_on("n3", OLD)], {}, [], id="waits for a termination"
        ),
        pytest.param([pod_on(n, OLD) for n in ("n1", "n2", "n3")], {"type": "OnDelete"}, [], id="on delete"),
    ],
)
def test_rolling_update_keeps_max_unavailable(present: list[Json], strategy: Json, deletions: list[str]) -> None:
    assert deleted(reconcile(daemon_set(updateStrategy=strategy), present, [], NODES, 0.0)) == deletions


def test_surge_creates_the_new_pod_before_it_deletes_the_old_one() -> None:
    owner = daemon_set(updateStrategy={"rollingUpdate": {"maxSurge": 1}})
    old = [pod_on(name, OLD) for name in ("n1", "n2", "n3")]
    first = reconcile(owner, old, [], NODES, 0.0)
    assert (targets(first), deleted(first)) == (["n1"], [])
    waiting = reconcile(owner, [*old, pod_on("n1", ready=False)], [], NODES, 0.0)
    assert (targets(waiting), deleted(waiting)) == ([], [])
    second = reconcile(owner, [*old, pod_on("n1")], [], NODES, 0.0)
    assert deleted(second) == ["p-n1-old"]


def test_status_counts_nodes() -> None:
    present = [pod_on("n1"), pod_on("n2", OLD, ready=False), pod_on("gone")]
    status = status_of(reconcile(daemon_set(), present, [], NODES, 0.0))
    assert status == {
        "currentNumberScheduled": 2,
        "numberMisscheduled": 1,
        "desiredNumberScheduled": 3,
        "numberReady": 1,
        "observedGeneration": 1,
        "updatedNumberScheduled": 1,
        "numberAvailable": 1,
        "numberUnavailable": 2,
    }
