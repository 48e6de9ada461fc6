"""A cluster of Kubernetes 1.36, the release before the one that is matched: its API versions are found by discovery.

Its API server and controllers are the real ones. The scheduler runs with and without `--emulated-version=1.36`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.controlplane.arguments import Options
from tests.controlplane.build import PREVIOUS
from tests.e2e.client import Json
from tests.e2e.devices import NO_DEVICE, VERSION, Driver, claim_spec, exactly, quantities
from tests.e2e.plane import REAL, Plane, real
from tests.e2e.story import PYSCHEDULER, Story, condition, contending, new_story
from tests.e2e.volumes import CLASSES, selected_node
from tests.e2e.workloads import deployment, job

pytestmark = pytest.mark.asyncio(loop_scope="session")

GATES = "--feature-gates=GenericWorkload=true,DRADeviceTaintRules=true"
IN_CLUSTER = "--feature-gates=GenericWorkload=true,GangScheduling=true,DRADeviceTaintRules=true"
SERVED = "--runtime-config=" + ",".join(
    f"{version}=true"
    for version in ("scheduling.k8s.io/v1alpha2", "resource.k8s.io/v1beta1", "resource.k8s.io/v1beta2")
)
GROUPS = "scheduling.k8s.io/v1alpha2"
RULES = "/apis/resource.k8s.io/v1beta2/devicetaintrules"
LEASE = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kube-scheduler"


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def previous(request: pytest.FixtureRequest) -> AsyncIterator[Plane]:
    """The real control plane of 1.36, with the APIs of pod groups and of taint rules."""
    if request.config.getoption("--control-plane", default="") != REAL:
        pytest.skip("needs the real control plane: pytest tests/e2e --control-plane=real")
    extra = {"kube-apiserver": (IN_CLUSTER, SERVED), "kube-controller-manager": (IN_CLUSTER,)}
    async with real(request.config, Options(release=PREVIOUS, extra=extra)) as plane:
        yield plane


@pytest_asyncio.fixture(
    scope="module", loop_scope="session", params=[(), ("--emulated-version=1.36",)], ids=["plain", "emulated"]
)
async def elected(
    request: pytest.FixtureRequest, previous: Plane, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[str]:
    """Our scheduler as the only one, with leader election; with and without the defaults of 1.36."""
    flags = [GATES, "--leader-elect=true", *request.param]
    async with contending(PYSCHEDULER, previous, tmp_path_factory.mktemp("previous"), flags):
        yield PYSCHEDULER


@pytest_asyncio.fixture(loop_scope="session")
async def story(elected: str, previous: Plane) -> AsyncIterator[Story]:
    """A story on the cluster of 1.36."""
    async with new_story(previous, elected) as created:
        yield created


async def test_cluster_has_the_previous_version_and_its_apis(story: Story) -> None:
    assert (await story.api.get("/version"))["minor"] == "36"
    served = {each["name"]: each for each in (await story.api.get("/apis"))["groups"]}
    versions = [each["version"] for each in served["scheduling.k8s.io"]["versions"]]
    assert versions == ["v1", "v1alpha2"]
    kinds = (await story.api.get("/apis/resource.k8s.io/v1"))["resources"]
    assert "devicetaintrules" not in [each["name"] for each in kinds]


async def test_lease_is_held(story: Story) -> None:
    found = await story.until(LEASE, lambda found: found["spec"].get("holderIdentity"))
    renewed = found["spec"]["renewTime"]
    await story.until(LEASE, lambda found: found["spec"]["renewTime"] != renewed)


async def test_pod_is_bound_and_has_its_event(story: Story) -> None:
    await story.node("a")
    await story.pod("p", story.spec({"cpu": "1"}))
    assert await story.bound("p") == "a"
    [event] = await story.events("p", "Scheduled")
    assert event["note"] == f"Successfully assigned {story.namespace}/p to {story.full_name('a')}"


async def test_unschedulable_pod_has_the_condition(story: Story) -> None:
    await story.node("a", cpu="1")
    await story.pod("p", story.spec({"cpu": "2"}))
    await story.unschedulable_with(
        "p",
        "0/1 nodes are available: 1 Insufficient cpu. preemption: 0/1 nodes are available:"
        " 1 Preemption is not helpful for scheduling.",
    )
    await story.node("b")
    assert await story.bound("p") == "b"


async def test_deployment_is_spread(story: Story) -> None:
    for name in ("a", "b", "c"):
        await story.node(name)
    await story.api.create(story.at("apps/v1", "deployments"), deployment("web", 6, story.spec({"cpu": "100m"})))
    assert await story.places(6) == {"a": 2, "b": 2, "c": 2}


async def test_job_completes(story: Story) -> None:
    await story.node("a", cpu="1")
    body = job("j", 3, 2, story.spec({"cpu": "1"}))
    await story.api.create(story.at("batch/v1", "jobs"), body)
    path = f"{story.at('batch/v1', 'jobs')}/j"
    await story.until(path, lambda found: found["status"].get("succeeded") == 3)


async def test_pod_of_lower_priority_is_preempted(story: Story) -> None:
    await story.node("a", cpu="1")
    low, high = await story.priority("low", 1), await story.priority("high", 1000)
    await story.pod("victim", story.spec({"cpu": "1"}, priorityClassName=low))
    await story.bound("victim")
    await story.pod("urgent", story.spec({"cpu": "1"}, priorityClassName=high))
    [event] = await story.events("victim", "Preempted")
    assert event["reportingController"] == "default-scheduler"
    assert await story.bound("urgent") == "a"
    await story.exactly({"urgent"})


async def test_gated_pod_waits(story: Story) -> None:
    await story.node("a")
    await story.pod("p", story.spec(schedulingGates=[{"name": "example.com/gate"}]))
    found = await story.until(f"{story.pods}/p", lambda found: condition(found, "PodScheduled"))
    assert condition(found, "PodScheduled")["reason"] == "SchedulingGated"
    await story.api.patch(f"{story.pods}/p", {"spec": {"schedulingGates": []}})
    assert await story.bound("p") == "a"


async def test_volume_is_provisioned_on_the_chosen_node(story: Story) -> None:
    await story.node("a")
    provisioner = story.full_name("csi")
    body = {"provisioner": provisioner, "volumeBindingMode": "WaitForFirstConsumer"}
    of = await story.create(CLASSES, "late", body)
    claims = story.at("v1", "persistentvolumeclaims")
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, "storageClassName": of}
    await story.api.create(claims, {"metadata": {"name": "c"}, "spec": spec})
    volume = {"name": "v", "persistentVolumeClaim": {"claimName": "c"}}
    await story.pod("p", story.spec(volumes=[volume]))
    found = await story.until(f"{claims}/c", selected_node)
    assert selected_node(found) == story.full_name("a")


async def test_group_of_v1alpha2_starts_as_a_whole(story: Story) -> None:
    await story.node("a", cpu="2")
    spec = {"schedulingPolicy": {"gang": {"minCount": 2}}}
    group = {"apiVersion": GROUPS, "kind": "PodGroup", "metadata": {"name": "g"}, "spec": spec}
    await story.api.create(story.at(GROUPS, "podgroups"), group)
    member = story.spec({"cpu": "1"}, schedulingGroup={"podGroupName": "g"})
    await story.pod("p1", member)
    await story.pod("single", story.spec())
    await story.bound("single")
    assert "nodeName" not in (await story.api.get(f"{story.pods}/p1"))["spec"]
    await story.pod("p2", member)
    assert await story.places(3) == {"a": 3}
    await story.until(f"{story.at(GROUPS, 'podgroups')}/g", _is_scheduled)


def _is_scheduled(group: Json) -> bool:
    conditions = group.get("status", {}).get("conditions", ())
    return [(each["type"], each["status"]) for each in conditions] == [("PodGroupScheduled", "True")]


async def test_devices_of_claims_and_templates(story: Story) -> None:
    driver = Driver(story)
    await story.node("a")
    await driver.publish("a", "one", "two")
    of = await driver.device_class()
    await driver.claim("c", exactly(of))
    await driver.template("t", exactly(of))
    await driver.pod("p1", "c")
    assert await story.bound("p1") == "a"
    assert await driver.results("c") == [("r", "a", "one")]
    await driver.inline("p2", "t")
    assert await story.bound("p2") == "a"
    await driver.claim("d", exactly(of))
    await driver.pod("p3", "d")
    await story.unschedulable_with("p3", NO_DEVICE)
    await story.delete_pod("p2")
    assert await story.bound("p3") == "a"


@pytest.mark.parametrize("version", ["v1beta1", "v1beta2"])
async def test_claim_of_an_older_version_is_allocated(story: Story, version: str) -> None:
    driver = Driver(story)
    await story.node("a")
    await driver.publish("a", "gpu")
    of = await driver.device_class()
    request: Json = exactly(of) if version == "v1beta2" else {"name": "r", "deviceClassName": of}
    path = story.at(f"resource.k8s.io/{version}", "resourceclaims")
    await story.api.create(path, {"metadata": {"name": "c"}, "spec": claim_spec(request)})
    await driver.pod("p", "c")
    assert await story.bound("p") == "a"
    assert await driver.results("c") == [("r", "a", "gpu")]


async def test_extended_resource_is_served_by_devices(story: Story) -> None:
    driver = Driver(story)
    await story.node("a")
    await driver.publish("a", "gpu")
    name = f"{story.namespace}.example.com/gpu"
    await driver.device_class(extendedResourceName=name)
    await story.pod("p", story.spec({name: "1"}))
    assert await story.bound("p") == "a"
    status = (await story.api.get(f"{story.pods}/p"))["status"]["extendedResourceClaimStatus"]
    claim = await story.api.get(f"{story.at(VERSION, 'resourceclaims')}/{status['resourceClaimName']}")
    assert [each["name"] for each in claim["status"]["reservedFor"]] == ["p"]


async def test_counters_capacity_and_conditions_of_devices(story: Story) -> None:
    driver, shared = Driver(story), Driver(story, "-shared")
    await story.node("a")
    consumed = [{"counterSet": "set", "counters": quantities({"memory": "4Gi"})}]
    await driver.publish_counters(
        "a",
        [{"name": "set", "counters": quantities({"memory": "6Gi"})}],
        *({"name": name, "consumesCounters": consumed} for name in ("one", "two")),
    )
    capacity = {"memory": {"value": "8Gi"}}
    await shared.publish("a", {"name": "nic", "allowMultipleAllocations": True, "capacity": capacity})
    whole, part = await driver.device_class("whole"), await shared.device_class("part")
    half: Json = {"capacity": {"requests": {"memory": "4Gi"}}}
    for name in ("c1", "c2"):
        await driver.claim(name, exactly(part, **half))
        await driver.pod(name, name)
        assert await story.bound(name) == "a"
    await driver.claim("w1", exactly(whole))
    await driver.pod("w1", "w1")
    await story.bound("w1")
    for name, of in (("w2", whole), ("c3", part)):
        await driver.claim(name, exactly(of, **({} if of == whole else half)))
        await driver.pod(name, name)
        await story.unschedulable_with(name, NO_DEVICE)


async def test_taint_rule_of_v1beta2_excludes_devices(story: Story) -> None:
    driver = Driver(story)
    await story.node("a")
    await driver.publish("a", "gpu")
    taint = {"key": "example.com/rule", "effect": "NoSchedule"}
    spec = {"deviceSelector": {"driver": driver.name}, "taint": taint}
    rule = await story.create(RULES, "rule", {"spec": spec})
    of = await driver.device_class()
    await driver.until_excluded("a", of)
    await driver.claim("c", exactly(of))
    await driver.pod("p", "c")
    await story.unschedulable_with("p", NO_DEVICE)
    await story.api.delete(f"{RULES}/{rule}")
    assert await story.bound("p") == "a"
