"""Stories of what happens while something else is under way: nothing may be missed, nobody may be forgotten."""

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
    for waiting_pod in harness.handle.waiting_pods():
        waiting_pod.reject("EveryExtensionPoint", "changed its mind")


def test_what_happened_while_a_pod_waited_counts_when_it_comes_back() -> None:
    harness = Harness(config("EveryExtensionPoint"))
    harness.add(node("n1"), waiting("a"))
    harness.run()
    harness.add(node("n2"))
    reject_all(harness)
    harness.advance(0)
    assert not harness.handle.waiting_pod("a")
    harness.advance(0.2)
    assert harness.handle.waiting_pod("a"), "the new node may help, so it is tried again"


def test_the_place_of_a_pod_that_somebody_else_binds_elsewhere_is_free_at_once() -> None:
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


def test_if_nothing_happened_it_waits_until_something_does() -> None:
    harness = Harness(config("EveryExtensionPoint"))
    harness.add(node("n1"), waiting("a"))
    harness.run()
    reject_all(harness)
    harness.advance(100)
    assert len(harness.events("a")) == 1
    harness.add(node("n2"))
    harness.advance(2)
    assert harness.handle.waiting_pod("a")


def test_a_pod_whose_deletion_begins_while_it_waits_gives_its_place_back() -> None:
    harness = Harness(config("EveryExtensionPoint"))
    harness.add(node("n1", cpu="1"), waiting("a"), pod("b").requests(cpu="1"))
    harness.run()
    harness.add(waiting("a").deleting())
    harness.advance(2)
    assert harness.assignments == {"b": "n1"}
    assert harness.events("a") == []


def test_a_pod_that_is_called_by_one_that_gives_up_is_tried_at_once() -> None:
    harness = Harness(config("Relay"))
    harness.add(node("n1"), pod("caller").label("calls", "called"), pod("called").label("name", "called"))
    harness.run()
    assert harness.pending_message("called").startswith("0/1 nodes are available: 1 not yet.")
    harness.now += 5.0
    harness.handle_event(Tick(harness.now))
    harness.run()
    assert harness.assignments == {"called": "n1"}


def test_a_refused_pod_is_left_alone_for_its_backoff_whatever_happens_meanwhile() -> None:
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


def test_a_pod_deleted_while_it_is_bound_frees_its_room_at_once() -> None:
    harness = Harness()
    harness.complete_bindings = False
    harness.add(node("n1", cpu="1"), pod("a").requests(cpu="1"), pod("b").requests(cpu="1"))
    harness.run()
    harness.delete_pod("a")
    harness.advance(2)
    assert harness.bound_order == ["a", "b"]
    harness.finish_binding("a")
    assert harness.events("a") == []


def test_a_pod_made_again_while_its_namesake_is_bound_is_not_taken_for_it() -> None:
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


def test_a_pod_on_a_node_that_is_not_known_yet_is_counted_when_the_node_appears() -> None:
    harness = Harness()
    harness.add(pod("early").requests(cpu="1").on("late"), pod("big").requests(cpu="4"))
    harness.run()
    harness.add(node("late"))
    harness.advance(3)
    assert harness.pending_message("big").startswith("0/1 nodes are available: 1 Insufficient cpu.")
    harness.add(pod("small").requests(cpu="3"))
    harness.advance(3)
    assert harness.assignments["small"] == "late"


def test_pods_stay_counted_on_a_node_that_goes_and_comes_back() -> None:
    harness = Harness()
    harness.add(node("n1"), pod("runs").requests(cpu="3").on("n1"))
    harness.delete_node("n1")
    harness.add(pod("big").requests(cpu="2"), node("n1"))
    harness.run()
    assert harness.pending_message("big").startswith("0/1 nodes are available: 1 Insufficient cpu.")


def test_the_nominated_node_is_tried_first() -> None:
    harness = Harness(config("LastNamed"))
    harness.add(node("n-a"), node("n-z"))
    harness.add(pod("promised").nominated("n-a"), pod("other"))
    harness.run()
    assert harness.assignments == {"promised": "n-a", "other": "n-z"}


def test_an_error_clears_the_nomination() -> None:
    harness = Harness()
    harness.binding_error = lambda _pod, _node: "conflict"
    harness.add(node("n1"), pod("a").nominated("n1"))
    harness.run()
    assert [c.nominated_node_name for c in harness.commands if isinstance(c, PatchStatus)] == [""]


def test_a_pod_that_goes_elsewhere_than_promised_makes_room_for_those_it_kept_off() -> None:
    harness = Harness()
    harness.add(node("n1", cpu="1"), node("n2", cpu="4"))
    harness.add(pod("other").requests(cpu="500m").on("n1"))
    harness.add(
        pod("modest").requests(cpu="500m").node_selector(**{"kubernetes.io/hostname": "n1"}),
        pod("promised").requests(cpu="1").nominated("n1"),
    )
    harness.run()
    assert "modest" not in harness.assignments
    harness.advance(3)
    assert harness.assignments == {"other": "n1", "promised": "n2", "modest": "n1"}
