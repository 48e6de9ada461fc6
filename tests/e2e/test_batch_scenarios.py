"""Batch scenarios with config/batch.yaml on an API server; tests/scenarios/batch has them with a virtual clock."""

from __future__ import annotations

import asyncio
import itertools

import pytest

from pyscheduler.embedded.hollow.pod_lifecycle import FAIL_AFTER_SECONDS, RUN_SECONDS
from tests.e2e import batch as versions
from tests.e2e.client import Json
from tests.e2e.scenario import Scenario, each_api, job, with_priority
from tests.scenarios.batch.manifests import (
    ANNOTATIONS,
    COSCHEDULING,
    NATIVE,
    RACK,
    VOLCANO,
    Gang,
    Manifest,
    annotated,
    gang,
    node,
    pod,
    queue,
    slots,
)

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.slow]

# -- placement ---------------------------------------------------------------------------------------------------------


@each_api
async def test_group_without_room_holds_no_place_while_an_interleaved_one_runs(cluster: Scenario, api: str) -> None:
    await cluster.submit(*slots(150))
    first, second = gang("a", 100, api=api), gang("b", 100, api=api)
    await cluster.submit(*first.objects)
    await asyncio.sleep(1.1)  # creation times have whole seconds
    await cluster.submit(*second.objects)
    await cluster.submit(*itertools.chain(*zip(first.pods, second.pods, strict=True)))
    await cluster.until_members(first, 100)
    await cluster.until_reported(second)
    singles = [pod(f"single{i}") for i in range(50)]
    await cluster.submit(*singles)
    await cluster.until_members("single", 50)
    assert await cluster.members(second) == 0
    await cluster.delete(first, Gang("single", 1, singles, []))
    await cluster.until_members(second, 100)


@pytest.mark.parametrize(
    ("rooms", "requests", "expected"),
    [
        pytest.param([1, 4], [1, 4], ["n1", "n4"], id="small pod before large"),
        pytest.param([3, 2, 1], [1, 2, 3], ["n1", "n2", "n3"], id="the only matching of three"),
    ],
)
@each_api
async def test_pods_of_different_size_are_matched_to_nodes(
    cluster: Scenario, rooms: list[int], requests: list[int], expected: list[str], api: str
) -> None:
    await cluster.submit(*(node(f"n{cpu}", cpu) for cpu in rooms))
    pods = [pod(f"a{i}", cpu) for i, cpu in enumerate(requests)]
    await cluster.submit(gang("a", len(pods), pods, api=api))
    await cluster.until_members("a", len(pods))
    assert await cluster.nodes_of("a") == {f"a{i}": name for i, name in enumerate(expected)}


@each_api
async def test_message_of_a_group_without_a_placement_has_the_pod_and_the_missing_amount(
    cluster: Scenario, api: str
) -> None:
    await cluster.submit(node("n1", 3), node("n2", 2))
    group = gang("a", 2, [pod("a0", 3), pod("a1", 3)], api=api)
    await cluster.submit(group)
    for message in await cluster.until_reported(group, "Unschedulable"):
        assert "1 of 2 required pods have a node, a1 lacks 1 cpu on node" in message
    assert await cluster.members(group) == 0


@each_api
async def test_pods_beyond_the_minimum_wait_as_surplus(cluster: Scenario, api: str) -> None:
    await cluster.submit(node("n1", 2))
    group = gang("a", 1, 3, api=api)
    await cluster.submit(group)
    await cluster.until_members(group, 2)
    [left] = {"a0", "a1", "a2"} - (await cluster.nodes_of(group)).keys()
    await cluster.until_reported([left], "Unschedulable")
    if api != ANNOTATIONS:
        version = versions.NATIVE if api == NATIVE else api
        await cluster.namespace.until_condition(version, "a", versions.SCHEDULED[version])
    await cluster.submit(node("n2", 1))
    await cluster.until_members(group, 3)


async def test_members_without_requests_run_on_a_full_node_in_an_overused_queue(cluster: Scenario) -> None:
    deserved: Manifest = {"cpu": 1}
    await cluster.submit(queue("q", deserved=deserved), queue("other", deserved={"cpu": 3}), node("n1", 4))
    full = job("full", "q", 4, 4)
    await cluster.submit(full)
    await cluster.until_members(full, 4)
    group = gang("a", 2, [pod("a0", 0, priority=100), pod("a1", 0, priority=100)], api=VOLCANO, queue="q")
    await cluster.submit(group)
    await cluster.until_members(group, 2)
    await cluster.stays(lambda: cluster.evicted == [])


@pytest.mark.parametrize("api", [VOLCANO, ANNOTATIONS])
async def test_group_goes_to_the_rack_that_it_leaves_the_least_room_in(cluster: Scenario, api: str) -> None:
    racks = {"r1": 6, "r2": 4, "r3": 8}
    for name, size in racks.items():
        await cluster.submit(*(node(f"{name}-{i}", labels={RACK: name}) for i in range(size)))
    for size, expected in ((4, "r2"), (6, "r1"), (8, "r3")):
        pods = [annotated(pod(f"g{size}-{i}"), pod_group_required_topology=RACK) for i in range(size)]
        await cluster.submit(gang(f"g{size}", size, pods, api=api))
        await cluster.until_members(f"g{size}-", size)
        assert {at.partition("-")[0] for at in (await cluster.nodes_of(f"g{size}-")).values()} == {expected}


@each_api
async def test_small_pods_leave_the_large_hole_to_a_large_pod(cluster: Scenario, api: str) -> None:
    await cluster.submit(node("n2", 8, gpu=2), node("n1a", 8, gpu=1), node("n1b", 8, gpu=1))
    await cluster.submit(gang("a", 2, [pod("a0", gpu=1), pod("a1", gpu=1)], api=api))
    await cluster.until_members("a", 2)
    await cluster.submit(gang("b", 1, [pod("b0", gpu=2)], api=api))
    await cluster.until_members("b", 1)
    assert set((await cluster.nodes_of("a")).values()) == {"n1a", "n1b"}


# -- preemption --------------------------------------------------------------------------------------------------------


async def full(cluster: Scenario, count: int, priority: int = 0) -> None:
    """Fill a cluster with single pods."""
    await cluster.submit(*slots(count), *(pod(f"low{i}", priority=priority) for i in range(count)))
    await cluster.until_members("low", count)


@each_api
async def test_nothing_is_evicted_for_a_group_that_cannot_start(cluster: Scenario, api: str) -> None:
    await full(cluster, 2)
    group = with_priority("a", 3, 100, api)
    await cluster.submit(group)
    await cluster.until_reported(group, "Unschedulable")
    await cluster.stays(lambda: cluster.evicted == [])
    await cluster.submit(node("slot2"))
    await cluster.until_members(group, 3)
    await cluster.stays(lambda: sorted(cluster.evicted) == ["low0", "low1"])


@each_api
async def test_priority_of_a_group_is_the_least_of_its_pods(cluster: Scenario, api: str) -> None:
    await full(cluster, 3, priority=50)
    group = gang("a", 3, [pod("launcher", priority=100), pod("worker0"), pod("worker1")], api=api)
    await cluster.submit(group)
    await cluster.until_reported(group, "Unschedulable")
    await cluster.stays(lambda: cluster.evicted == [])


@pytest.mark.parametrize("api", [NATIVE, VOLCANO], ids=["native", "volcano"])
async def test_priority_class_of_a_group_replaces_the_priorities_of_its_pods(cluster: Scenario, api: str) -> None:
    await full(cluster, 3, priority=50)
    pods = [pod("launcher", priority=100), pod("worker0"), pod("worker1")]
    group = gang("a", 3, pods, api=api, priority=100)
    await cluster.submit(group)
    await cluster.until_members(group, 3)
    await cluster.stays(lambda: sorted(cluster.evicted) == ["low0", "low1", "low2"])


@each_api
async def test_surplus_of_a_group_is_evicted_first_and_its_newest_pods_of_all(cluster: Scenario, api: str) -> None:
    await cluster.submit(*slots(12))
    elastic, core = gang("e", 4, 10, api=api), gang("c", 2, api=api)
    await cluster.submit(core, *elastic.objects, *elastic.pods[:7])
    await cluster.until_members(elastic, 7)
    await asyncio.sleep(1.1)  # start times have whole seconds
    await cluster.submit(*elastic.pods[7:])
    await cluster.until_members(elastic, 10)
    group = with_priority("p", 3, 10, api)
    await cluster.submit(group)
    await cluster.until_members(group, 3)
    await cluster.stays(lambda: sorted(cluster.evicted) == ["e7", "e8", "e9"])
    assert (await cluster.members(elastic), await cluster.members(core)) == (7, 2)


# -- queues ------------------------------------------------------------------------------------------------------------


async def test_group_reclaims_its_deserved_share_from_the_queue_over_its_own(cluster: Scenario) -> None:
    await cluster.submit(queue("t", weight=5), queue("u", weight=5), queue("idle", weight=1), node("n1", 11))
    running, group = job("r", "t", 1, 11), job("g", "u", 2, 2)
    await cluster.submit(running)
    await cluster.until_members(running, 11)
    await cluster.submit(group)
    await cluster.until_members(group, 2)
    await cluster.stays(lambda: len(cluster.evicted) == 2)
    assert (await cluster.members(running), await cluster.members(group)) == (9, 2)


async def two_queues(cluster: Scenario, running: Gang, guarantee: int) -> Gang:
    """Fill 20 cpu, with queue b 2 short of its deserved 10; return its pending group of 2."""
    deserved: Manifest = {"cpu": 10}
    await cluster.submit(queue("a", deserved=deserved, guarantee={"cpu": guarantee}), queue("b", deserved=deserved))
    await cluster.submit(node("n1", 20), running, job("k", "b", 8, 8))
    await cluster.until_members(running, 12)
    await cluster.until_members("k", 8)
    pending = job("l", "b", 2, 2)
    await cluster.submit(pending)
    return pending


async def test_surplus_of_a_group_is_reclaimed(cluster: Scenario) -> None:
    running = job("j", "a", 10, 12)
    pending = await two_queues(cluster, running, guarantee=10)
    await cluster.until_members(pending, 2)
    await cluster.stays(lambda: len(cluster.evicted) == 2)
    assert await cluster.members(running) == 10


async def test_group_is_kept_that_would_leave_its_queue_below_the_guarantee(cluster: Scenario) -> None:
    running = job("j", "a", 12, 12)
    pending = await two_queues(cluster, running, guarantee=10)
    a = cluster.named("a")
    victim = f"its only victim is gang j of 12, which would leave {a} below its guarantee 10 cpu"
    text = f"queue {a} is 2 cpu over its deserved, {victim}"
    for message in await cluster.until_reported(pending):
        assert text in message
    await cluster.stays(lambda: cluster.evicted == [])


async def test_two_queues_do_not_evict_each_other_in_turn(cluster: Scenario) -> None:
    shares: Manifest = {"deserved": {"cpu": 5}, "capability": {"cpu": 10}}
    await cluster.submit(queue("qa", **shares), queue("qb", **shares), node("n1", 11))
    first, second = job("a", "qa", 2, 5, cpu=2), job("b", "qb", 2, 5, cpu=2)
    await cluster.submit(first)
    await cluster.until_members(first, 5)
    await cluster.submit(second)
    await cluster.until_members(second, 2)
    await cluster.stays(lambda: len(cluster.evicted) == 2)
    assert (await cluster.members(first), await cluster.members(second)) == (3, 2)


async def test_no_more_is_reclaimed_than_is_requested(cluster: Scenario) -> None:
    deserved: Manifest = {"cpu": 6}
    await cluster.submit(queue("qa", deserved=deserved), queue("qb", deserved=deserved), node("n1", 12))
    running = job("v", "qa", 2, 12)
    await cluster.submit(running)
    await cluster.until_members(running, 12)
    await cluster.submit(job("w", "qb", 1, 1))
    await cluster.until_members("w", 1)
    await cluster.stays(lambda: len(cluster.evicted) == 1)
    await cluster.submit(*(job(f"x{i}", "qb", 1, 1) for i in range(4)))
    await cluster.until_members("x", 4)
    await cluster.stays(lambda: len(cluster.evicted) == 5)
    await cluster.submit(*(job(f"y{i}", "qb", 1, 1) for i in range(4)))
    await cluster.until_members("y", 1)
    await cluster.stays(lambda: len(cluster.evicted) == 6)
    assert await cluster.members(running) == 6


@pytest.mark.parametrize("state", ["Closed", "Closing"])
async def test_closed_queue_starts_no_group_and_leaves_its_room_to_others(cluster: Scenario, state: str) -> None:
    await cluster.submit(queue("q", weight=1), queue("other", weight=1), node("n1", 6))
    running, later = job("a", "q", 2, 2), job("b", "q", 2, 2)
    await cluster.submit(running)
    await cluster.until_members(running, 2)
    await cluster.set_queue_state("q", state)
    await cluster.submit(later)
    for message in await cluster.until_reported(later, "SchedulingGated"):
        assert f"queue {cluster.named('q')} is {state}" in message
    others = job("c", "other", 4, 4)
    await cluster.submit(others)
    await cluster.until_members(others, 4)
    await cluster.stays(lambda: cluster.evicted == [])
    assert (await cluster.members(running), await cluster.members(later)) == (2, 0)


@pytest.mark.parametrize(("cpu", "expected"), [("833m", 3), ("834m", 2)])
async def test_quota_counts_millicores(cluster: Scenario, cpu: str, expected: int) -> None:
    await cluster.submit(queue("q", capability={"cpu": "2500m"}), node("n1", 10))
    group = gang("a", 1, [pod(f"a{i}", cpu) for i in range(3)], api=VOLCANO, queue="q")
    await cluster.submit(group)
    await cluster.until_members(group, expected)
    if expected < 3:
        [left] = {"a0", "a1", "a2"} - (await cluster.nodes_of(group)).keys()
        await cluster.until_reported([left], "QuotaExceeded")


async def test_quota_of_gpus_does_not_hold_back_pods_without_gpus(cluster: Scenario) -> None:
    await cluster.submit(queue("q", capability={"gpu": 3}), node("n1", 10, gpu=8))
    group = gang("a", 1, [pod(f"a{i}", gpu=1) for i in range(4)], api=VOLCANO, queue="q")
    await cluster.submit(group, gang("b", 1, api=VOLCANO, queue="q"))
    await cluster.until_members(group, 3)
    await cluster.until_members("b", 1)
    [left] = {f"a{i}" for i in range(4)} - (await cluster.nodes_of(group)).keys()
    await cluster.until_reported([left], "QuotaExceeded")


async def test_queue_of_weight_zero_gets_what_no_other_requests(cluster: Scenario) -> None:
    await cluster.submit(queue("a", weight=1), queue("zero", weight=0))
    await cluster.submit(job("z", "zero", 1, 10), job("a", "a", 1, 7))
    await cluster.until_reported([f"a{i}" for i in range(7)])
    await cluster.submit(node("n1", 10))
    await cluster.until_members("a", 7)
    await cluster.until_members("z", 3)


# -- what a cluster autoscaler reads -----------------------------------------------------------------------------------


@each_api
async def test_pods_of_an_incomplete_group_are_no_demand(cluster: Scenario, api: str) -> None:
    await cluster.submit(node("n1", 7))
    group = gang("a", 8, api=api)
    await cluster.submit(*group.objects, *group.pods[:2])
    for message in await cluster.until_reported(["a0", "a1"], "SchedulingGated"):
        assert message.endswith("/a has only 2 of the 8 pods that it needs")


async def test_pods_that_a_quota_holds_back_are_no_demand(cluster: Scenario) -> None:
    await cluster.submit(queue("q", capability={"cpu": 4}), node("n1", 8))
    group = job("a", "q", 8, 8)
    await cluster.submit(group)
    for message in await cluster.until_reported(group, "QuotaExceeded"):
        assert f"queue {cluster.named('q')} would exceed its capability" in message
    assert await cluster.members(group) == 0


@each_api
async def test_all_pods_of_a_group_that_lacks_room_are_demand(cluster: Scenario, api: str) -> None:
    await cluster.submit(node("n1", 7))
    group = gang("a", 8, api=api)
    await cluster.submit(group)
    for message in await cluster.until_reported(group, "Unschedulable"):
        assert "lacks 1 cpu on node" in message
    if api != ANNOTATIONS:
        version = versions.NATIVE if api == NATIVE else api
        unschedulable = (version, "a", versions.UNSCHEDULABLE[version], "lacks 1 cpu")
        await cluster.namespace.until_condition(*unschedulable)
        await asyncio.sleep(2)  # the controller of PodGroups writes their status too
        await cluster.namespace.until_condition(*unschedulable, seconds=0.5)
    await cluster.submit(node("n2", 1))
    await cluster.until_members(group, 8)


# -- members that end, and changed groups ------------------------------------------------------------------------------


@each_api
async def test_replacement_of_a_failed_pod_is_bound_beside_a_succeeded_one(cluster: Scenario, api: str) -> None:
    await cluster.submit(node("n1", 3))
    pods = [_never_restarted(pod(f"a{i}")) for i in range(3)]
    group = gang("a", 3, pods, api=api)
    await cluster.submit(group)
    await cluster.until_members(group, 3)
    await _end(cluster, "a0", RUN_SECONDS, "Succeeded")
    await _end(cluster, "a1", FAIL_AFTER_SECONDS, "Failed")
    await cluster.submit(*gang("a", 3, [pod("a1-again")], api=api).pods)
    await cluster.until_members("a1-again", 1)


def _never_restarted(manifest: Manifest) -> Manifest:
    return {**manifest, "spec": {**manifest["spec"], "restartPolicy": "Never"}}


async def _end(cluster: Scenario, name: str, annotation: str, phase: str) -> None:
    """End the run of a pod."""
    patch = {"metadata": {"annotations": {annotation: "0"}}}
    await cluster.namespace.api.patch(f"{cluster.namespace.pods}/{name}", patch)
    await cluster.namespace.until(lambda items: _phase(items, name) == phase)


def _phase(items: list[Json], name: str) -> str:
    return next((str(each["status"]["phase"]) for each in items if each["metadata"]["name"] == name), "")


@pytest.mark.parametrize("api", [NATIVE, VOLCANO, COSCHEDULING], ids=["native", "volcano", "scheduler-plugins"])
async def test_group_starts_when_its_minimum_is_lowered(cluster: Scenario, api: str) -> None:
    await cluster.submit(*slots(2))
    group = gang("a", 3, api=api)
    await cluster.submit(group)
    await cluster.until_reported(group, "Unschedulable")
    await cluster.set_minimum(group, 2)
    await cluster.until_members(group, 2)


@each_api
async def test_group_starts_when_another_scheduler_binds_its_third_pod(cluster: Scenario, api: str) -> None:
    await cluster.submit(*slots(2))
    group = gang("a", 3, api=api)
    await cluster.submit(*group.objects, *group.pods[:2])
    await cluster.until_reported(["a0", "a1"], "SchedulingGated")
    await cluster.submit(node("theirs"))
    theirs = {**group.pods[2], "spec": {**group.pods[2]["spec"], "nodeName": cluster.named("theirs")}}
    await cluster.submit(theirs)
    await cluster.until_members(group, 3)


@pytest.mark.parametrize("api", [NATIVE, VOLCANO, COSCHEDULING], ids=["native", "volcano", "scheduler-plugins"])
async def test_pods_of_a_deleted_group_leave_the_room_to_others(cluster: Scenario, api: str) -> None:
    await cluster.submit(*slots(2))
    group = gang("a", 3, api=api)
    await cluster.submit(group)
    await cluster.until_reported(group, "Unschedulable")
    await cluster.delete_group(group)
    for message in await cluster.until_reported(group, "SchedulingGated"):
        assert "waiting for PodGroup" in message
    await cluster.submit(pod("single0"), pod("single1"))
    await cluster.until_members("single", 2)


async def test_gates_are_removed_when_the_quota_admits_the_group(cluster: Scenario) -> None:
    await cluster.submit(*slots(4), queue("gated", capability={"cpu": 2}))
    first, second = (gang(each, 2, gated(each, 2), api=VOLCANO, queue="gated") for each in ("a", "b"))
    await cluster.submit(first)
    await cluster.until_members(first, 2)
    await cluster.submit(second)
    await cluster.until_reported(second)
    assert await cluster.members(second) == 0
    await cluster.delete(first)
    await cluster.until_members(second, 2)


def gated(name: str, count: int) -> list[Manifest]:
    """Return pods with the scheduling gate of queues."""
    pods = [pod(f"{name}{i}") for i in range(count)]
    for each in pods:
        each["spec"]["schedulingGates"] = [{"name": "pyscheduler.io/queue-admission"}]
    return pods
