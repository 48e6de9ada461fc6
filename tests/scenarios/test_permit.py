"""Stories of Permit: a pod holds its place while it waits, and gives it back if it may not go."""

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


def harness() -> Harness:
    world = Harness(CONFIG)
    world.add(node("n1", cpu="1"))
    return world


def test_a_waiting_pod_holds_its_place() -> None:
    world = harness()
    world.add(patient())
    world.run()
    world.add(pod("other").requests(cpu="1"))
    world.run()
    assert world.assignments == {}
    assert world.pending_message("other").startswith("0/1 nodes are available: 1 Insufficient cpu.")


def test_once_allowed_it_is_bound() -> None:
    world = harness()
    world.add(patient())
    world.run()
    for parked in world.handle.waiting_pods():
        parked.allow("EveryExtensionPoint")
    world.advance(0.1)
    assert world.assignments == {"patient": "n1"}


def test_rejected_by_a_plugin_it_gives_its_place_back() -> None:
    world = harness()
    world.add(patient())
    world.run()
    for parked in world.handle.waiting_pods():
        parked.reject("EveryExtensionPoint", "not today")
    world.add(pod("other").requests(cpu="1").priority(5))
    world.advance(0.05)
    assert world.assignments == {"other": "n1"}
    assert world.pending_message("patient").startswith("0/1 nodes are available: 1 not today.")


def test_out_of_time_it_is_rejected_in_kube_schedulers_words_and_tried_again() -> None:
    world = harness()
    world.add(patient(seconds=5))
    world.run()
    world.advance(4.9)
    assert world.events("patient") == []
    world.advance(0.2)
    assert world.events("patient") == [
        (
            "FailedScheduling",
            "0/1 nodes are available: 1 rejected due to timeout after waiting 5s at plugin EveryExtensionPoint.",
        )
    ]


def test_deleted_while_it_waits_it_is_let_go_of() -> None:
    world = harness()
    world.add(patient())
    world.run()
    world.delete_pod("patient")
    world.add(pod("other").requests(cpu="1"))
    world.advance(3)
    assert world.assignments == {"other": "n1"}
    assert not [c for c in world.commands if isinstance(c, Bind) and c.pod.name == "patient"]


def test_a_node_that_goes_is_not_waited_for() -> None:
    world = harness()
    world.add(patient(seconds=600))
    world.run()
    world.delete_node("n1")
    world.add(node("n2", cpu="1"))
    world.advance(3)
    assert world.events("patient") == [("FailedScheduling", "waiting on permit for pod: node n1 was deleted")]
    assert [parked.node_name for parked in world.handle.waiting_pods()] == ["n2"]


def test_no_wait_is_longer_than_fifteen_minutes() -> None:
    world = harness()
    world.add(patient(seconds=100_000))
    world.run()
    world.advance(15 * 60 + 1)
    assert "after waiting 15m0s at" in world.events("patient")[0][1]
