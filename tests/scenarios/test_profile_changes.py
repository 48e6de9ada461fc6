"""Stories of profiles and extenders that come and go while the scheduler runs: whose pods are whose, who is lost."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pyscheduler.api import Pod
from pyscheduler.core.commands import Bind
from pyscheduler.core.extender import ExtenderCall, ExtenderFilterResult, ExtenderResult, FilterCall
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


def bindings(harness: Harness, name: str) -> int:
    return sum(isinstance(c, Bind) and c.pod.name == name for c in harness.commands)


def waiting(harness: Harness) -> dict[str, Tier]:
    return {queued.pod.name: tier for tier, queued in harness.machine.context.queue.known()}


# -- profiles ----------------------------------------------------------------------------------------------------------


def test_a_profile_that_comes_finds_the_pods_that_were_nobodys() -> None:
    harness = Harness(profiles(ONE))
    harness.add(node("n1"), others("a"), others("placed").on("n1"), pod("mine"), pod("somebodys").scheduler("else"))
    harness.run()
    assert harness.assignments == {"mine": "n1", "placed": "n1"}
    assert harness.reconfigure(profiles(ONE, OTHER)) == ()
    harness.run()
    assert harness.assignments == {"mine": "n1", "placed": "n1", "a": "n1"}
    assert waiting(harness) == {}


def test_they_are_tried_by_priority_and_may_preempt() -> None:
    harness = Harness(profiles(ONE))
    harness.add(node("n1", cpu="1"), pod("low").requests(cpu="1"), others("late"), others("first").priority(10))
    harness.run()
    harness.reconfigure(profiles(ONE, OTHER))
    harness.run()
    harness.advance(5)
    assert harness.evicted() == ["low"]
    assert harness.assignments == {"first": "n1"}


def test_the_pods_of_a_profile_that_goes_are_left_alone() -> None:
    harness = Harness(profiles(ONE, OTHER))
    harness.add(node("n1", cpu="1").taint("keep", "out"))
    harness.add(pod("mine"), others("rejected"), others("gated").gate("example.com/wait"))
    harness.run()
    assert harness.reconfigure(profiles(ONE)) == ()
    assert list(waiting(harness)) == ["mine"]
    commands = len(harness.commands)
    harness.add(node("n1", cpu="4"), others("later"))
    harness.add(others("gated"))
    harness.advance(700)
    assert harness.assignments == {"mine": "n1"}
    assert {c.pod.name for c in harness.commands[commands:] if isinstance(c, Bind)} == {"mine"}


def test_what_was_promised_to_them_is_free_again() -> None:
    harness = Harness(profiles(ONE, OTHER))
    harness.graceful = True
    harness.add(node("n1", cpu="1"), pod("low").requests(cpu="1").on("n1"), others("high").priority(10))
    harness.run()
    assert harness.machine.context.queue.nominator.node_of(_uid(harness, "high")) == "n1"
    harness.reconfigure(profiles(ONE))
    harness.delete_pod("low")
    harness.add(pod("next").requests(cpu="1"))
    harness.run()
    assert harness.assignments == {"next": "n1"}


def _uid(harness: Harness, name: str) -> str:
    return harness.machine.context.uid_of[f"default/{name}"]


def test_a_pod_being_bound_is_bound_though_its_profile_goes() -> None:
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


def test_one_whose_binding_fails_gives_its_place_back_and_waits_for_nobody() -> None:
    fakes.calls.clear()
    harness = Harness(profiles(ONE, EVERYWHERE))
    harness.complete_bindings = False
    harness.binding_error = lambda refused, _node: "not now" if refused.name == "a" else ""
    harness.add(node("n1", cpu="1"), others("a"), pod("mine").requests(cpu="1"))
    harness.run()
    harness.reconfigure(profiles(ONE))
    harness.finish_binding("a")
    harness.complete_bindings = True
    harness.advance(20)
    assert ("Unreserve", "a") in fakes.calls
    assert harness.assignments == {"mine": "n1"}
    assert harness.pending_message("a") == ""


def test_a_parked_pod_is_called_back_and_left_alone() -> None:
    fakes.calls.clear()
    harness = Harness(profiles(ONE, EVERYWHERE))
    harness.add(node("n1", cpu="1"), others("patient").label("wait", "600"))
    harness.run()
    harness.reconfigure(profiles(ONE))
    harness.add(pod("mine").requests(cpu="1"))
    harness.run()
    assert ("Unreserve", "patient") in fakes.calls
    assert harness.assignments == {"mine": "n1"}
    assert waiting(harness) == {}


def test_a_profile_that_comes_back_has_the_plugins_that_still_bind_for_it() -> None:
    """What they have reserved is written down nowhere else."""
    harness = Harness(profiles(ONE, EVERYWHERE))
    harness.complete_bindings = False
    harness.add(node("n1", cpu="1"), others("a"))
    harness.run()
    before = {p.name: p for p in harness.machine.context.profiles["other"].plugins}
    harness.reconfigure(profiles(ONE))
    harness.reconfigure(profiles(ONE, EVERYWHERE))
    after = {p.name: p for p in harness.machine.context.profiles["other"].plugins}
    assert after == before
    assert waiting(harness) == {}, "it is on its way already"
    harness.finish_binding("a")
    harness.run()
    assert (harness.assignments, bindings(harness, "a")) == ({"a": "n1"}, 1)


def test_a_profile_of_another_name_takes_the_place_of_the_only_one() -> None:
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


def test_nobody_is_lost_while_profiles_come_and_go() -> None:
    """Pods of both come all the time, half of their bindings fail, and the other profile is there every second time."""
    harness = Harness(profiles(ONE))
    refusals = iter([True, False] * 400)
    harness.binding_error = lambda _pod, _node: "no" if next(refusals, False) else ""
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
    """Whatever has raised."""

    def __init__(self) -> None:
        self.told: list[BaseException] = []

    def plugin_failed(self, plugin: str, point: str, error: BaseException) -> None:
        self.told.append(error)


def only(*names: str) -> Callable[[Pod, ExtenderCall], ExtenderResult]:
    def answer(_: Pod, call: ExtenderCall) -> ExtenderResult:
        assert isinstance(call, FilterCall)
        return ExtenderFilterResult(tuple(name for name in call.nodes if name in names))

    return answer


def asked(harness: Harness) -> list[str]:
    return [call.extender.url for call in harness.extender_calls]


def test_an_extender_that_comes_is_asked_from_the_next_attempt_on() -> None:
    harness = Harness(profiles(ONE))
    harness.call_extender = only("n2")
    harness.add(node("n1"), pod("a"))
    harness.run()
    assert harness.reconfigure(profiles(ONE, more=FILTER)) == ()
    harness.add(node("n2"), pod("b"))
    harness.run()
    assert harness.assignments == {"a": "n1", "b": "n2"}
    assert asked(harness) == ["http://filters"]


def test_a_pod_that_an_extender_has_refused_is_tried_once_it_has_gone() -> None:
    harness = Harness(profiles(ONE, more=FILTER))
    harness.call_extender = only()
    harness.add(node("n1"), pod("a"))
    harness.run()
    assert harness.assignments == {}
    harness.reconfigure(profiles(ONE))
    harness.run()
    assert harness.assignments == {"a": "n1"}


@pytest.mark.parametrize(
    ("after", "says"),
    [
        pytest.param(profiles(ONE), ["http://filters"], id="it has gone"),
        pytest.param(profiles(ONE, more=FILTER), ["http://filters"] * 2, id="it is asked anew"),
        pytest.param(profiles(ONE, more=RANK), ["http://filters", "http://others"], id="another is asked"),
    ],
)
def test_an_attempt_that_waits_for_an_extender_is_made_anew(after: str, says: list[str]) -> None:
    harness = Harness(profiles(ONE, more=FILTER))
    harness.complete_extender_calls = False
    harness.add(node("n1"), pod("a"))
    harness.run()
    late = harness.machine.context.suspended
    assert late is not None
    harness.complete_extender_calls, harness.call_extender = True, only("n1")
    harness.reconfigure(after)
    harness.answer()
    assert harness.assignments == {}, "what the extender says now, it says of an attempt that counts no more"
    harness.run()
    assert harness.assignments == {"a": "n1"}
    assert asked(harness) == says


def test_one_whose_profile_goes_meanwhile_makes_way_for_the_next() -> None:
    failures = Failures()
    harness = Harness(profiles(ONE, OTHER, more=FILTER), instrument=failures)
    harness.complete_extender_calls = False
    harness.add(node("n1", cpu="1"), others("a").priority(5), pod("mine").requests(cpu="1"))
    harness.run()
    harness.reconfigure(profiles(ONE))
    harness.run()
    assert harness.assignments == {"mine": "n1"}
    assert waiting(harness) == {}
    assert failures.told == []


def test_how_many_nodes_there_are_and_how_many_pods_wait_for_their_turn_can_be_asked_for() -> None:
    harness = Harness()
    harness.add(node("n1"), node("n2"), pod("a"), pod("b"), pod("c"))
    assert (harness.machine.nodes, harness.machine.ready) == (2, 3)
    harness.run()
    harness.delete_node("n1")
    assert (harness.machine.nodes, harness.machine.ready) == (1, 0)
