"""Fair shares of queues, and reclaim between them, on an API server.

tests/scenarios/batch has the same with a virtual clock.
"""

from __future__ import annotations

import pytest

from tests.e2e.scenario import Scenario, job
from tests.scenarios.batch.manifests import VOLCANO, Gang, Manifest, gang, node, pod, queue

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.slow]


async def until_started(cluster: Scenario, expected: dict[str, int], machine: Manifest, *jobs: Gang) -> None:
    """Create jobs, then, once all their pods are reported as waiting, the only node; so many pods of each start."""
    await cluster.submit(*jobs)
    for each in jobs:
        await cluster.until_reported(each)
    await cluster.submit(machine)
    await cluster.until_settled(expected)


async def test_guarantee_beyond_the_fair_level_lowers_the_shares_of_the_others(cluster: Scenario) -> None:
    """100 cpu are 17.5, 30, 17.5 and 35. Volcano's loop gives 20, 30, 20 and 35: 105."""
    await cluster.submit(
        queue("a", weight=1),
        queue("b", weight=2),
        queue("c", weight=1, capability={"cpu": 20}),
        queue("d", weight=1, guarantee={"cpu": 35}),
    )
    requested = {"a": 100, "b": 30, "c": 100, "d": 40}
    jobs = [job(name, name, 1, int(cpu / 2.5), "2500m") for name, cpu in requested.items()]
    shares = {"a": 17.5, "b": 30, "c": 17.5, "d": 35}
    await until_started(cluster, {name: int(cpu / 2.5) for name, cpu in shares.items()}, node("n1", 100), *jobs)


async def test_guarantee_beyond_the_request_is_left_to_others(cluster: Scenario) -> None:
    await cluster.submit(
        queue("a", weight=3, capability={"cpu": 25}),
        queue("b", weight=2),
        queue("c", weight=1, guarantee={"cpu": 10}),
    )
    jobs = [job("a", "a", 1, 50), job("b", "b", 1, 50), job("c", "c", 1, 5)]
    await until_started(cluster, {"a": 25, "b": 30, "c": 5}, node("n1", 60), *jobs)


async def test_dominant_resource_fairness_in_a_hierarchy(cluster: Scenario) -> None:
    await cluster.submit(
        queue("top"),
        queue("sci", parent="top", weight=1),
        queue("eng", parent="top", weight=1),
        queue("dev", parent="eng", weight=1),
        queue("prod", parent="eng", weight=1),
    )
    jobs = [job("sci", "sci", 1, 10, 1, "1Gi"), job("dev", "dev", 1, 10), job("prod", "prod", 1, 10, 0, "1Gi")]
    await until_started(cluster, {"sci": 5, "dev": 5, "prod": 5}, node("n1", 10, memory="10Gi"), *jobs)


async def test_child_that_no_free_resource_serves_does_not_hold_its_siblings_back(cluster: Scenario) -> None:
    await cluster.submit(
        queue("top"),
        *(queue(name, parent="top", weight=1) for name in ("q1", "q2", "q3", "q4")),
        *(queue(name, parent="q3", weight=1) for name in ("q31", "q32")),
    )
    jobs = [
        *(job(f"{name}-job", name, 1, 30) for name in ("q1", "q2", "q31")),
        *(job(f"{name}-job", name, 1, 30, 0, "1Gi") for name in ("q32", "q4")),
    ]
    expected = {"q1-job": 10, "q2-job": 10, "q31-job": 10, "q32-job": 15, "q4-job": 15}
    await until_started(cluster, expected, node("n1", 30, memory="30Gi"), *jobs)


async def test_group_without_surplus_is_reclaimed_as_a_whole(cluster: Scenario) -> None:
    deserved: Manifest = {"cpu": 10}
    await cluster.submit(queue("a", deserved=deserved), queue("b", deserved=deserved), node("n1", 20))
    running, pending = job("j", "a", 12, 12), job("l", "b", 2, 2)
    await cluster.submit(running, job("k", "b", 8, 8))
    await cluster.until_members(running, 12)
    await cluster.until_members("k", 8)
    await cluster.submit(pending)
    await cluster.until_members(pending, 2)
    await cluster.stays(lambda: sorted(cluster.evicted) == sorted(f"j{i}" for i in range(12)))
    for message in await cluster.until_reported(running, "Unschedulable"):
        assert (
            "would be 2 cpu over its deserved: 12 cpu requested, 10 cpu free, 0 cpu allocated, 10 cpu deserved"
            in message
        )
    assert await cluster.members("k") == 8


@pytest.mark.parametrize("priority", [0, 10])
async def test_evicted_pod_does_not_take_the_reclaimed_room_again(cluster: Scenario, priority: int) -> None:
    await cluster.submit(queue("q1", deserved={"cpu": 3}), queue("q2", deserved={"cpu": 5}), node("n1", 8))
    await cluster.submit(gang("p", 1, [pod("p0", 4, priority=priority)], api=VOLCANO, queue="q1"))
    await cluster.submit(job("r", "q2", 1, 1))
    await cluster.until_members("p", 1)
    await cluster.until_members("r", 1)
    reclaimer = job("s", "q2", 1, 1, cpu=4)
    await cluster.submit(reclaimer)
    await cluster.until_members(reclaimer, 1)
    await cluster.until_reported(["p0"])
    await cluster.stays(lambda: cluster.evicted == ["p0"])
    assert await cluster.members("p") == 0


async def test_queue_is_closed_once_its_last_running_job_has_ended(cluster: Scenario) -> None:
    await cluster.submit(queue("q", weight=1), node("n1", 4))
    running, later = job("a", "q", 2, 2), job("b", "q", 2, 2)
    await cluster.submit(running)
    await cluster.until_members(running, 2)
    await cluster.set_queue_state("q", "Closing")
    await cluster.submit(later)
    await cluster.until_reported(later, "SchedulingGated")
    await cluster.until_queue_state("q", "Closing")
    await cluster.delete(running)
    await cluster.until_queue_state("q", "Closed")
    assert await cluster.members(later) == 0
