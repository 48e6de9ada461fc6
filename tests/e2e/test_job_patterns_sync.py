"""The data-sync example as a whole, on both clusters: incremental workers preempt full syncs, which lose nothing."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from pathlib import Path

import pytest
import pytest_asyncio
import yaml

from tests.e2e.client import ApiClient, ApiError, Json
from tests.e2e.jobs import EXAMPLES, Bench, condition_reasons, crew_with_scheduler, documents, in_phase, suspended
from tests.e2e.kubectl import kubectl
from tests.e2e.plane import Plane
from tests.e2e.scheduler import install

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.slow]

FOLDER = EXAMPLES / "data-sync"
WORKERS = {"orders-incremental": 2, "customers-incremental": 1, "clicks-incremental": 2}
FULL = ("orders-full", "customers-full", "clicks-full")
CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
COMPLETE = {"SuccessCriteriaMet": "CompletionsReached", "Complete": "CompletionsReached"}


def resources() -> list[str]:
    """Return the files of the example in the order of its kustomization."""
    listed: list[str] = yaml.safe_load((FOLDER / "kustomization.yaml").read_text())["resources"]
    return listed


@pytest.fixture
def bench(control_plane: Plane, namespace: str) -> Bench:
    return Bench(control_plane.api, namespace)


@pytest_asyncio.fixture(loop_scope="session", autouse=True)
async def classes(control_plane: Plane) -> AsyncIterator[None]:
    """Cluster-scoped objects of the example."""
    yield
    for document in documents("data-sync/priorities.yaml"):
        with suppress(ApiError):  # deleted by kubectl
            await control_plane.api.delete(f"{CLASSES}/{document['metadata']['name']}")


async def apply(bench: Bench) -> None:
    """Apply the whole example in the test's namespace; full syncs start when resumed."""
    for name in resources():
        for document in documents(f"data-sync/{name}"):
            if document["kind"] != "Namespace":
                suspended(document)
                await bench.create(document)
    for name in FULL:
        await bench.hold(name)


async def workers(bench: Bench, wanted: dict[str, int]) -> None:
    """Wait until all workers are available."""
    for name, count in wanted.items():
        await bench.api.until(bench.at("Deployment", name), available(count), 60)


def available(count: int) -> Callable[[Json], bool]:
    """Return True if a Deployment has so many available workers."""
    return lambda found: found.get("status", {}).get("availableReplicas") == count


def of(pods: list[Json], sync: str, source: str = "") -> list[Json]:
    """Return the pods of one kind of sync, of one source if it is named."""
    wanted = {"sync": sync} | ({"source": source} if source else {})
    return [pod for pod in pods if wanted.items() <= pod["metadata"]["labels"].items()]


async def test_incremental_workers_preempt_full_syncs_which_complete(
    control_plane: Plane, bench: Bench, tmp_path: Path
) -> None:
    async with crew_with_scheduler(control_plane, bench.namespace, tmp_path, nodes=4, cpu="2"):
        await apply(bench)
        await workers(bench, WORKERS)
        pods = await bench.pods(holds=in_phase("Running", 5))
        orders = of(pods, "incremental", "orders")
        assert len({await zone(bench.api, pod) for pod in orders}) == 2
        started = {name: await bench.due(name, 4) for name in FULL}
        await bench.pods(started["orders-full"], in_phase("Running", 4))
        # Four more workers only fit in place of full syncs.
        await bench.patch("Deployment", "clicks-incremental", {"spec": {"replicas": 6}})
        await workers(bench, {**WORKERS, "clicks-incremental": 6})
        for name, job in started.items():
            done = await bench.complete(job, 120)
            assert condition_reasons(done) == COMPLETE
            # The policies of orders and clicks ignore preemption; customers are retried in place.
            assert name == "customers-full" or "failed" not in done["status"]
        gave_way = {event["involvedObject"]["name"] for event in await preempted(bench.api, bench.namespace)}
        assert gave_way
        assert all("-full-" in pod for pod in gave_way)
        assert all(restarts(pod) == 0 for pod in of(await bench.pods(), "incremental")), "no worker was disturbed"


async def zone(api: ApiClient, pod: Json) -> str:
    """Return the zone of a pod's node."""
    node = await api.get(f"/api/v1/nodes/{pod['spec']['nodeName']}")
    return str(node["metadata"]["labels"]["topology.kubernetes.io/zone"])


async def preempted(api: ApiClient, namespace: str) -> list[Json]:
    """Return the Events of preemption."""
    path = f"/api/v1/namespaces/{namespace}/events"
    found = await api.until(path, lambda found: found["items"], fieldSelector="reason=Preempted")
    items: list[Json] = found["items"]
    return items


def restarts(pod: Json) -> int:
    """Return the restarts of its container."""
    return int(pod["status"]["containerStatuses"][0]["restartCount"])


async def test_kubectl_applies_the_example(control_plane: Plane, bench: Bench) -> None:
    await install(bench.api)
    await kubectl(control_plane, "apply", "-k", str(FOLDER))
    there = Bench(bench.api, "data-sync")
    try:
        for kind, names in (("Deployment", WORKERS), ("CronJob", FULL), ("PodGroup", ["clicks-full"])):
            for name in names:
                made = await bench.api.get(there.at(kind, name))
                assert made["metadata"]["namespace"] == "data-sync"
    finally:
        await kubectl(control_plane, "delete", "-k", str(FOLDER), "--wait=false", "--ignore-not-found")
