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


def bindings(world: Harness, name: str) -> int:
    return sum(isinstance(c, Bind) and c.pod.name == name for c in world.commands)


def waiting(world: Harness) -> dict[str, Tier]:
    return {queued.pod.name: tier for tier, queued in world.machine.context.queue.known()}


# -- profiles ----------------------------------------------------------------------------------------------------------


def test_a_profile_that_comes_finds_the_pods_that_were_nobodys() -> None:
    world = Harness(profiles(ONE))
    world.add(node("n1"), others("a"), others("placed").on("n1"), pod("mine"), pod("somebodys").scheduler("else"))
    world.run()
    assert world.assignments == {"mine": "n1", "placed": "n1"}
    assert world.reconfigure(profiles(ONE, OTHER)) == ()
    world.run()
    assert world.assignments == {"mine": "n1", "placed": "n1", "a": "n1"}
    assert waiting(world) == {}


def test_they_are_tried_by_priority_and_may_preempt() -> None:
    world = Harness(profiles(ONE))
    world.add(node("n1", cpu="1"), pod("low").requests(cpu="1"), others("late"), others("first").priority(10))
    world.run()
    world.reconfigure(profiles(ONE, OTHER))
    world.run()
    world.advance(5)
    assert world.evicted() == ["low"]
    assert world.assignments == {"first": "n1"}


def test_the_pods_of_a_profile_that_goes_are_left_alone() -> None:
    world = Harness(profiles(ONE, OTHER))
    world.add(node("n1", cpu="1").taint("keep", "out"))
    world.add(pod("mine"), others("rejected"), others("gated").gate("example.com/wait"))
    world.run()
    assert world.reconfigure(profiles(ONE)) == ()
    assert list(waiting(world)) == ["mine"]
    commands = len(world.commands)
    world.add(node("n1", cpu="4"), others("later"))
    world.add(others("gated"))
    world.advance(700)
    assert world.assignments == {"mine": "n1"}
    assert {c.pod.name for c in world.commands[commands:] if isinstance(c, Bind)} == {"mine"}


def test_what_was_promised_to_them_is_free_again() -> None:
    world = Harness(profiles(ONE, OTHER))
    world.graceful = True
    world.add(node("n1", cpu="1"), pod("low").requests(cpu="1").on("n1"), others("high").priority(10))
    world.run()
    assert world.machine.context.queue.nominator.node_of(_uid(world, "high")) == "n1"
    world.reconfigure(profiles(ONE))
    world.delete_pod("low")
    world.add(pod("next").requests(cpu="1"))
    world.run()
    assert world.assignments == {"next": "n1"}


def _uid(world: Harness, name: str) -> str:
    return world.machine.context.uid_of[f"default/{name}"]


def test_a_pod_being_bound_is_bound_though_its_profile_goes() -> None:
    fakes.calls.clear()
    world = Harness(profiles(ONE, EVERYWHERE))
    world.complete_bindings = False
    world.add(node("n1", cpu="1"), others("a"))
    world.run()
    world.reconfigure(profiles(ONE))
    world.finish_binding("a")
    world.run()
    assert world.assignments == {"a": "n1"}
    assert ("PostBind", "a") in fakes.calls


def test_one_whose_binding_fails_gives_its_place_back_and_waits_for_nobody() -> None:
    fakes.calls.clear()
    world = Harness(profiles(ONE, EVERYWHERE))
    world.complete_bindings = False
    world.binding_error = lambda refused, _node: "not now" if refused.name == "a" else ""
    world.add(node("n1", cpu="1"), others("a"), pod("mine").requests(cpu="1"))
    world.run()
    world.reconfigure(profiles(ONE))
    world.finish_binding("a")
    world.complete_bindings = True
    world.advance(20)
    assert ("Unreserve", "a") in fakes.calls
    assert world.assignments == {"mine": "n1"}
    assert world.pending_message("a") == ""


def test_a_parked_pod_is_called_back_and_left_alone() -> None:
    fakes.calls.clear()
    world = Harness(profiles(ONE, EVERYWHERE))
    world.add(node("n1", cpu="1"), others("patient").label("wait", "600"))
    world.run()
    world.reconfigure(profiles(ONE))
    world.add(pod("mine").requests(cpu="1"))
    world.run()
    assert ("Unreserve", "patient") in fakes.calls
    assert world.assignments == {"mine": "n1"}
    assert waiting(world) == {}


def test_a_profile_that_comes_back_has_the_plugins_that_still_bind_for_it() -> None:
    """What they have reserved is written down nowhere else."""
    world = Harness(profiles(ONE, EVERYWHERE))
    world.complete_bindings = False
    world.add(node("n1", cpu="1"), others("a"))
    world.run()
    before = {p.name: p for p in world.machine.context.profiles["other"].plugins}
    world.reconfigure(profiles(ONE))
    world.reconfigure(profiles(ONE, EVERYWHERE))
    after = {p.name: p for p in world.machine.context.profiles["other"].plugins}
    assert after == before
    assert waiting(world) == {}, "it is on its way already"
    world.finish_binding("a")
    world.run()
    assert (world.assignments, bindings(world, "a")) == ({"a": "n1"}, 1)


def test_a_profile_of_another_name_takes_the_place_of_the_only_one() -> None:
    world = Harness(profiles(ONE))
    world.add(pod("mine"), others("a"))
    world.run()
    world.reconfigure(profiles(OTHER))
    world.add(node("n1"))
    world.run()
    assert world.assignments == {"a": "n1"}
    world.reconfigure(profiles(ONE))
    world.run()
    assert world.assignments == {"a": "n1", "mine": "n1"}


def test_nobody_is_lost_while_profiles_come_and_go() -> None:
    """Pods of both come all the time, half of their bindings fail, and the other profile is there every second time."""
    world = Harness(profiles(ONE))
    refusals = iter([True, False] * 400)
    world.binding_error = lambda _pod, _node: "no" if next(refusals, False) else ""
    world.add(*(node(f"n{i}", cpu="8") for i in range(8)))
    for i in range(40):
        world.add(pod(f"p{i}").requests(cpu="1"), others(f"o{i}").requests(cpu="500m"))
        world.reconfigure((profiles(OTHER, ONE), profiles(ONE))[i % 2])
        world.advance(0.3)
    world.reconfigure(profiles(ONE, OTHER))
    world.run()
    world.advance(120)
    assert len(world.assignments) == 80


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


def asked(world: Harness) -> list[str]:
    return [call.extender.url for call in world.extender_calls]


def test_an_extender_that_comes_is_asked_from_the_next_attempt_on() -> None:
    world = Harness(profiles(ONE))
    world.call_extender = only("n2")
    world.add(node("n1"), pod("a"))
    world.run()
    assert world.reconfigure(profiles(ONE, more=FILTER)) == ()
    world.add(node("n2"), pod("b"))
    world.run()
    assert world.assignments == {"a": "n1", "b": "n2"}
    assert asked(world) == ["http://filters"]


def test_a_pod_that_an_extender_has_refused_is_tried_once_it_has_gone() -> None:
    world = Harness(profiles(ONE, more=FILTER))
    world.call_extender = only()
    world.add(node("n1"), pod("a"))
    world.run()
    assert world.assignments == {}
    world.reconfigure(profiles(ONE))
    world.run()
    assert world.assignments == {"a": "n1"}


@pytest.mark.parametrize(
    ("after", "says"),
    [
        pytest.param(profiles(ONE), ["http://filters"], id="it has gone"),
        pytest.param(profiles(ONE, more=FILTER), ["http://filters"] * 2, id="it is asked anew"),
        pytest.param(profiles(ONE, more=RANK), ["http://filters", "http://others"], id="another is asked"),
    ],
)
def test_an_attempt_that_waits_for_an_extender_is_made_anew(after: str, says: list[str]) -> None:
    world = Harness(profiles(ONE, more=FILTER))
    world.complete_extender_calls = False
    world.add(node("n1"), pod("a"))
    world.run()
    late = world.machine.context.suspended
    assert late is not None
    world.complete_extender_calls, world.call_extender = True, only("n1")
    world.reconfigure(after)
    world.answer()
    assert world.assignments == {}, "what the extender says now, it says of an attempt that counts no more"
    world.run()
    assert world.assignments == {"a": "n1"}
    assert asked(world) == says


def test_one_whose_profile_goes_meanwhile_makes_way_for_the_next() -> None:
    failures = Failures()
    world = Harness(profiles(ONE, OTHER, more=FILTER), instrument=failures)
    world.complete_extender_calls = False
    world.add(node("n1", cpu="1"), others("a").priority(5), pod("mine").requests(cpu="1"))
    world.run()
    world.reconfigure(profiles(ONE))
    world.run()
    assert world.assignments == {"mine": "n1"}
    assert waiting(world) == {}
    assert failures.told == []


def test_how_many_nodes_there_are_and_how_many_pods_wait_for_their_turn_can_be_asked_for() -> None:
    world = Harness()
    world.add(node("n1"), node("n2"), pod("a"), pod("b"), pod("c"))
    assert (world.machine.nodes, world.machine.ready) == (2, 3)
    world.run()
    world.delete_node("n1")
    assert (world.machine.nodes, world.machine.ready) == (1, 0)
