"""Profiles and extenders that are added and removed at run time: which pods are scheduled, and none is lost."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pyscheduler.api import Pod
from pyscheduler.core.commands import Bind
from pyscheduler.core.extenders.extender import ExtenderCall, ExtenderFilterResult, ExtenderResult, FilterCall
from pyscheduler.core.instrument import Instrument
from pyscheduler.core.queue.entry import Tier
from pyscheduler.testing import Harness, PodBuilder, node, pod
from tests.scenarios import fakes

HEAD = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection: {leaderElect: false}
"""
ONE, OTHER = "{schedulerName: default-scheduler}", "{schedulerName: other}"
EVERYWHERE = (
    "{schedulerName: other, plugins: {multiPoint: {enabled: [{name: 'tests.scenarios.fakes:EveryExtensionPoint'}]}}}"
)
FILTER = 'extenders: [{urlPrefix: "http://filters", filterVerb: filter}]\n'
RANK = """extenders:
- {urlPrefix: "http://ranks", prioritizeVerb: rank, weight: 1}
- {urlPrefix: "http://others", filterVerb: f}
"""


def profiles(*each: str, more: str = "") -> str:
    return f"{HEAD}{more}profiles: [{', '.join(each)}]\n"


def others(name: str) -> PodBuilder:
    return pod(name).scheduler("other").requests(cpu="1")


def count_bindings(harness: Harness, name: str) -> int:
    return sum(isinstance(c, Bind) and c.pod.name == name for c in harness.commands)


def tiers(harness: Harness) -> dict[str, Tier]:
    return {queued.pod.name: tier for tier, queued in harness.machine.context.queue.known()}


# -- profiles ----------------------------------------------------------------------------------------------------------


def test_added_profile_schedules_the_existing_pods_of_its_scheduler_name() -> None:
    harness = Harness(profiles(ONE))
    harness.add(node("n1"), others("a"), others("placed").on("n1"), pod("mine"), pod("third").scheduler("else"))
    harness.run()
    assert harness.assignments == {"mine": "n1", "placed": "n1"}
    assert harness.reconfigure(profiles(ONE, OTHER)) == ()
    harness.run()
    assert harness.assignments == {"mine": "n1", "placed": "n1", "a": "n1"}
    assert tiers(harness) == {}


def test_existing_pods_of_an_added_profile_are_scheduled_by_priority_and_may_preempt() -> None:
    harness = Harness(profiles(ONE))
    harness.add(node("n1", cpu="1"), pod("low").requests(cpu="1"), others("late"), others("first").priority(10))
    harness.run()
    harness.reconfigure(profiles(ONE, OTHER))
    harness.run()
    harness.advance(5)
    assert harness.evicted() == ["low"]
    assert harness.assignments == {"first": "n1"}


def test_pods_of_a_removed_profile_leave_the_queue() -> None:
    harness = Harness(profiles(ONE, OTHER))
    harness.add(node("n1", cpu="1").taint("keep", "out"))
    harness.add(pod("mine"), others("rejected"), others("gated").gate("example.com/wait"))
    harness.run()
    assert harness.reconfigure(profiles(ONE)) == ()
    assert list(tiers(harness)) == ["mine"]
    commands = len(harness.commands)
    harness.add(node("n1", cpu="4"), others("later"))
    harness.add(others("gated"))
    harness.advance(700)
    assert harness.assignments == {"mine": "n1"}
    assert {c.pod.name for c in harness.commands[commands:] if isinstance(c, Bind)} == {"mine"}


def test_nominations_of_a_removed_profile_are_cleared() -> None:
    harness = Harness(profiles(ONE, OTHER))
    harness.graceful = True
    harness.add(node("n1", cpu="1"), pod("low").requests(cpu="1").on("n1"), others("high").priority(10))
    harness.run()
    assert harness.machine.context.queue.nominator.node_of[_uid(harness, "high")] == "n1"
    harness.reconfigure(profiles(ONE))
    harness.delete_pod("low")
    harness.add(pod("next").requests(cpu="1"))
    harness.run()
    assert harness.assignments == {"next": "n1"}


def _uid(harness: Harness, name: str) -> str:
    return harness.machine.context.handle.pods.uid_of("default", name) or ""


def test_pending_binding_is_completed_after_its_profile_is_removed() -> None:
    fakes.calls.clear()
    harness = Harness(profiles(ONE, EVERYWHERE))
    harness.complete_bindings = False
    harness.add(node("n1", cpu="1"), others("a"))
    harness.run()
    harness.reconfigure(profiles(ONE))
    harness.finish_binding("a")
    harness.run()
    assert harness.assignments == {"a": "n1"}
    assert ("PostBind", "a") in fakes.calls


def test_pod_of_a_removed_profile_is_forgotten_and_not_requeued_when_its_binding_fails() -> None:
    fakes.calls.clear()
    harness = Harness(profiles(ONE, EVERYWHERE))
    harness.complete_bindings = False
    harness.binding_error = lambda bound, _node: "not now" if bound.name == "a" else ""
    harness.add(node("n1", cpu="1"), others("a"), pod("mine").requests(cpu="1"))
    harness.run()
    harness.reconfigure(profiles(ONE))
    harness.finish_binding("a")
    harness.complete_bindings = True
    harness.advance(20)
    assert ("Unreserve", "a") in fakes.calls
    assert harness.assignments == {"mine": "n1"}
    assert harness.pending_message("a") == ""


def test_waiting_pod_of_a_removed_profile_is_rejected_and_not_requeued() -> None:
    fakes.calls.clear()
    harness = Harness(profiles(ONE, EVERYWHERE))
    harness.add(node("n1", cpu="1"), others("patient").label("wait", "600"))
    harness.run()
    harness.reconfigure(profiles(ONE))
    harness.add(pod("mine").requests(cpu="1"))
    harness.run()
    assert ("Unreserve", "patient") in fakes.calls
    assert harness.assignments == {"mine": "n1"}
    assert tiers(harness) == {}


def test_profile_added_again_has_the_same_plugin_instances_while_a_binding_is_pending() -> None:
    """Their reservations exist only in memory."""
    harness = Harness(profiles(ONE, EVERYWHERE))
    harness.complete_bindings = False
    harness.add(node("n1", cpu="1"), others("a"))
    harness.run()
    before = {p.name: p for p in harness.machine.context.profiles["other"].plugins}
    harness.reconfigure(profiles(ONE))
    harness.reconfigure(profiles(ONE, EVERYWHERE))
    after = {p.name: p for p in harness.machine.context.profiles["other"].plugins}
    assert after == before
    assert tiers(harness) == {}, "it is assumed already"
    harness.finish_binding("a")
    harness.run()
    assert (harness.assignments, count_bindings(harness, "a")) == ({"a": "n1"}, 1)


def test_only_profile_may_be_replaced_by_one_of_another_name() -> None:
    harness = Harness(profiles(ONE))
    harness.add(pod("mine"), others("a"))
    harness.run()
    harness.reconfigure(profiles(OTHER))
    harness.add(node("n1"))
    harness.run()
    assert harness.assignments == {"a": "n1"}
    harness.reconfigure(profiles(ONE))
    harness.run()
    assert harness.assignments == {"a": "n1", "mine": "n1"}


def test_no_pod_is_lost_while_a_profile_is_added_and_removed_repeatedly() -> None:
    """Pods of both profiles are added all the time, and half of the bindings fail."""
    harness = Harness(profiles(ONE))
    failures = iter([True, False] * 400)
    harness.binding_error = lambda _pod, _node: "no" if next(failures, False) else ""
    harness.add(*(node(f"n{i}", cpu="8") for i in range(8)))
    for i in range(40):
        harness.add(pod(f"p{i}").requests(cpu="1"), others(f"o{i}").requests(cpu="500m"))
        harness.reconfigure((profiles(OTHER, ONE), profiles(ONE))[i % 2])
        harness.advance(0.3)
    harness.reconfigure(profiles(ONE, OTHER))
    harness.run()
    harness.advance(120)
    assert len(harness.assignments) == 80


# -- extenders ---------------------------------------------------------------------------------------------------------


class Failures(Instrument):
    """Instrument that records exceptions."""

    def __init__(self) -> None:
        self.errors: list[BaseException] = []

    def plugin_failed(self, plugin: str, point: str, error: BaseException) -> None:
        self.errors.append(error)


def only(*names: str) -> Callable[[Pod, ExtenderCall], ExtenderResult]:
    def keep(_: Pod, call: ExtenderCall) -> ExtenderResult:
        assert isinstance(call, FilterCall)
        return ExtenderFilterResult(tuple(name for name in call.nodes if name in names))

    return keep


def called_urls(harness: Harness) -> list[str]:
    return [call.extender.url for call in harness.extender_calls]


def test_added_extender_is_called_from_the_next_attempt_on() -> None:
    harness = Harness(profiles(ONE))
    harness.call_extender = only("n2")
    harness.add(node("n1"), pod("a"))
    harness.run()
    assert harness.reconfigure(profiles(ONE, more=FILTER)) == ()
    harness.add(node("n2"), pod("b"))
    harness.run()
    assert harness.assignments == {"a": "n1", "b": "n2"}
    assert called_urls(harness) == ["http://filters"]


def test_pod_rejected_by_an_extender_is_retried_after_its_removal() -> None:
    harness = Harness(profiles(ONE, more=FILTER))
    harness.call_extender = only()
    harness.add(node("n1"), pod("a"))
    harness.run()
    assert harness.assignments == {}
    harness.reconfigure(profiles(ONE))
    harness.run()
    assert harness.assignments == {"a": "n1"}


@pytest.mark.parametrize(
    ("after", "urls"),
    [
        pytest.param(profiles(ONE), ["http://filters"], id="it is removed"),
        pytest.param(profiles(ONE, more=FILTER), ["http://filters"] * 2, id="it is called again"),
        pytest.param(profiles(ONE, more=RANK), ["http://filters", "http://others"], id="another is called"),
    ],
)
def test_attempt_with_a_pending_extender_call_starts_over_after_a_reconfiguration(after: str, urls: list[str]) -> None:
    harness = Harness(profiles(ONE, more=FILTER))
    harness.complete_extender_calls = False
    harness.add(node("n1"), pod("a"))
    harness.run()
    assert harness.machine.context.suspended is not None
    harness.complete_extender_calls, harness.call_extender = True, only("n1")
    harness.reconfigure(after)
    harness.answer()
    assert harness.assignments == {}, "the reply is for an attempt that has been discarded"
    harness.run()
    assert harness.assignments == {"a": "n1"}
    assert called_urls(harness) == urls


def test_next_pod_is_attempted_when_the_profile_of_a_suspended_attempt_is_removed() -> None:
    failures = Failures()
    harness = Harness(profiles(ONE, OTHER, more=FILTER), instrument=failures)
    harness.complete_extender_calls = False
    harness.add(node("n1", cpu="1"), others("a").priority(5), pod("mine").requests(cpu="1"))
    harness.run()
    harness.reconfigure(profiles(ONE))
    harness.run()
    assert harness.assignments == {"mine": "n1"}
    assert tiers(harness) == {}
    assert failures.errors == []


def test_machine_counts_its_nodes_and_active_pods() -> None:
    harness = Harness()
    harness.add(node("n1"), node("n2"), pod("a"), pod("b"), pod("c"))
    assert (len(harness.machine.nodes), len(harness.machine.active_pods)) == (2, 3)
    harness.run()
    harness.delete_node("n1")
    assert (len(harness.machine.nodes), len(harness.machine.active_pods)) == (1, 0)
