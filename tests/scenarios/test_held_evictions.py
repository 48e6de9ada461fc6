"""Stories of Permit plugins that hold back evictions, report why they gate pods, and count pods that have ended."""

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


def world(*objects: PodBuilder) -> Harness:
    """A node of three cpus, of which a pod that may be evicted takes two."""
    fakes.calls.clear()
    harness = Harness(CONFIG)
    harness.add(node("n1", cpu="3"), pod("low").requests(cpu="2").on("n1"), *objects)
    harness.run()
    return harness


def promised(harness: Harness, name: str = "urgent") -> str:
    return harness.machine.context.queue.nominator.node_of(name)


def nominations(harness: Harness) -> list[str]:
    return [c.nominated_node_name for c in harness.commands if isinstance(c, PatchStatus) and c.nominated_node_name]


def test_victims_stay_while_a_permit_plugin_holds_their_eviction_back() -> None:
    harness = world(urgent(evict="no"))
    assert harness.evicted() == []
    assert nominations(harness) == []
    assert harness.pending_message("urgent") == "0/1 nodes are available: 1 Insufficient cpu. not now"


def test_the_room_is_reserved_meanwhile_for_pods_of_no_higher_priority() -> None:
    harness = world(urgent(evict="no"))
    assert promised(harness) == "n1"
    harness.add(pod("equal").requests(cpu="1").priority(100), pod("higher").requests(cpu="1").priority(101))
    harness.run()
    assert set(harness.assignments) == {"low", "higher"}


def test_they_are_evicted_when_a_later_attempt_is_permitted() -> None:
    harness = world(urgent(evict="no"))
    harness.add(urgent())
    harness.handle.activate([harness.machine.context.pods["urgent"]])
    harness.advance(15)
    assert harness.evicted() == ["low"]
    assert nominations(harness) == ["n1"]
    assert "urgent" in harness.assignments


def test_a_plugin_may_give_the_reservation_up() -> None:
    harness = world(urgent(evict="no"), pod("equal").requests(cpu="1").priority(100))
    assert "equal" not in harness.assignments
    harness.add(urgent(evict="never"))
    harness.handle.activate([harness.machine.context.pods["urgent"]])
    harness.advance(30)
    assert promised(harness) == ""
    assert "equal" in harness.assignments


def test_a_nomination_in_the_status_is_cleared_with_it() -> None:
    harness = world()
    harness.graceful = True
    harness.add(urgent())
    harness.run()
    assert harness.nominated("urgent") == "n1"
    harness.handle.clear_nominations([harness.machine.context.pods["urgent"]])
    harness.advance(0)
    assert (harness.nominated("urgent"), promised(harness)) == ("", "")


def test_a_standing_nomination_is_shown_to_the_plugin_again() -> None:
    harness = world()
    harness.graceful = True
    harness.add(urgent())
    harness.run()
    fakes.calls.clear()
    harness.handle.activate([harness.machine.context.pods["urgent"]])
    harness.advance(5)
    assert fakes.calls == [("handle_unschedulable", "urgent n1")]
    assert harness.evicted() == ["low"]


@pytest.mark.parametrize(
    ("needs", "called"),
    [
        pytest.param({}, [], id="it has a place"),
        pytest.param({"nodeSelector": {"k": "v"}}, [("handle_unschedulable", "a")], id="no node fits"),
        pytest.param(
            {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "missing"}}]},
            [("handle_unschedulable", "a")],
            id="PostFilter ended with an error",
        ),
    ],
)
def test_a_permit_plugin_learns_of_each_pod_without_a_place(
    needs: dict[str, object], called: list[tuple[str, str]]
) -> None:
    harness = world(pod("a").spec(**needs))
    assert fakes.calls == called
    assert ("a" in harness.assignments) == (called == [])


def test_a_plugin_that_returns_a_wait_where_no_node_fits_fails_by_name() -> None:
    harness = world(urgent(evict="wrong"))
    assert harness.evicted() == []
    reason = harness.pending_message("urgent")
    assert reason == "plugin HoldsEvictions: handle_unschedulable returned Wait, expected None or Rejection"


def test_a_plugin_that_raises_evicts_no_pods_and_costs_one_backoff() -> None:
    harness = world(urgent(evict="broken"))
    assert harness.evicted() == []
    assert 'running Permit plugin "HoldsEvictions": ZeroDivisionError: one over nothing' in harness.pending_message(
        "urgent"
    )


def test_the_reason_of_a_gate_is_reported_once_and_again_after_it_was_open() -> None:
    harness = world(pod("a").label("gate", "yes"))
    harness.add(pod("a").label("gate", "yes").annotation("note", "changed"))
    harness.advance(600)
    reports = [c.condition for c in harness.commands if isinstance(c, PatchStatus) and c.pod.name == "a"]
    assert [(c.reason, c.message) for c in reports if c] == [("SchedulingGated", "not before noon")]
    assert harness.events("a") == []


def test_succeeded_pods_stay_in_the_index_until_they_are_deleted() -> None:
    harness = world(pod("a").label("job", "j").on("n1"), pod("b").label("job", "j").on("n1"), pod("c").on("n1"))
    harness.add(pod("a").label("job", "j").on("n1").phase("Succeeded"), pod("c").on("n1").phase("Succeeded"))
    harness.add(pod("b").label("job", "j").on("n1").phase("Failed"))
    assert list(harness.handle.pods_by_label("job", "default", "j")) == ["a"]
    assert set(harness.machine.context.pods) == {"low"}
    harness.add(pod("a").label("job", "j").on("n1"))
    assert set(harness.machine.context.pods) == {"low"}, "news of a watch that lags behind does not revive it"
    harness.delete_pod("a")
    assert not harness.handle.pods_by_label("job", "default", "j")
