"""Permit plugins that reject evictions, report why they gate pods, and index succeeded pods."""

from __future__ import annotations

import pytest

from pyscheduler.core.commands import PatchStatus
from pyscheduler.testing import Harness, PodBuilder, node, pod
from tests.scenarios import fakes

CONFIG = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- plugins: {multiPoint: {enabled: [{name: "tests.scenarios.fakes:HoldsEvictions"}]}}
"""


def urgent(name: str = "urgent", evict: str = "yes") -> PodBuilder:
    return pod(name).requests(cpu="2").priority(100).label("evict", evict)


def build_harness(*objects: PodBuilder) -> Harness:
    """Return a cluster with one node of three CPUs, of which a low-priority pod uses two."""
    fakes.calls.clear()
    harness = Harness(CONFIG)
    harness.add(node("n1", cpu="3"), pod("low").requests(cpu="2").on("n1"), *objects)
    harness.run()
    return harness


def nominated_node(harness: Harness, name: str = "urgent") -> str:
    return harness.machine.context.queue.nominator.node_of.get(name, "")


def nominations(harness: Harness) -> list[str]:
    return [c.nominated_node_name for c in harness.commands if isinstance(c, PatchStatus) and c.nominated_node_name]


def test_no_pod_is_evicted_while_a_permit_plugin_rejects_it() -> None:
    harness = build_harness(urgent(evict="no"))
    assert harness.evicted() == []
    assert nominations(harness) == []
    assert harness.pending_message("urgent") == "0/1 nodes are available: 1 Insufficient cpu. not now"


def test_rejected_preemptor_is_nominated_against_pods_of_the_same_priority() -> None:
    harness = build_harness(urgent(evict="no"))
    assert nominated_node(harness) == "n1"
    harness.add(pod("equal").requests(cpu="1").priority(100), pod("higher").requests(cpu="1").priority(101))
    harness.run()
    assert set(harness.assignments) == {"low", "higher"}


def test_victims_are_evicted_when_a_later_attempt_is_permitted() -> None:
    harness = build_harness(urgent(evict="no"))
    harness.add(urgent())
    harness.handle.activate([harness.machine.context.pods["urgent"]])
    harness.advance(15)
    assert harness.evicted() == ["low"]
    assert nominations(harness) == ["n1"]
    assert "urgent" in harness.assignments


def test_permit_plugin_may_clear_the_nomination() -> None:
    harness = build_harness(urgent(evict="no"), pod("equal").requests(cpu="1").priority(100))
    assert "equal" not in harness.assignments
    harness.add(urgent(evict="never"))
    harness.handle.activate([harness.machine.context.pods["urgent"]])
    harness.advance(30)
    assert nominated_node(harness) == ""
    assert "equal" in harness.assignments


def test_cleared_nomination_is_also_cleared_in_the_status() -> None:
    harness = build_harness()
    harness.graceful = True
    harness.add(urgent())
    harness.run()
    assert harness.nominated("urgent") == "n1"
    harness.handle.nominator.clear([harness.machine.context.pods["urgent"]])
    harness.advance(0)
    assert (harness.nominated("urgent"), nominated_node(harness)) == ("", "")


def test_permit_plugin_gets_an_unchanged_nomination_at_each_attempt() -> None:
    harness = build_harness()
    harness.graceful = True
    harness.add(urgent())
    harness.run()
    fakes.calls.clear()
    harness.handle.activate([harness.machine.context.pods["urgent"]])
    harness.advance(5)
    assert fakes.calls == [("handle_unschedulable", "urgent n1")]
    assert harness.evicted() == ["low"]


@pytest.mark.parametrize(
    ("spec", "calls"),
    [
        pytest.param({}, [], id="a node fits"),
        pytest.param({"nodeSelector": {"k": "v"}}, [("handle_unschedulable", "a")], id="no node fits"),
        pytest.param(
            {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "missing"}}]},
            [("handle_unschedulable", "a")],
            id="PostFilter ended with an error",
        ),
    ],
)
def test_handle_unschedulable_runs_for_each_pod_without_a_node(
    spec: dict[str, object], calls: list[tuple[str, str]]
) -> None:
    harness = build_harness(pod("a").spec(**spec))
    assert fakes.calls == calls
    assert ("a" in harness.assignments) == (calls == [])


def test_attempt_fails_when_handle_unschedulable_returns_wait() -> None:
    harness = build_harness(urgent(evict="wrong"))
    assert harness.evicted() == []
    reason = harness.pending_message("urgent")
    assert reason == "plugin HoldsEvictions: handle_unschedulable returned Wait, expected None or Rejection"


def test_no_pod_is_evicted_when_handle_unschedulable_raises() -> None:
    harness = build_harness(urgent(evict="broken"))
    assert harness.evicted() == []
    assert 'running Permit plugin "HoldsEvictions": ZeroDivisionError: one over nothing' in harness.pending_message(
        "urgent"
    )


def test_unchanged_reason_of_a_gate_is_reported_once() -> None:
    harness = build_harness(pod("a").label("gate", "yes"))
    harness.add(pod("a").label("gate", "yes").annotation("note", "changed"))
    harness.advance(600)
    reports = [c.condition for c in harness.commands if isinstance(c, PatchStatus) and c.pod.name == "a"]
    assert [(c.reason, c.message) for c in reports if c] == [("SchedulingGated", "not before noon")]
    assert harness.events("a") == []


def test_succeeded_pods_stay_in_the_index_until_they_are_deleted() -> None:
    harness = build_harness(pod("a").label("job", "j").on("n1"), pod("b").label("job", "j").on("n1"), pod("c").on("n1"))
    harness.add(pod("a").label("job", "j").on("n1").phase("Succeeded"), pod("c").on("n1").phase("Succeeded"))
    harness.add(pod("b").label("job", "j").on("n1").phase("Failed"))
    assert list(harness.handle.pods.by_label("job", "default", "j")) == ["a"]
    assert set(harness.machine.context.pods) == {"low"}
    harness.add(pod("a").label("job", "j").on("n1"))
    assert set(harness.machine.context.pods) == {"low"}, "an event of a lagging watch does not add it again"
    harness.delete_pod("a")
    assert not harness.handle.pods.by_label("job", "default", "j")
