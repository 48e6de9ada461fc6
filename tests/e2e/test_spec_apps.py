"""Kubernetes' sig-apps specs: workloads of the real controllers on nodes that run pods.

docs/specs.md maps specs to tests.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import pytest

from tests.e2e.client import ApiError, Json
from tests.e2e.story import HOSTNAME, Story, alive, on_nodes_with, pod_anti_affinity, spread
from tests.e2e.workloads import placed, running, unscheduled

pytestmark = pytest.mark.asyncio(loop_scope="session")

LABELS = {"app": "web"}


def workload(spec: Json, **fields: object) -> Json:
    """Return a DaemonSet, Deployment or StatefulSet called web."""
    template = {"metadata": {"labels": LABELS}, "spec": spec}
    return {"metadata": {"name": "web"}, "spec": {"selector": {"matchLabels": LABELS}, "template": template, **fields}}


def changed(image: str) -> Json:
    """Return a patch with another template."""
    return {"spec": {"template": {"spec": {"containers": [{"name": "main", "image": image}]}}}}


async def all_run(story: Story, image: str, count: int) -> Counter[str]:
    """Wait until exactly `count` pods of an image run; return their number by node."""

    def holds(found: Json) -> bool:
        images = [item["spec"]["containers"][0]["image"] for item in found["items"]]
        return images == [image] * count and running(found) == count

    found = await story.until(story.pods, holds)
    return Counter(story.short(node) for node in placed(found).values())


async def test_daemon_pods_run_on_every_node_and_are_recreated(story: Story) -> None:
    for node in ("a", "b"):
        await story.node(node)
    sets = story.at("apps/v1", "daemonsets")
    await story.api.create(sets, workload(story.spec()))
    assert await story.places(2) == {"a": 1, "b": 1}
    await story.node("c")
    assert await story.places(3) == {"a": 1, "b": 1, "c": 1}
    pods = {story.short(node): name for name, node in placed(await story.api.get(story.pods)).items()}
    await story.delete_pod(pods["a"])
    await story.api.patch(f"{story.pods}/{pods['b']}/status", {"status": {"phase": "Failed"}})
    lost = {pods["a"], pods["b"]}
    await story.until(story.pods, lambda found: len(placed(found)) == 3 and not lost & placed(found).keys())
    assert await story.places(3) == {"a": 1, "b": 1, "c": 1}
    await story.api.delete(f"{sets}/web", propagationPolicy="Background")
    await story.exactly(set())


@pytest.mark.parametrize("by", ["node selector", "node affinity"])
async def test_daemon_pods_follow_node_labels(story: Story, by: str) -> None:
    for node in ("a", "b"):
        await story.node(node)
    blue = {"key": "color", "operator": "In", "values": ["blue"]}
    spec = story.spec(where={"color": "blue"}) if by == "node selector" else story.spec(affinity=on_nodes_with(blue))
    sets = story.at("apps/v1", "daemonsets")
    await story.api.create(sets, workload(spec))
    await story.until(f"{sets}/web", lambda found: found["status"].get("observedGeneration") == 1)
    await story.exactly(set())
    await story.label("b", color="blue")
    assert await story.places(1) == {"b": 1}
    await story.label("b", color="green")
    await story.exactly(set())


async def test_daemon_pods_run_on_cordoned_and_tainted_nodes(story: Story) -> None:
    await story.node("a")
    await story.change_node("a", unschedulable=True)
    await story.api.create(story.at("apps/v1", "daemonsets"), workload(story.spec()))
    assert await story.places(1) == {"a": 1}
    await story.pod("other")
    assert "1 node(s) were unschedulable" in await story.unschedulable("other")


async def test_daemon_pod_preempts_on_a_full_node(story: Story) -> None:
    await story.node("a", cpu="1")
    await story.pod("there", story.spec({"cpu": "800m"}))
    assert await story.bound("there") == "a"
    spec = story.spec({"cpu": "500m"}, priorityClassName=await story.priority("high", 1000))
    await story.api.create(story.at("apps/v1", "daemonsets"), workload(spec))
    assert await story.places(1, "app=web") == {"a": 1}


@pytest.mark.parametrize(
    "strategy", [{"maxSurge": 1, "maxUnavailable": 0}, {"maxSurge": 0, "maxUnavailable": 1}], ids=["surge", "in place"]
)
async def test_daemon_set_is_updated_node_by_node(story: Story, strategy: Mapping[str, int]) -> None:
    for node in ("a", "b"):
        await story.node(node, cpu="2")
    sets = story.at("apps/v1", "daemonsets")
    rolling = {"type": "RollingUpdate", "rollingUpdate": dict(strategy)}
    await story.api.create(sets, workload(story.spec({"cpu": "1"}), updateStrategy=rolling))
    assert await all_run(story, "pause:1", 2) == {"a": 1, "b": 1}
    await story.api.patch(f"{sets}/web", changed("pause:2"), "strategic")
    assert await all_run(story, "pause:2", 2) == {"a": 1, "b": 1}


async def test_rollout_is_spread_independently_of_old_pods(story: Story) -> None:
    for node, cpu in (("a", "64"), ("b", "1")):
        await story.node(node, cpu=cpu)
        await story.seen(node)
    constraints = spread(HOSTNAME, LABELS, matchLabelKeys=["pod-template-hash"])
    spec = story.spec(topologySpreadConstraints=constraints)
    deployments = story.at("apps/v1", "deployments")
    await story.api.create(deployments, workload(spec, replicas=4))
    assert await all_run(story, "pause:1", 4) == {"a": 2, "b": 2}
    await story.api.patch(f"{deployments}/web", changed("pause:2"), "strategic")
    assert await all_run(story, "pause:2", 4) == {"a": 2, "b": 2}


async def test_rollout_with_anti_affinity_waits_for_deletion_of_old_pods(story: Story) -> None:
    for node in ("a", "b"):
        await story.node(node)
    rolling = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 1}}
    deployments = story.at("apps/v1", "deployments")
    await story.api.create(
        deployments, workload(story.spec(affinity=pod_anti_affinity(LABELS)), replicas=2, strategy=rolling)
    )
    assert await all_run(story, "pause:1", 2) == {"a": 1, "b": 1}
    await story.api.patch(f"{deployments}/web", changed("pause:2"), "strategic")
    assert await all_run(story, "pause:2", 2) == {"a": 1, "b": 1}
    await story.api.patch(f"{deployments}/web", {"spec": {"replicas": 3}})
    found = await story.until(story.pods, lambda found: len(alive(found)) == 3)
    assert len(placed(found)) == 2
    await story.node("c")
    assert await story.places(3) == {"a": 1, "b": 1, "c": 1}


async def test_rollout_on_a_full_node_needs_room_by_strategy(story: Story) -> None:
    await story.node("a", cpu="2")
    careful = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}
    deployments = story.at("apps/v1", "deployments")
    await story.api.create(deployments, workload(story.spec({"cpu": "1"}), replicas=2, strategy=careful))
    assert await all_run(story, "pause:1", 2) == {"a": 2}
    await story.api.patch(f"{deployments}/web", changed("pause:2"), "strategic")
    found = await story.until(story.pods, lambda found: any(unscheduled(item) for item in found["items"]))
    assert len(placed(found)) == 2
    ruthless = {"spec": {"strategy": {"type": "Recreate", "rollingUpdate": None}}}
    await story.api.patch(f"{deployments}/web", ruthless)
    assert await all_run(story, "pause:2", 2) == {"a": 2}


async def test_pods_evicted_by_a_no_execute_taint_are_placed_elsewhere(story: Story) -> None:
    for node in ("a", "b"):
        await story.node(node)
    await story.api.create(story.at("apps/v1", "deployments"), workload(story.spec(), replicas=4))
    assert (await all_run(story, "pause:1", 4)).total() == 4
    drain = [{"key": "example.com/drain", "value": "yes", "effect": "NoExecute"}]
    await story.api.patch(f"/api/v1/nodes/{story.full_name('a')}", {"spec": {"taints": drain}})
    await story.until(story.pods, lambda found: set(placed(found).values()) == {story.full_name("b")})
    assert await all_run(story, "pause:1", 4) == {"b": 4}


async def test_stateful_set_waits_for_the_previous_pod(story: Story) -> None:
    await story.node("a")
    port = [{"containerPort": 21017, "hostPort": 21017}]
    await story.pod("in-the-way", story.spec(ports=port))
    assert await story.bound("in-the-way") == "a"
    sets = story.at("apps/v1", "statefulsets")
    await story.api.create(sets, workload(story.spec(ports=port), serviceName="web", replicas=2))
    assert "1 node(s) didn't have free ports" in await story.unschedulable("web-0")
    await story.exactly({"in-the-way", "web-0"})
    await story.delete_pod("in-the-way")
    assert await story.bound("web-0") == "a"
    assert "1 node(s) didn't have free ports" in await story.unschedulable("web-1")
    await story.node("b")
    assert await story.bound("web-1") == "b"


async def test_stateful_set_scales_in_order_and_halts_at_an_unschedulable_pod(story: Story) -> None:
    await story.node("a", cpu="2")
    sets = story.at("apps/v1", "statefulsets")
    await story.api.create(sets, workload(story.spec({"cpu": "1"}), serviceName="web", replicas=4))
    assert "1 Insufficient cpu" in await story.unschedulable("web-2")
    await story.exactly({"web-0", "web-1", "web-2"})
    await story.node("b", cpu="2")
    assert await story.places(4) == {"a": 2, "b": 2}
    await story.api.patch(f"{sets}/web", {"spec": {"replicas": 1}})
    await story.exactly({"web-0"})


async def test_stateful_set_is_updated_from_the_last_pod_to_the_first(story: Story) -> None:
    for node in ("a", "b"):
        await story.node(node)
    sets = story.at("apps/v1", "statefulsets")
    body = workload(story.spec(affinity=pod_anti_affinity(LABELS)), serviceName="web", replicas=2)
    await story.api.create(sets, body)
    assert await all_run(story, "pause:1", 2) == {"a": 1, "b": 1}
    canary = {"spec": {"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 1}}}}
    await story.api.patch(f"{sets}/web", canary)
    await story.api.patch(f"{sets}/web", changed("pause:2"), "strategic")
    found = await story.until(f"{sets}/web", lambda found: found["status"].get("updatedReplicas") == 1)
    assert found["spec"]["replicas"] == 2
    await story.api.patch(f"{sets}/web", {"spec": {"updateStrategy": {"rollingUpdate": {"partition": 0}}}})
    assert await all_run(story, "pause:2", 2) == {"a": 1, "b": 1}


def job(spec: Json, **fields: object) -> Json:
    """Create a Job called sums with pods that succeed after half a second."""
    metadata = {"annotations": {"pyscheduler.io/run-seconds": "0.2"}}
    template = {"metadata": metadata, "spec": {**spec, "restartPolicy": "Never"}}
    return {"metadata": {"name": "sums"}, "spec": {"template": template, **fields}}


async def test_job_completes_when_pods_fit_one_at_a_time(story: Story) -> None:
    await story.node("a", cpu="1")
    jobs = story.at("batch/v1", "jobs")
    indexed = {"completionMode": "Indexed", "completions": 3, "parallelism": 3}
    await story.api.create(jobs, job(story.spec({"cpu": "600m"}), **indexed))
    done = await story.until(f"{jobs}/sums", lambda found: found["status"].get("succeeded") == 3)
    assert done["status"]["completedIndexes"] == "0-2"


async def test_node_selector_of_a_suspended_job_can_be_changed(story: Story) -> None:
    for node in ("a", "b"):
        await story.node(node)
    jobs = story.at("batch/v1", "jobs")
    await story.api.create(jobs, job(story.spec(on="a"), suspend=True))
    await story.until(
        f"{jobs}/sums", lambda found: any(c["type"] == "Suspended" for c in found["status"].get("conditions", ()))
    )
    await story.exactly(set())
    elsewhere = {"spec": {"nodeSelector": {HOSTNAME: story.full_name("b")}}}
    await story.api.patch(f"{jobs}/sums", {"spec": {"template": elsewhere}})
    await story.api.patch(f"{jobs}/sums", {"spec": {"suspend": False}})
    assert await story.places(1) == {"b": 1}


async def test_disruption_budget_waits_for_the_replacement_of_an_evicted_pod(story: Story) -> None:
    nodes = ("a", "b")
    for node in nodes:
        await story.node(node)
    await story.api.create(story.at("apps/v1", "deployments"), workload(story.spec(), replicas=2))
    assert (await all_run(story, "pause:1", 2)).total() == 2
    budgets = story.at("policy/v1", "poddisruptionbudgets")
    budget = {"maxUnavailable": 1, "selector": {"matchLabels": LABELS}}
    await story.api.create(budgets, {"metadata": {"name": "guard"}, "spec": budget})
    await story.until(f"{budgets}/guard", lambda found: found["status"].get("disruptionsAllowed") == 1)
    for node in nodes:
        await story.change_node(node, unschedulable=True)
    first, second = sorted(placed(await story.api.get(story.pods)))
    await evict(story, first)
    await story.until(story.pods, lambda found: any(unscheduled(item) for item in found["items"]))
    with pytest.raises(ApiError, match="disruption budget"):
        await evict(story, second)
    for node in nodes:
        await story.change_node(node, unschedulable=False)
    assert (await all_run(story, "pause:1", 2)).total() == 2
    await story.until(f"{budgets}/guard", lambda found: found["status"].get("disruptionsAllowed") == 1)
    await evict(story, second)


async def evict(story: Story, name: str) -> None:
    """Evict a pod. ApiError if a budget does not allow it."""
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}}
    await story.api.create(f"{story.pods}/{name}/eviction", eviction)
