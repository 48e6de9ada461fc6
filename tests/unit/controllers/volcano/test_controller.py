"""Controllers of Volcano's kinds against an embedded API server."""

from __future__ import annotations

import asyncio
import time
from base64 import b64decode
from collections.abc import AsyncIterator
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

import pytest
import yaml
from cryptography.hazmat.primitives import serialization

from pyscheduler.api import ResourceKind
from pyscheduler.clock import rfc3339
from pyscheduler.controllers.operator import PodGroupOperator
from pyscheduler.controllers.volcano import controller
from pyscheduler.controllers.volcano.store import JOBS, POD_GROUPS, QUEUES
from pyscheduler.embedded.server import ApiServer
from pyscheduler.kube.object_client import ObjectClient
from pyscheduler.kube.paths import EVENTS, NODES, PODS
from pyscheduler.testing import PodBuilder, node, pod
from tests.unit.controllers.volcano.jobs import policy, task
from tests.unit.hollow.live import bind, connected, create_pod, list_objects, until, wait_for

CRDS = ResourceKind(
    "apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", namespaced=False
)
CONFIG_MAPS = ResourceKind("", "v1", "configmaps", "ConfigMap")
SECRETS = ResourceKind("", "v1", "secrets", "Secret")
SERVICES = ResourceKind("", "v1", "services", "Service")
NETWORK_POLICIES = ResourceKind("networking.k8s.io", "v1", "networkpolicies", "NetworkPolicy")
CLAIMS = ResourceKind("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim")
Json = dict[str, Any]
_VERSION: Json = {"apiVersion": "scheduling.volcano.sh/v1beta1"}


@dataclass(frozen=True)
class Cluster:
    """API server with Volcano's kinds and a node."""

    client: ObjectClient
    kubeconfig: Path

    def operator(self) -> PodGroupOperator:
        """Return the controllers, to start them."""
        return PodGroupOperator(self.kubeconfig, volcano_schedulers=("pyscheduler",))


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[Cluster]:
    async with ApiServer() as server, connected(server.url) as connection:
        client = ObjectClient(connection)
        for file in (resources.files("pyscheduler.controllers") / "crds").iterdir():
            await client.create(CRDS, yaml.safe_load(file.read_text()))
        machine = node("n").manifest
        del machine["metadata"]["uid"]
        await client.create(NODES, machine)
        yield Cluster(client, server.write_kubeconfig(tmp_path / "kubeconfig"))


@pytest.fixture
async def client(cluster: Cluster) -> AsyncIterator[ObjectClient]:
    async with cluster.operator():
        yield cluster.client


def vcjob(*tasks: Json, **spec: Any) -> Json:
    meta = {"name": "j", "namespace": "default"}
    spec = {"schedulerName": "pyscheduler", "tasks": list(tasks), **spec}
    return {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": meta, "spec": spec}


async def until_phase(client: ObjectClient, phase: str) -> Json:
    """Return the status of the Job once it has the phase."""
    job = await wait_for(client, JOBS, "j", lambda job: job.get("status", {}).get("state", {}).get("phase") == phase)
    status: Json = job["status"]
    return status


async def run_pod(client: ObjectClient, name: str, phase: str) -> None:
    """Bind a pod if it has no node, and set its phase."""
    found = await wait_for(client, PODS, name, lambda pod: "deletionTimestamp" not in pod["metadata"])
    if not found["spec"].get("nodeName"):
        await bind(client, name, "n")
    await client.patch_status(PODS, ("default", name), {"phase": phase})


def queue(name: str, **meta: Any) -> Json:
    return {**_VERSION, "kind": "Queue", "metadata": {"name": name, **meta}, "spec": {}}


def pod_group(name: str, queue: str = "q") -> Json:
    meta = {"name": name, "namespace": "default"}
    return {**_VERSION, "kind": "PodGroup", "metadata": meta, "spec": {"minMember": 1, "queue": queue}}


def member(name: str, group: str, scheduler: str = "pyscheduler") -> PodBuilder:
    return pod(name).requests(cpu="1500m").annotation("scheduling.k8s.io/group-name", group).scheduler(scheduler)


async def test_statuses_of_pod_group_and_queue_follow_the_pods(client: ObjectClient) -> None:
    await client.create(QUEUES, queue("q"))
    await client.create(POD_GROUPS, pod_group("g"))
    await wait_for(client, POD_GROUPS, "g", lambda obj: obj.get("status", {}).get("phase") == "Inqueue")
    await create_pod(client, member("p", "g"))
    await run_pod(client, "p", "Running")
    found = await wait_for(client, POD_GROUPS, "g", lambda obj: obj["status"]["phase"] == "Running")
    assert found["status"]["running"] == 1
    status = (await wait_for(client, QUEUES, "q", lambda obj: obj.get("status", {}).get("running") == 1))["status"]
    assert (status["state"], status["allocated"]) == ("Open", {"cpu": "1500m", "memory": "0"})
    version = found["metadata"]["resourceVersion"]
    await client.patch(PODS, ("default", "p"), {"metadata": {"labels": {"a": "b"}}})
    await client.patch_status(PODS, ("default", "p"), {"phase": "Succeeded"})
    done = await wait_for(client, POD_GROUPS, "g", lambda obj: obj["status"]["phase"] == "Completed")
    assert version != done["metadata"]["resourceVersion"]
    idle = await wait_for(client, QUEUES, "q", lambda obj: obj["status"]["completed"] == 1)
    assert idle["status"]["allocated"] == {"cpu": "0", "memory": "0"}


async def test_group_of_another_scheduler_does_not_stop_the_status_of_its_queue(client: ObjectClient) -> None:
    await client.create(QUEUES, queue("q"))
    for group, scheduler in (("theirs", "other"), ("ours", "pyscheduler")):
        await client.create(POD_GROUPS, pod_group(group))
        await create_pod(client, member(group, group, scheduler))
        await run_pod(client, group, "Running")
    await client.patch(POD_GROUPS, ("default", "theirs"), {"status": {"phase": "Running"}})
    status = (await wait_for(client, QUEUES, "q", lambda obj: obj.get("status", {}).get("running") == 1))["status"]
    assert status["allocated"] == {"cpu": "1500m", "memory": "0"}
    await client.patch(QUEUES, ("", "q"), {"status": {"state": "Closing"}}, subresource="status")
    await run_pod(client, "ours", "Succeeded")
    await wait_for(client, QUEUES, "q", lambda obj: obj["status"]["state"] == "Closed")


def written_by(manager: str, ago: float) -> list[Json]:
    """Return the managedFields of a Queue after a manager has written its allocated amounts."""
    entry = {"manager": manager, "operation": "Update", "apiVersion": _VERSION["apiVersion"], "subresource": "status"}
    fields: Json = {"f:status": {"f:allocated": {".": {}, "f:cpu": {}}}}
    return [{**entry, "time": rfc3339(time.time() - ago), "fieldsType": "FieldsV1", "fieldsV1": fields}]


async def test_status_of_a_queue_that_volcano_writes_is_left_alone(client: ObjectClient) -> None:
    await client.create(QUEUES, queue("current", managedFields=written_by("vc-scheduler", 60)))
    await client.create(QUEUES, queue("unused", managedFields=written_by("vc-scheduler", 3600)))
    await client.create(QUEUES, queue("left", managedFields=written_by("vc-scheduler", 3600)))
    for name in ("current", "left"):
        await client.create(POD_GROUPS, pod_group(name, name))
    found = await wait_for(client, QUEUES, "left", lambda obj: obj.get("status", {}).get("inqueue") == 1)
    assert found["status"]["state"] == "Open"
    assert ["status" in await client.get(QUEUES, "", name) for name in ("current", "unused")] == [False, False]


async def test_status_of_a_queue_is_written_once_volcano_has_stopped_writing_it(
    client: ObjectClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(controller, "TAKEOVER_SECONDS", 61.0)
    await client.create(POD_GROUPS, pod_group("g"))
    await client.create(QUEUES, queue("q", managedFields=written_by("vc-scheduler", 60)))
    await wait_for(client, QUEUES, "q", lambda obj: obj.get("status", {}).get("inqueue") == 1)


async def test_status_of_an_unused_queue_is_left_to_a_pyscheduler_with_other_profiles(client: ObjectClient) -> None:
    """Otherwise two that run at a time would overwrite each other's counts every ten minutes."""
    await client.create(QUEUES, queue("others", managedFields=written_by("pyscheduler/batch", 3600)))
    await client.create(QUEUES, queue("before", managedFields=written_by("pyscheduler/batch,pyscheduler", 3600)))
    await wait_for(client, QUEUES, "before", lambda obj: obj.get("status", {}).get("state") == "Open")
    assert "status" not in await client.get(QUEUES, "", "others")


async def test_schedulers_that_share_a_queue_do_not_overwrite_each_others_counts(cluster: Cluster) -> None:
    client = cluster.client
    await client.create(QUEUES, queue("q"))
    for group, scheduler in (("a", "pyscheduler"), ("b", "other"), ("c", "other")):
        await client.create(POD_GROUPS, pod_group(group))
        await create_pod(client, member(group, group, scheduler))
    async with cluster.operator(), PodGroupOperator(cluster.kubeconfig, volcano_schedulers=("other",)):
        for group in ("a", "b", "c"):
            await wait_for(client, POD_GROUPS, group, lambda obj: obj.get("status", {}).get("phase") == "Inqueue")
        before = await wait_for(client, QUEUES, "q", lambda obj: obj.get("status", {}).get("pending") == 0)
        await asyncio.sleep(1)
        after = await client.get(QUEUES, "", "q")
    assert after["metadata"]["resourceVersion"] == before["metadata"]["resourceVersion"]


async def test_job_runs_restarts_and_completes(client: ObjectClient) -> None:
    await client.create(
        JOBS, vcjob(task("a", 2), policies=[policy("PodFailed", "RestartJob")], plugins={"env": [], "svc": []})
    )
    first = await wait_for(client, PODS, "j-a-0", bool)
    for name in ("j-a-0", "j-a-1"):
        await run_pod(client, name, "Running")
    status = await until_phase(client, "Running")
    assert (status["running"], status["minAvailable"]) == (2, 2)
    await run_pod(client, "j-a-0", "Failed")
    await wait_for(client, PODS, "j-a-0", lambda pod: pod["metadata"]["uid"] != first["metadata"]["uid"])
    await wait_for(client, PODS, "j-a-1", lambda pod: "deletionTimestamp" in pod["metadata"])
    await client.delete(PODS, ("default", "j-a-1"), grace_seconds=0)  # as a kubelet does
    for name in ("j-a-0", "j-a-1"):
        await wait_for(client, PODS, name, lambda pod: pod["metadata"]["annotations"]["volcano.sh/job-version"] == "1")
        await run_pod(client, name, "Succeeded")
    status = await until_phase(client, "Completed")
    assert (status["succeeded"], status["retryCount"]) == (2, 1)
    notes = [event["note"] for event in await list_objects(client, EVENTS)]
    assert notes == ["pod j-a-0 failed with exit code 0: RestartJob, retry 1 of 2"]
    assert (await client.get(SERVICES, "default", "j"))["spec"]["clusterIP"] == "None"
    config_map = await client.get(CONFIG_MAPS, "default", "j-svc")
    assert config_map["data"]["a.host"] == "j-a-0.j\nj-a-1.j"


async def test_job_of_another_scheduler_is_left_alone(client: ObjectClient) -> None:
    await client.create(JOBS, vcjob(task("a", 1), schedulerName="volcano"))
    ours = vcjob(task("a", 1))
    ours["metadata"]["name"] = "ours"
    await client.create(JOBS, ours)
    await wait_for(client, PODS, "ours-a-0", bool)
    assert [each["metadata"]["name"] for each in await list_objects(client, PODS)] == ["ours-a-0"]
    assert "status" not in await client.get(JOBS, "default", "j")


async def test_unsupported_job_has_an_event_and_a_message(client: ObjectClient) -> None:
    await client.create(JOBS, vcjob(task("a", 1), plugins={"ssh": [], "mpi": ["--master=a", "--worker=b"]}))
    status = await until_phase(client, "Pending")
    assert status["state"]["message"] == "spec.plugins.mpi[1]: Not found: --worker=b must be the name of a task"
    await asyncio.sleep(0.3)
    for kind in (PODS, POD_GROUPS, SECRETS, CONFIG_MAPS, SERVICES, NETWORK_POLICIES):
        found = [each["metadata"]["name"] for each in await list_objects(client, kind)]
        assert [name for name in found if name.startswith("j")] == []
    [event] = await list_objects(client, EVENTS)
    assert (event["type"], event["reason"], event["note"]) == ("Warning", "Unsupported", status["state"]["message"])
    assert event["regarding"]["kind"] == "Job"


async def test_job_is_deleted_after_its_ttl(client: ObjectClient) -> None:
    await client.create(JOBS, vcjob(task("a", 1), ttlSecondsAfterFinished=0))
    await run_pod(client, "j-a-0", "Succeeded")

    async def poll() -> Json | None:
        return None if await list_objects(client, JOBS) else {}

    await until(poll)


async def event_with(client: ObjectClient, reason: str) -> Json:
    """Return an event of the reason once there is one."""

    async def poll() -> Json | None:
        return next((each for each in await list_objects(client, EVENTS) if each["reason"] == reason), None)

    event = await until(poll)
    assert event is not None
    return event


async def test_pod_that_cannot_be_created_is_reported(client: ObjectClient) -> None:
    invalid = task("a", 1)
    del invalid["template"]["spec"]["containers"]
    await client.create(JOBS, vcjob(invalid))
    event = await event_with(client, "FailedCreatePod")
    assert (event["type"], event["reason"]) == ("Warning", "FailedCreatePod")
    assert "pod j-a-0" in event["note"]


async def test_pod_group_with_too_long_a_name_is_reported(client: ObjectClient) -> None:
    manifest = vcjob(task("a", 1))
    manifest["metadata"]["name"] = "j" * 253
    await client.create(JOBS, manifest)
    event = await event_with(client, "FailedSync")
    assert (event["type"], event["regarding"]["name"]) == ("Warning", "j" * 253)
    assert "metadata.name: Invalid value" in event["note"]


async def test_config_map_of_another_owner_is_left_alone(client: ObjectClient) -> None:
    meta = {"name": "j-svc", "namespace": "default"}
    await client.create(CONFIG_MAPS, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": {"a": "b"}})
    await client.create(JOBS, vcjob(task("a", 1), plugins={"svc": []}))
    event = await event_with(client, "FailedSync")
    assert event["note"].startswith("ConfigMap j-svc exists already and does not belong to the Job: ")
    found = await client.get(CONFIG_MAPS, "default", "j-svc")
    assert (found["data"], "ownerReferences" in found["metadata"]) == ({"a": "b"}, False)
    await client.delete(CONFIG_MAPS, ("default", "j-svc"))
    await wait_for(client, PODS, "j-a-0", bool)


async def test_config_map_follows_the_tasks_of_the_job(client: ObjectClient) -> None:
    await client.create(JOBS, vcjob(task("a", 1), plugins={"svc": []}))
    await wait_for(client, PODS, "j-a-0", bool)
    await client.patch(JOBS, ("default", "j"), {"spec": {"tasks": [task("a", 2)]}})
    await wait_for(client, CONFIG_MAPS, "j-svc", lambda found: found["data"]["VC_A_NUM"] == "2")


def files_of(secret: Json) -> dict[str, bytes]:
    return {name: b64decode(text) for name, text in secret["data"].items()}


async def test_pods_of_an_mpi_job_have_a_matching_ssh_key_pair(client: ObjectClient) -> None:
    await client.create(JOBS, vcjob(task("master", 1), task("worker", 1), plugins={"mpi": []}))
    pod = await wait_for(client, PODS, "j-master-0", bool)
    [volume] = [each["secret"] for each in pod["spec"]["volumes"] if each["name"] == "j-ssh"]
    secret = await client.get(SECRETS, "default", volume["secretName"])
    files = files_of(secret)
    key = serialization.load_pem_private_key(files["id_rsa"], None)
    public = key.public_key().public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
    assert files["id_rsa.pub"] == files["authorized_keys"] == public + b"\n"
    assert b"Host j-worker-0 j-worker-0.j" in files["config"]
    assert set(files) == {item["key"] for item in volume["items"]}
    owners = [each["metadata"]["ownerReferences"] for each in (secret, pod)]
    assert owners[0] == owners[1]
    status = await until_phase(client, "Pending")
    name = volume["secretName"]
    assert status["controlledResources"] == {"plugin-svc": "svc", "plugin-ssh": name, "plugin-mpi": "mpi"}


async def test_secret_network_policy_and_claim_of_another_owner_are_left_alone(client: ObjectClient) -> None:
    claim = {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Gi"}}}
    kinds: dict[ResourceKind, tuple[str, Json]] = {
        SECRETS: ("j-ssh", {"data": {"id_rsa": "eA=="}}),
        NETWORK_POLICIES: ("j", {"spec": {"podSelector": {"matchLabels": {"app": "other"}}}}),
        CLAIMS: ("j-volume-0", {"spec": claim}),
    }
    foreign = {}
    for kind, (name, fields) in kinds.items():
        version = f"{kind.group}/{kind.version}" if kind.group else kind.version
        meta = {"name": name, "namespace": "default"}
        await client.create(kind, {"apiVersion": version, "kind": kind.kind, "metadata": meta, **fields})
        foreign[kind] = await client.get(kind, "default", name)
    volumes = [{"mountPath": "/out", "volumeClaim": claim}]
    await client.create(JOBS, vcjob(task("a", 1), plugins={"ssh": [], "svc": []}, volumes=volumes))
    pod = await wait_for(client, PODS, "j-a-0", bool)
    job_uid = pod["metadata"]["ownerReferences"][0]["uid"]
    for kind, obj in foreign.items():
        found = {each["metadata"]["name"]: each for each in await list_objects(client, kind)}
        assert found.pop(obj["metadata"]["name"]) == obj
        [own] = found.values()
        assert own["metadata"]["ownerReferences"][0]["uid"] == job_uid


async def test_objects_of_plugins_and_volumes_stay_when_the_controller_restarts(cluster: Cluster) -> None:
    client = cluster.client
    claim = {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Gi"}}}
    spec = {"plugins": {"ssh": [], "svc": []}, "volumes": [{"mountPath": "/out", "volumeClaim": claim}]}
    async with cluster.operator():
        await client.create(JOBS, vcjob(task("a", 1), **spec))
        await wait_for(client, PODS, "j-a-0", bool)
    kinds = (SECRETS, CLAIMS, NETWORK_POLICIES)
    before = [await list_objects(client, kind) for kind in kinds]
    assert [len(found) for found in before] == [1, 1, 1]
    async with cluster.operator():
        await client.patch(JOBS, ("default", "j"), {"spec": {"tasks": [task("a", 2)]}})
        await wait_for(client, PODS, "j-a-1", bool)
    assert [await list_objects(client, kind) for kind in kinds] == before
    assert [each["reason"] for each in await list_objects(client, EVENTS)] == []


async def test_rejected_claim_of_a_volume_is_reported(client: ObjectClient) -> None:
    await client.create(JOBS, vcjob(task("a", 1), volumes=[{"mountPath": "/out", "volumeClaim": {"storage": "1Gi"}}]))
    event = await event_with(client, "FailedSync")
    assert "spec.accessModes: Required value" in event["note"]
    assert await list_objects(client, PODS) == []
