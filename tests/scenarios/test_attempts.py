"""Single scheduling attempts and the commands they return."""

from __future__ import annotations

import pytest

from pyscheduler.api import Cycle, Pod
from pyscheduler.core.commands import PatchStatus
from pyscheduler.core.scheduling.profile_runtime import ProfileRuntime
from pyscheduler.core.scheduling.schedule_pod import schedule_pod
from pyscheduler.testing import Harness, node, pod
from tests.scenarios import fakes


def config(*plugins: str, queue_sort: str = "") -> str:
    """Return a configuration with these plugins in addition to the default ones."""
    enabled = "".join(f"\n      - name: tests.scenarios.fakes:{p}" for p in plugins)
    sort = f"""
    queueSort:
      disabled: [{{name: "*"}}]
      enabled: [{{name: tests.scenarios.fakes:{queue_sort}}}]"""
    bind = "\n    bind: {disabled: [{name: DefaultBinder}]}" if "EveryExtensionPoint" in plugins else ""
    multi = f"\n    multiPoint:\n      enabled:{enabled}" if plugins else ""
    return f"""
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: default-scheduler
  plugins:{multi}{bind}{sort if queue_sort else ""}
"""


@pytest.fixture(autouse=True)
def calls() -> list[tuple[str, str]]:
    fakes.calls.clear()
    return fakes.calls


def test_extension_points_run_in_order(calls: list[tuple[str, str]]) -> None:
    harness = Harness(config("EveryExtensionPoint"))
    harness.add(node("n1"), node("n2"), pod("a"))
    harness.run()
    points = list(dict.fromkeys(point for point, _ in calls))
    assert points == ["PreFilter", "Filter", "PreScore", "Score", "Reserve", "Permit", "PreBind", "Bind", "PostBind"]
    assert "a" in harness.assignments


def test_post_filter_runs_when_no_node_fits(calls: list[tuple[str, str]]) -> None:
    harness = Harness(config("EveryExtensionPoint"))
    harness.add(node("n1"), pod("a").label("fit", "no"))
    harness.run()
    assert [point for point, _ in calls] == ["PreFilter", "Filter", "PostFilter"]
    message = harness.pending_message("a")
    # The messages of the default plugins come first.
    assert message.startswith("0/1 nodes are available: 1 node(s) were full up. ")
    assert message.endswith(", nothing to be done")


@pytest.mark.parametrize(
    ("label", "message", "reason"),
    [
        ("reserve", "0/1 nodes are available: 1 no reservation today.", "Unschedulable"),
        ("permit", "0/1 nodes are available: 1 not permitted.", "Unschedulable"),
        ("prebind", "0/1 nodes are available: 1 not ready to bind.", "Unschedulable"),
    ],
)
def test_pod_is_forgotten_when_a_plugin_rejects_it_after_the_choice_of_its_node(
    label: str, message: str, reason: str, calls: list[tuple[str, str]]
) -> None:
    harness = Harness(config("EveryExtensionPoint"))
    harness.add(node("n1", cpu="1"), pod("a").label(label, "no").requests(cpu="1"))
    harness.run()
    assert harness.events("a") == [("FailedScheduling", message)]
    assert [c.condition.reason for c in harness.commands if isinstance(c, PatchStatus) and c.condition] == [reason]
    assert ("Unreserve", "a") in calls
    harness.add(pod("b").requests(cpu="1"))
    harness.run()
    assert harness.assignments == {"b": "n1"}


@pytest.mark.parametrize("point", ["filter", "reserve", "permit"])
def test_pod_backs_off_and_others_are_scheduled_when_a_plugin_raises(point: str) -> None:
    harness = Harness(config("Broken"))
    harness.add(node("n1"), pod("bad").label("break", point), pod("good"))
    harness.run()
    assert harness.assignments == {"good": "n1"}
    (reason, note), *_ = harness.events("bad")
    assert reason == "FailedScheduling"
    where = '"Broken" filter plugin' if point == "filter" else f'{point.capitalize()} plugin "Broken"'
    assert note == f"running {where}: ZeroDivisionError: one over nothing"
    harness.advance(2.1)
    assert len(harness.events("bad")) == 2


def test_pod_backs_off_and_others_are_scheduled_when_the_scheduler_raises(monkeypatch: pytest.MonkeyPatch) -> None:
    harness = Harness()

    def broken(runtime: ProfileRuntime, cycle: Cycle, pod: Pod) -> object:
        if pod.name == "odd":
            raise KeyError("missing")
        return schedule_pod(runtime, cycle, pod)

    monkeypatch.setattr("pyscheduler.core.scheduling.schedule_one.schedule_pod", broken)
    harness.add(node("n1"), pod("odd"), pod("plain"))
    harness.run()
    assert harness.assignments == {"plain": "n1"}
    assert harness.events("odd") == [("FailedScheduling", "the attempt failed: KeyError('missing')")]


def test_pre_filter_may_restrict_the_nodes() -> None:
    harness = Harness(config("OnlyNode"))
    harness.add(node("n1"), node("n2"), node("n3", cpu="1"))
    harness.add(pod("a").label("node", "n2"), pod("b").label("node", "n3").requests(cpu="2"))
    harness.run()
    assert harness.assignments == {"a": "n2"}
    assert harness.pending_message("b").startswith(
        "0/3 nodes are available: 1 Insufficient cpu, 2 node(s) didn't satisfy plugin(s) [OnlyNode]."
    )


def test_node_with_the_highest_score_is_chosen() -> None:
    harness = Harness(config("LastNamed"))
    harness.add(node("n-a"), node("n-c"), node("n-b"), pod("x"))
    harness.run()
    assert harness.assignments == {"x": "n-c"}


def test_pods_are_scheduled_in_the_order_of_queue_sort() -> None:
    harness = Harness(config(queue_sort="ByName"))
    harness.add(node("n1"), pod("c"), pod("a"), pod("b"))
    harness.run()
    assert harness.bound_order == ["a", "b", "c"]


def test_pod_waits_until_a_node_is_added() -> None:
    harness = Harness()
    harness.add(pod("a"))
    harness.run()
    assert harness.events("a") == [("FailedScheduling", "no nodes available to schedule pods")]
    harness.add(node("n1"))
    harness.advance(3)
    assert harness.assignments == {"a": "n1"}


def test_gated_pod_is_scheduled_when_its_gates_are_removed() -> None:
    harness = Harness()
    harness.add(node("n1"), pod("a").gate("wait-for-quota"))
    harness.run()
    assert harness.commands == []
    harness.add(pod("a"))
    harness.run()
    assert harness.assignments == {"a": "n1"}


def test_pods_of_other_schedulers_are_not_scheduled_but_counted() -> None:
    harness = Harness()
    harness.add(node("n1", cpu="2"), pod("theirs").scheduler("other").requests(cpu="1"))
    harness.run()
    assert harness.assignments == {}
    harness.add(pod("theirs").scheduler("other").requests(cpu="1").on("n1"), pod("ours").requests(cpu="2"))
    harness.run()
    assert harness.pending_message("ours").startswith("0/1 nodes are available: 1 Insufficient cpu.")


def test_terminating_pod_is_skipped() -> None:
    harness = Harness()
    harness.add(node("n1"), pod("a").deleting())
    harness.run()
    assert harness.events("a") == [("FailedScheduling", "skip schedule deleting pod: default/a")]
    assert harness.assignments == {}


def test_pod_of_lower_priority_leaves_room_for_a_nominated_pod() -> None:
    harness = Harness(config("MakeRoom"))
    harness.add(node("n1", cpu="2"), pod("running").priority(10).requests(cpu="2").on("n1"))
    harness.add(pod("high").priority(10).label("nominate", "n1").requests(cpu="2"))
    harness.run()
    assert [c.nominated_node_name for c in harness.commands if isinstance(c, PatchStatus)] == ["n1"]
    harness.delete_pod("running")
    harness.add(pod("low").requests(cpu="1"))
    harness.advance(3)
    assert harness.assignments == {"high": "n1"}
    assert harness.pending_message("low").startswith("0/1 nodes are available: 1 Insufficient cpu.")
