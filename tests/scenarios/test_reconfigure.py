"""Stories of another configuration under way: who waits is tried by it, who is on the way arrives, nobody is lost."""

from __future__ import annotations

import pytest

from pyscheduler.config.load import ConfigError
from pyscheduler.core.commands import Bind
from pyscheduler.testing import Harness, PodBuilder, node, pod
from pyscheduler_plugins.pod_group import POD_GROUP, POD_GROUP_LABEL
from tests.scenarios import fakes

HEAD = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection: {leaderElect: false}
"""
DEFAULT = HEAD + "profiles: [{schedulerName: default-scheduler}]\n"


def profile(body: str, more: str = "") -> str:
    return HEAD + more + f"profiles:\n- schedulerName: default-scheduler\n{body}"


def multi_point(plugin: str) -> str:
    return f"  plugins: {{multiPoint: {{enabled: [{{name: '{plugin}'}}]}}}}\n"


EVERYWHERE = profile(multi_point("tests.scenarios.fakes:EveryExtensionPoint"))
BY_NAME = profile(
    "  plugins: {queueSort: {disabled: [{name: '*'}], enabled: [{name: 'tests.scenarios.fakes:ByName'}]}}\n"
)
TAINTS_IGNORED = profile("  plugins: {filter: {disabled: [{name: TaintToleration}]}}\n")


def gang(seconds: int) -> str:
    args = f"  pluginConfig: [{{name: Gang, args: {{permitWaitingTimeSeconds: {seconds}}}}}]\n"
    return profile(multi_point("Gang") + args)


def patient(name: str = "patient") -> PodBuilder:
    return pod(name).label("wait", "600").requests(cpu="1")


def member(name: str) -> PodBuilder:
    return pod(name).label(POD_GROUP_LABEL, "crew").requests(cpu="1")


def crew(world: Harness, of: int) -> None:
    world.add_object(POD_GROUP, {"metadata": {"name": "crew", "namespace": "default"}, "spec": {"minMember": of}})


def bindings(world: Harness, name: str) -> int:
    return sum(isinstance(c, Bind) and c.pod.name == name for c in world.commands)


def test_a_pod_that_fitted_nowhere_is_tried_at_once_by_the_new_plugins() -> None:
    world = Harness(DEFAULT)
    world.add(node("n1").taint("keep", "out"), pod("a"))
    world.run()
    assert "untolerated taint" in world.pending_message("a")
    assert world.reconfigure(TAINTS_IGNORED) == ()
    world.run()
    assert world.assignments == {"a": "n1"}


def test_what_was_kept_of_the_old_answers_is_forgotten() -> None:
    world = Harness(TAINTS_IGNORED)
    world.add(node("n1").taint("keep", "out"), pod("a").requests(cpu="1"))
    world.run()
    world.reconfigure(DEFAULT)
    world.add(pod("b").requests(cpu="1"))
    world.run()
    assert world.assignments == {"a": "n1"}
    assert "untolerated taint" in world.pending_message("b")


def test_a_pod_being_bound_is_bound_once_and_by_the_plugins_that_began_it() -> None:
    fakes.calls.clear()
    world = Harness(EVERYWHERE)
    world.complete_bindings = False
    world.add(node("n1"), pod("a"))
    world.run()
    world.reconfigure(DEFAULT)
    world.run()
    world.finish_binding("a")
    world.run()
    assert world.assignments == {"a": "n1"}
    assert bindings(world, "a") == 1
    assert ("PostBind", "a") in fakes.calls


def test_a_binding_that_fails_afterwards_gives_its_place_back_and_is_tried_by_the_new_plugins() -> None:
    fakes.calls.clear()
    world = Harness(EVERYWHERE)
    world.complete_bindings = False
    world.add(node("n1", cpu="1"), pod("a").requests(cpu="1"))
    world.run()
    world.reconfigure(DEFAULT)
    world.binding_error = lambda _pod, _node: "not now"
    world.finish_binding("a")
    assert ("Unreserve", "a") in fakes.calls
    world.binding_error = lambda _pod, _node: ""
    world.complete_bindings = True
    fakes.calls.clear()
    world.advance(5)
    assert world.assignments == {"a": "n1"}
    assert fakes.calls == []


def test_a_parked_pod_stays_parked_while_its_plugin_goes_on() -> None:
    world = Harness(EVERYWHERE)
    world.add(node("n1"), patient())
    world.run()
    world.reconfigure(EVERYWHERE + "podInitialBackoffSeconds: 2\n")
    world.run()
    assert len(world.handle.waiting) == 1
    for parked in world.handle.waiting_pods():
        parked.allow("EveryExtensionPoint")
    world.advance(0.1)
    assert world.assignments == {"patient": "n1"}


def test_a_parked_pod_is_called_back_when_its_plugin_is_no_more() -> None:
    fakes.calls.clear()
    world = Harness(EVERYWHERE)
    world.add(node("n1", cpu="1"), patient())
    world.run()
    world.reconfigure(DEFAULT)
    assert ("Unreserve", "patient") in fakes.calls
    assert world.pending_message("patient").endswith("the scheduler's configuration has changed")
    world.advance(3)
    assert world.assignments == {"patient": "n1"}


def test_events_for_a_parked_pod_are_weighed_by_the_new_plugins() -> None:
    """The pod is in flight while it is parked: what happened meanwhile wakes it if it comes back."""
    world = Harness(EVERYWHERE)
    world.add(node("n1", cpu="1"), patient())
    world.run()
    world.reconfigure(EVERYWHERE)
    world.add(node("n2", cpu="1"))
    for parked in world.handle.waiting_pods():
        parked.reject("EveryExtensionPoint", "not today")
    world.advance(0.1)
    assert len(world.handle.waiting) + len(world.machine.context.queue) == 1
    world.advance(3)
    assert len(world.handle.waiting) == 1


def test_plugins_with_the_same_args_go_on_and_others_begin_anew() -> None:
    world = Harness(DEFAULT)
    before = {p.name: p for p in world.machine.context.profiles["default-scheduler"].plugins}
    world.reconfigure(profile("  pluginConfig: [{name: InterPodAffinity, args: {hardPodAffinityWeight: 7}}]\n"))
    after = {p.name: p for p in world.machine.context.profiles["default-scheduler"].plugins}
    assert [name for name, plugin in after.items() if plugin is not before[name]] == ["InterPodAffinity"]
    assert after["InterPodAffinity"].args.hard_pod_affinity_weight == 7


def test_another_weight_counts_from_the_next_pod_on() -> None:
    world = Harness(DEFAULT)
    world.add(node("n1", cpu="4"), node("n2", cpu="4"), pod("first").requests(cpu="1").on("n1"))
    world.add(pod("spread").requests(cpu="1"))
    world.run()
    assert world.assignments["spread"] == "n2"
    packing = "  pluginConfig: [{name: NodeResourcesFit, args: {scoringStrategy: {type: MostAllocated}}}]\n"
    quiet = "  plugins: {score: {disabled: [{name: '*'}], enabled: [{name: NodeResourcesFit}]}}\n"
    world.delete_pod("spread")
    world.reconfigure(profile(quiet + packing))
    world.add(pod("packed").requests(cpu="1"))
    world.run()
    assert world.assignments["packed"] == "n1"


def test_another_order_holds_for_those_that_wait_already() -> None:
    world = Harness(DEFAULT)
    for name in ("c", "a", "b"):
        world.add(pod(name))
    world.run()
    world.reconfigure(BY_NAME)
    world.add(node("n1"))
    world.run()
    assert world.bound_order == ["a", "b", "c"]


def test_gates_hold_under_any_configuration() -> None:
    world = Harness(DEFAULT)
    world.add(node("n1"), pod("gated").gate("example.com/wait"))
    world.run()
    world.reconfigure(TAINTS_IGNORED)
    world.advance(400)
    assert world.assignments == {}
    world.add(pod("gated"))
    world.run()
    assert world.assignments == {"gated": "n1"}


def test_another_backoff_counts_from_the_next_failure_on() -> None:
    world = Harness(DEFAULT)
    world.add(node("n1"), pod("a"))
    world.binding_error = lambda _pod, _node: "no"
    world.run()
    world.reconfigure(profile("", "podInitialBackoffSeconds: 60\npodMaxBackoffSeconds: 60\n"))
    world.run()
    tries = bindings(world, "a")
    world.advance(50)
    assert bindings(world, "a") == tries
    world.advance(20)
    assert bindings(world, "a") == tries + 1


def test_a_plugin_that_comes_finds_the_pods_by_label() -> None:
    world = Harness(DEFAULT)
    world.add(member("a"), member("b"))
    crew(world, of=3)
    world.run()
    assert world.reconfigure(gang(60)) == ()
    world.add(node("n1", cpu="2"))
    world.run()
    assert world.assignments == {}
    assert "fewer than the 3 pods" in world.pending_message("a")


def test_reservations_keep_their_plugin_and_its_args() -> None:
    world = Harness(gang(60))
    world.add(node("n1"), member("a"), member("b"))
    crew(world, of=2)
    world.run()
    assert world.reconfigure(gang(30)) == ('args of Gang in profile "default-scheduler"',)
    (plugin,) = (p for p in world.machine.context.profiles["default-scheduler"].permit)
    assert plugin.args.permit_waiting_time_seconds == 60
    assert world.assignments == {"a": "n1", "b": "n1"}


@pytest.mark.parametrize(
    ("changed", "restart"),
    [
        pytest.param(DEFAULT + "clientConnection: {qps: 5}\n", ("clientConnection",), id="connection"),
        pytest.param(
            DEFAULT.replace("leaderElect: false", "leaderElect: true"), ("leaderElection",), id="leader election"
        ),
        pytest.param(DEFAULT + "delayCacheUntilActive: true\n", ("delayCacheUntilActive",), id="cache"),
        pytest.param(DEFAULT + "enableProfiling: false\n", ("enableProfiling",), id="profiles"),
        pytest.param(
            DEFAULT + "---\napiVersion: pyscheduler.io/v1\nkind: PySchedulerConfiguration\nseed: 3\n",
            ("seed",),
            id="seed",
        ),
    ],
)
def test_what_cannot_change_stays_and_is_told(changed: str, restart: tuple[str, ...]) -> None:
    world = Harness(DEFAULT)
    assert world.reconfigure(changed) == restart
    world.add(node("n1"), pod("a"))
    world.run()
    assert world.assignments == {"a": "n1"}


def test_a_plugin_that_cannot_be_made_changes_nothing() -> None:
    world = Harness(DEFAULT)
    before = world.machine.context.profiles
    with pytest.raises(ConfigError, match='initializing plugin "Unmakeable": RuntimeError: no licence'):
        world.reconfigure(profile(multi_point("tests.scenarios.fakes:Unmakeable")))
    assert world.machine.context.profiles is before


def test_nobody_is_lost_under_load() -> None:
    """Pods come all the time, half of their bindings fail, and the configuration changes after each."""
    world = Harness(DEFAULT)
    refusals = iter([True, False] * 400)
    world.binding_error = lambda _pod, _node: "no" if next(refusals, False) else ""
    world.add(*(node(f"n{i}", cpu="8") for i in range(8)))
    for i in range(60):
        world.add(pod(f"p{i}").requests(cpu="1"))
        world.reconfigure((TAINTS_IGNORED, BY_NAME, DEFAULT)[i % 3])
        world.advance(0.3)
    world.advance(60)
    assert len(world.assignments) == 60
