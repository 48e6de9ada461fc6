"""Events during bindings, Permit waits and other attempts: none is missed and no pod is lost."""

from __future__ import annotations

from pyscheduler.core.commands import Bind, PatchStatus
from pyscheduler.core.events import Tick
from pyscheduler.testing import Harness, PodBuilder, node, pod


def config(*plugins: str) -> str:
    enabled = ", ".join(f'{{name: "tests.scenarios.fakes:{name}"}}' for name in plugins)
    return f"""
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: default-scheduler
  plugins: {{multiPoint: {{enabled: [{enabled}]}}}}
"""


def waiting(name: str = "a") -> PodBuilder:
    return pod(name).label("wait", "5").requests(cpu="1")


def reject_all(harness: Harness) -> None:
    for waiting_pod in harness.handle.waiting_pods:
        waiting_pod.reject("EveryExtensionPoint", "rejected later")


def test_event_while_a_pod_waits_in_permit_requeues_it_after_its_rejection() -> None:
    harness = Harness(config("EveryExtensionPoint"))
    harness.add(node("n1"), waiting("a"))
    harness.run()
    harness.add(node("n2"))
    reject_all(harness)
    harness.advance(0)
    assert not harness.handle.waiting_pods.get("a")
    harness.advance(0.2)
    assert harness.handle.waiting_pods.get("a"), "the new node may help, so the pod is retried"


def test_node_of_an_assumed_pod_is_free_at_once_when_another_scheduler_binds_the_pod() -> None:
    harness = Harness()
    harness.complete_bindings = False
    harness.add(node("n1", cpu="1"), pod("a").requests(cpu="1"), pod("b").requests(cpu="1"))
    harness.run()
    harness.add(node("full", cpu="0"))
    harness.advance(20)
    assert list(harness.pending_bindings) == ["default/a"]
    harness.add(pod("a").requests(cpu="1").on("full"))
    harness.advance(2)
    assert sorted(harness.pending_bindings) == ["default/a", "default/b"]


def test_pod_rejected_in_permit_waits_for_the_next_event() -> None:
    harness = Harness(config("EveryExtensionPoint"))
    harness.add(node("n1"), waiting("a"))
    harness.run()
    reject_all(harness)
    harness.advance(100)
    assert len(harness.events("a")) == 1
    harness.add(node("n2"))
    harness.advance(2)
    assert harness.handle.waiting_pods.get("a")


def test_waiting_pod_is_forgotten_when_it_is_terminating() -> None:
    harness = Harness(config("EveryExtensionPoint"))
    harness.add(node("n1", cpu="1"), waiting("a"), pod("b").requests(cpu="1"))
    harness.run()
    harness.add(waiting("a").deleting())
    harness.advance(2)
    assert harness.assignments == {"b": "n1"}
    assert harness.events("a") == []


def test_pod_activated_by_unreserve_is_attempted_at_once() -> None:
    harness = Harness(config("Relay"))
    harness.add(node("n1"), pod("caller").label("calls", "called"), pod("called").label("name", "called"))
    harness.run()
    assert harness.pending_message("called").startswith("0/1 nodes are available: 1 not yet.")
    harness.now += 5.0
    harness.handle_event(Tick(harness.now))
    harness.run()
    assert harness.assignments == {"called": "n1"}


def test_pod_with_a_failed_binding_waits_for_its_whole_backoff() -> None:
    harness = Harness()
    harness.complete_bindings = False
    harness.add(node("n1"), pod("a"))
    harness.run()
    harness.binding_error = lambda _pod, _node: "conflict"
    harness.add(node("n2"))
    harness.finish_binding("a")
    harness.advance(0.9)
    assert harness.bound_order == ["a"]
    harness.advance(1.2)
    assert harness.bound_order == ["a", "a"]


def test_node_is_free_at_once_when_a_pod_is_deleted_during_binding() -> None:
    harness = Harness()
    harness.complete_bindings = False
    harness.add(node("n1", cpu="1"), pod("a").requests(cpu="1"), pod("b").requests(cpu="1"))
    harness.run()
    harness.delete_pod("a")
    harness.advance(2)
    assert harness.bound_order == ["a", "b"]
    harness.finish_binding("a")
    assert harness.events("a") == []


def test_pod_recreated_during_the_binding_of_its_predecessor_is_scheduled_separately() -> None:
    harness = Harness()
    harness.complete_bindings = False
    harness.add(node("n1", cpu="1"), pod("a").uid("first").requests(cpu="1"))
    harness.run()
    first = harness.pending_bindings["default/a"]
    harness.add(pod("a").uid("second").requests(cpu="1"))
    harness.run()
    assert [c.pod.uid for c in harness.commands if isinstance(c, Bind)] == ["first", "second"]
    harness.pending_bindings["default/a"], second = first, harness.pending_bindings["default/a"]
    harness.finish_binding("a")
    assert harness.assignments == {}
    harness.pending_bindings["default/a"] = second
    harness.finish_binding("a")
    assert harness.assignments == {"a": "n1"}
    assert len(harness.events("a")) == 1


def test_pod_on_a_missing_node_is_counted_once_the_node_is_added() -> None:
    harness = Harness()
    harness.add(pod("early").requests(cpu="1").on("late"), pod("big").requests(cpu="4"))
    harness.run()
    harness.add(node("late"))
    harness.advance(3)
    assert harness.pending_message("big").startswith("0/1 nodes are available: 1 Insufficient cpu.")
    harness.add(pod("small").requests(cpu="3"))
    harness.advance(3)
    assert harness.assignments["small"] == "late"


def test_pods_are_counted_after_their_node_is_deleted_and_added_again() -> None:
    harness = Harness()
    harness.add(node("n1"), pod("runs").requests(cpu="3").on("n1"))
    harness.delete_node("n1")
    harness.add(pod("big").requests(cpu="2"), node("n1"))
    harness.run()
    assert harness.pending_message("big").startswith("0/1 nodes are available: 1 Insufficient cpu.")


def test_nominated_node_is_evaluated_first() -> None:
    harness = Harness(config("LastNamed"))
    harness.add(node("n-a"), node("n-z"))
    harness.add(pod("nominated").nominated("n-a"), pod("other"))
    harness.run()
    assert harness.assignments == {"nominated": "n-a", "other": "n-z"}


def test_binding_error_clears_the_nomination() -> None:
    harness = Harness()
    harness.binding_error = lambda _pod, _node: "conflict"
    harness.add(node("n1"), pod("a").nominated("n1"))
    harness.run()
    assert [c.nominated_node_name for c in harness.commands if isinstance(c, PatchStatus)] == [""]


def test_pods_that_left_room_are_requeued_when_a_nominated_pod_is_bound_to_another_node() -> None:
    harness = Harness()
    harness.add(node("n1", cpu="1"), node("n2", cpu="4"))
    harness.add(pod("other").requests(cpu="500m").on("n1"))
    harness.add(
        pod("modest").requests(cpu="500m").node_selector(**{"kubernetes.io/hostname": "n1"}),
        pod("nominated").requests(cpu="1").nominated("n1"),
    )
    harness.run()
    assert "modest" not in harness.assignments
    harness.advance(3)
    assert harness.assignments == {"other": "n1", "nominated": "n2", "modest": "n1"}
