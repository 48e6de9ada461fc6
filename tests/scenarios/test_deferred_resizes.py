"""Assigned pods with a deferred in-place resize, with the feature gate InPlacePodVerticalScalingSchedulerPreemption.

Such a pod is in the queue until the kubelet has made the resize: its attempts evict pods of lower priority from its
node. It is never bound, nominated or reported.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pyscheduler.api import Cycle, FilterPlugin, NodeInfo, Pod, Rejection
from pyscheduler.config.gates import parse
from pyscheduler.config.load import default, load, loads
from pyscheduler.core.commands import Bind, PatchStatus
from pyscheduler.core.extenders.extender import ExtenderFilterResult, FilterCall
from pyscheduler.core.queue.entry import Tier
from pyscheduler.intree.gang_scheduling import POD_GROUPS
from pyscheduler.testing import Harness, NodeBuilder, PodBuilder, node, pod
from tests.scenarios.batch.cluster import CONFIG

GATE = "InPlacePodVerticalScalingSchedulerPreemption=true"
GATES = parse([GATE])
ON = default(GATES)
FIT, DEFERRED_POD_SCHEDULING = "NodeResourcesFit", "DeferredPodScheduling"


def resized(cpu: str, before: str = "1", reason: str = "Deferred", on: str = "n1") -> PodBuilder:
    """Return a running pod that has `before` and whose spec requests `cpu` now; reason "" once the resize is made."""
    actual = before if reason else cpu
    requests = {"requests": {"cpu": actual}}
    status = {"name": "main", "allocatedResources": requests["requests"], "resources": requests}
    running = pod("resized").requests(cpu=cpu).on(on).priority(100).phase("Running").status(containerStatuses=[status])
    return running.condition(type="PodResizePending", status="True", reason=reason) if reason else running


def running(name: str, cpu: str = "1", on: str = "n1") -> PodBuilder:
    return pod(name).requests(cpu=cpu).on(on).phase("Running")


def without_preemption(name: str = "n1", cpu: str = "4") -> NodeBuilder:
    """Return a node on which an owner has disabled preemption for resizes."""
    disabled = node(name, cpu=cpu)
    disabled.manifest["spec"]["podPreemptionPolicy"] = {"disableResizePreemption": ["autoscaler"]}
    return disabled


def waits_for(harness: Harness, name: str = "resized") -> set[str] | None:
    """Return the plugins that rejected the resize on its node in its last attempt; None if it is not in the queue."""
    harness.run()
    queued = harness.machine.context.queue.get(name)
    return None if queued is None else {*queued.rejectors} - {"NodeName"}


def attempts(harness: Harness) -> int:
    harness.advance(15)  # more than the longest backoff
    return harness.machine.context.attempts


def scheduling_writes(harness: Harness) -> list[Any]:
    """Return what was written about the resized pod itself."""
    written = [c for c in harness.commands if isinstance(c, Bind | PatchStatus) and c.pod.name == "resized"]
    return [*written, *harness.events("resized")]


def test_pods_of_lower_priority_are_evicted_for_a_deferred_resize() -> None:
    harness = Harness(ON)
    harness.add(node("n1", cpu="4"), running("a", "2"), running("b"), resized("3"))
    harness.run()
    assert harness.evicted() == ["a"], "one core is free then: 4 - 1 - 3"
    harness.advance(5)
    assert waits_for(harness) == {DEFERRED_POD_SCHEDULING}, "the resize fits, the kubelet has not made it yet"
    harness.add(resized("3", reason=""))
    assert waits_for(harness) is None
    assert scheduling_writes(harness) == []


def test_no_more_pods_are_evicted_while_the_victim_terminates() -> None:
    harness = Harness(ON)
    harness.graceful = True
    harness.add(node("n1", cpu="4"), running("a", "2"), running("b"), resized("3"))
    harness.advance(400)
    assert harness.evicted() == ["a"]
    harness.delete_pod("a")
    harness.advance(15)
    assert harness.evicted() == ["a"]
    assert waits_for(harness) == {DEFERRED_POD_SCHEDULING}


def test_gate_that_is_off_leaves_assigned_pods_to_the_kubelet() -> None:
    harness = Harness()
    harness.add(node("n1", cpu="4"), running("a", "3"), resized("3"))
    harness.advance(400)
    assert (harness.evicted(), waits_for(harness), harness.machine.context.attempts) == ([], None, 0)


@pytest.mark.parametrize(
    ("objects", "rejected_by"),
    [
        pytest.param([node("n1", cpu="4"), resized("3")], DEFERRED_POD_SCHEDULING, id="fits"),
        pytest.param(
            [node("n1", cpu="4", pods="1"), resized("3")], DEFERRED_POD_SCHEDULING, id="the pod itself counts once"
        ),
        pytest.param([node("n1", cpu="4").unschedulable(), resized("3")], DEFERRED_POD_SCHEDULING, id="cordoned node"),
        pytest.param(
            [node("n1", cpu="4").taint("full"), resized("3").node_selector(zone="other").host_port(80)],
            DEFERRED_POD_SCHEDULING,
            id="taints, affinity and its own host port do not matter",
        ),
        pytest.param(
            [node("n1", cpu="4"), running("a", "3"), resized("3").spec(preemptionPolicy="Never")],
            FIT,
            id="preemptionPolicy Never",
        ),
        pytest.param([node("n1", cpu="4"), running("a", "3").priority(100), resized("3")], FIT, id="equal priority"),
        pytest.param([node("n1", cpu="2"), running("a"), resized("3")], FIT, id="more than the node has"),
        pytest.param([node("n0", cpu="9"), node("n1", cpu="2"), resized("3")], FIT, id="room on another node"),
        pytest.param(
            [without_preemption(), running("a", "3"), resized("3")], DEFERRED_POD_SCHEDULING, id="disabled on the node"
        ),
    ],
)
def test_resize_that_waits_without_evictions(objects: list[PodBuilder | NodeBuilder], rejected_by: str) -> None:
    harness = Harness(ON)
    harness.add(*objects)
    assert waits_for(harness) == {rejected_by}
    harness.advance(60)
    assert (harness.evicted(), scheduling_writes(harness)) == ([], [])
    assert harness.machine.context.attempts == 1, "it waits for an event, not for its backoff"


def test_pod_on_a_node_that_does_not_exist_waits_for_the_node() -> None:
    harness = Harness(ON)
    harness.add(node("n0"), resized("3"))
    assert waits_for(harness) == set()
    harness.add(node("n1"))
    harness.advance(15)
    assert waits_for(harness) == {DEFERRED_POD_SCHEDULING}


Change = Callable[[Harness], None]
FULL = [node("n1", cpu="4"), node("n2", cpu="4"), running("a", "3").priority(100), running("b", on="n2"), resized("3")]
FITS = [node("n1", cpu="8"), node("n2", cpu="8"), running("a", "3"), running("b", on="n2"), resized("3")]
DISABLED = [without_preemption(), without_preemption("n2"), running("a", "3"), resized("3")]


@pytest.mark.parametrize(
    ("objects", "change", "is_retried"),
    [
        pytest.param(FULL, lambda h: h.delete_pod("a"), True, id="end of a pod on the node"),
        pytest.param(FULL, lambda h: h.delete_pod("b"), False, id="end of a pod on another node"),
        pytest.param(FULL, lambda h: h.add(running("a", "2").priority(100)), True, id="smaller pod on the node"),
        pytest.param(FULL, lambda h: h.add(running("b", "500m", on="n2")), False, id="smaller pod on another node"),
        pytest.param(
            FULL, lambda h: h.add(running("a", "3").priority(100).label("a", "b")), False, id="label of a pod"
        ),
        pytest.param(FULL, lambda h: h.add(node("n1", cpu="8")), True, id="the node grows"),
        pytest.param(FULL, lambda h: h.add(node("n2", cpu="8")), False, id="another node grows"),
        pytest.param(FULL, lambda h: h.add(resized("2")), True, id="the pod asks for less"),
        pytest.param(FITS, lambda h: h.add(resized("4")), True, id="the pod asks for more"),
        pytest.param(FITS, lambda h: h.add(running("c", "4")), True, id="another pod takes the room"),
        pytest.param(FITS, lambda h: h.add(running("a", "4")), True, id="another pod grows on the node"),
        pytest.param(FITS, lambda h: h.add(running("c", on="n2")), False, id="new pod on another node"),
        pytest.param(FITS, lambda h: h.add(node("n1", cpu="4")), True, id="the node shrinks"),
        pytest.param(DISABLED, lambda h: h.add(node("n1", cpu="4")), True, id="preemption enabled on the node"),
        pytest.param(DISABLED, lambda h: h.add(node("n2", cpu="4")), False, id="preemption enabled on another node"),
        pytest.param(FITS, lambda h: h.add(without_preemption(cpu="8")), False, id="preemption disabled on the node"),
    ],
)
def test_event_retries_a_resize(objects: list[PodBuilder | NodeBuilder], change: Change, is_retried: bool) -> None:
    harness = Harness(ON)
    harness.add(*objects)
    before = attempts(harness)
    change(harness)
    assert (attempts(harness) > before) is is_retried


def test_two_equal_resizes_wait_for_their_own_nodes() -> None:
    harness = Harness(ON)
    twin = resized("3", on="n2")
    twin.manifest["metadata"].update(name="twin", uid="twin")
    full = [running(f"full-{name}", "3", on=name).priority(100) for name in ("n1", "n2")]
    harness.add(node("n1"), node("n2"), *full, resized("3"), twin)
    harness.run()
    harness.delete_pod("full-n2")
    harness.advance(15)
    assert (waits_for(harness), waits_for(harness, "twin")) == ({FIT}, {DEFERRED_POD_SCHEDULING})


def test_pod_that_becomes_deferred_later_and_is_deleted_enters_and_leaves_the_queue() -> None:
    harness = Harness(ON)
    harness.add(node("n1"), resized("1", reason=""))
    assert waits_for(harness) is None
    harness.add(resized("2"))
    assert waits_for(harness) == {DEFERRED_POD_SCHEDULING}
    harness.restart()
    assert waits_for(harness) == {DEFERRED_POD_SCHEDULING}, "a new leader finds it in its first list"
    harness.delete_pod("resized")
    assert waits_for(harness) is None


def test_terminating_pod_leaves_the_queue_and_is_not_reported() -> None:
    harness = Harness(ON)
    harness.add(node("n1", cpu="4"), running("a", "3").priority(100), resized("3"))
    assert waits_for(harness) == {FIT}
    for version in ("1", "2", "3"):
        harness.add(resized("3").label("version", version).deleting())
        harness.advance(15)
        assert waits_for(harness) is None
    assert scheduling_writes(harness) == []


class RejectsAll(FilterPlugin):
    """Reject every node; there is no PreFilter."""

    name = "RejectsAll"

    def filter(self, cycle: Cycle, pod: Pod, node: NodeInfo) -> Rejection:
        return Rejection("rejected")


class ChecksNoResizes(RejectsAll):
    name = "ChecksNoResizes"
    checks_resizes = False


@pytest.mark.parametrize(("plugin", "rejected_by"), [(RejectsAll, "RejectsAll"), (ChecksNoResizes, "")])
def test_filter_without_pre_filter_is_skipped_if_it_checks_no_resizes(
    plugin: type[FilterPlugin], rejected_by: str
) -> None:
    profile = f"plugins: {{filter: {{enabled: [{{name: '{__name__}:{plugin.name}'}}]}}}}"
    text = f"apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nprofiles: [{{{profile}}}]"
    harness = Harness(loads(text, gates=GATES))
    harness.add(node("n1", cpu="4"), resized("3"))
    assert waits_for(harness) == {rejected_by or DEFERRED_POD_SCHEDULING}


def test_infeasible_resize_and_one_of_another_scheduler_stay_out_of_the_queue() -> None:
    harness = Harness(ON)
    harness.add(node("n1", cpu="4"), running("a", "3"), resized("3", reason="Infeasible"))
    assert waits_for(harness) is None
    harness.add(resized("3").scheduler("other"))
    assert waits_for(harness) is None
    assert harness.evicted() == []


def test_resize_without_deferred_pod_scheduling_is_retried_after_its_backoff() -> None:
    profile = "{schedulerName: default-scheduler, plugins: {multiPoint: {disabled: [{name: DeferredPodScheduling}]}}}"
    text = f"apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nprofiles: [{profile}]"
    harness = Harness(loads(text, gates=GATES))
    harness.add(node("n1", cpu="4"), resized("3"))
    assert waits_for(harness) == set()
    harness.advance(30)
    assert 4 <= harness.machine.context.attempts <= 6
    assert scheduling_writes(harness) == []


def test_resize_of_a_pod_group_member_is_attempted_alone() -> None:
    harness = Harness(default(parse([GATE, "GenericWorkload=true"])))
    member = resized("3").spec(schedulingGroup={"podGroupName": "group"})
    group = {"metadata": {"namespace": "default", "name": "group", "uid": "group"}}
    harness.add_object(POD_GROUPS[0], {**group, "spec": {"schedulingPolicy": {"gang": {"minCount": 1}}}})
    harness.add(node("n1", cpu="4"), running("a", "3"), member)
    harness.run()
    assert harness.evicted() == ["a"]
    harness.advance(15)
    assert waits_for(harness) == {DEFERRED_POD_SCHEDULING}


def test_pending_pod_is_not_placed_where_a_resize_needs_the_room() -> None:
    harness = Harness(ON)
    harness.add(node("n1", cpu="4"), running("a", "2"), resized("3"))
    harness.run()
    assert harness.evicted() == ["a"]
    harness.add(pod("small").requests(cpu="2"))
    harness.advance(15)
    assert "small" not in harness.assignments, "the resized pod counts with what its spec requests"
    assert harness.machine.context.queue.get("resized") is not None


def test_queue_shows_the_resize_as_unschedulable() -> None:
    harness = Harness(ON)
    harness.add(node("n1", cpu="4"), resized("3"))
    harness.run()
    tiers = [tier for tier, queued in harness.machine.context.queue.known() if queued.pod.name == "resized"]
    assert tiers == [Tier.UNSCHEDULABLE]


def test_resize_evicts_no_pod_that_a_group_needs() -> None:
    harness = Harness(default(parse([GATE, "GenericWorkload=true"])))
    group = {"metadata": {"namespace": "default", "name": "group", "uid": "group"}}
    harness.add_object(
        POD_GROUPS[0], {**group, "spec": {"schedulingPolicy": {"gang": {"minCount": 2}}, "disruptionMode": {"all": {}}}}
    )
    members = [running(name).spec(schedulingGroup={"podGroupName": "group"}) for name in ("a", "b")]
    harness.add(node("n1", cpu="4"), *members, resized("3"))
    harness.advance(15)
    assert (harness.evicted(), waits_for(harness)) == ([], {FIT})


def test_resize_of_a_pod_in_a_queue_evicts_pods() -> None:
    harness = Harness(load(CONFIG, GATES))
    scheduler = next(iter(harness.machine.context.profiles))
    harness.add(node("n1", cpu="4"), running("a", "3").scheduler(scheduler), resized("3").scheduler(scheduler))
    harness.run()
    assert harness.evicted() == ["a"]
    harness.advance(15)
    assert waits_for(harness) == {DEFERRED_POD_SCHEDULING}


def test_extenders_are_called_for_a_resize() -> None:
    extender = "{urlPrefix: 'http://localhost', filterVerb: filter, nodeCacheCapable: true}"
    text = f"apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nextenders: [{extender}]"
    harness = Harness(loads(text, gates=GATES))
    harness.call_extender = lambda _pod, call: ExtenderFilterResult(call.nodes if isinstance(call, FilterCall) else ())
    harness.add(node("n1", cpu="4"), node("n2", cpu="8"), resized("3").node_selector(zone="other"))
    assert waits_for(harness) == {DEFERRED_POD_SCHEDULING}
    assert scheduling_writes(harness) == []
