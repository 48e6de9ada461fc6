"""Reduction of a case to the smallest that still has the property."""

from __future__ import annotations

from typing import Any

from tests.conformance.generator.generated_cluster import Manifest
from tests.conformance.minimise import minimised

NAMES = [f"n{number}" for number in range(20)]


def _node(name: str) -> Manifest:
    taint = {"key": "a", "effect": "NoSchedule", "value": "x"}
    return {
        "kind": "Node",
        "metadata": {"name": name, "labels": {"zone": "z", "disk": "ssd"}},
        "spec": {"taints": [dict(taint), {**taint, "key": name}], "unschedulable": True},
    }


def _pod(name: str) -> Manifest:
    return {"kind": "Pod", "metadata": {"name": name, "namespace": "default"}}


def _nodes(document: Manifest) -> list[Any]:
    return [o for o in document["objects"] if o["metadata"].get("name") == "n3"]


def test_irrelevant_parts_are_removed() -> None:
    document = {"id": 1, "objects": [*map(_node, NAMES), _pod("a"), _pod("b")], "config": {}}
    document["pods"] = ["default/a", "default/b"]

    def still(candidate: Manifest) -> bool:
        return any(t["key"] == "n3" for n in _nodes(candidate) for t in n.get("spec", {}).get("taints", ()))

    small = minimised(document, still)
    taint = {"key": "n3", "effect": "NoSchedule", "value": "x"}
    node = {"kind": "Node", "metadata": {"name": "n3"}, "spec": {"taints": [taint]}}
    assert small == {"id": 1, "objects": [node, _pod("a")], "pods": ["default/a"]}


def test_number_of_trials_is_limited() -> None:
    tried = []

    def still(candidate: Manifest) -> bool:
        tried.append(candidate)
        return False

    minimised({"id": 1, "objects": [*map(_node, NAMES), _pod("a")], "pods": ["default/a"]}, still, limit=5)
    assert len(tried) == 5


def test_sequence_is_shortened() -> None:
    pods = [f"default/p{number}" for number in range(9)]
    document = {"id": 1, "objects": [_pod(f"p{number}") for number in range(9)], "sequence": pods, "config": {}}
    small = minimised(document, lambda candidate: {"default/p2", "default/p7"} <= {*candidate["sequence"]})
    assert small["sequence"] == ["default/p2", "default/p7"]
    assert [o["metadata"]["name"] for o in small["objects"]] == ["p2", "p7"]
