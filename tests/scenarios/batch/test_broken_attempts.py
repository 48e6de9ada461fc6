"""Attempts of groups that end with an exception in the scheduler itself: nothing is lost or left half done."""

from __future__ import annotations

from typing import ClassVar

import pytest

from pyscheduler.api import Pod, PreEnqueuePlugin, Rejection
from pyscheduler.core.scheduling import schedule_pod_group
from tests.scenarios.batch.cluster import CONFIG, Cluster
from tests.scenarios.batch.manifests import NATIVE, gang, node

STEPS = ("_place", "_failures_of_all", "_start_binding_cycles", "_run_preemption", "report_group")


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("slots", [2, 3], ids=["without room", "with room"])
def test_group_is_tried_again_after_an_attempt_has_raised(
    step: str, slots: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = Cluster(*(node(f"slot{i}") for i in range(slots)))
    group = gang("a", 3, api=NATIVE)
    working = getattr(schedule_pod_group, step)

    def broken(*_: object) -> object:
        raise KeyError("missing")

    monkeypatch.setattr(schedule_pod_group, step, broken)
    cluster.exempt(group)
    cluster.submit(group)
    monkeypatch.setattr(schedule_pod_group, step, working)
    cluster.submit(*(node(f"slot{i}") for i in range(slots, 3)))
    cluster.advance_to(60)
    assert cluster.members(group) == 3


class RaisesOnce(PreEnqueuePlugin):
    """Raises in one of its calls."""

    name = "RaisesOnce"
    calls_before = 0
    """Number of calls before the one that raises."""

    def pre_enqueue(self, pod: Pod) -> Rejection | None:
        type(self).calls_before -= 1
        if self.calls_before == -1:
            raise RuntimeError("the plugin is broken")
        return None


def with_plugin(plugin: type) -> str:
    """Return the batch configuration with a plugin of this module."""
    enabled = "        enabled:\n"
    added = f"          - name: {__name__}:{plugin.__name__}\n"
    return CONFIG.read_text(encoding="utf-8").replace(enabled, enabled + added)


@pytest.mark.parametrize("calls", range(6), ids=lambda calls: f"call {calls}")
def test_group_is_admitted_after_a_pre_enqueue_plugin_has_raised_once(
    calls: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The plugin is called for each member that arrives, and for the group before it is active."""
    monkeypatch.setattr(RaisesOnce, "calls_before", calls)
    cluster = Cluster(node("slot0"), node("slot1"), config=with_plugin(RaisesOnce))
    group = gang("a", 2, api=NATIVE)
    cluster.submit(group)
    cluster.advance_to(700)
    assert cluster.members(group) == 2


class RecordsCalls(PreEnqueuePlugin):
    """Records the pods for which it is called."""

    name = "RecordsCalls"
    calls: ClassVar[list[str]] = []

    def pre_enqueue(self, pod: Pod) -> Rejection | None:
        self.calls.append(pod.name)
        return None


@pytest.mark.parametrize(("size", "calls"), [(1, ["a0"]), (2, ["a0", "a1", "a0"])])
def test_pre_enqueue_runs_for_each_member_and_once_more_for_a_group_of_several(
    size: int, calls: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(RecordsCalls, "calls", [])
    cluster = Cluster(node("slot0"), node("slot1"), config=with_plugin(RecordsCalls))
    group = gang("a", size, api=NATIVE)
    cluster.submit(group)
    assert RecordsCalls.calls == calls
    assert cluster.members(group) == size


def test_no_wake_remains_after_the_pods_of_a_group_for_which_a_plugin_raised_are_deleted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(RaisesOnce, "calls_before", 2)
    cluster = Cluster(config=with_plugin(RaisesOnce))
    group = gang("a", 2, api=NATIVE)
    cluster.submit(group)
    queue = cluster.machine.context.queue
    assert queue.gates.broken
    cluster.delete_all(group)
    cluster.run()
    assert not queue.gates.broken
