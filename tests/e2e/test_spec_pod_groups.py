"""Kubernetes' GangScheduling, WorkloadAwarePreemption and topology specs of pod groups, for both schedulers.

They are alpha or off by default, so this module has a control plane with their feature gates. A node has seats, an
extended resource; each pod takes one.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.controlplane.arguments import Options
from tests.e2e.client import Json
from tests.e2e.devices import Driver, exactly
from tests.e2e.plane import REAL, Plane, real
from tests.e2e.story import CONTENDERS, Story, alive, contending, new_story
from tests.e2e.workloads import placed, unscheduled

pytestmark = pytest.mark.asyncio(loop_scope="session")

GENERIC_WORKLOAD = "--feature-gates=GenericWorkload=true"
TOPOLOGY_AWARE = f"{GENERIC_WORKLOAD},TopologyAwareWorkloadScheduling=true"
COMPOSITE = f"{TOPOLOGY_AWARE},CompositePodGroup=true,PodGroupPreemptionPolicy=true"
SERVED = "--runtime-config=scheduling.k8s.io/v1beta1=true,scheduling.k8s.io/v1alpha3=true"
ALPHA = "scheduling.k8s.io/v1alpha3"
VERSION, CONDITION = "scheduling.k8s.io/v1beta1", "PodGroupInitiallyScheduled"
SEAT, RACK = "example.com/seat", "example.com/rack"
NO_SEAT = f"0/1 nodes are available: 1 Insufficient {SEAT}."
ERROR = "pod group is unschedulable"
FREED = "deallocation and deletion of ResourceClaims completed"
NO_VICTIMS = "pod group preemption: No preemption victims found for incoming preemptor"


@pytest.fixture(scope="module", params=[GENERIC_WORKLOAD, TOPOLOGY_AWARE], ids=["workload", "topology"])
def gates(request: pytest.FixtureRequest) -> str:
    """Feature gates of the control plane and of both schedulers."""
    return str(request.param)


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def gated_plane(request: pytest.FixtureRequest, gates: str) -> AsyncIterator[Plane]:
    """The real control plane with the feature gates of pod groups."""
    if request.config.getoption("--control-plane", default="") != REAL:
        pytest.skip("needs the real control plane: pytest tests/e2e --control-plane=real")
    extra = dict.fromkeys(("kube-controller-manager", "kube-scheduler"), (gates,))
    async with real(request.config, Options(extra={**extra, "kube-apiserver": (gates, SERVED)})) as plane:
        yield plane


@pytest_asyncio.fixture(scope="module", loop_scope="session", params=CONTENDERS)
async def gated_contender(
    request: pytest.FixtureRequest, gated_plane: Plane, gates: str, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[str]:
    """Each of the two schedulers in turn."""
    name: str = request.param
    async with contending(name, gated_plane, tmp_path_factory.mktemp(name), [gates]):
        yield name


@pytest_asyncio.fixture(loop_scope="session")
async def story(gated_contender: str, gated_plane: Plane) -> AsyncIterator[Story]:
    """A story for the current scheduler."""
    async with new_story(gated_plane, gated_contender) as created:
        yield created


async def create_group(story: Story, name: str, minimum: int | None, **spec: object) -> None:
    """Create a gang with a minimum of pods, or a group with the basic policy."""
    policy: Json = {"basic": {}} if minimum is None else {"gang": {"minCount": minimum}}
    group = {"apiVersion": VERSION, "kind": "PodGroup", "metadata": {"name": name}}
    await story.api.create(story.at(VERSION, "podgroups"), {**group, "spec": {"schedulingPolicy": policy, **spec}})


async def create_members(story: Story, group: str, *names: str, priority: str = "") -> None:
    named: Json = {"priorityClassName": priority} if priority else {}
    for name in names:
        await story.pod(name, {**story.spec({SEAT: "1"}, schedulingGroup={"podGroupName": group}), **named})


async def until_condition(story: Story, group: str, status: str, reason: str, message: str) -> None:
    """Wait until the condition of the PodGroup is this one."""

    def shown(found: Json) -> Json:
        conditions = found.get("status", {}).get("conditions") or ()
        condition: Json = next((each for each in conditions if each["type"] == CONDITION), {})
        return {key: condition.get(key) for key in ("status", "reason", "message")}

    expected = {"status": status, "reason": reason, "message": message}
    await story.until(f"{story.at(VERSION, 'podgroups')}/{group}", lambda found: shown(found) == expected)


async def until_condition_with(story: Story, group: str, words: str) -> None:
    """Wait until the message of the PodGroup's condition contains these words."""
    path = f"{story.at(VERSION, 'podgroups')}/{group}"
    await story.until(
        path, lambda found: any(words in each["message"] for each in found.get("status", {}).get("conditions") or ())
    )


async def until_messages(story: Story, *messages: str) -> None:
    """Wait until the pods without a node have these PodScheduled messages, in any order."""

    def have(found: Json) -> bool:
        return sorted(unscheduled(each) for each in found["items"] if "nodeName" not in each["spec"]) == sorted(
            messages
        )

    await story.until(story.pods, have)


async def test_gang_starts_once_it_has_its_minimum(story: Story) -> None:
    await story.node("a", extra={SEAT: "4"})
    await create_group(story, "g", 2)
    await create_members(story, "g", "p1")
    await story.pod("single", story.spec({SEAT: "1"}))
    await story.bound("single")
    found = await story.api.get(f"{story.pods}/p1")
    assert "nodeName" not in found["spec"]
    await create_members(story, "g", "p2")
    assert await story.places(3) == {"a": 3}
    await until_condition(story, "g", "True", "Scheduled", "")


async def test_pods_exist_before_their_group(story: Story) -> None:
    await story.node("a", extra={SEAT: "2"})
    await create_members(story, "g", "p1", "p2")
    await create_group(story, "g", 2)
    assert await story.places(2) == {"a": 2}


async def test_pods_of_a_basic_group_start_one_by_one(story: Story) -> None:
    await story.node("a", extra={SEAT: "2"})
    await create_group(story, "g", None)
    for name in ("p1", "p2"):
        await create_members(story, "g", name)
        assert await story.bound(name) == "a"
    await until_condition(story, "g", "True", "Scheduled", "")
    await create_members(story, "g", "p3")
    await story.unschedulable_with("p3", NO_SEAT)


async def test_gang_without_room_has_the_condition_and_holds_no_node(story: Story, gates: str) -> None:
    await story.node("a", extra={SEAT: "1"})
    await create_group(story, "g", 2)
    await create_members(story, "g", "p1", "p2")
    why = f"minCount (2) cannot be satisfied: 1 scheduled, 0 remaining, {NO_VICTIMS}"
    placements = f"{ERROR}, 0/1 placements are available, first placement status: "
    message = f"{placements if gates == TOPOLOGY_AWARE else ''}{why}"
    await until_condition(story, "g", "False", "Unschedulable", message)
    await until_messages(story, f"{ERROR}, {message}", NO_SEAT)
    await story.pod("single", story.spec({SEAT: "1"}))
    assert await story.bound("single") == "a", "the gang holds no node"
    await story.node("b", extra={SEAT: "2"})
    await story.places(3)
    await until_condition(story, "g", "True", "Scheduled", "")


async def test_two_gangs_for_the_same_room_do_not_block_each_other(story: Story) -> None:
    await story.node("a", extra={SEAT: "3"})
    for group in ("g", "h"):
        await create_group(story, group, 3)
    for i in range(3):
        await create_members(story, "g", f"g{i}")
        await create_members(story, "h", f"h{i}")
    found = await story.until(story.pods, lambda found: len(placed(found)) == 3)
    assert len({name[0] for name in placed(found)}) == 1


async def test_gang_starts_after_its_minimum_was_lowered(story: Story) -> None:
    await story.node("a", extra={SEAT: "2"})
    await create_group(story, "g", 3)
    await create_members(story, "g", "p1", "p2")
    path = f"{story.at(VERSION, 'podgroups')}/g"
    await story.api.patch(path, {"spec": {"schedulingPolicy": {"gang": {"minCount": 2}}}})
    assert await story.places(2) == {"a": 2}


@pytest.mark.parametrize(
    ("preemptor", "mode", "left"),
    [
        pytest.param("group", "all", 0, id="group evicts a whole group"),
        pytest.param("group", "single", 1, id="group evicts one pod of a group"),
        pytest.param("pod", "single", 1, id="pod evicts one pod of a group"),
        pytest.param("pod", "all", 0, id="pod evicts a whole group"),
    ],
)
async def test_preemption_of_a_group(story: Story, preemptor: str, mode: str, left: int) -> None:
    await story.node("a", extra={SEAT: "2"})
    low, high = await story.priority("low", 100), await story.priority("high", 1000)
    await create_group(story, "victims", 2, priorityClassName=low, disruptionMode={mode: {}})
    await create_members(story, "victims", "v1", "v2", priority=low)
    await story.places(2)
    if preemptor == "group":
        await create_group(story, "urgent", 1, priorityClassName=high)
        await create_members(story, "urgent", "hp", priority=high)
    else:
        await story.pod("hp", story.spec({SEAT: "1"}, priorityClassName=high))
    assert await story.bound("hp") == "a"
    found = await story.api.get(story.pods)
    assert len([each for each in alive(found) if each["metadata"]["name"].startswith("v")]) == left


async def test_gang_evicts_nothing_if_it_would_not_fit(story: Story) -> None:
    await story.node("a", extra={SEAT: "2"})
    low, high = await story.priority("low", 100), await story.priority("high", 1000)
    await story.pod("small", story.spec({SEAT: "1"}, priorityClassName=low))
    await story.bound("small")
    await create_group(story, "g", 3, priorityClassName=high)
    await create_members(story, "g", "p1", "p2", "p3", priority=high)
    await story.unschedulable("p3")
    found = await story.api.get(f"{story.pods}/small")
    assert "deletionTimestamp" not in found["metadata"]


async def test_victim_of_a_group_has_an_event(story: Story) -> None:
    await story.node("a", extra={SEAT: "1"})
    low, high = await story.priority("low", 100), await story.priority("high", 1000)
    await story.pod("victim", story.spec({SEAT: "1"}, priorityClassName=low))
    await story.bound("victim")
    await create_group(story, "g", 1, priorityClassName=high)
    await create_members(story, "g", "p1", priority=high)
    assert await story.bound("p1") == "a"
    [event] = await story.events("victim", "Preempted")
    group = await story.api.get(f"{story.at(VERSION, 'podgroups')}/g")
    assert event["note"] == f"Preempted by podgroup {group['metadata']['uid']} on node cluster"


async def test_group_of_pods_with_another_priority_has_the_error(story: Story) -> None:
    await story.node("a", extra={SEAT: "2"})
    await create_group(story, "g", 2)
    high = await story.priority("high", 1000)
    await create_members(story, "g", "p1", "p2", priority=high)
    message = "all pods in a single pod group should have the same priority as the pod group's priority, got 1000 and 0"
    await until_condition(story, "g", "False", "SchedulerError", message)
    await until_messages(story, message, message)


async def test_attempt_ends_once_too_few_pods_are_left(story: Story) -> None:
    await story.node("a", extra={SEAT: "2"})
    await create_group(story, "g", 4)
    await create_members(story, "g", "p1", "p2", "p3", "p4")
    await until_condition_with(story, "g", "minCount (4) cannot be satisfied: 2 scheduled, 1 remaining")


async def test_group_is_nominated_while_its_victims_terminate(story: Story) -> None:
    node = await story.node("a", extra={SEAT: "2"})
    low, high = await story.priority("low", 100), await story.priority("high", 1000)
    await story.pod("victim", story.spec({SEAT: "1"}, priorityClassName=low))
    await story.bound("victim")
    story.stop_kubelet("a")
    await create_group(story, "g", 2, priorityClassName=high)
    await create_members(story, "g", "p1", "p2", priority=high)
    for name in ("p1", "p2"):
        await story.until(f"{story.pods}/{name}", lambda found: found["status"].get("nominatedNodeName") == node)
    await until_condition_with(story, "g", "pod group preemption: ")
    await story.delete_pod("victim")
    assert await story.places(2) == {"a": 2}
    await until_condition(story, "g", "True", "Scheduled", "")


async def test_group_that_never_preempts_has_the_reason(story: Story, gates: str) -> None:
    await story.node("a", extra={SEAT: "1"})
    never = await story.priority("never", 1000, preemptionPolicy="Never")
    await create_group(story, "g", 2, priorityClassName=never)
    await create_members(story, "g", "p1", "p2", priority=never)
    why = "minCount (2) cannot be satisfied: 1 scheduled, 0 remaining"
    reasons = f"{why}, {FREED}, pod group preemption: not eligible due to preemptionPolicy=Never."
    placements = "0/1 placements are available, first placement status: "
    message = f"{ERROR}, {placements}{reasons}" if gates == TOPOLOGY_AWARE else reasons
    await until_condition(story, "g", "False", "Unschedulable", message)


async def test_claim_is_shared_by_the_pods_of_a_group(story: Story) -> None:
    driver = Driver(story)
    for name in ("a", "b"):
        await story.node(name)
    await driver.publish("b", "gpu")
    await driver.claim("c", exactly(await driver.device_class()))
    await create_group(story, "g", 3)
    for name in ("p1", "p2", "p3"):
        await driver.pod(name, "c", schedulingGroup={"podGroupName": "g"})
    assert await story.places(3) == {"b": 3}
    await driver.until_reserved_for("c", "p1", "p2", "p3")


async def test_claim_of_a_group_is_deallocated_on_a_node_that_its_pod_cannot_use(story: Story) -> None:
    driver = Driver(story)
    for name in ("a", "b"):
        await story.node(name)
        await driver.publish(name, "gpu")
    await driver.claim("c", exactly(await driver.device_class()))
    result = {"request": "r", "driver": driver.name, "pool": story.full_name("a"), "device": "gpu"}
    here = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [story.full_name("a")]}]}
    allocation = {"devices": {"results": [result]}, "nodeSelector": {"nodeSelectorTerms": [here]}}
    await story.api.patch(f"{driver.claims}/c/status", {"status": {"allocation": allocation}})
    await create_group(story, "g", 1)
    await driver.pod("p", "c", on="b", schedulingGroup={"podGroupName": "g"})
    assert await story.bound("p") == "b"
    assert await driver.results("c") == [("r", "b", "gpu")]


async def test_disruption_budget_is_violated_last(story: Story) -> None:
    await story.node("a", extra={SEAT: "2"})
    low, high = await story.priority("low", 100), await story.priority("high", 1000)
    for name in ("kept", "evicted"):
        await story.pod(name, story.spec({SEAT: "1"}, priorityClassName=low), {"app": name})
        await story.bound(name)
    budget = {"selector": {"matchLabels": {"app": "kept"}}, "minAvailable": 1}
    await story.api.create(story.at("policy/v1", "poddisruptionbudgets"), {"metadata": {"name": "b"}, "spec": budget})
    budgets = f"{story.at('policy/v1', 'poddisruptionbudgets')}/b"
    await story.until(budgets, lambda found: found.get("status", {}).get("observedGeneration") == 1)
    await create_group(story, "g", 1, priorityClassName=high)
    await create_members(story, "g", "p1", priority=high)
    assert await story.bound("p1") == "a"
    await story.exactly({"kept", "p1"})


async def racks(story: Story, **seats: int) -> None:
    """Create a node for each rack, with this many seats."""
    for name, count in seats.items():
        await story.node(name, labels={RACK: story.full_name(name)}, extra={SEAT: str(count)})


TOPOLOGY = {"topology": [{"key": RACK}]}


@pytest.mark.parametrize("gates", [TOPOLOGY_AWARE], ids=["topology"], indirect=True)
async def test_gang_is_placed_in_the_domain_with_room(story: Story) -> None:
    await racks(story, r1=2, r2=3, r3=2)
    await create_group(story, "g", 3, schedulingConstraints=TOPOLOGY)
    await create_members(story, "g", "p1", "p2", "p3")
    assert await story.places(3) == {"r2": 3}
    await create_members(story, "g", "p4")
    await story.unschedulable("p4")


@pytest.mark.parametrize("gates", [TOPOLOGY_AWARE], ids=["topology"], indirect=True)
async def test_gang_gets_devices_for_an_extended_resource_within_a_domain(story: Story) -> None:
    """No node lists the resource, so the resources of a domain's nodes do not bound what fits into it."""
    driver, resource = Driver(story), f"{story.namespace}.example.com/gpu"
    await racks(story, r1=1, r2=1)
    for name, devices in (("r1", ("g1",)), ("r2", ("g1", "g2"))):
        await driver.publish(name, *devices)
    await driver.device_class("gpu", extendedResourceName=resource)
    await create_group(story, "g", 2, schedulingConstraints=TOPOLOGY)
    for name in ("p1", "p2"):
        await story.pod(name, story.spec({resource: "1"}, schedulingGroup={"podGroupName": "g"}))
    assert await story.places(2) == {"r2": 2}


@pytest.mark.parametrize("gates", [TOPOLOGY_AWARE], ids=["topology"], indirect=True)
async def test_domain_in_which_most_pods_fit_is_preferred(story: Story) -> None:
    await racks(story, r1=2, r2=4, r3=3)
    await create_members(story, "g", "p1", "p2", "p3", "p4")
    # Once this pod is bound, the scheduler has received all members and nodes: objects of one kind come in order.
    await story.pod("later", story.spec(where={RACK: story.full_name("r3")}))
    await story.bound("later")
    await create_group(story, "g", 2, schedulingConstraints=TOPOLOGY)
    assert await story.places(5) == {"r2": 4, "r3": 1}


@pytest.mark.parametrize("gates", [TOPOLOGY_AWARE], ids=["topology"], indirect=True)
async def test_gang_that_fits_in_no_domain_has_the_condition(story: Story) -> None:
    await racks(story, r1=2, r2=2)
    await create_group(story, "g", 3, schedulingConstraints=TOPOLOGY)
    await create_members(story, "g", "p1", "p2", "p3")
    why = f"minCount (3) cannot be satisfied: 2 scheduled, 0 remaining, {NO_VICTIMS}"
    message = f"{ERROR}, 0/2 placements are available, first placement status: {why}"
    await until_condition(story, "g", "False", "Unschedulable", message)
    await until_messages(story, f"{ERROR}, {message}", f"{ERROR}, {message}", NO_SEAT)


@pytest.mark.parametrize("gates", [TOPOLOGY_AWARE], ids=["topology"], indirect=True)
async def test_gang_with_an_unknown_topology_has_no_placement(story: Story) -> None:
    await story.node("a", extra={SEAT: "2"})
    await create_group(story, "g", 2, schedulingConstraints={"topology": [{"key": "example.com/none"}]})
    await create_members(story, "g", "p1", "p2")
    message = "no feasible placements found"
    await until_condition(story, "g", "False", "Unschedulable", f"{message}, {NO_VICTIMS}")
    await until_messages(story, message, message)


WORKLOAD = {"workloadName": "w", "templateName": "t"}
"""Workload that a tree of PodGroups must name, and that need not exist."""


async def create_composite(story: Story, name: str, minimum: int | None, **spec: object) -> None:
    """Create a CompositePodGroup that needs so many groups, or one with the basic policy."""
    policy: Json = {"basic": {}} if minimum is None else {"gang": {"minGroupCount": minimum}}
    created = {"apiVersion": ALPHA, "kind": "CompositePodGroup", "metadata": {"name": name}}
    fields = {"workloadRef": WORKLOAD, "schedulingPolicy": policy, **spec}
    await story.api.create(story.at(ALPHA, "compositepodgroups"), {**created, "spec": fields})


async def create_below(story: Story, parent: str, name: str, minimum: int, **spec: object) -> None:
    """Create a gang below a CompositePodGroup."""
    group = {"apiVersion": ALPHA, "kind": "PodGroup", "metadata": {"name": name}}
    policy = {"gang": {"minCount": minimum}}
    fields = {"workloadRef": WORKLOAD, "schedulingPolicy": policy, "parentCompositePodGroupName": parent, **spec}
    await story.api.create(story.at(ALPHA, "podgroups"), {**group, "spec": fields})


async def until_placed(story: Story, count: int) -> set[str]:
    """Wait until that many pods have a node, others may wait; return the first letters of their names."""
    found = await story.until(story.pods, lambda found: len(placed(found)) == count)
    return {name[0] for name in placed(found)}


of_composites = pytest.mark.parametrize("gates", [COMPOSITE], ids=["composite"], indirect=True)


@of_composites
async def test_groups_below_a_composite_start_together(story: Story) -> None:
    await story.node("a", extra={SEAT: "3"})
    await create_composite(story, "root", 2)
    for group in ("g", "h"):
        await create_below(story, "root", group, 2)
        await create_members(story, group, f"{group}1", f"{group}2")
    for name in ("g1", "g2", "h1", "h2"):
        await story.unschedulable(name)
    await story.node("b", extra={SEAT: "1"})
    assert await story.places(4) == {"a": 3, "b": 1}
    await until_condition(story, "h", "True", "Scheduled", "")


@of_composites
@pytest.mark.parametrize("minimum", [None, 1], ids=["basic", "gang"])
async def test_one_group_below_a_composite_suffices(story: Story, minimum: int | None) -> None:
    await story.node("a", extra={SEAT: "3"})
    await create_composite(story, "root", minimum)
    for group in ("g", "h"):
        await create_below(story, "root", group, 2)
        await create_members(story, group, f"{group}1", f"{group}2")
    assert len(await until_placed(story, 2)) == 1, "pods of one group"


@of_composites
async def test_tree_waits_for_its_groups(story: Story) -> None:
    await story.node("a", extra={SEAT: "5"})
    await create_below(story, "root", "g", 2)
    await create_members(story, "g", "g1", "g2")
    await create_composite(story, "root", 2)
    await create_below(story, "root", "h", 2)
    await create_members(story, "h", "h1")
    await story.pod("single", story.spec({SEAT: "1"}))
    await story.bound("single")
    await until_placed(story, 1)
    await create_members(story, "h", "h2")
    assert await story.places(5) == {"a": 5}


@of_composites
async def test_groups_below_a_composite_are_each_in_one_domain(story: Story) -> None:
    await racks(story, r1=1, r2=2, r3=2)
    await create_composite(story, "root", 2)
    for group in ("g", "h"):
        await create_below(story, "root", group, 2, schedulingConstraints=TOPOLOGY)
        await create_members(story, group, f"{group}1", f"{group}2")
    assert await story.places(4) == {"r2": 2, "r3": 2}


@of_composites
async def test_group_of_pods_with_another_preemption_policy_has_the_error(story: Story) -> None:
    await story.node("a", extra={SEAT: "1"})
    never = await story.priority("never", 1000, preemptionPolicy="Never")
    other = await story.priority("other", 1000)
    await create_group(story, "g", 2, priorityClassName=never, preemptionPolicy="Never")
    await create_members(story, "g", "p1", "p2", priority=other)
    same = "all pods in a single pod group should have the same preemption policy as the pod group's preemption policy"
    await until_condition(story, "g", "False", "SchedulerError", f"{same}, got PreemptLowerPriority and Never")
