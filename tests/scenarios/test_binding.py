"""Stories of bindings that go wrong, and of watches that know more than we do."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pyscheduler.core.commands import Bind, CancelBinding, GetPod, PatchStatus
from pyscheduler.core.events import BindFailed, Bound, PodFound
from pyscheduler.core.invariants import validate
from pyscheduler.testing import Harness, node, pod
from tests.scenarios import fakes
from tests.scenarios.test_attempts import config


def test_a_refused_binding_gives_the_place_back_and_is_tried_again_after_its_backoff() -> None:
    world = Harness()
    world.add(node("n1", cpu="1"))
    world.binding_error = lambda _pod, _node: "etcd is down"
    world.add(pod("a").requests(cpu="1"))
    world.run()
    patches = [c for c in world.commands if isinstance(c, PatchStatus) and c.condition]
    assert [(p.condition.reason, p.condition.message) for p in patches if p.condition] == [
        ("SchedulerError", 'running Bind plugin "DefaultBinder": etcd is down')
    ]
    world.binding_error = lambda _pod, _node: ""
    world.add(pod("b").requests(cpu="1").priority(9))
    world.run()
    assert world.assignments == {"b": "n1"}
    world.delete_pod("b")
    world.advance(3)
    assert world.assignments == {"a": "n1"}


def test_the_watch_may_show_a_pod_bound_although_the_call_failed() -> None:
    world = Harness()
    world.add(node("n1"))
    world.complete_bindings = False
    world.add(pod("a"))
    world.run()
    world.add(pod("a").on("n1"))
    world.handle_event(BindFailed(world.now, "a", "timed out"))
    assert world.events("a") == [("Scheduled", "Successfully assigned default/a to n1")]
    world.advance(20)
    assert world.bound_order == ["a"]


def test_a_pod_bound_elsewhere_by_somebody_else_frees_the_place_it_had_here() -> None:
    world = Harness()
    world.add(node("n1", cpu="1"))
    world.complete_bindings = False
    world.add(pod("a").requests(cpu="1"))
    world.run()
    world.add(node("n2", cpu="1"), pod("a").requests(cpu="1").on("n2"))
    world.handle_event(BindFailed(world.now, "a", "already assigned"))
    world.add(pod("b").requests(cpu="1"))
    world.run()
    assert [(b.pod.name, b.node_name) for b in world.commands if isinstance(b, Bind)] == [("a", "n1"), ("b", "n1")]
    assert world.events("a") == []


@pytest.mark.parametrize(
    "happens",
    [
        pytest.param(lambda world: world.delete_pod("a"), id="deleted"),
        pytest.param(lambda world: world.add(pod("a").requests(cpu="1").deleting()), id="on its way out"),
        pytest.param(lambda world: world.add(pod("a").requests(cpu="1").phase("Failed")), id="ended"),
        pytest.param(lambda world: world.add(pod("a").uid("other").scheduler("another")), id="another of its name"),
        pytest.param(lambda world: world.add(node("n2"), pod("a").requests(cpu="1").on("n2")), id="bound elsewhere"),
    ],
)
def test_a_pod_that_loses_its_place_has_its_binding_called_off_and_the_room_is_free(
    happens: Callable[[Harness], object],
) -> None:
    world = Harness()
    world.add(node("n1", cpu="1"))
    world.complete_bindings = False
    world.add(pod("a").requests(cpu="1"), pod("b").requests(cpu="1").node_selector(**{"kubernetes.io/hostname": "n1"}))
    world.run()
    happens(world)
    world.advance(3)
    assert [c.uid for c in world.commands if isinstance(c, CancelBinding)] == ["a"]
    world.handle_event(BindFailed(world.now, "a", "too late"))
    assert [(c.pod.name, c.node_name) for c in world.commands if isinstance(c, Bind)] == [("a", "n1"), ("b", "n1")]
    validate(world.machine.context)


def test_a_pod_whose_binding_has_come_true_is_not_called_off() -> None:
    world = Harness()
    world.add(node("n1", cpu="1"), pod("a").requests(cpu="1"))
    world.run()
    world.add(pod("a").requests(cpu="1").on("n1").deleting())
    world.delete_pod("a")
    assert not [c for c in world.commands if isinstance(c, CancelBinding)]


def test_a_pod_made_again_under_its_name_is_another_pod() -> None:
    world = Harness()
    world.add(node("n1", cpu="1"), pod("a").requests(cpu="1"))
    world.run()
    world.add(pod("a").uid("second").requests(cpu="1"))
    world.run()
    assert world.assignments == {"a": "n1"}
    assert [c.pod.uid for c in world.commands if isinstance(c, Bind)] == ["a", "second"]


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_pod_that_has_ended_frees_its_room(phase: str) -> None:
    world = Harness()
    world.add(node("n1", cpu="1"), pod("done").requests(cpu="1").on("n1"), pod("next").requests(cpu="1"))
    world.run()
    world.add(pod("done").requests(cpu="1").on("n1").phase(phase))
    world.advance(3)
    assert world.assignments["next"] == "n1"


def test_a_node_that_changes_wakes_only_the_pods_that_it_may_help() -> None:
    world = Harness()
    world.add(node("n1"), pod("labelled").node_selector(disk="ssd"), pod("big").requests(cpu="64"))
    world.run()
    world.advance(10)
    attempts = len(world.events("big"))
    world.add(node("n1").label("disk", "ssd"))
    world.advance(10)
    assert world.assignments == {"labelled": "n1"}
    assert len(world.events("big")) == attempts


@pytest.mark.parametrize(("says", "asked"), [("busy", True), ("idle", False), ("broken", True)])
def test_pre_bind_is_asked_where_the_plugin_has_work_to_do_or_cannot_tell(says: str, asked: bool) -> None:
    world = Harness(config("EveryExtensionPoint"))
    fakes.calls.clear()
    world.add(node("n1"), pod("a").label("preflight", says))
    world.run()
    assert world.assignments == {"a": "n1"}
    assert (("PreBind", "a") in fakes.calls) is asked
    (bind,) = (c for c in world.commands if isinstance(c, Bind))
    assert [p.name for p in bind.plan.pre_bind] == (["EveryExtensionPoint"] if asked else [])


def accepted(world: Harness, is_made: bool) -> None:
    """Answer the binding of "a" as the API server would; it was made, or only confirmed."""
    world.complete_bindings = False
    world.add(pod("a").requests(cpu="1"))
    world.run()
    bind = world.pending_bindings.pop("default/a")
    if is_made:
        world.find_pod = lambda found: pod("a").requests(cpu="1").on(bind.node_name).version(9)
    world.handle_event(Bound(world.now, "a"))


def lookups(world: Harness) -> int:
    return sum(isinstance(command, GetPod) for command in world.commands)


def bindings(world: Harness) -> list[str]:
    return [command.node_name for command in world.commands if isinstance(command, Bind)]


def test_a_pod_is_requeued_when_its_accepted_binding_was_never_made() -> None:
    world = Harness()
    world.add(node("n1", cpu="1"))
    accepted(world, is_made=False)
    world.complete_bindings = True
    world.advance(59)
    assert (lookups(world), world.assignments) == (0, {})
    world.advance(4)
    assert world.assignments == {"a": "n1"}
    assert bindings(world) == ["n1", "n1"]
    assert ("FailedScheduling", "the binding to n1 was accepted but not made") in world.events("a")
    world.advance(300)
    assert lookups(world) == 1, "the watch has shown it by then"
    validate(world.machine.context)


def test_a_pod_is_confirmed_when_only_the_lookup_shows_it_bound() -> None:
    world = Harness()
    world.add(node("n1", cpu="1"))
    accepted(world, is_made=True)
    world.advance(300)
    assert lookups(world) == 1
    assert bindings(world) == ["n1"]
    assert not world.machine.context.assumed
    validate(world.machine.context)


def test_a_pod_stays_bound_when_the_watch_shows_an_older_version_after_the_lookup() -> None:
    world = Harness()
    world.add(node("n1", cpu="1"))
    accepted(world, is_made=True)
    world.advance(61)
    world.add(pod("a").requests(cpu="1").label("late", "true"))
    world.advance(300)
    assert bindings(world) == ["n1"]
    validate(world.machine.context)


def test_a_pod_is_forgotten_when_the_lookup_does_not_find_it() -> None:
    world = Harness()
    world.add(node("n1", cpu="1"))
    accepted(world, is_made=False)
    world.find_pod = lambda _: None
    world.advance(61)
    world.complete_bindings = True
    world.add(pod("b").requests(cpu="1"))
    world.run()
    assert bindings(world) == ["n1", "n1"], "its place is another's"
    assert not world.machine.context.assumed
    validate(world.machine.context)


def test_a_pod_of_the_same_name_is_not_taken_for_the_one_that_was_bound() -> None:
    world = Harness()
    world.add(node("n1", cpu="1"))
    accepted(world, is_made=False)
    world.find_pod = lambda _: pod("a").requests(cpu="1").uid("another").on("n1")
    world.advance(61)
    assert not world.machine.context.assumed
    validate(world.machine.context)


def test_a_lookup_without_an_answer_is_repeated_every_minute_and_the_place_is_kept() -> None:
    world = Harness()
    world.add(node("n1", cpu="1"))
    accepted(world, is_made=False)
    handle = world.handle_event
    world.handle_event = lambda event: None if isinstance(event, PodFound) else handle(event)  # type: ignore[method-assign]
    world.add(pod("b").requests(cpu="1"))
    world.advance(200)
    assert lookups(world) == 3
    assert bindings(world) == ["n1"]
    validate(world.machine.context)
