"""Nodes with nominated pods are filtered together with the results of filtering them one by one."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyscheduler.core.scheduling import competing_pods, filtered_nodes
from pyscheduler.testing import Harness, PodBuilder, node, pod
from tests.properties.profiles import assert_caught, quick

NODES = 4
CPU = st.sampled_from(["1", "2", "3"])
PRIORITIES = st.sampled_from([0, 0, 5])
SPREAD = {
    "maxSkew": 1,
    "topologyKey": "kubernetes.io/hostname",
    "whenUnsatisfiable": "DoNotSchedule",
    "labelSelector": {"matchLabels": {"app": "web"}},
}


@st.composite
def pods(draw: st.DrawFn, name: str) -> PodBuilder:
    """Return a pod that may need more than room."""
    built = pod(name).requests(cpu=draw(CPU)).priority(draw(PRIORITIES))
    if draw(st.booleans()):
        built = built.label("app", "web")
    if draw(st.booleans()):
        built = built.tolerates("dedicated")
    match draw(st.sampled_from(["plain", "plain", "spread", "port", "huge"])):
        case "spread":
            built = built.spec(topologySpreadConstraints=[SPREAD])
        case "port":
            built = built.host_port(80)
        case "huge":
            built = built.requests(memory=str(2**62))
    return built


def outcome(together: bool, story: dict[str, Any]) -> list[tuple[str, str]]:
    """Return the node or the message of each pod."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(filtered_nodes, "are_few", lambda _: not together)
        harness = Harness()
        for i, (cpu, is_tainted) in enumerate(story["nodes"]):
            built_node = node(f"n{i}", cpu=cpu, memory=str(2**62))
            harness.add(built_node.taint("dedicated") if is_tainted else built_node)
        for built, on in story["nominated"]:
            harness.add(built.gate("wait").nominated(f"n{on}"))
        found = []
        for built, leaves in story["pods"]:
            name = built.manifest["metadata"]["name"]
            harness.add(built)
            harness.run()
            found.append((name, harness.assignments.get(name) or harness.pending_message(name)))
            if leaves:
                harness.delete_pod(name)
        return found


@st.composite
def stories(draw: st.DrawFn) -> dict[str, Any]:
    """Return nodes, nominated pods, and pods that are scheduled next to them."""
    nominated = [(draw(pods(f"h{i}")), draw(st.integers(0, NODES))) for i in range(draw(st.integers(1, 6)))]
    others = [(draw(pods(f"p{i}")), draw(st.booleans())) for i in range(draw(st.integers(1, 6)))]
    nodes = st.tuples(CPU, st.sampled_from([False, False, True]))
    return {"nodes": draw(st.lists(nodes, min_size=NODES, max_size=NODES)), "nominated": nominated, "pods": others}


def check(story: dict[str, Any]) -> None:
    assert outcome(True, story) == outcome(False, story)


@quick(120)
@given(stories())
def test_nodes_filtered_together_have_the_results_of_nodes_filtered_one_by_one(story: dict[str, Any]) -> None:
    check(story)


def test_ignored_requests_of_nominated_pods_fail_the_property(monkeypatch: pytest.MonkeyPatch) -> None:
    amounts = competing_pods.CompetingPods.amounts
    monkeypatch.setattr(competing_pods.CompetingPods, "amounts", lambda *given: 0 * amounts(*given))
    assert_caught(check, stories())


def test_nominated_pods_of_another_priority_fail_the_property(monkeypatch: pytest.MonkeyPatch) -> None:
    of, first = competing_pods.CompetingPodsCache.of, dict[int, Any]()
    monkeypatch.setattr(
        competing_pods.CompetingPodsCache, "of", lambda self, given: first.setdefault(id(self), of(self, given))
    )
    assert_caught(check, stories())


def test_forgotten_rejections_without_nominated_pods_fail_the_property(monkeypatch: pytest.MonkeyPatch) -> None:
    reject: Any = competing_pods.reject_by_room
    monkeypatch.setattr(filtered_nodes, "reject_by_room", lambda *given: reject(*given[:-1], {}))
    assert_caught(check, stories())
