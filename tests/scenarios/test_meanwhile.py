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


def reject_all(world: Harness) -> None:
    for parked in world.handle.waiting_pods():
        parked.reject("EveryExtensionPoint", "changed its mind")


def test_what_happened_while_a_pod_waited_counts_when_it_comes_back() -> None:
    world = Harness(config("EveryExtensionPoint"))
    world.add(node("n1"), waiting("a"))
    world.run()
    world.add(node("n2"))
    reject_all(world)
    world.advance(0)
    assert not world.handle.waiting_pod("a")
    world.advance(0.2)
    assert world.handle.waiting_pod("a"), "the new node may help, so it is tried again"


def test_the_place_of_a_pod_that_somebody_else_binds_elsewhere_is_free_at_once() -> None:
    world = Harness()
    world.complete_bindings = False
    world.add(node("n1", cpu="1"), pod("a").requests(cpu="1"), pod("b").requests(cpu="1"))
    world.run()
    world.add(node("full", cpu="0"))
    world.advance(20)
    assert list(world.pending_bindings) == ["default/a"]
    world.add(pod("a").requests(cpu="1").on("full"))
    world.advance(2)
    assert sorted(world.pending_bindings) == ["default/a", "default/b"]


def test_if_nothing_happened_it_waits_until_something_does() -> None:
    world = Harness(config("EveryExtensionPoint"))
    world.add(node("n1"), waiting("a"))
    world.run()
    reject_all(world)
    world.advance(100)
    assert len(world.events("a")) == 1
    world.add(node("n2"))
    world.advance(2)
    assert world.handle.waiting_pod("a")


def test_a_pod_whose_deletion_begins_while_it_waits_gives_its_place_back() -> None:
    world = Harness(config("EveryExtensionPoint"))
    world.add(node("n1", cpu="1"), waiting("a"), pod("b").requests(cpu="1"))
    world.run()
    world.add(waiting("a").deleting())
    world.advance(2)
    assert world.assignments == {"b": "n1"}
    assert world.events("a") == []


def test_a_pod_that_is_called_by_one_that_gives_up_is_tried_at_once() -> None:
    world = Harness(config("Relay"))
    world.add(node("n1"), pod("caller").label("calls", "called"), pod("called").label("name", "called"))
    world.run()
    assert world.pending_message("called").startswith("0/1 nodes are available: 1 not yet.")
    world.now += 5.0
    world.handle_event(Tick(world.now))
    world.run()
    assert world.assignments == {"called": "n1"}


def test_a_refused_pod_is_left_alone_for_its_backoff_whatever_happens_meanwhile() -> None:
    world = Harness()
    world.complete_bindings = False
    world.add(node("n1"), pod("a"))
    world.run()
    world.binding_error = lambda _pod, _node: "conflict"
    world.add(node("n2"))
    world.finish_binding("a")
    world.advance(0.9)
    assert world.bound_order == ["a"]
    world.advance(1.2)
    assert world.bound_order == ["a", "a"]


def test_a_pod_deleted_while_it_is_bound_frees_its_room_at_once() -> None:
    world = Harness()
    world.complete_bindings = False
    world.add(node("n1", cpu="1"), pod("a").requests(cpu="1"), pod("b").requests(cpu="1"))
    world.run()
    world.delete_pod("a")
    world.advance(2)
    assert world.bound_order == ["a", "b"]
    world.finish_binding("a")
    assert world.events("a") == []


def test_a_pod_made_again_while_its_namesake_is_bound_is_not_taken_for_it() -> None:
    world = Harness()
    world.complete_bindings = False
    world.add(node("n1", cpu="1"), pod("a").uid("first").requests(cpu="1"))
    world.run()
    first = world.pending_bindings["default/a"]
    world.add(pod("a").uid("second").requests(cpu="1"))
    world.run()
    assert [c.pod.uid for c in world.commands if isinstance(c, Bind)] == ["first", "second"]
    world.pending_bindings["default/a"], second = first, world.pending_bindings["default/a"]
    world.finish_binding("a")
    assert world.assignments == {}
    world.pending_bindings["default/a"] = second
    world.finish_binding("a")
    assert world.assignments == {"a": "n1"}
    assert len(world.events("a")) == 1


def test_a_pod_on_a_node_that_is_not_known_yet_is_counted_when_the_node_appears() -> None:
    world = Harness()
    world.add(pod("early").requests(cpu="1").on("late"), pod("big").requests(cpu="4"))
    world.run()
    world.add(node("late"))
    world.advance(3)
    assert world.pending_message("big").startswith("0/1 nodes are available: 1 Insufficient cpu.")
    world.add(pod("small").requests(cpu="3"))
    world.advance(3)
    assert world.assignments["small"] == "late"


def test_pods_stay_counted_on_a_node_that_goes_and_comes_back() -> None:
    world = Harness()
    world.add(node("n1"), pod("runs").requests(cpu="3").on("n1"))
    world.delete_node("n1")
    world.add(pod("big").requests(cpu="2"), node("n1"))
    world.run()
    assert world.pending_message("big").startswith("0/1 nodes are available: 1 Insufficient cpu.")


def test_the_nominated_node_is_tried_first() -> None:
    world = Harness(config("LastNamed"))
    world.add(node("n-a"), node("n-z"))
    world.add(pod("promised").nominated("n-a"), pod("other"))
    world.run()
    assert world.assignments == {"promised": "n-a", "other": "n-z"}


def test_an_error_clears_the_nomination() -> None:
    world = Harness()
    world.binding_error = lambda _pod, _node: "conflict"
    world.add(node("n1"), pod("a").nominated("n1"))
    world.run()
    assert [c.nominated_node_name for c in world.commands if isinstance(c, PatchStatus)] == [""]


def test_a_pod_that_goes_elsewhere_than_promised_makes_room_for_those_it_kept_off() -> None:
    world = Harness()
    world.add(node("n1", cpu="1"), node("n2", cpu="4"))
    world.add(pod("other").requests(cpu="500m").on("n1"))
    world.add(
        pod("modest").requests(cpu="500m").node_selector(**{"kubernetes.io/hostname": "n1"}),
        pod("promised").requests(cpu="1").nominated("n1"),
    )
    world.run()
    assert "modest" not in world.assignments
    world.advance(3)
    assert world.assignments == {"other": "n1", "promised": "n2", "modest": "n1"}
