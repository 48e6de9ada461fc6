"""The manifests and messages of docs/subgroups.md are what the scheduler takes and writes."""

from __future__ import annotations

from typing import Any

import yaml

from pyscheduler.testing import Harness
from tests.docs.pages import blocks, rows
from tests.docs.test_pod_groups_page import Manifest, harness, pending_condition

PAGE = "docs/subgroups.md"
TREE, POLICY = [list(yaml.safe_load_all(block.text)) for block in blocks(PAGE) if block.language == "yaml"]
ALPHA = "scheduling.k8s.io/v1alpha3"
RACK, BLOCK = "example.com/rack", "example.com/block"


def slots(**racks: int) -> list[Manifest]:
    """Return racks of one block with so many nodes for one pod each."""
    return [
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": f"{rack}-{i}", "labels": {RACK: rack, BLOCK: "b1"}},
            "status": {"allocatable": {"cpu": "1", "memory": "64Gi", "pods": "110"}},
        }
        for rack, count in racks.items()
        for i in range(count)
    ]


def pod(name: str, group: str = "", **meta: Any) -> Manifest:
    container = {"name": "main", "image": "app:1", "resources": {"requests": {"cpu": "1"}}}
    joined = {"schedulingGroup": {"podGroupName": group}} if group else {}
    spec = {"containers": [container], "schedulerName": "pyscheduler", **joined}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, **meta}, "spec": spec}


def composite(minimum: int = 2, **spec: Any) -> Manifest:
    policy = {"gang": {"minGroupCount": minimum}}
    kind = {"apiVersion": ALPHA, "kind": "CompositePodGroup"}
    return {**kind, "metadata": {"name": "a"}, "spec": {"schedulingPolicy": policy, **spec}}


def part(name: str, pods: int = 2, **spec: Any) -> list[Manifest]:
    """Return a PodGroup of two pods below `a`, and this number of them."""
    fields = {"parentCompositePodGroupName": "a", "schedulingPolicy": {"gang": {"minCount": 2}}, **spec}
    group = {"apiVersion": ALPHA, "kind": "PodGroup", "metadata": {"name": name}, "spec": fields}
    return [group, *(pod(f"{name}{i}", name) for i in range(pods))]


def test_groups_of_the_tree_start_together_in_their_racks() -> None:
    pods = [pod(f"p{i}", f"ring-{i // 2}") for i in range(4)]
    assert harness(*slots(r1=2, r2=1, r3=1), *TREE, *pods).bindings == {}
    bindings = harness(*slots(r1=2, r2=1, r3=2), *TREE, *pods).bindings
    assert {node.partition("-")[0] for node in bindings.values()} == {"r1", "r3"}


def test_subgroups_of_the_policy_start_together_in_their_hyper_nodes() -> None:
    names = {"scheduling.k8s.io/group-name": "training"}
    pods = [pod(f"p{i}", labels={"role": "worker", "ring": str(i // 2)}, annotations=names) for i in range(4)]
    leaves = [
        {
            "apiVersion": "topology.volcano.sh/v1alpha1",
            "kind": "HyperNode",
            "metadata": {"name": rack},
            "spec": {"tier": 1, "members": [{"type": "Node", "selector": {"regexMatch": {"pattern": f"^{rack}-"}}}]},
        }
        for rack in ("r1", "r2", "r3")
    ]
    assert harness(*slots(r1=2, r2=1, r3=1), *leaves, *POLICY, *pods).bindings == {}
    assert len(harness(*slots(r1=2, r2=1, r3=2), *leaves, *POLICY, *pods).bindings) == 4


def missing_group() -> Harness:
    return harness(*slots(r1=4), composite(), *part("a0"))


def missing_pods() -> Harness:
    return harness(*slots(r1=4), composite(), *part("a0"), *part("a1", 1))


def missing_parent() -> Harness:
    return harness(*slots(r1=4), *part("a0"))


def cycle() -> Harness:
    return harness(*slots(r1=4), composite(parentCompositePodGroupName="a"), *part("a0"))


def no_domain() -> Harness:
    parts = [part(name, schedulingConstraints={"topology": [{"key": RACK}]}) for name in ("a0", "a1")]
    return harness(*slots(r1=2, r2=1, r3=1), composite(), *parts[0], *parts[1])


def short_surplus() -> Harness:
    return harness(*slots(r1=4), composite(1), *part("a0"), *part("a1", 1))


STATES = {
    "a group of the tree is missing": missing_group,
    "pods are missing": missing_pods,
    "the parent is missing": missing_parent,
    "a cycle": cycle,
    "no domain for a part": no_domain,
    "a further group lacks pods": short_surplus,
}


def test_messages_are_those_of_the_scheduler() -> None:
    documented = {state: (reason, message.strip("`")) for state, reason, message in rows(PAGE, "Messages")}
    assert {state: pending_condition(build()) for state, build in STATES.items()} == documented
