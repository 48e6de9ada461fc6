"""Bindings that fail, are cancelled, are lost, or are confirmed by the watch or a lookup."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pyscheduler.core.commands import Bind, CancelBinding, GetPod, PatchStatus
from pyscheduler.core.events import BindFailed, Bound, PodFound
from pyscheduler.core.invariants import validate
from pyscheduler.testing import Harness, node, pod
from tests.scenarios import fakes
from tests.scenarios.test_attempts import config


def test_pod_is_forgotten_and_retried_after_its_backoff_when_binding_fails() -> None:
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


def test_failed_binding_is_ignored_when_the_watch_has_shown_the_pod_bound() -> None:
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


def test_assumed_pod_is_forgotten_when_another_scheduler_binds_it() -> None:
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
    "change",
    [
        pytest.param(lambda harness: harness.delete_pod("a"), id="deleted"),
        pytest.param(lambda harness: harness.add(pod("a").requests(cpu="1").deleting()), id="terminating"),
        pytest.param(lambda harness: harness.add(pod("a").requests(cpu="1").phase("Failed")), id="ended"),
        pytest.param(
            lambda harness: harness.add(pod("a").uid("other").scheduler("another")),
            id="replaced by a pod of the same name",
        ),
        pytest.param(
            lambda harness: harness.add(node("n2"), pod("a").requests(cpu="1").on("n2")), id="bound elsewhere"
        ),
    ],
)
def test_binding_is_cancelled_and_the_node_is_free_when_the_pod_is(
    change: Callable[[Harness], object],
) -> None:
    harness = Harness()
    harness.add(node("n1", cpu="1"))
    harness.complete_bindings = False
    harness.add(
        pod("a").requests(cpu="1"), pod("b").requests(cpu="1").node_selector(**{"kubernetes.io/hostname": "n1"})
    )
    harness.run()
    change(harness)
    harness.advance(3)
    assert [c.uid for c in harness.commands if isinstance(c, CancelBinding)] == ["a"]
    harness.handle_event(BindFailed(harness.now, "a", "too late"))
    assert [(c.pod.name, c.node_name) for c in harness.commands if isinstance(c, Bind)] == [("a", "n1"), ("b", "n1")]
    validate(harness.machine.context)


def test_confirmed_binding_is_not_cancelled() -> None:
    harness = Harness()
    harness.add(node("n1", cpu="1"), pod("a").requests(cpu="1"))
    harness.run()
    harness.add(pod("a").requests(cpu="1").on("n1").deleting())
    harness.delete_pod("a")
    assert not [c for c in harness.commands if isinstance(c, CancelBinding)]


def test_pod_recreated_with_the_same_name_is_scheduled() -> None:
    harness = Harness()
    harness.add(node("n1", cpu="1"), pod("a").requests(cpu="1"))
    harness.run()
    harness.add(pod("a").uid("second").requests(cpu="1"))
    harness.run()
    assert harness.assignments == {"a": "n1"}
    assert [c.pod.uid for c in harness.commands if isinstance(c, Bind)] == ["a", "second"]


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_resources_of_an_ended_pod_are_free(phase: str) -> None:
    harness = Harness()
    harness.add(node("n1", cpu="1"), pod("done").requests(cpu="1").on("n1"), pod("next").requests(cpu="1"))
    harness.run()
    harness.add(pod("done").requests(cpu="1").on("n1").phase(phase))
    harness.advance(3)
    assert harness.assignments["next"] == "n1"


def test_node_update_requeues_only_the_pods_that_it_may_help() -> None:
    harness = Harness()
    harness.add(node("n1"), pod("labelled").node_selector(disk="ssd"), pod("big").requests(cpu="64"))
    harness.run()
    harness.advance(10)
    attempts = len(harness.events("big"))
    harness.add(node("n1").label("disk", "ssd"))
    harness.advance(10)
    assert harness.assignments == {"labelled": "n1"}
    assert len(harness.events("big")) == attempts


@pytest.mark.parametrize(("preflight", "called"), [("busy", True), ("idle", False), ("broken", True)])
def test_pre_bind_is_called_unless_the_preflight_skips(preflight: str, called: bool) -> None:
    harness = Harness(config("EveryExtensionPoint"))
    fakes.calls.clear()
    harness.add(node("n1"), pod("a").label("preflight", preflight))
    harness.run()
    assert harness.assignments == {"a": "n1"}
    assert (("PreBind", "a") in fakes.calls) is called
    (bind,) = (c for c in harness.commands if isinstance(c, Bind))
    assert [p.name for p in bind.plan.pre_bind] == (["EveryExtensionPoint"] if called else [])


def accept_binding(harness: Harness, is_bound: bool) -> None:
    """Accept the binding of "a" without a watch event; `is_bound`: the API server has bound the pod."""
    harness.complete_bindings = False
    harness.add(pod("a").requests(cpu="1"))
    harness.run()
    bind = harness.pending_bindings.pop("default/a")
    if is_bound:
        harness.find_pod = lambda found: pod("a").requests(cpu="1").on(bind.node_name).version(9)
    harness.handle_event(Bound(harness.now, "a"))


def lookups(harness: Harness) -> int:
    return sum(isinstance(command, GetPod) for command in harness.commands)


def bindings(harness: Harness) -> list[str]:
    return [command.node_name for command in harness.commands if isinstance(command, Bind)]


def test_pod_is_requeued_when_its_accepted_binding_was_lost() -> None:
    harness = Harness()
    harness.add(node("n1", cpu="1"))
    accept_binding(harness, is_bound=False)
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
    assert lookups(harness) == 1, "the watch has confirmed it by then"
    validate(harness.machine.context)


def test_pod_is_confirmed_when_only_the_lookup_shows_it_bound() -> None:
    harness = Harness()
    harness.add(node("n1", cpu="1"))
    accept_binding(harness, is_bound=True)
    harness.advance(300)
    assert lookups(harness) == 1
    assert bindings(harness) == ["n1"]
    assert not harness.machine.context.assumed
    validate(harness.machine.context)


def test_pod_stays_bound_when_the_watch_shows_an_older_version_after_the_lookup() -> None:
    harness = Harness()
    harness.add(node("n1", cpu="1"))
    accept_binding(harness, is_bound=True)
    harness.advance(61)
    harness.add(pod("a").requests(cpu="1").label("late", "true"))
    harness.advance(300)
    assert bindings(harness) == ["n1"]
    validate(harness.machine.context)


def test_pod_is_forgotten_when_the_lookup_does_not_find_it() -> None:
    harness = Harness()
    harness.add(node("n1", cpu="1"))
    accept_binding(harness, is_bound=False)
    harness.find_pod = lambda _: None
    harness.advance(61)
    harness.complete_bindings = True
    harness.add(pod("b").requests(cpu="1"))
    harness.run()
    assert bindings(harness) == ["n1", "n1"], "its node is free for the other pod"
    assert not harness.machine.context.assumed
    validate(harness.machine.context)


def test_pod_is_forgotten_when_the_lookup_returns_another_uid() -> None:
    harness = Harness()
    harness.add(node("n1", cpu="1"))
    accept_binding(harness, is_bound=False)
    harness.find_pod = lambda _: pod("a").requests(cpu="1").uid("another").on("n1")
    harness.advance(61)
    assert not harness.machine.context.assumed
    validate(harness.machine.context)


def test_lookup_without_a_reply_is_repeated_every_minute_and_the_pod_stays_assumed() -> None:
    harness = Harness()
    harness.add(node("n1", cpu="1"))
    accept_binding(harness, is_bound=False)
    handle = harness.handle_event
    harness.handle_event = lambda event: None if isinstance(event, PodFound) else handle(event)  # type: ignore[method-assign]
    harness.add(pod("b").requests(cpu="1"))
    harness.advance(200)
    assert lookups(harness) == 3
    assert bindings(harness) == ["n1"]
    validate(harness.machine.context)


def test_reserve_and_prebind_are_not_called_for_pods_that_the_plugin_skips_in_prefilter() -> None:
    fakes.calls.clear()
    harness = Harness(config("License"))
    harness.add(node("n1"), pod("licensed").label("license"), pod("plain"))
    harness.run()
    assert harness.assignments == {"licensed": "n1", "plain": "n1"}
    assert fakes.calls == [("Reserve", "licensed"), ("PreBind", "licensed")]
