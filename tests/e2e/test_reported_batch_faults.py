"""Faults of gang schedulers that users have reported, on an API server: none of them may appear here.

tests/scenarios/batch has the same with a virtual clock.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.e2e.client import ApiError
from tests.e2e.plane import Plane
from tests.e2e.scenario import Scenario, each_api
from tests.e2e.scheduler import Configured, scheduler
from tests.scenarios.batch.manifests import (
    BLOCK,
    COSCHEDULING,
    NATIVE,
    PREFERRED_TOPOLOGY,
    RACK,
    RUN_SECONDS,
    VOLCANO,
    Gang,
    Manifest,
    gang,
    node,
    pod,
    slots,
)

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.slow]

POLICIES = "/apis/admissionregistration.k8s.io/v1"
SLOW = 4.0
"""Seconds that victims take to end, twice the timeout of the group that waits for them."""


async def holds_nothing(cluster: Scenario, group: Gang, room: int) -> None:
    """Fill the room with single pods, and check that no pod of the group runs."""
    await cluster.submit(*(pod(f"single{i}") for i in range(room)))
    await cluster.until_members("single", room)
    assert await cluster.members(group) == 0


# -- incomplete groups -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("api", [VOLCANO, COSCHEDULING])
async def test_drivers_do_not_take_the_room_of_their_executors(cluster: Scenario, api: str) -> None:
    """Spark operators create executors once the driver runs, and declare the resources of both."""
    await cluster.submit(node("n1", 4))
    apps = [gang(f"app{i}", 1, api=api, min_resources={"cpu": "3"}) for i in range(4)]
    await cluster.submit(*apps)
    await cluster.until_members("app", 1)
    [driver] = await cluster.nodes_of("app")
    started = next(app for app in apps if f"{app.name}0" == driver)
    others = [app for app in apps if app is not started]
    for app in others:
        await cluster.until_reported(app)
    await cluster.submit(*gang(started.name, 1, [pod(f"{started.name}-e{n}") for n in range(2)], api=api).pods)
    await cluster.until_settled({app.name: 3 if app is started else 0 for app in apps})


@each_api
async def test_recreated_pod_of_the_same_name_joins_its_group(cluster: Scenario, api: str) -> None:
    await cluster.submit(*slots(3))
    group = gang("a", 3, api=api)
    await cluster.submit(*group.objects, *group.pods[:2])
    await cluster.until_reported(["a0", "a1"], "SchedulingGated")
    await cluster.delete(Gang("a", 1, group.pods[:1], []))
    await cluster.submit(group.pods[0])
    for message in await cluster.until_reported(["a0", "a1"], "SchedulingGated"):
        assert "only 2 of the 3 pods" in message
    await cluster.submit(group.pods[2])
    await cluster.until_members(group, 3)


@each_api
async def test_gated_pods_do_not_count_towards_the_minimum(cluster: Scenario, api: str) -> None:
    await cluster.submit(*slots(4))
    group = gang("a", 3, 4, api=api)
    for each in group.pods:
        each["spec"]["schedulingGates"] = [{"name": "example.com/wait"}]
    await cluster.submit(group)
    for name in ("a0", "a1"):
        await cluster.remove_gates(name)
    await cluster.until_reported(["a0", "a1"], "SchedulingGated", "of the 3 pods that it needs")
    assert await cluster.members(group) == 0
    for name, bound in (("a2", 3), ("a3", 4)):
        await cluster.remove_gates(name)
        await cluster.until_members(group, bound)


# -- declarations that cannot be honoured ------------------------------------------------------------------------------


@each_api
async def test_group_with_two_schedulers_is_rejected_with_both_names(cluster: Scenario, api: str) -> None:
    await cluster.submit(*slots(3))
    group = gang("a", 3, api=api)
    group.pods[2]["spec"]["schedulerName"] = "theirs"
    await cluster.submit(group)
    for message in await cluster.until_reported(["a0", "a1"]):
        assert '"pyscheduler"' in message
        assert '"theirs"' in message
    await holds_nothing(cluster, group, 3)


@each_api
async def test_group_with_a_missing_claim_holds_nothing(cluster: Scenario, api: str) -> None:
    await cluster.submit(*slots(3))
    group = gang("a", 3, api=api)
    claim = {"name": "data", "persistentVolumeClaim": {"claimName": "missing"}}
    group.pods[2]["spec"]["volumes"] = [claim]
    await cluster.submit(group)
    [message] = await cluster.until_reported(["a2"])
    assert 'persistentvolumeclaim "missing" not found' in message
    await holds_nothing(cluster, group, 3)


async def test_group_that_no_plugin_reads_has_an_event(
    cluster: Scenario, batch_scheduler: Plane, tmp_path: Path
) -> None:
    """The configuration lacks the plugin PodGroups: the pods are scheduled one by one, but not silently."""
    await cluster.submit(*slots(2))
    group = gang("a", 3, api=VOLCANO)
    for each in group.pods:
        each["spec"]["schedulerName"] = "plain"
    async with scheduler(batch_scheduler, Configured("plain"), tmp_path):
        await cluster.submit(*group.pods)
        await cluster.until_members(group, 2)
        for each in group.pods:
            [note] = await cluster.events(each["metadata"]["name"], "PodGroupIgnored")
            assert note.startswith("The annotation scheduling.k8s.io/group-name")


# -- bindings that fail ------------------------------------------------------------------------------------------------


@asynccontextmanager
async def denied_binding(cluster: Scenario, name: str) -> AsyncIterator[None]:
    """Let a ValidatingAdmissionPolicy deny the binding of a pod in the namespace of the test."""
    namespace, api = cluster.namespace.name, cluster.namespace.api
    rules = [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods/binding"]}]
    policy = {
        "matchConstraints": {"resourceRules": rules},
        "validations": [{"expression": f"object.metadata.name != '{name}'", "message": "denied by policy"}],
    }
    selector = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}}}
    binding = {"policyName": namespace, "validationActions": ["Deny"], "matchResources": selector}
    specs = {"validatingadmissionpolicies": policy, "validatingadmissionpolicybindings": binding}
    for plural, spec in specs.items():
        await api.create(f"{POLICIES}/{plural}", {"metadata": {"name": namespace}, "spec": spec})
    try:
        await _until_denied(cluster, name)
        yield
    finally:
        for plural in specs:
            await api.delete(f"{POLICIES}/{plural}/{namespace}")


async def _until_denied(cluster: Scenario, name: str) -> None:
    """Wait until the policy is in force, with bindings of a pod that does not exist yet."""
    target = {"apiVersion": "v1", "kind": "Node", "name": "none"}
    body = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": target}
    for _ in range(300):
        try:
            await cluster.namespace.api.create(f"{cluster.namespace.pods}/{name}/binding", body)
        except ApiError as error:
            if "denied by policy" in error.message:
                return
        await asyncio.sleep(0.1)
    pytest.fail("the policy is not in force")


@pytest.mark.parametrize("api", [NATIVE, VOLCANO])
async def test_group_with_a_binding_that_is_always_refused_gives_its_room_back(
    cluster: Scenario, batch_scheduler: Plane, api: str
) -> None:
    if batch_scheduler.real is None:
        pytest.skip("the embedded API server has no admission policies")
    await cluster.submit(*slots(3))
    group = gang("a", 3, api=api)
    async with denied_binding(cluster, "a1"):
        await cluster.submit(group)
        await cluster.submit(*(pod(f"single{i}") for i in range(3)))
        await cluster.until_members("single", 3)
        assert await cluster.members(group) == 0
        [message] = await cluster.until_reported(["a1"])
        assert "denied by policy" in message


# -- lost nodes --------------------------------------------------------------------------------------------------------


@each_api
async def test_broken_group_is_completed_before_pods_that_wait_longer(cluster: Scenario, api: str) -> None:
    """Its backoff is no reason to give the new node to another pod."""
    await cluster.submit(*slots(2))
    group = gang("a", 2, api=api)
    await cluster.submit(group)
    await cluster.until_members(group, 2)
    await cluster.submit(pod("filler"))
    await cluster.until_reported(["filler"])
    [lost] = [name for name, at in (await cluster.nodes_of(group)).items() if at == "slot1"]
    await cluster.delete_node("slot1")
    await cluster.until_reported([lost])  # its controller has created it anew
    await cluster.submit(node("slot2"))
    await cluster.until_members(group, 2)
    assert await cluster.members("filler") == 0


# -- deadlock, starvation ----------------------------------------------------------------------------------------------


@each_api
async def test_interleaved_groups_run_one_after_the_other(cluster: Scenario, api: str) -> None:
    await cluster.submit(*slots(8))
    groups = [gang(f"job-{name}", 8, [running(f"job-{name}{i}", 1) for i in range(8)], api=api) for name in "abcde"]
    await cluster.submit(*itertools.chain(*(group.objects for group in groups)))
    await cluster.submit(*itertools.chain(*zip(*(group.pods for group in groups), strict=True)))
    for group in groups:
        await cluster.until_members(group, 8)


def running(name: str, seconds: float) -> Manifest:
    """Return a pod that runs for so long on hollow nodes, as its annotation declares."""
    made = pod(name)
    made["metadata"]["annotations"] = {RUN_SECONDS: str(seconds)}
    return {**made, "spec": {**made["spec"], "restartPolicy": "Never"}}


def batch_job(name: str, size: int, seconds: float) -> Gang:
    return gang(name, size, [running(f"{name}-{i}", seconds) for i in range(size)], api=VOLCANO)


async def test_job_that_ends_before_the_reservation_is_backfilled(cluster: Scenario) -> None:
    """Times of the scenario, divided by five, but for `b1`: a busy machine may take seconds to create it.

    The reservation is for second 20. Once `b1` has ended, no job is short enough to end before it. The pod `u`, which
    declares no run time, never is.
    """
    await cluster.submit(*slots(8))
    first, head = batch_job("r", 6, 20), batch_job("h", 8, 10)
    await cluster.submit(first)
    await cluster.until_members(first, 6)
    await cluster.submit(head)
    await cluster.until_reported(head)
    short, later, long = batch_job("b1", 2, 10), batch_job("b2", 1, 12), batch_job("b3", 2, 24)
    await cluster.submit(pod("u"), short, later, long)
    await cluster.until_members(head, 8)
    assert [await cluster.members(each) for each in ("u", short, later, long)] == [0, 2, 0, 0]
    await cluster.until_members(long, 2)
    await cluster.until_members(later, 1)
    starts = await cluster.starts(first, short, head, later, long)
    assert starts["b1"] - starts["r"] <= 10
    assert 20 <= starts["h"] - starts["r"] <= 26
    assert 10 <= starts["b2"] - starts["h"] <= 16
    assert 10 <= starts["b3"] - starts["h"] <= 16


async def test_long_job_is_backfilled_into_slots_that_the_reservation_leaves(cluster: Scenario) -> None:
    """Two of eight slots are not reserved. The reservation is for second 12."""
    await cluster.submit(*slots(8))
    first, head, long = batch_job("r", 6, 12), batch_job("h", 6, 10), batch_job("b", 2, 60)
    await cluster.submit(first)
    await cluster.until_members(first, 6)
    await cluster.submit(head)
    await cluster.until_reported(head)
    await cluster.submit(long)
    await cluster.until_members(long, 2)
    assert await cluster.members(head) == 0
    await cluster.until_members(head, 6)
    starts = await cluster.starts(first, head)
    assert 12 <= starts["h"] - starts["r"] <= 18


@pytest.mark.parametrize("api", [NATIVE, VOLCANO])
async def test_large_group_is_not_starved_by_small_pods(cluster: Scenario, api: str) -> None:
    """Single pods of 3 s each 0.6 s take five of eight slots. No one that is created after the group starts first."""
    await cluster.submit(*slots(8))
    group, later = gang("g", 8, api=api), []
    for i in range(40):
        if i == 10:
            await cluster.submit(group)
        name = f"single{i}"
        await cluster.submit(running(name, 3))
        if i >= 10:
            later.append(name)
            if await cluster.members(group):
                break
        await asyncio.sleep(0.6)
    assert await cluster.members(group) == 8
    assert len(later) < 10, "the singles before the group have ended after 3 s"
    assert [name for name in later if name in await cluster.nodes_of("single")] == []


# -- preemption --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("api", [VOLCANO, COSCHEDULING])
async def test_room_that_is_being_freed_is_held_however_long_the_victims_take(cluster: Scenario, api: str) -> None:
    await cluster.submit(*slots(3), *(pod(f"low{i}") for i in range(2)))
    await cluster.until_members("low", 2)
    slow = list((await cluster.nodes_of("low")).values())
    for name in slow:
        cluster.stop_kubelet(name)
    group = gang("a", 3, [pod(f"a{i}", priority=100) for i in range(3)], api=api, timeout=int(SLOW / 2))
    await cluster.submit(group)
    await cluster.until_members("low", 0)
    await cluster.submit(pod("filler", priority=50))
    await cluster.until_reported(["filler"])
    await asyncio.sleep(SLOW)
    assert await cluster.members(group) == await cluster.members("filler") == 0
    for name in slow:
        cluster.start_kubelet(name)
    await cluster.until_members(group, 3)
    await cluster.stays(lambda: sorted(cluster.evicted) == ["low0", "low1"])
    assert await cluster.members("filler") == 0


@each_api
async def test_single_pod_is_evicted_rather_than_a_pod_of_a_complete_group(cluster: Scenario, api: str) -> None:
    await cluster.submit(*slots(5), pod("lone"))
    await cluster.until_members("lone", 1)
    group = gang("a", 4, api=api)
    await cluster.submit(group)
    await cluster.until_members(group, 4)
    await cluster.submit(pod("high", priority=100))
    await cluster.until_members("high", 1)
    await cluster.stays(lambda: cluster.evicted == ["lone"])
    assert await cluster.members(group) == 4


@each_api
async def test_surplus_pod_is_evicted_rather_than_one_of_a_complete_group(cluster: Scenario, api: str) -> None:
    await cluster.submit(*slots(7))
    core, elastic = gang("core", 3, api=api), gang("el", 3, 4, api=api)
    await cluster.submit(core, elastic)
    await cluster.until_members(core, 3)
    await cluster.until_members(elastic, 4)
    await cluster.submit(pod("high", priority=100))
    await cluster.until_members("high", 1)
    await cluster.stays(lambda: [name[:2] for name in cluster.evicted] == ["el"])
    assert (await cluster.members(elastic), await cluster.members(core)) == (3, 3)


async def test_group_that_is_disrupted_as_a_whole_is_evicted_as_a_whole(cluster: Scenario) -> None:
    await cluster.submit(*slots(4))
    group = gang("a", 4, api=NATIVE, disruption_mode="all")
    await cluster.submit(group)
    await cluster.until_members(group, 4)
    await cluster.submit(pod("high", priority=100))
    await cluster.until_members("high", 1)
    await cluster.stays(lambda: sorted(cluster.evicted) == ["a0", "a1", "a2", "a3"])


# -- topology ----------------------------------------------------------------------------------------------------------


@each_api
async def test_preferred_racks_are_combined_within_one_block(cluster: Scenario, api: str) -> None:
    for name, size, block in (("r1", 6, "b1"), ("r2", 4, "b1"), ("r3", 8, "b2"), ("r4", 8, "b2")):
        await cluster.submit(*(node(f"{name}-{i}", labels={RACK: name, BLOCK: block}) for i in range(size)))
    pods = [pod(f"g{i}") for i in range(10)]
    for each in pods:
        each["metadata"]["annotations"][PREFERRED_TOPOLOGY] = f"{RACK},{BLOCK}"
    await cluster.submit(gang("g", 10, pods, api=api))
    await cluster.until_members("g", 10)
    assert {at.partition("-")[0] for at in (await cluster.nodes_of("g")).values()} == {"r1", "r2"}
