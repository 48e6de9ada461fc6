"""Pod groups with config/batch.yaml, end to end: every API that declares them, on the embedded and the real API server.

On the real one, the module has a control plane of its own: with the feature gates of the native PodGroup, and with an
audit log.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import pytest
import pytest_asyncio
import yaml

from pyscheduler.embedded.hollow import NodeTemplate
from tests.controlplane.arguments import Options
from tests.e2e.audit import AuditLog, Right, forbidden, used
from tests.e2e.client import ApiClient, Json
from tests.e2e.jobs import ended
from tests.e2e.plane import REAL, Plane, new_namespace, opened, real
from tests.e2e.scheduler import ROOT, create_documents, install_batch, replica, scheduler_with
from tests.e2e.workloads import hollow_nodes, in_pool, job, placed, pod, pod_spec, running, unscheduled

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.slow]

CONFIG = ROOT / "config" / "batch.yaml"
JOBS_ROLE = ROOT / "manifests" / "overlays" / "batch" / "volcano-jobs.yaml"
SCHEDULER = "pyscheduler"
SERVICE_ACCOUNT = "system:serviceaccount:kube-system:pyscheduler"
PRIORITIES = "/apis/scheduling.k8s.io/v1/priorityclasses"
GROUPS = ("scheduling.k8s.io", "scheduling.volcano.sh", "scheduling.x-k8s.io")
GATES = ("--feature-gates=GenericWorkload=true", "--runtime-config=scheduling.k8s.io/v1beta1=true")

RIGHTS = {
    *(Right(group, "podgroups", verb) for group in GROUPS for verb in ("list", "watch", "get")),
    *(Right(group, "podgroups/status", "patch") for group in GROUPS),
    Right("scheduling.volcano.sh", "podgroups", "patch"),
    Right("scheduling.k8s.io", "priorityclasses", "list"),
    Right("scheduling.k8s.io", "priorityclasses", "watch"),
}
"""Rights of the manifests that only PodGroups uses."""


class GroupApi(NamedTuple):
    """API that declares pod groups."""

    version: str
    """Group and version of its PodGroup; "" if the annotations of the pods have it all."""
    spec: Callable[[int], Json]
    """Returns the spec of a PodGroup with a minimum of members."""
    metadata: Callable[[str, int], Json]
    """Returns the metadata of a member, given the name of the group and its minimum."""
    fields: Callable[[str], Json] = lambda _: {}
    """Returns fields of the spec of a member, given the name of the group."""
    scheduled: str = ""
    """Type of the condition that is True when the group is scheduled."""
    unschedulable: tuple[str, str] = ("", "")
    """Type and status of the condition when it is not."""

    def collection(self, namespace: str) -> str:
        """Return the path of its PodGroups."""
        return f"/apis/{self.version}/namespaces/{namespace}/podgroups"


APIS = {
    "annotations": GroupApi(
        "",
        lambda _: {},
        lambda name, least: {
            "annotations": {"pyscheduler.io/pod-group": name, "pyscheduler.io/pod-group-min-count": str(least)}
        },
    ),
    "volcano": GroupApi(
        "scheduling.volcano.sh/v1beta1",
        lambda least: {"minMember": least},
        lambda name, _: {"annotations": {"scheduling.k8s.io/group-name": name}},
        scheduled="Scheduled",
        unschedulable=("Unschedulable", "True"),
    ),
    "scheduler-plugins": GroupApi(
        "scheduling.x-k8s.io/v1alpha1",
        lambda least: {"minMember": least, "scheduleTimeoutSeconds": 10},
        lambda name, _: {"labels": {"scheduling.x-k8s.io/pod-group": name}},
        scheduled="Scheduled",
        unschedulable=("Scheduled", "False"),
    ),
    "native": GroupApi(
        "scheduling.k8s.io/v1beta1",
        lambda least: {"schedulingPolicy": {"gang": {"minCount": least}}},
        lambda _, __: {},
        lambda name: {"schedulingGroup": {"podGroupName": name}},
        scheduled="PodGroupInitiallyScheduled",
        unschedulable=("PodGroupInitiallyScheduled", "False"),
    ),
}


@dataclass(frozen=True)
class Batch:
    """A cluster with all kinds of PodGroups."""

    plane: Plane
    log: AuditLog | None
    """The audit log of the real API server."""


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def batch(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Batch]:
    """The cluster of this module."""
    target = request.config.getoption("--control-plane", default="")
    log = AuditLog(tmp_path_factory.mktemp("audit")) if target == REAL else None
    flags = () if log is None else log.options.extra["kube-apiserver"]
    options = Options(extra={"kube-apiserver": (*flags, *GATES)})
    async with real(request.config, options) if log else opened(target, request.config) as plane:
        await install_batch(plane.api)
        await create_documents(plane.api, JOBS_ROLE)
        for api in APIS.values():
            if api.version:
                await plane.api.until(f"/apis/{api.version}/podgroups", lambda found: "items" in found)
        yield Batch(plane, log)


@dataclass(frozen=True)
class Gangs:
    """Gangs of one API in a namespace, on nodes of one cpu each; a member requests one cpu."""

    plane: Plane
    namespace: str
    group_api: GroupApi

    @property
    def api(self) -> ApiClient:
        """Client of the cluster."""
        return self.plane.api

    @property
    def pods(self) -> str:
        """Path of the pods."""
        return f"/api/v1/namespaces/{self.namespace}/pods"

    async def create(self, name: str, size: int, **fields: object) -> None:
        """Create the PodGroup, if the API has one, and its pods; it needs them all."""
        if self.group_api.version:
            group = {"apiVersion": self.group_api.version, "kind": "PodGroup", "metadata": {"name": name}}
            spec = self.group_api.spec(size)
            if self.group_api is APIS["native"] and "priorityClassName" in fields:
                spec["priorityClassName"] = fields["priorityClassName"]  # otherwise the group has priority 0
            await self.api.create(self.group_api.collection(self.namespace), {**group, "spec": spec})
        spec = pod_spec(SCHEDULER, self.namespace, cpu="1", **fields, **self.group_api.fields(name))
        await asyncio.gather(*(self._create_member(name, i, size, spec) for i in range(size)))

    async def _create_member(self, name: str, i: int, size: int, spec: Json) -> None:
        member = pod(f"{name}-{i}", spec)
        member["metadata"] |= self.group_api.metadata(name, size)
        await self.api.create(self.pods, member)

    async def until_bound(self, count: int) -> dict[str, str]:
        """Return the nodes of the pods once this many are bound."""
        return placed(await self.api.until(self.pods, lambda found: len(placed(found)) == count))

    async def until_condition(self, name: str, type_: str, status: str) -> str:
        """Return the message of the PodGroup's condition once it has this status; "" if there are no PodGroups."""
        if not self.group_api.version:
            return ""
        path = f"{self.group_api.collection(self.namespace)}/{name}"
        found = await self.api.until(path, lambda found: _condition(found, type_).get("status") == status)
        return str(_condition(found, type_)["message"])


def _condition(group: Json, type_: str) -> Json:
    conditions = group.get("status", {}).get("conditions") or ()
    return next((dict(each) for each in conditions if each["type"] == type_), {})


@pytest_asyncio.fixture(loop_scope="session")
async def batch_namespace(batch: Batch) -> AsyncIterator[str]:
    """The test's namespace, deleted afterwards with its contents."""
    name = f"test-{uuid.uuid4().hex[:8]}"
    await new_namespace(batch.plane.api, name)
    yield name
    await batch.plane.api.delete(f"/api/v1/namespaces/{name}")


@pytest.fixture(params=APIS)
def gangs(request: pytest.FixtureRequest, batch: Batch, batch_namespace: str) -> Gangs:
    """Gangs of each API in turn."""
    return Gangs(batch.plane, batch_namespace, APIS[request.param])


@asynccontextmanager
async def watched(gangs: Gangs) -> AsyncIterator[list[Json]]:
    """Yield the list of all versions of the namespace's pods from now on; it is complete after the block."""
    seen: list[Json] = []
    version = (await gangs.api.get(gangs.pods))["metadata"]["resourceVersion"]

    async def watch() -> None:
        async for event in gangs.api.watch(gangs.pods, resourceVersion=version):
            seen.append(event["object"])

    watching = asyncio.create_task(watch())
    try:
        yield seen
    finally:
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)


async def test_gang_is_bound_whole_without_a_write_of_its_pods_status(
    batch: Batch, gangs: Gangs, tmp_path: Path
) -> None:
    async with (
        hollow_nodes(batch.plane, gangs.namespace, 8, cpu="1"),
        scheduler_with(batch.plane, CONFIG, tmp_path),
        watched(gangs) as versions,
    ):
        await gangs.create("whole", 8)
        assert len(set((await gangs.until_bound(8)).values())) == 8
        await gangs.until_condition("whole", gangs.group_api.scheduled, "True")
        await gangs.api.until(gangs.pods, lambda found: running(found) == 8)
    assert len({version["metadata"]["uid"] for version in versions}) == 8
    assert [unscheduled(version) for version in versions if unscheduled(version)] == []


async def test_gang_without_room_waits_with_a_reason_until_there_is_room(
    batch: Batch, gangs: Gangs, tmp_path: Path
) -> None:
    async with (
        hollow_nodes(batch.plane, gangs.namespace, 3, cpu="1") as nodes,
        scheduler_with(batch.plane, CONFIG, tmp_path),
    ):
        await gangs.create("short", 4)
        found = await gangs.api.until(gangs.pods, lambda found: _unscheduled(found) == 4)
        assert placed(found) == {}
        for member in found["items"]:
            assert "3 of 4 required pods have a node" in unscheduled(member)
            assert "lacks 1 cpu on node" in unscheduled(member)
        if gangs.group_api.version:
            assert "lacks 1 cpu on node" in await gangs.until_condition("short", *gangs.group_api.unschedulable)
        await nodes.add(in_pool(NodeTemplate(f"{gangs.namespace}-added", cpu="1"), gangs.namespace))
        assert len(set((await gangs.until_bound(4)).values())) == 4
        await gangs.until_condition("short", gangs.group_api.scheduled, "True")
        await gangs.api.delete(f"/api/v1/nodes/{gangs.namespace}-added")


async def test_gang_preempts_pods_of_lower_priority(batch: Batch, gangs: Gangs, tmp_path: Path) -> None:
    urgent = f"{gangs.namespace}-urgent"
    await gangs.api.create(PRIORITIES, {"metadata": {"name": urgent}, "value": 1000})
    async with (
        hollow_nodes(batch.plane, gangs.namespace, 3, cpu="1"),
        scheduler_with(batch.plane, CONFIG, tmp_path),
    ):
        for i in range(3):
            await gangs.api.create(gangs.pods, pod(f"low-{i}", pod_spec(SCHEDULER, gangs.namespace, cpu="1")))
        await gangs.until_bound(3)
        async with watched(gangs) as versions:
            await gangs.create("large", 4, priorityClassName=urgent)
            await gangs.api.until(gangs.pods, lambda found: _unscheduled(found) == 4)
            deleted = [version for version in versions if version["metadata"].get("deletionTimestamp")]
            assert deleted == [], "evicted in vain"
            await gangs.create("urgent", 3, priorityClassName=urgent)
            bound = await gangs.api.until(gangs.pods, lambda found: _bound(found, "urgent") == 3)
        # Their kubelet deletes the objects of victims after it has reported that their containers have ended.
        victims = [each for each in bound["items"] if each["metadata"]["name"].startswith("low")]
        assert {each["status"]["phase"] for each in victims} <= {"Failed"}
    await gangs.api.delete(f"{PRIORITIES}/{urgent}")


def _unscheduled(found: Json) -> int:
    """Return the number of pods in a list that are reported as unschedulable."""
    return sum(bool(unscheduled(each)) for each in found["items"])


def _bound(found: Json, gang: str) -> int:
    """Return the number of bound pods of a gang."""
    return sum(name.startswith(f"{gang}-") for name in placed(found))


async def test_job_with_annotations_runs_to_completion(batch: Batch, batch_namespace: str, tmp_path: Path) -> None:
    """Its later pods start although fewer than the minimum are running: those that have succeeded count."""
    api, jobs = batch.plane.api, f"/apis/batch/v1/namespaces/{batch_namespace}/jobs"
    train = job("train", 6, 4, pod_spec(SCHEDULER, batch_namespace, cpu="1"))
    train["spec"]["template"]["metadata"]["annotations"] |= APIS["annotations"].metadata("train", 4)["annotations"]
    async with (
        hollow_nodes(batch.plane, batch_namespace, 4, cpu="1"),
        scheduler_with(batch.plane, CONFIG, tmp_path),
    ):
        await api.create(jobs, train)
        done = await api.until(f"{jobs}/train", lambda found: "Complete" in ended(found))
        assert done["status"]["succeeded"] == 6


async def test_gangs_are_completed_after_the_scheduler_was_killed(
    batch: Batch, batch_namespace: str, tmp_path: Path
) -> None:
    gangs = Gangs(batch.plane, batch_namespace, APIS["annotations"])
    slow, fast = tmp_path / "slow", tmp_path / "fast"
    slow.mkdir()
    fast.mkdir()
    limited = {**yaml.safe_load(CONFIG.read_text()), "clientConnection": {"qps": 10, "burst": 1}}
    (slow / "config.yaml").write_text(yaml.safe_dump(limited))
    async with hollow_nodes(batch.plane, batch_namespace, 20, cpu="10"):
        await asyncio.gather(*(gangs.create(f"gang{i}", 10) for i in range(20)))
        async with replica(batch.plane, slow / "config.yaml", slow) as killed:
            await gangs.api.until(gangs.pods, lambda found: len(placed(found)) >= 15)
            killed.process.kill()
            await killed.process.wait()
        before = placed(await gangs.api.get(gangs.pods))
        assert len(before) < 200, "the scheduler was killed too late"
        async with scheduler_with(batch.plane, CONFIG, fast):
            after = await gangs.until_bound(200)
        assert before.items() <= after.items()


async def test_permissions_of_the_manifests_suffice(batch: Batch) -> None:
    """It reads the requests of the tests above."""
    if batch.log is None:
        pytest.skip("needs the audit log: pytest tests/e2e --control-plane=real")
    requests = await batch.log.all_of(SERVICE_ACCOUNT, RIGHTS)
    # While the namespace of a test is terminating, no Event may be created in it.
    assert {each for each in forbidden(requests) if each.right.resource != "events"} == set()
    assert RIGHTS - used(requests) == set(), "granted for PodGroups, and never used"
