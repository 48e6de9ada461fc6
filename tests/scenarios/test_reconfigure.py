"""Reconfiguration at run time: pending pods use the new plugins, assumed pods the old ones, and none is lost."""

from __future__ import annotations

import pytest

from pyscheduler.api import Cycle, Diagnosis, Pod
from pyscheduler.config.load import ConfigError
from pyscheduler.core.commands import Bind
from pyscheduler.core.scheduling.schedule_pod import schedule_pod
from pyscheduler.intree import DefaultPreemption
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
    return pod(name).label(POD_GROUP_LABEL, "team").requests(cpu="1")


def add_group(harness: Harness, of: int) -> None:
    harness.add_object(POD_GROUP, {"metadata": {"name": "team", "namespace": "default"}, "spec": {"minMember": of}})


def count_bindings(harness: Harness, name: str) -> int:
    return sum(isinstance(c, Bind) and c.pod.name == name for c in harness.commands)


def test_unschedulable_pod_is_retried_at_once_with_the_new_plugins() -> None:
    harness = Harness(DEFAULT)
    harness.add(node("n1").taint("keep", "out"), pod("a"))
    harness.run()
    assert "untolerated taint" in harness.pending_message("a")
    assert harness.reconfigure(TAINTS_IGNORED) == ()
    harness.run()
    assert harness.assignments == {"a": "n1"}


def test_cached_results_of_the_old_plugins_are_discarded() -> None:
    harness = Harness(TAINTS_IGNORED)
    harness.add(node("n1").taint("keep", "out"), pod("a").requests(cpu="1"))
    harness.run()
    harness.reconfigure(DEFAULT)
    harness.add(pod("b").requests(cpu="1"))
    harness.run()
    assert harness.assignments == {"a": "n1"}
    assert "untolerated taint" in harness.pending_message("b")


def test_cached_dry_runs_of_the_old_plugins_are_discarded() -> None:
    harness = Harness(DEFAULT)
    harness.add(node("n1", cpu="2"), pod("port").host_port(80).on("n1"), pod("cpu").requests(cpu="2").on("n1"))
    preemptor = pod("high").priority(10).host_port(80).requests(cpu="1").build(harness.machine.context.shapes)
    assert _victims(harness, preemptor) == {"port", "cpu"}
    harness.reconfigure(profile("  plugins: {multiPoint: {disabled: [{name: NodePorts}]}}\n"))
    assert _victims(harness, preemptor) == {"cpu"}


def _victims(harness: Harness, preemptor: Pod) -> set[str]:
    """Return the names of the victims of a preemption that is not executed."""
    context, profile_name = harness.machine.context, preemptor.scheduler_name
    cycle = Cycle(harness.now, profile_name, preemptor.uid)
    diagnosis = schedule_pod(context.runtimes[profile_name], cycle, preemptor)
    assert isinstance(diagnosis, Diagnosis)
    plugin = next(p for p in context.profiles[profile_name].post_filter if isinstance(p, DefaultPreemption))
    return {victim.name for victim in plugin.search(cycle, preemptor, diagnosis).victims}


def test_added_plugin_may_read_the_kinds_it_watches_in_its_constructor() -> None:
    harness = Harness(profile("  plugins: {multiPoint: {disabled: [{name: PodTopologySpread}]}}\n"))
    assert harness.reconfigure(DEFAULT) == ()
    assert "PodTopologySpread" in {p.name for p in harness.machine.context.profiles["default-scheduler"].plugins}


def test_pending_binding_is_completed_once_with_the_old_plugins() -> None:
    fakes.calls.clear()
    harness = Harness(EVERYWHERE)
    harness.complete_bindings = False
    harness.add(node("n1"), pod("a"))
    harness.run()
    harness.reconfigure(DEFAULT)
    harness.run()
    harness.finish_binding("a")
    harness.run()
    assert harness.assignments == {"a": "n1"}
    assert count_bindings(harness, "a") == 1
    assert ("PostBind", "a") in fakes.calls


def test_pod_is_forgotten_by_the_old_plugins_and_retried_with_the_new_ones_when_its_binding_fails() -> None:
    fakes.calls.clear()
    harness = Harness(EVERYWHERE)
    harness.complete_bindings = False
    harness.add(node("n1", cpu="1"), pod("a").requests(cpu="1"))
    harness.run()
    harness.reconfigure(DEFAULT)
    harness.binding_error = lambda _pod, _node: "not now"
    harness.finish_binding("a")
    assert ("Unreserve", "a") in fakes.calls
    harness.binding_error = lambda _pod, _node: ""
    harness.complete_bindings = True
    fakes.calls.clear()
    harness.advance(5)
    assert harness.assignments == {"a": "n1"}
    assert fakes.calls == []


def test_waiting_pod_keeps_waiting_if_its_plugin_is_unchanged() -> None:
    harness = Harness(EVERYWHERE)
    harness.add(node("n1"), patient())
    harness.run()
    harness.reconfigure(EVERYWHERE + "podInitialBackoffSeconds: 2\n")
    harness.run()
    assert len(harness.handle.waiting_pods.by_uid) == 1
    for waiting_pod in harness.handle.waiting_pods:
        waiting_pod.allow("EveryExtensionPoint")
    harness.advance(0.1)
    assert harness.assignments == {"patient": "n1"}


def test_waiting_pod_is_rejected_if_its_plugin_is_removed() -> None:
    fakes.calls.clear()
    harness = Harness(EVERYWHERE)
    harness.add(node("n1", cpu="1"), patient())
    harness.run()
    harness.reconfigure(DEFAULT)
    assert ("Unreserve", "patient") in fakes.calls
    assert harness.pending_message("patient").endswith("the scheduler's configuration has changed")
    harness.advance(3)
    assert harness.assignments == {"patient": "n1"}


def test_events_during_a_permit_wait_are_evaluated_by_the_new_plugins() -> None:
    """The pod is in flight while it waits, so events during the wait requeue it after its rejection."""
    harness = Harness(EVERYWHERE)
    harness.add(node("n1", cpu="1"), patient())
    harness.run()
    harness.reconfigure(EVERYWHERE)
    harness.add(node("n2", cpu="1"))
    for waiting_pod in harness.handle.waiting_pods:
        waiting_pod.reject("EveryExtensionPoint", "not today")
    harness.advance(0.1)
    assert len(harness.handle.waiting_pods.by_uid) + len(harness.machine.context.queue) == 1
    harness.advance(3)
    assert len(harness.handle.waiting_pods.by_uid) == 1


def test_only_plugins_with_changed_args_are_rebuilt() -> None:
    harness = Harness(DEFAULT)
    before = {p.name: p for p in harness.machine.context.profiles["default-scheduler"].plugins}
    harness.reconfigure(profile("  pluginConfig: [{name: InterPodAffinity, args: {hardPodAffinityWeight: 7}}]\n"))
    after = {p.name: p for p in harness.machine.context.profiles["default-scheduler"].plugins}
    assert [name for name, plugin in after.items() if plugin is not before[name]] == ["InterPodAffinity"]
    assert after["InterPodAffinity"].args.hard_pod_affinity_weight == 7


def test_changed_scoring_applies_to_the_next_pod() -> None:
    harness = Harness(DEFAULT)
    harness.add(node("n1", cpu="4"), node("n2", cpu="4"), pod("first").requests(cpu="1").on("n1"))
    harness.add(pod("spread").requests(cpu="1"))
    harness.run()
    assert harness.assignments["spread"] == "n2"
    packing = "  pluginConfig: [{name: NodeResourcesFit, args: {scoringStrategy: {type: MostAllocated}}}]\n"
    only_fit = "  plugins: {score: {disabled: [{name: '*'}], enabled: [{name: NodeResourcesFit}]}}\n"
    harness.delete_pod("spread")
    harness.reconfigure(profile(only_fit + packing))
    harness.add(pod("packed").requests(cpu="1"))
    harness.run()
    assert harness.assignments["packed"] == "n1"


def test_changed_queue_sort_applies_to_pending_pods() -> None:
    harness = Harness(DEFAULT)
    for name in ("c", "a", "b"):
        harness.add(pod(name))
    harness.run()
    harness.reconfigure(BY_NAME)
    harness.add(node("n1"))
    harness.run()
    assert harness.bound_order == ["a", "b", "c"]


def test_gated_pods_stay_gated_after_a_reconfiguration() -> None:
    harness = Harness(DEFAULT)
    harness.add(node("n1"), pod("gated").gate("example.com/wait"))
    harness.run()
    harness.reconfigure(TAINTS_IGNORED)
    harness.advance(400)
    assert harness.assignments == {}
    harness.add(pod("gated"))
    harness.run()
    assert harness.assignments == {"gated": "n1"}


def test_changed_backoff_applies_to_the_next_failure() -> None:
    harness = Harness(DEFAULT)
    harness.add(node("n1"), pod("a"))
    harness.binding_error = lambda _pod, _node: "no"
    harness.run()
    harness.reconfigure(profile("", "podInitialBackoffSeconds: 60\npodMaxBackoffSeconds: 60\n"))
    harness.run()
    attempts = count_bindings(harness, "a")
    harness.advance(50)
    assert count_bindings(harness, "a") == attempts
    harness.advance(20)
    assert count_bindings(harness, "a") == attempts + 1


def test_added_plugin_has_existing_pods_in_its_label_index() -> None:
    harness = Harness(DEFAULT)
    harness.add(member("a"), member("b"))
    add_group(harness, of=3)
    harness.run()
    assert harness.reconfigure(gang(60)) == ()
    harness.add(node("n1", cpu="2"))
    harness.run()
    assert harness.assignments == {}
    assert "fewer than the 3 pods" in harness.pending_message("a")


def test_args_of_a_plugin_with_reservations_do_not_change() -> None:
    harness = Harness(gang(60))
    harness.add(node("n1"), member("a"), member("b"))
    add_group(harness, of=2)
    harness.run()
    assert harness.reconfigure(gang(30)) == ('args of Gang in profile "default-scheduler"',)
    (plugin,) = (p for p in harness.machine.context.profiles["default-scheduler"].permit)
    assert plugin.args.permit_waiting_time_seconds == 60
    assert harness.assignments == {"a": "n1", "b": "n1"}


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
def test_fields_that_need_a_restart_are_returned_and_not_applied(changed: str, restart: tuple[str, ...]) -> None:
    harness = Harness(DEFAULT)
    assert harness.reconfigure(changed) == restart
    harness.add(node("n1"), pod("a"))
    harness.run()
    assert harness.assignments == {"a": "n1"}


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (RuntimeError("no licence"), "RuntimeError: no licence"),
        (fakes.ErrorWithoutText(), r"ErrorWithoutText: <ErrorWithoutText str\(\) failed>"),
    ],
    ids=["with text", "without text"],
)
def test_plugin_with_a_failing_constructor_changes_nothing(
    monkeypatch: pytest.MonkeyPatch, error: Exception, text: str
) -> None:
    monkeypatch.setattr(fakes.Unmakeable, "error", error)
    harness = Harness(DEFAULT)
    before = harness.machine.context.profiles
    with pytest.raises(ConfigError, match=f'initializing plugin "Unmakeable": {text}'):
        harness.reconfigure(profile(multi_point("tests.scenarios.fakes:Unmakeable")))
    assert harness.machine.context.profiles is before


def test_no_pod_is_lost_in_repeated_reconfigurations() -> None:
    """Pods are added all the time, half of the bindings fail, and the configuration changes after each pod."""
    harness = Harness(DEFAULT)
    failures = iter([True, False] * 400)
    harness.binding_error = lambda _pod, _node: "no" if next(failures, False) else ""
    harness.add(*(node(f"n{i}", cpu="8") for i in range(8)))
    for i in range(60):
        harness.add(pod(f"p{i}").requests(cpu="1"))
        harness.reconfigure((TAINTS_IGNORED, BY_NAME, DEFAULT)[i % 3])
        harness.advance(0.3)
    harness.advance(60)
    assert len(harness.assignments) == 60


RESULT_CACHE_OFF = DEFAULT + "---\napiVersion: pyscheduler.io/v1\nkind: PySchedulerConfiguration\nresultCache: Off\n"


def evaluated_nodes(harness: Harness, name: str) -> int:
    """Return the number of nodes on which NodeResourcesFit runs in the attempt of a new pod."""
    count = harness.machine.context.profiles["default-scheduler"].evaluations.filter["NodeResourcesFit"]
    before = count.n
    harness.add(pod(name).requests(cpu="1"))
    harness.run()
    return count.n - before


def test_result_cache_is_switched_off_and_on_by_a_reload() -> None:
    harness = Harness(DEFAULT)
    harness.add(*(node(f"n{i}") for i in range(20)))
    assert [evaluated_nodes(harness, name) for name in "abc"] == [20, 1, 1]
    assert harness.reconfigure(RESULT_CACHE_OFF) == ()
    assert [evaluated_nodes(harness, name) for name in "def"] == [20, 20, 20]
    assert harness.reconfigure(DEFAULT) == ()
    assert [evaluated_nodes(harness, name) for name in "ghi"] == [20, 1, 1]
