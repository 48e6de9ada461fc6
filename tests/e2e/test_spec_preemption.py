"""Kubernetes' SchedulerPreemption specs: victims, nominations, conditions.

docs/specs.md maps specs to tests.
"""

from __future__ import annotations

import pytest

from tests.e2e.client import Json
from tests.e2e.story import HOSTNAME, Story, alive, condition, spread
from tests.e2e.workloads import placed

pytestmark = pytest.mark.asyncio(loop_scope="session")

SEAT = "example.com/seat"
CRITICAL = "system-cluster-critical"


async def two_full_nodes(story: Story) -> None:
    """Create two nodes with five seats, three in use: by a pod of low priority on `a`, of medium on `b`."""
    for node, name, value in (("a", "low", 1), ("b", "medium", 100)):
        await story.node(node, extra={SEAT: "5"})
        taking = story.spec({SEAT: "3"}, on=node, priorityClassName=await story.priority(name, value))
        await story.pod(name, taking)
        assert await story.bound(name) == node


@pytest.mark.parametrize("urgent", ["high", CRITICAL])
async def test_pod_of_the_lowest_priority_is_preempted(story: Story, urgent: str) -> None:
    await two_full_nodes(story)
    chosen = urgent if urgent == CRITICAL else await story.priority(urgent, 1000)
    await story.pod("preemptor", story.spec({SEAT: "3"}, priorityClassName=chosen))
    assert await story.bound("preemptor") == "a"
    await story.exactly({"medium", "preemptor"})


async def test_victim_and_preemptor_have_conditions_and_nomination(story: Story) -> None:
    node = await story.node("a", extra={SEAT: "5"})
    low, high = await story.priority("low", 1), await story.priority("high", 1000)
    await story.pod("victim", story.spec({SEAT: "3"}, priorityClassName=low))
    assert await story.bound("victim") == "a"
    story.stop_kubelet("a")
    await story.pod("preemptor", story.spec({SEAT: "3"}, priorityClassName=high))
    victim = await story.until(f"{story.pods}/victim", lambda found: "deletionTimestamp" in found["metadata"])
    assert condition(victim, "DisruptionTarget") == {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": "PreemptionByScheduler",
        "message": "default-scheduler: preempting to accommodate a higher priority pod",
        "observedGeneration": 1,
    }
    waiting = await story.until(f"{story.pods}/preemptor", lambda found: found["status"].get("nominatedNodeName"))
    assert waiting["status"]["nominatedNodeName"] == node
    refusal = condition(waiting, "PodScheduled")
    assert refusal.pop("message").startswith(f"0/1 nodes are available: 1 Insufficient {SEAT}.")
    assert refusal == {
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "observedGeneration": 1,
    }
    await story.delete_pod("victim")
    assert await story.bound("preemptor") == "a"
    bound = await story.api.get(f"{story.pods}/preemptor")
    assert "nominatedNodeName" not in bound["status"]
    assert condition(bound, "PodScheduled") == {"type": "PodScheduled", "status": "True"}


async def test_victims_are_chosen_by_the_spread_constraint(story: Story) -> None:
    labels = {"app": "spread"}
    low, medium, high = [await story.priority(n, v) for n, v in (("low", 1), ("medium", 100), ("high", 1000))]
    for node in ("a", "b"):
        await story.node(node, extra={SEAT: "10"})
    await story.pod("high", story.spec({SEAT: "9"}, on="a", priorityClassName=high), labels)
    for number in range(3):
        await story.pod(f"low-{number}", story.spec({SEAT: "3"}, on="b", priorityClassName=low), labels)
    assert await story.places(4) == {"a": 1, "b": 3}
    even = spread(HOSTNAME, labels)
    await story.pod("medium", story.spec({SEAT: "3"}, priorityClassName=medium, topologySpreadConstraints=even), labels)
    assert await story.bound("medium") == "b"
    assert await story.places(3) == {"a": 1, "b": 2}


async def test_replica_sets_preempt_each_other_in_order(story: Story) -> None:
    await story.node("a", extra={SEAT: "1000"})
    sets = story.at("apps/v1", "replicasets")
    for name, value, replicas, seats in (("first", 1, 3, "300"), ("second", 2, 1, "400"), ("third", 3, 1, "700")):
        labels = {"app": name}
        chosen = await story.priority(name, value)
        template = {"metadata": {"labels": labels}, "spec": story.spec({SEAT: seats}, priorityClassName=chosen)}
        body = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template}
        await story.api.create(sets, {"metadata": {"name": name}, "spec": body})
        assert await story.places(replicas, f"app={name}") == {"a": replicas}
    await story.until(f"{sets}/second", lambda found: found["status"].get("readyReplicas", 0) == 0)
    # Victims are recreated, and wait.
    left = {"readyReplicas": 1, "replicas": 3}
    await story.until(f"{sets}/first", lambda found: left.items() <= found["status"].items())
    await story.api.delete(f"{sets}/third", propagationPolicy="Background")
    assert await story.places(1, "app=second") == {"a": 1}
    await story.until(f"{sets}/first", lambda found: found["status"].get("readyReplicas") == 2)


async def test_pod_with_preemption_policy_never_waits(story: Story) -> None:
    await story.node("a", extra={SEAT: "5"})
    low = await story.priority("low", 1)
    never = await story.priority("patient", 1000, preemptionPolicy="Never")
    await story.pod("there", story.spec({SEAT: "3"}, priorityClassName=low))
    assert await story.bound("there") == "a"
    await story.pod("patient", story.spec({SEAT: "3"}, priorityClassName=never))
    assert await story.unschedulable("patient") == (
        f"0/1 nodes are available: 1 Insufficient {SEAT}. preemption: not eligible due to preemptionPolicy=Never."
    )
    assert (await story.api.get(f"{story.pods}/patient"))["spec"]["preemptionPolicy"] == "Never"
    await story.exactly({"there", "patient"})
    await story.delete_pod("there")
    assert await story.bound("patient") == "a"


async def test_preemption_prefers_victims_without_a_disruption_budget(story: Story) -> None:
    # The budget comes first: its watch is not that of the pods.
    budgets = story.at("policy/v1", "poddisruptionbudgets")
    budget = {"minAvailable": 1, "selector": {"matchLabels": {"app": "guarded"}}}
    await story.api.create(budgets, {"metadata": {"name": "guard"}, "spec": budget})
    await two_full_nodes(story)
    await story.api.patch(f"{story.pods}/low", {"metadata": {"labels": {"app": "guarded"}}})
    await story.until(f"{budgets}/guard", lambda found: found["status"].get("currentHealthy") == 1)
    high = await story.priority("high", 1000)
    await story.pod("preemptor", story.spec({SEAT: "3"}, priorityClassName=high))
    assert await story.bound("preemptor") == "b"
    await story.exactly({"low", "preemptor"})
    await story.pod("second", story.spec({SEAT: "3"}, priorityClassName=high))
    assert await story.bound("second") == "a", "a budget is violated only if there is no other node"


async def test_pods_of_the_highest_priority_run_when_all_arrive_at_once(story: Story) -> None:
    await story.node("a", extra={SEAT: "10"})
    low, medium, high = [await story.priority(n, v) for n, v in (("low", 1), ("medium", 100), ("high", 1000))]
    for number in range(10):
        await story.pod(f"low-{number}", story.spec({SEAT: "1"}, priorityClassName=low))
    assert await story.places(10) == {"a": 10}
    for number in range(5):
        await story.pod(f"medium-{number}", story.spec({SEAT: "1"}, priorityClassName=medium), {"app": "medium"})
    for number in range(5):
        await story.pod(f"high-{number}", story.spec({SEAT: "2"}, priorityClassName=high), {"app": "high"})
    assert await story.places(5, "app=high") == {"a": 5}
    found = await story.until(story.pods, lambda found: len(placed({"items": alive(found)})) == 5)
    assert {name.partition("-")[0] for name in placed({"items": alive(found)})} == {"high"}


async def test_resources_of_a_victim_are_reserved_for_its_preemptor(story: Story) -> None:
    await story.node("a", extra={SEAT: "5"})
    low, medium, high = [await story.priority(n, v) for n, v in (("low", 1), ("medium", 100), ("high", 1000))]
    await story.pod("victim", story.spec({SEAT: "5"}, priorityClassName=low))
    assert await story.bound("victim") == "a"
    story.stop_kubelet("a")
    await story.pod("preemptor", story.spec({SEAT: "5"}, priorityClassName=high))
    await story.until(f"{story.pods}/preemptor", lambda found: found["status"].get("nominatedNodeName"))
    await story.pod("opportunist", story.spec({SEAT: "5"}, priorityClassName=medium))
    assert f"1 Insufficient {SEAT}" in await story.unschedulable("opportunist")
    await story.delete_pod("victim")
    assert await story.bound("preemptor") == "a"
    assert "nodeName" not in (await story.api.get(f"{story.pods}/opportunist"))["spec"]


async def test_nomination_is_cleared_for_a_pod_of_higher_priority(story: Story) -> None:
    node = await story.node("a", extra={SEAT: "10"})
    lowest, low, medium, high = [await story.priority(f"p{value}", value) for value in (1, 2, 100, 1000)]
    for name, priority in (("first-victim", lowest), ("second-victim", low)):
        await story.pod(name, story.spec({SEAT: "5"}, priorityClassName=priority))
        assert await story.bound(name) == "a"
    story.stop_kubelet("a")

    def nominated(found: Json) -> bool:
        return bool(found["status"].get("nominatedNodeName") == node)

    await story.pod("medium", story.spec({SEAT: "5"}, priorityClassName=medium))
    await story.until(f"{story.pods}/medium", nominated)
    await story.exactly({"second-victim", "medium"})
    await story.pod("high", story.spec({SEAT: "10"}, priorityClassName=high))
    await story.until(f"{story.pods}/high", nominated)
    await story.until(f"{story.pods}/medium", lambda found: not nominated(found))
    await story.delete_pod("first-victim")
    await story.delete_pod("second-victim")
    assert await story.bound("high") == "a"


async def test_nomination_ends_with_its_node(story: Story) -> None:
    node = await story.node("a", extra={SEAT: "5"})
    low, high = await story.priority("low", 1), await story.priority("high", 1000)
    await story.pod("victim", story.spec({SEAT: "5"}, priorityClassName=low))
    assert await story.bound("victim") == "a"
    story.stop_kubelet("a")
    await story.pod("preemptor", story.spec({SEAT: "5"}, priorityClassName=high))
    await story.until(f"{story.pods}/preemptor", lambda found: found["status"].get("nominatedNodeName") == node)
    await story.api.delete(f"/api/v1/nodes/{node}")
    await story.node("b", extra={SEAT: "5"})
    assert await story.bound("preemptor") == "b"
    assert "nominatedNodeName" not in (await story.api.get(f"{story.pods}/preemptor"))["status"]
