"""Permit: a waiting pod stays assumed, and is forgotten if it is rejected or deleted."""

from __future__ import annotations

from pyscheduler.core.commands import Bind
from pyscheduler.testing import Harness, PodBuilder, node, pod

CONFIG = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: default-scheduler
  plugins: {multiPoint: {enabled: [{name: "tests.scenarios.fakes:EveryExtensionPoint"}]}}
"""


def patient(name: str = "patient", seconds: int = 5) -> PodBuilder:
    return pod(name).label("wait", str(seconds)).requests(cpu="1")


def one_node_harness() -> Harness:
    harness = Harness(CONFIG)
    harness.add(node("n1", cpu="1"))
    return harness


def test_waiting_pod_is_counted_on_its_node() -> None:
    harness = one_node_harness()
    harness.add(patient())
    harness.run()
    harness.add(pod("other").requests(cpu="1"))
    harness.run()
    assert harness.assignments == {}
    assert harness.pending_message("other").startswith("0/1 nodes are available: 1 Insufficient cpu.")


def test_waiting_pod_is_bound_once_it_is_allowed() -> None:
    harness = one_node_harness()
    harness.add(patient())
    harness.run()
    for waiting_pod in harness.handle.waiting_pods:
        waiting_pod.allow("EveryExtensionPoint")
    harness.advance(0.1)
    assert harness.assignments == {"patient": "n1"}


def test_waiting_pod_is_forgotten_when_a_plugin_rejects_it() -> None:
    harness = one_node_harness()
    harness.add(patient())
    harness.run()
    for waiting_pod in harness.handle.waiting_pods:
        waiting_pod.reject("EveryExtensionPoint", "not today")
    harness.add(pod("other").requests(cpu="1").priority(5))
    harness.advance(0.05)
    assert harness.assignments == {"other": "n1"}
    assert harness.pending_message("patient").startswith("0/1 nodes are available: 1 not today.")


def test_waiting_pod_is_rejected_after_the_timeout_with_kube_schedulers_message() -> None:
    harness = one_node_harness()
    harness.add(patient(seconds=5))
    harness.run()
    harness.advance(4.9)
    assert harness.events("patient") == []
    harness.advance(0.2)
    assert harness.events("patient") == [
        (
            "FailedScheduling",
            "0/1 nodes are available: 1 rejected due to timeout after waiting 5s at plugin EveryExtensionPoint.",
        )
    ]


def test_waiting_pod_is_forgotten_when_it_is_deleted() -> None:
    harness = one_node_harness()
    harness.add(patient())
    harness.run()
    harness.delete_pod("patient")
    harness.add(pod("other").requests(cpu="1"))
    harness.advance(3)
    assert harness.assignments == {"other": "n1"}
    assert not [c for c in harness.commands if isinstance(c, Bind) and c.pod.name == "patient"]


def test_waiting_pod_is_rescheduled_when_its_node_is_deleted() -> None:
    harness = one_node_harness()
    harness.add(patient(seconds=600))
    harness.run()
    harness.delete_node("n1")
    harness.add(node("n2", cpu="1"))
    harness.advance(3)
    assert harness.events("patient") == [("FailedScheduling", "waiting on permit for pod: node n1 was deleted")]
    assert [waiting_pod.node_name for waiting_pod in harness.handle.waiting_pods] == ["n2"]


def test_permit_timeout_is_at_most_fifteen_minutes() -> None:
    harness = one_node_harness()
    harness.add(patient(seconds=100_000))
    harness.run()
    harness.advance(15 * 60 + 1)
    assert "after waiting 15m0s at" in harness.events("patient")[0][1]
