"""Pods that wait in Permit: their plugins run again after events and at requested times."""

from __future__ import annotations

from typing import Any

from pyscheduler.core.commands import PatchStatus
from pyscheduler.testing import Harness, PodBuilder, node, pod
from tests.scenarios import fakes

CONFIG = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: default-scheduler
  plugins: {multiPoint: {enabled: [{name: "tests.scenarios.fakes:Licence"}]}}
"""


def licence(tokens: int | str, name: str = "cad", **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {"tokens": tokens, **spec}}


def user(name: str, of: str = "cad") -> PodBuilder:
    return pod(name).label("licence", of)


def one_bound_one_waiting(tokens: dict[str, Any] | None = None) -> Harness:
    harness = Harness(CONFIG)
    harness.add(node("n1"))
    harness.add_object(fakes.LICENCE, tokens or licence(1))
    harness.add(user("bound"))
    harness.run()
    harness.add(user("waiting"))
    harness.run()
    assert harness.assignments == {"bound": "n1"}
    fakes.calls.clear()
    return harness


def test_waiting_pod_is_allowed_when_an_object_that_its_plugin_watches_changes() -> None:
    harness = one_bound_one_waiting()
    harness.add_object(fakes.LICENCE, licence(2))
    assert harness.assignments == {"bound": "n1", "waiting": "n1"}


def test_waiting_pod_is_rejected_when_its_plugin_rejects_it_after_an_event() -> None:
    harness = one_bound_one_waiting()
    harness.remove_object(fakes.LICENCE, "cad", namespace="")
    assert harness.assignments == {"bound": "n1"}
    assert harness.pending_message("waiting").startswith("0/1 nodes are available: 1 licence cad does not exist.")
    assert not list(harness.handle.waiting_pods)


def test_waiting_pod_is_allowed_when_another_pod_is_deleted() -> None:
    harness = one_bound_one_waiting()
    harness.delete_pod("bound")
    assert harness.assignments == {"waiting": "n1"}


def test_waiting_pod_is_allowed_when_another_one_is_forgotten() -> None:
    harness = Harness(CONFIG)
    harness.complete_bindings = False
    harness.add(node("n1"))
    harness.add_object(fakes.LICENCE, licence(1))
    harness.add(user("binds"), user("waiting"))
    harness.run()
    harness.binding_error = lambda pod, _node: "no" if pod.name == "binds" else ""
    harness.complete_bindings = True
    harness.finish_binding("binds")
    assert harness.assignments == {"waiting": "n1"}


def test_permit_is_not_run_again_for_pods_that_a_hint_skips() -> None:
    harness = one_bound_one_waiting()
    harness.add_object(fakes.LICENCE, licence(1, "cam"))
    harness.add(user("other", of="cam"))
    harness.run()
    fakes.calls.clear()
    harness.delete_pod("other")
    assert fakes.calls == [("QueueingHint", "waiting")]


def test_permit_is_not_run_again_for_events_that_the_plugin_is_not_interested_in() -> None:
    harness = one_bound_one_waiting()
    harness.add(node("n2"), pod("unrelated"))
    harness.run()
    assert fakes.calls == []


def test_permit_is_run_once_for_each_waiting_pod() -> None:
    harness = one_bound_one_waiting()
    harness.add(user("third"))
    harness.run()
    fakes.calls.clear()
    harness.add_object(fakes.LICENCE, licence(2))
    assert sorted(fakes.calls) == [("Permit", "third"), ("Permit", "waiting")]


def test_permit_is_run_again_when_a_hint_raises() -> None:
    harness = Harness(CONFIG)
    harness.add(node("n1"))
    harness.add_object(fakes.LICENCE, licence(1))
    harness.add(user("bound"))
    harness.run()
    harness.add(user("waiting").label("break", "hint"))
    harness.run()
    harness.delete_pod("bound")
    assert harness.assignments == {"waiting": "n1"}


def test_waiting_pod_backs_off_when_permit_raises_after_an_event() -> None:
    harness = one_bound_one_waiting()
    harness.add_object(fakes.LICENCE, licence("broken"))
    assert harness.events("waiting")[-1][0] == "FailedScheduling"
    assert 'running Permit plugin "Licence"' in harness.pending_message("waiting")
    harness.add_object(fakes.LICENCE, licence(2))
    harness.advance(2)
    assert harness.assignments["waiting"] == "n1"


def test_permit_is_run_again_at_the_interval_that_wait_sets() -> None:
    harness = one_bound_one_waiting(licence(1, recheckEvery=5, freeFrom=1011))
    harness.advance(9.5)
    assert fakes.calls == [("Permit", "waiting")]
    harness.advance(6)
    assert harness.assignments["waiting"] == "n1"
    assert harness.bound_order == ["bound", "waiting"]


def test_permit_is_run_once_more_at_the_deadline() -> None:
    harness = one_bound_one_waiting(licence(1, freeFrom=1015))
    harness.advance(19)
    assert fakes.calls == []
    harness.advance(1)
    assert harness.assignments["waiting"] == "n1"


def test_deadline_of_the_first_wait_is_kept_when_permit_runs_again() -> None:
    harness = one_bound_one_waiting(licence(1, recheckEvery=3))
    harness.advance(21)
    assert "rejected due to timeout after waiting 20s at plugin Licence" in harness.events("waiting")[0][1]


def test_waiting_pod_is_allowed_when_its_own_labels_change() -> None:
    harness = Harness(CONFIG.replace("Licence", "Approval"))
    harness.add(node("n1"), pod("careful").label("approved", "no"))
    harness.run()
    assert harness.assignments == {}
    harness.add(pod("careful").label("approved", "yes"))
    assert harness.assignments == {"careful": "n1"}


def test_reason_of_a_wait_is_in_the_pods_condition_and_follows_what_permit_returns() -> None:
    harness = one_bound_one_waiting()
    assert harness.pending_message("waiting") == 'waiting for plugin "Licence": 1 too many for licence cad'
    patch = next(c for c in reversed(harness.commands) if isinstance(c, PatchStatus))
    assert patch.condition is not None
    assert patch.condition.reason == "WaitingOnPermit"
    harness.add_object(fakes.LICENCE, licence(0))
    assert harness.pending_message("waiting") == 'waiting for plugin "Licence": 2 too many for licence cad'


def test_no_events_are_recorded_without_waiting_pods() -> None:
    harness = one_bound_one_waiting()
    harness.add_object(fakes.LICENCE, licence(2))
    harness.add_object(fakes.LICENCE, licence(3))
    assert harness.machine.context.pending_events == []
