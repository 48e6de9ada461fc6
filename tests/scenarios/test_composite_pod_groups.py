"""CompositePodGroups with the feature gate of that name: the PodGroups below one start together."""

from __future__ import annotations

from typing import Any

import pytest

from pyscheduler.api import COMPOSITE_POD_GROUP
from pyscheduler.config.gates import parse
from pyscheduler.config.load import default
from pyscheduler.core.queue.entry import Tier
from pyscheduler.intree.gang_scheduling import POD_GROUPS
from pyscheduler.testing import Harness, PodBuilder, node, pod

GROUPS = "GenericWorkload=true,TopologyAwareWorkloadScheduling=true"
OFF, ON = default(parse([GROUPS])), default(parse([f"{GROUPS},CompositePodGroup=true"]))
RACK = "example.com/rack"
QUORUM = 'waiting for composite pod group "root" tree to meet quorum'


def cluster(nodes: int) -> Harness:
    """Return a cluster with nodes for one pod each."""
    harness = Harness(ON)
    harness.add(*(node(f"n{i}", cpu="1") for i in range(nodes)))
    return harness


def add_composite(harness: Harness, min_groups: int = 2, name: str = "root", parent: str = "", **fields: Any) -> None:
    """Add a CompositePodGroup; one that needs no groups has the basic policy."""
    policy = {"gang": {"minGroupCount": min_groups}} if min_groups else {"basic": {}}
    _add(harness, COMPOSITE_POD_GROUP, name, {"schedulingPolicy": policy, **_below(parent), **fields})


def add_gang(harness: Harness, name: str, size: int = 2, parent: str = "root", **fields: Any) -> None:
    """Add a PodGroup that needs so many pods."""
    _add(harness, POD_GROUPS[0], name, {"schedulingPolicy": {"gang": {"minCount": size}}, **_below(parent), **fields})


def _below(parent: str) -> dict[str, str]:
    return {"parentCompositePodGroupName": parent} if parent else {}


def _add(harness: Harness, kind: Any, name: str, spec: dict[str, Any]) -> None:
    harness.add_object(
        kind, {"metadata": {"namespace": "default", "name": name, "uid": f"uid-of-{name}"}, "spec": spec}
    )


def members(group: str, count: int = 2) -> list[PodBuilder]:
    built = [pod(f"{group}{i}").requests(cpu="1") for i in range(count)]
    for each in built:
        each.manifest["spec"]["schedulingGroup"] = {"podGroupName": group}
    return built


def placed(harness: Harness) -> str:
    harness.advance(30)
    return " ".join(sorted(harness.assignments))


def reason_of_gate(harness: Harness, name: str) -> str:
    """Return the reason for which PreEnqueue gates a pod."""
    context = harness.machine.context
    queued = next(pod for _, pod in context.queue.known() if pod.pod.name == name)
    plugins = context.profiles[queued.pod.scheduler_name].pre_enqueue
    return next(filter(None, (plugin.pre_enqueue(queued.pod) for plugin in plugins))).message


def condition(harness: Harness, kind: Any, name: str) -> tuple[str, str]:
    """Return type and status of the only condition."""
    found = harness.object(kind, name, "default")
    assert found is not None
    (only,) = found["status"]["conditions"]
    return only["type"], only["status"]


def test_groups_below_a_composite_start_together() -> None:
    harness = cluster(3)
    add_composite(harness)
    add_gang(harness, "a")
    add_gang(harness, "b")
    harness.add(*members("a"), *members("b"))
    assert placed(harness) == ""
    harness.add(node("another", cpu="1"))
    assert placed(harness) == "a0 a1 b0 b1"
    scheduled = "CompositePodGroupInitiallyScheduled", "True"
    assert condition(harness, COMPOSITE_POD_GROUP, "root") == scheduled
    assert condition(harness, POD_GROUPS[0], "b") == ("PodGroupInitiallyScheduled", "True")


def test_the_gate_decides_whether_the_parent_counts() -> None:
    harness = Harness(OFF)
    harness.add(*(node(f"n{i}", cpu="1") for i in range(3)))
    add_gang(harness, "a")
    harness.add(*members("a"))
    assert placed(harness) == "a0 a1"


@pytest.mark.parametrize(("needed", "expected"), [(0, "a0 a1"), (1, "a0 a1"), (2, "")])
def test_as_many_groups_start_as_the_policy_needs(needed: int, expected: str) -> None:
    harness = cluster(3)
    add_composite(harness, needed)
    add_gang(harness, "a")
    add_gang(harness, "b")
    harness.add(*members("a"), *members("b"))
    assert placed(harness) == expected


def test_pods_of_an_incomplete_tree_are_gated() -> None:
    harness = cluster(4)
    add_gang(harness, "a")
    harness.add(*members("a"))
    assert placed(harness) == "", "the parent does not exist"
    assert {entry.tier for entry in harness.machine.context.queue.dump()} == {Tier.GATED}
    assert reason_of_gate(harness, "a0") == QUORUM
    add_composite(harness)
    assert placed(harness) == "", "the second group does not exist"
    add_gang(harness, "b")
    harness.add(*members("b", 1))
    assert placed(harness) == "", "it lacks a pod"
    harness.add(members("b")[1])
    assert placed(harness) == "a0 a1 b0 b1"


def test_trees_have_levels() -> None:
    harness = cluster(4)
    add_composite(harness, 2)
    add_composite(harness, 1, "left", "root")
    add_composite(harness, 1, "right", "root")
    add_gang(harness, "a", parent="left")
    harness.add(*members("a"))
    assert placed(harness) == ""
    add_gang(harness, "b", parent="right")
    harness.add(*members("b"))
    assert placed(harness) == "a0 a1 b0 b1"


def test_each_group_is_in_one_domain_of_its_topology() -> None:
    harness = Harness(ON)
    harness.add(*(node(f"n{i}", cpu="1").label(RACK, f"r{i % 2}") for i in range(4)))
    add_composite(harness)
    for group in "ab":
        add_gang(harness, group, schedulingConstraints={"topology": [{"key": RACK}]})
    harness.add(*members("a"), *members("b"))
    assert placed(harness) == "a0 a1 b0 b1"
    racks = {group: {int(harness.assignments[f"{group}{i}"][1:]) % 2 for i in range(2)} for group in "ab"}
    assert sorted(map(len, racks.values())) == [1, 1]


SAME = "all pods in a single pod group should have the same preemption policy as the pod group's preemption policy, got"


@pytest.mark.parametrize(
    ("gate", "of_group", "of_pods", "message"),
    [
        ("true", "Never", "PreemptLowerPriority", f"{SAME} PreemptLowerPriority and Never"),
        ("true", None, "Never", f"{SAME} Never and PreemptLowerPriority"),
        ("true", "Never", "Never", "minCount (2) cannot be satisfied: 0 scheduled, 1 remaining"),
        ("false", "PreemptLowerPriority", "Never", "minCount (2) cannot be satisfied: 0 scheduled, 1 remaining"),
    ],
)
def test_preemption_policy_of_a_group_counts_with_its_gate(
    gate: str, of_group: str | None, of_pods: str, message: str
) -> None:
    harness = Harness(default(parse([f"{GROUPS},PodGroupPreemptionPolicy={gate}"])))
    harness.add(node("n", cpu="500m"))
    add_gang(harness, "a", parent="", preemptionPolicy=of_group)
    harness.add(*(each.spec(preemptionPolicy=of_pods) for each in members("a")))
    harness.run()
    found = harness.object(POD_GROUPS[0], "a", "default")
    assert found is not None
    assert message in found["status"]["conditions"][0]["message"]
    assert ("not eligible due to preemptionPolicy=Never" in found["status"]["conditions"][0]["message"]) == (
        not message.startswith(SAME)
    )
