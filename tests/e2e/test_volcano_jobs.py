"""Volcano Jobs with config/batch.yaml, end to end: the controllers run in the scheduler's process.

On the real API server, the module has a control plane of its own, with an audit log, and the scheduler has the
permissions of manifests/overlays/batch.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import pytest_asyncio
import yaml

from tests.controlplane.arguments import Options
from tests.e2e.audit import AuditLog, Right, forbidden, granted, used
from tests.e2e.client import ApiClient, Json
from tests.e2e.plane import REAL, Plane, new_namespace, opened, real
from tests.e2e.scheduler import ROOT, create_documents, install_batch, scheduler_with
from tests.e2e.workloads import POOL, hollow_nodes, placed, pod, pod_spec

pytestmark = pytest.mark.asyncio(loop_scope="session")

CONFIG = ROOT / "config" / "batch.yaml"
ROLE = ROOT / "manifests" / "overlays" / "batch" / "volcano-jobs.yaml"
EXAMPLES = ROOT / "manifests" / "examples" / "volcano"
SERVICE_ACCOUNT = "system:serviceaccount:kube-system:pyscheduler"
QUEUES = "/apis/scheduling.volcano.sh/v1beta1/queues"
QUEUE_STATUS = Right("scheduling.volcano.sh", "queues/status", "patch")
SELDOM = {Right("", resource, "patch"): "only after a restart" for resource in ("services", "configmaps")}
RUNS = {"pyscheduler.io/run-seconds": "1"}


@dataclass(frozen=True)
class Cluster:
    """A cluster with Volcano's kinds."""

    plane: Plane
    log: AuditLog | None
    """The audit log of the real API server."""


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Cluster]:
    """The cluster of this module."""
    target = request.config.getoption("--control-plane", default="")
    log = AuditLog(tmp_path_factory.mktemp("audit")) if target == REAL else None
    options = Options() if log is None else log.options
    async with real(request.config, options) if log else opened(target, request.config) as plane:
        await install_batch(plane.api)
        await create_documents(plane.api, ROLE)
        await plane.api.until("/apis/batch.volcano.sh/v1alpha1/jobs", lambda found: "items" in found)
        yield Cluster(plane, log)


@dataclass(frozen=True)
class Jobs:
    """Volcano Jobs in a namespace, whose nodes have one cpu each; a pod requests one cpu."""

    api: ApiClient
    namespace: str

    @property
    def path(self) -> str:
        """Path of the Jobs."""
        return f"/apis/batch.volcano.sh/v1alpha1/namespaces/{self.namespace}/jobs"

    @property
    def pods(self) -> str:
        """Path of the pods."""
        return f"/api/v1/namespaces/{self.namespace}/pods"

    async def create(self, name: str, *tasks: Json, **fields: object) -> None:
        """Create a Job."""
        spec = {"schedulerName": "pyscheduler", "tasks": list(tasks), **fields}
        await self.api.create(
            self.path,
            {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": {"name": name}, "spec": spec},
        )

    def task(self, name: str, replicas: int, annotations: dict[str, str], **fields: object) -> Json:
        """Return a task."""
        spec = pod_spec("pyscheduler", self.namespace, cpu="1", restartPolicy="Never")
        return {
            "name": name,
            "replicas": replicas,
            "template": {"metadata": {"annotations": annotations}, "spec": spec},
            **fields,
        }

    async def until_phase(self, name: str, phase: str) -> Json:
        """Return the status of a Job once it has a phase."""
        found = await self.api.until(
            f"{self.path}/{name}", lambda job: job.get("status", {}).get("state", {}).get("phase") == phase
        )
        status: Json = found["status"]
        return status

    async def run_example(self, name: str) -> dict[str, Json]:
        """Run the Job of an example to completion; return the specs of its pods by name, while they run."""
        manifest = yaml.safe_load((EXAMPLES / f"{name}.yaml").read_text())
        for task in manifest["spec"]["tasks"]:
            task["template"]["spec"]["nodeSelector"] = {POOL: self.namespace}
        await self.api.create(self.path, manifest)
        await self.until_phase(name, "Running")
        running = await self.api.get(self.pods)
        await self.until_phase(name, "Completed")
        return {each["metadata"]["name"]: each["spec"] for each in running["items"]}

    async def names(self, resource: str, group: str = "api/v1") -> list[str]:
        """Return the names of the objects of a resource."""
        found = await self.api.get(f"/{group}/namespaces/{self.namespace}/{resource}")
        return [each["metadata"]["name"] for each in found["items"]]


def variables(spec: Json) -> dict[str, str]:
    """Return the variables of a pod's container that have a value."""
    return {each["name"]: each["value"] for each in spec["containers"][0]["env"] if "value" in each}


@pytest_asyncio.fixture(loop_scope="session")
async def jobs(cluster: Cluster, request: pytest.FixtureRequest) -> AsyncIterator[Jobs]:
    """The test's namespace, deleted afterwards with its contents."""
    name = request.node.name.replace("_", "-").removeprefix("test-")[:40].rstrip("-")
    await new_namespace(cluster.plane.api, name)
    yield Jobs(cluster.plane.api, name)
    await cluster.plane.api.delete(f"/api/v1/namespaces/{name}")


async def test_tasks_run_one_after_the_other_to_completion(cluster: Cluster, jobs: Jobs, tmp_path: Path) -> None:
    queue = f"{jobs.namespace}-queue"
    await jobs.api.create(
        QUEUES,
        {
            "apiVersion": "scheduling.volcano.sh/v1beta1",
            "kind": "Queue",
            "metadata": {"name": queue},
            "spec": {"weight": 1},
        },
    )
    async with (
        hollow_nodes(cluster.plane, jobs.namespace, 3, cpu="1"),
        scheduler_with(cluster.plane, CONFIG, tmp_path),
    ):
        await jobs.create(
            "train",
            jobs.task("ps", 1, RUNS),
            jobs.task("worker", 2, RUNS, dependsOn={"name": ["ps"]}),
            queue=queue,
            plugins={"env": [], "svc": []},
            ttlSecondsAfterFinished=5,
        )
        status = await jobs.until_phase("train", "Completed")
        assert (status["succeeded"], status["minAvailable"], status["retryCount"]) == (3, 3, 0)
        assert set(placed(await jobs.api.get(jobs.pods))) == {"train-ps-0", "train-worker-0", "train-worker-1"}
        found = await jobs.api.until(f"{QUEUES}/{queue}", lambda found: found.get("status", {}).get("state") == "Open")
        assert found["status"]["allocated"]["cpu"] in {"0", "1", "2", "3"}
        service = await jobs.api.get(f"/api/v1/namespaces/{jobs.namespace}/services/train")
        assert service["spec"]["clusterIP"] == "None"
        await jobs.api.until(jobs.path, lambda found: found["items"] == [])
        await jobs.api.until(jobs.pods, lambda found: found["items"] == [])
    await jobs.api.delete(f"{QUEUES}/{queue}")


async def test_job_without_room_has_the_reason_and_no_pod_on_a_node(
    cluster: Cluster, jobs: Jobs, tmp_path: Path
) -> None:
    async with (
        hollow_nodes(cluster.plane, jobs.namespace, 2, cpu="1"),
        scheduler_with(cluster.plane, CONFIG, tmp_path),
    ):
        await jobs.create("large", jobs.task("worker", 3, RUNS))
        found = await jobs.api.until(
            f"{jobs.path}/large", lambda job: "lacks 1 cpu" in job.get("status", {}).get("state", {}).get("message", "")
        )
        assert (found["status"]["state"]["phase"], found["status"]["state"]["reason"]) == ("Pending", "Unschedulable")
        assert placed(await jobs.api.get(jobs.pods)) == {}


async def test_job_restarts_after_failures_until_max_retry(cluster: Cluster, jobs: Jobs, tmp_path: Path) -> None:
    async with (
        hollow_nodes(cluster.plane, jobs.namespace, 2, cpu="1"),
        scheduler_with(cluster.plane, CONFIG, tmp_path),
    ):
        fails = {**RUNS, "pyscheduler.io/exits": "7"}
        policies = [{"event": "PodFailed", "action": "RestartJob"}]
        await jobs.create("flaky", jobs.task("worker", 2, fails), policies=policies, maxRetry=2)
        status = await jobs.until_phase("flaky", "Failed")
        assert (status["retryCount"], status["version"]) == (2, 1)
        path = f"/apis/events.k8s.io/v1/namespaces/{jobs.namespace}/events"
        # Events are written after the status, in the background.
        events = await jobs.api.until(path, lambda found: len(notes_of(found)) == 2)
        assert all("failed with exit code 7" in note for note in notes_of(events))


async def test_mpi_job_has_hosts_and_keys_which_are_deleted_with_it(
    cluster: Cluster, jobs: Jobs, tmp_path: Path
) -> None:
    async with (
        hollow_nodes(cluster.plane, jobs.namespace, 3, cpu="1"),
        scheduler_with(cluster.plane, CONFIG, tmp_path),
    ):
        pods = await jobs.run_example("mpi")
        assert variables(pods["mpi-launcher-0"]) == {"MPI_HOST": "mpi-worker-0.mpi,mpi-worker-1.mpi"}
        [secret] = [name for name in await jobs.names("secrets") if name.endswith("-ssh")]
        for spec in pods.values():
            assert secret in [each["secret"]["secretName"] for each in spec["volumes"] if "secret" in each]
            assert spec["containers"][0]["ports"] == [
                {"name": "mpijob-port", "containerPort": 22, "protocol": "TCP"},
            ]
        files = (await jobs.api.get(f"/api/v1/namespaces/{jobs.namespace}/secrets/{secret}"))["data"]
        assert set(files) == {"id_rsa", "id_rsa.pub", "authorized_keys", "config"}
        assert await jobs.names("networkpolicies", "apis/networking.k8s.io/v1") == [secret.removesuffix("-ssh")]
        await jobs.api.delete(f"{jobs.path}/mpi")
        path = f"/api/v1/namespaces/{jobs.namespace}/secrets"
        await jobs.api.until(path, lambda found: all(each["metadata"]["name"] != secret for each in found["items"]))
        await jobs.api.until(f"/apis/networking.k8s.io/v1/namespaces/{jobs.namespace}/networkpolicies", has_no_items)


async def test_pods_of_pytorch_have_the_address_of_the_master_and_a_rank(
    cluster: Cluster, jobs: Jobs, tmp_path: Path
) -> None:
    async with (
        hollow_nodes(cluster.plane, jobs.namespace, 3, cpu="1"),
        scheduler_with(cluster.plane, CONFIG, tmp_path),
    ):
        pods = await jobs.run_example("pytorch")
    shared = {"MASTER_ADDR": "pytorch-master-0.pytorch", "MASTER_PORT": "23456", "WORLD_SIZE": "3"}
    ranks = {"pytorch-master-0": "0", "pytorch-worker-0": "1", "pytorch-worker-1": "2"}
    assert {name: variables(spec) for name, spec in pods.items()} == {
        name: {**shared, "RANK": rank} for name, rank in ranks.items()
    }
    waiting = {name: [each["name"] for each in spec.get("initContainers", ())] for name, spec in pods.items()}
    assert waiting == {name: ["wait-for-master"] * ("worker" in name) for name in ranks}


async def test_pods_of_tensorflow_have_the_cluster(cluster: Cluster, jobs: Jobs, tmp_path: Path) -> None:
    async with (
        hollow_nodes(cluster.plane, jobs.namespace, 3, cpu="1"),
        scheduler_with(cluster.plane, CONFIG, tmp_path),
    ):
        pods = await jobs.run_example("tensorflow")
    workers = [f"tensorflow-worker-{i}.tensorflow:2222" for i in range(2)]
    found = {name: json.loads(variables(spec)["TF_CONFIG"]) for name, spec in pods.items()}
    assert [each["cluster"] for each in found.values()] == [
        {"ps": ["tensorflow-ps-0.tensorflow:2222"], "worker": workers}
    ] * 3
    assert {name: each["task"] for name, each in found.items()} == {
        "tensorflow-ps-0": {"type": "ps", "index": 0},
        "tensorflow-worker-0": {"type": "worker", "index": 0},
        "tensorflow-worker-1": {"type": "worker", "index": 1},
    }


async def test_workers_of_ray_reach_the_head(cluster: Cluster, jobs: Jobs, tmp_path: Path) -> None:
    async with (
        hollow_nodes(cluster.plane, jobs.namespace, 2, cpu="1"),
        scheduler_with(cluster.plane, CONFIG, tmp_path),
    ):
        arguments = ["--headContainer=main", "--workerContainer=main"]
        await jobs.create("ray", jobs.task("head", 1, RUNS), jobs.task("worker", 1, RUNS), plugins={"ray": arguments})
        await jobs.until_phase("ray", "Completed")
        found = {each["metadata"]["name"]: each["spec"] for each in (await jobs.api.get(jobs.pods))["items"]}
        commands = {name: spec["containers"][0]["command"][2] for name, spec in found.items()}
        assert commands["ray-head-0"].startswith("ray start --head ")
        assert commands["ray-worker-0"] == "ray start --block --address=ray-head-0.ray:6379"
        assert set(await jobs.names("services")) == {"ray", "ray-head-svc"}


async def test_invalid_argument_of_a_plugin_creates_nothing(cluster: Cluster, jobs: Jobs, tmp_path: Path) -> None:
    async with scheduler_with(cluster.plane, CONFIG, tmp_path):
        await jobs.create("wrong", jobs.task("master", 1, RUNS), plugins={"mpi": ["--prot=22"], "svc": []})
        problem = "spec.plugins.mpi[0]: --prot is not supported: supported values: --master, --worker, --port"
        path = f"/apis/events.k8s.io/v1/namespaces/{jobs.namespace}/events"
        events = await jobs.api.until(path, lambda found: bool(found["items"]))
        assert [(each["reason"], each["note"]) for each in events["items"]] == [("Unsupported", problem)]
        assert (await jobs.until_phase("wrong", "Pending"))["state"]["message"] == problem
        for resource in ("pods", "services", "secrets"):
            assert await jobs.names(resource) == []


async def test_claim_of_a_volume_is_created_with_the_job(cluster: Cluster, jobs: Jobs, tmp_path: Path) -> None:
    claim = {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Gi"}}}
    async with scheduler_with(cluster.plane, CONFIG, tmp_path):
        volumes = [{"mountPath": "/out", "volumeClaim": claim}]
        await jobs.create("writes", jobs.task("worker", 1, RUNS), volumes=volumes)
        found = await jobs.api.until(jobs.pods, lambda found: bool(found["items"]))
        [used] = [
            each["persistentVolumeClaim"]["claimName"]
            for each in found["items"][0]["spec"]["volumes"]
            if "persistentVolumeClaim" in each
        ]
        assert await jobs.names("persistentvolumeclaims") == [used]


def has_no_items(found: Json) -> bool:
    """Return True if a list is empty."""
    return not found["items"]


def notes_of(events: Json) -> list[str]:
    """Return the notes of the actions of policies."""
    return [each["note"] for each in events["items"] if each["reason"] == "ExecuteAction"]


async def test_permissions_of_the_overlay_suffice(cluster: Cluster) -> None:
    """It reads the requests of the tests above."""
    if cluster.log is None:
        pytest.skip("needs the audit log: pytest tests/e2e --control-plane=real")
    roles = [each for each in yaml.safe_load_all(ROLE.read_text()) if each["kind"] == "ClusterRole"]
    rights = granted(roles) | {QUEUE_STATUS}
    requests = await cluster.log.all_of(SERVICE_ACCOUNT, rights - SELDOM.keys())
    # While the namespace of a test is terminating, nothing may be created in it.
    assert {each for each in forbidden(requests) if each.right.verb != "create"} == set()
    assert rights - used(requests) - SELDOM.keys() == set(), "granted, and never used"


async def test_statuses_are_written_without_rights_for_jobs(cluster: Cluster, jobs: Jobs, tmp_path: Path) -> None:
    if cluster.plane.real is None:
        pytest.skip("the embedded API server allows all requests")
    bindings = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"
    binding = await jobs.api.get(f"{bindings}/pyscheduler-volcano-jobs")
    await jobs.api.delete(f"{bindings}/pyscheduler-volcano-jobs")
    groups = f"/apis/scheduling.volcano.sh/v1beta1/namespaces/{jobs.namespace}/podgroups"
    async with (
        hollow_nodes(cluster.plane, jobs.namespace, 1, cpu="1"),
        scheduler_with(cluster.plane, CONFIG, tmp_path) as scheduler,
    ):
        await jobs.create("left-alone", jobs.task("worker", 1, RUNS))
        meta = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup", "metadata": {"name": "g"}}
        await jobs.api.create(groups, {**meta, "spec": {"minMember": 1}})
        member = pod("p", pod_spec("pyscheduler", jobs.namespace, cpu="1"))
        member["metadata"]["annotations"] = {"scheduling.k8s.io/group-name": "g"}
        await jobs.api.create(jobs.pods, member)
        await jobs.api.until(f"{groups}/g", lambda found: found.get("status", {}).get("phase") == "Running")
        assert set(placed(await jobs.api.get(jobs.pods))) == {"p"}
        assert "status" not in await jobs.api.get(f"{jobs.path}/left-alone")
        granted_again = {part: binding[part] for part in ("apiVersion", "kind", "roleRef", "subjects")}
        await jobs.api.create(bindings, {**granted_again, "metadata": {"name": binding["metadata"]["name"]}})
        await jobs.until_phase("left-alone", "Pending")
        log = scheduler.log.read_text()
    assert "Optional resource is forbidden, continuing without it" in log
    assert "jobs.v1alpha1.batch.volcano.sh" in log
    assert "kopf" not in log
