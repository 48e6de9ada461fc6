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
    harness = Harness()
    harness.add(node("n1", cpu="1"))
    harness.binding_error = lambda _pod, _node: "etcd is down"
    harness.add(pod("a").requests(cpu="1"))
    harness.run()
    patches = [c for c in harness.commands if isinstance(c, PatchStatus) and c.condition]
    assert [(p.condition.reason, p.condition.message) for p in patches if p.condition] == [
        ("SchedulerError", 'running Bind plugin "DefaultBinder": etcd is down')
    ]
    harness.binding_error = lambda _pod, _node: ""
    harness.add(pod("b").requests(cpu="1").priority(9))
    harness.run()
    assert harness.assignments == {"b": "n1"}
    harness.delete_pod("b")
    harness.advance(3)
    assert harness.assignments == {"a": "n1"}


def test_the_watch_may_show_a_pod_bound_although_the_call_failed() -> None:
    harness = Harness()
    harness.add(node("n1"))
    harness.complete_bindings = False
    harness.add(pod("a"))
    harness.run()
    harness.add(pod("a").on("n1"))
    harness.handle_event(BindFailed(harness.now, "a", "timed out"))
    assert harness.events("a") == [("Scheduled", "Successfully assigned default/a to n1")]
    harness.advance(20)
    assert harness.bound_order == ["a"]


def test_a_pod_bound_elsewhere_by_somebody_else_frees_the_place_it_had_here() -> None:
    harness = Harness()
    harness.add(node("n1", cpu="1"))
    harness.complete_bindings = False
    harness.add(pod("a").requests(cpu="1"))
    harness.run()
    harness.add(node("n2", cpu="1"), pod("a").requests(cpu="1").on("n2"))
    harness.handle_event(BindFailed(harness.now, "a", "already assigned"))
    harness.add(pod("b").requests(cpu="1"))
    harness.run()
    assert [(b.pod.name, b.node_name) for b in harness.commands if isinstance(b, Bind)] == [("a", "n1"), ("b", "n1")]
    assert harness.events("a") == []


@pytest.mark.parametrize(
    "happens",
    [
        pytest.param(lambda harness: harness.delete_pod("a"), id="deleted"),
        pytest.param(lambda harness: harness.add(pod("a").requests(cpu="1").deleting()), id="on its way out"),
        pytest.param(lambda harness: harness.add(pod("a").requests(cpu="1").phase("Failed")), id="ended"),
        pytest.param(lambda harness: harness.add(pod("a").uid("other").scheduler("another")), id="another of its name"),
        pytest.param(
            lambda harness: harness.add(node("n2"), pod("a").requests(cpu="1").on("n2")), id="bound elsewhere"
        ),
    ],
)
def test_a_pod_that_loses_its_place_has_its_binding_called_off_and_the_room_is_free(
    happens: Callable[[Harness], object],
) -> None:
    harness = Harness()
    harness.add(node("n1", cpu="1"))
    harness.complete_bindings = False
    harness.add(
        pod("a").requests(cpu="1"), pod("b").requests(cpu="1").node_selector(**{"kubernetes.io/hostname": "n1"})
    )
    harness.run()
    happens(harness)
    harness.advance(3)
    assert [c.uid for c in harness.commands if isinstance(c, CancelBinding)] == ["a"]
    harness.handle_event(BindFailed(harness.now, "a", "too late"))
    assert [(c.pod.name, c.node_name) for c in harness.commands if isinstance(c, Bind)] == [("a", "n1"), ("b", "n1")]
    validate(harness.machine.context)


def test_a_pod_whose_binding_has_come_true_is_not_called_off() -> None:
    harness = Harness()
    harness.add(node("n1", cpu="1"), pod("a").requests(cpu="1"))
    harness.run()
    harness.add(pod("a").requests(cpu="1").on("n1").deleting())
    harness.delete_pod("a")
    assert not [c for c in harness.commands if isinstance(c, CancelBinding)]


def test_a_pod_made_again_under_its_name_is_another_pod() -> None:
    harness = Harness()
    harness.add(node("n1", cpu="1"), pod("a").requests(cpu="1"))
    harness.run()
    harness.add(pod("a").uid("second").requests(cpu="1"))
    harness.run()
    assert harness.assignments == {"a": "n1"}
    assert [c.pod.uid for c in harness.commands if isinstance(c, Bind)] == ["a", "second"]


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_pod_that_has_ended_frees_its_room(phase: str) -> None:
    harness = Harness()
    harness.add(node("n1", cpu="1"), pod("done").requests(cpu="1").on("n1"), pod("next").requests(cpu="1"))
    harness.run()
    harness.add(pod("done").requests(cpu="1").on("n1").phase(phase))
    harness.advance(3)
    assert harness.assignments["next"] == "n1"


def test_a_node_that_changes_wakes_only_the_pods_that_it_may_help() -> None:
    harness = Harness()
    harness.add(node("n1"), pod("labelled").node_selector(disk="ssd"), pod("big").requests(cpu="64"))
    harness.run()
    harness.advance(10)
    attempts = len(harness.events("big"))
    harness.add(node("n1").label("disk", "ssd"))
    harness.advance(10)
    assert harness.assignments == {"labelled": "n1"}
    assert len(harness.events("big")) == attempts


@pytest.mark.parametrize(("says", "asked"), [("busy", True), ("idle", False), ("broken", True)])
def test_pre_bind_is_asked_where_the_plugin_has_work_to_do_or_cannot_tell(says: str, asked: bool) -> None:
    harness = Harness(config("EveryExtensionPoint"))
    fakes.calls.clear()
    harness.add(node("n1"), pod("a").label("preflight", says))
    harness.run()
    assert harness.assignments == {"a": "n1"}
    assert (("PreBind", "a") in fakes.calls) is asked
    (bind,) = (c for c in harness.commands if isinstance(c, Bind))
    assert [p.name for p in bind.plan.pre_bind] == (["EveryExtensionPoint"] if asked else [])


def accepted(harness: Harness, is_made: bool) -> None:
    """Answer the binding of "a" as the API server would; it was made, or only confirmed."""
    harness.complete_bindings = False
    harness.add(pod("a").requests(cpu="1"))
    harness.run()
    bind = harness.pending_bindings.pop("default/a")
    if is_made:
        harness.find_pod = lambda found: pod("a").requests(cpu="1").on(bind.node_name).version(9)
    harness.handle_event(Bound(harness.now, "a"))


def lookups(harness: Harness) -> int:
    return sum(isinstance(command, GetPod) for command in harness.commands)


def bindings(harness: Harness) -> list[str]:
    return [command.node_name for command in harness.commands if isinstance(command, Bind)]


def test_a_pod_is_requeued_when_its_accepted_binding_was_never_made() -> None:
    harness = Harness()
    harness.add(node("n1", cpu="1"))
    accepted(harness, is_made=False)
    harness.complete_bindings = True
    harness.advance(59)
    assert (lookups(harness), harness.assignments) == (0, {})
    harness.advance(4)
    assert harness.assignments == {"a": "n1"}
    assert bindings(harness) == ["n1", "n1"]
    assert (
        "FailedScheduling",
        "the API server accepted the binding to n1, but the pod is not bound",
    ) in harness.events("a")
    harness.advance(300)
    assert lookups(harness) == 1, "the watch has shown it by then"
    validate(harness.machine.context)


def test_a_pod_is_confirmed_when_only_the_lookup_shows_it_bound() -> None:
    harness = Harness()
    harness.add(node("n1", cpu="1"))
    accepted(harness, is_made=True)
    harness.advance(300)
    assert lookups(harness) == 1
    assert bindings(harness) == ["n1"]
    assert not harness.machine.context.assumed
    validate(harness.machine.context)


def test_a_pod_stays_bound_when_the_watch_shows_an_older_version_after_the_lookup() -> None:
    harness = Harness()
    harness.add(node("n1", cpu="1"))
    accepted(harness, is_made=True)
    harness.advance(61)
    harness.add(pod("a").requests(cpu="1").label("late", "true"))
    harness.advance(300)
    assert bindings(harness) == ["n1"]
    validate(harness.machine.context)


def test_a_pod_is_forgotten_when_the_lookup_does_not_find_it() -> None:
    harness = Harness()
    harness.add(node("n1", cpu="1"))
    accepted(harness, is_made=False)
    harness.find_pod = lambda _: None
    harness.advance(61)
    harness.complete_bindings = True
    harness.add(pod("b").requests(cpu="1"))
    harness.run()
    assert bindings(harness) == ["n1", "n1"], "its place is another's"
    assert not harness.machine.context.assumed
    validate(harness.machine.context)


def test_a_pod_of_the_same_name_is_not_taken_for_the_one_that_was_bound() -> None:
    harness = Harness()
    harness.add(node("n1", cpu="1"))
    accepted(harness, is_made=False)
    harness.find_pod = lambda _: pod("a").requests(cpu="1").uid("another").on("n1")
    harness.advance(61)
    assert not harness.machine.context.assumed
    validate(harness.machine.context)


def test_a_lookup_without_an_answer_is_repeated_every_minute_and_the_place_is_kept() -> None:
    harness = Harness()
    harness.add(node("n1", cpu="1"))
    accepted(harness, is_made=False)
    handle = harness.handle_event
    harness.handle_event = lambda event: None if isinstance(event, PodFound) else handle(event)  # type: ignore[method-assign]
    harness.add(pod("b").requests(cpu="1"))
    harness.advance(200)
    assert lookups(harness) == 3
    assert bindings(harness) == ["n1"]
    validate(harness.machine.context)
