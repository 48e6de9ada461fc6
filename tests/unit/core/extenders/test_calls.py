"""Cases in which an extender is called, or not, before a pod is bound."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pyscheduler.core.extenders.extender import ExtenderFilterResult
from pyscheduler.testing import Harness, PodBuilder, node, pod

CONFIG = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
extenders: [{urlPrefix: "http://e", filterVerb: filter}]
"""


def build_harness(nodes: int) -> Harness:
    """Return a cluster of nodes n1, n2 … of one core each, with an extender that accepts all nodes."""
    harness = Harness(CONFIG)
    harness.add(*(node(f"n{i}", cpu="1") for i in range(1, nodes + 1)))
    harness.call_extender = lambda _, call: ExtenderFilterResult(tuple(getattr(call, "nodes", ())))
    return harness


def claims(built: PodBuilder) -> PodBuilder:
    """Return the pod with a volume of a claim that does not exist."""
    return built.spec(volumes=[{"name": "data", "persistentVolumeClaim": {"claimName": "missing"}}])


NOT_CALLED = [
    pytest.param(0, lambda p: p, "no nodes available to schedule pods", id="no nodes"),
    pytest.param(2, claims, 'persistentvolumeclaim "missing" not found', id="PreFilter rejects the pod"),
    pytest.param(2, lambda p: p.requests(cpu="2"), "2 Insufficient cpu", id="Filter rejects every node"),
]


@pytest.mark.parametrize(("nodes", "change", "reason"), NOT_CALLED)
def test_extender_is_not_called_for_a_pod_that_plugins_reject(
    nodes: int, change: Callable[[PodBuilder], PodBuilder], reason: str
) -> None:
    harness = build_harness(nodes)
    harness.add(change(pod("a")))
    harness.run()
    assert harness.extender_calls == []
    assert reason in harness.pending_message("a")


def test_extender_is_called_with_the_nodes_that_plugins_accept() -> None:
    harness = build_harness(3)
    harness.add(pod("full").requests(cpu="1").on("n2"), pod("a").requests(cpu="1"))
    harness.run()
    (call,) = harness.extender_calls
    assert sorted(getattr(call, "nodes", ())) == ["n1", "n3"]
    assert harness.assignments["a"] in ("n1", "n3")
