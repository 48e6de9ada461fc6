"""State in the cluster with an API server: the contract of all stores, a killed process, two owners."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from pyscheduler.backend.client import KubernetesClient
from pyscheduler.backend.state import StateInUse, StateLost
from pyscheduler.backend.state.cluster import ClusterTaskState, WriteLimits
from pyscheduler.core.leader_election import LeaseTimings
from tests.e2e.plane import Plane
from tests.tasks.records import record
from tests.tasks.rights import kubeconfig_of
from tests.tasks.state_contract import OpenStore, StateContract

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.slow]
ROOT = Path(__file__).parents[2]
QUICK = LeaseTimings(lease_duration=6.0, renew_deadline=5.0, retry_period=0.3)
"""Settings for a busy machine."""
UNLIMITED = WriteLimits(writes_per_second=10_000.0, burst=100)
WRITER = """
import asyncio, sys
from pyscheduler.backend.client import KubernetesClient
from pyscheduler.backend.state.cluster import ClusterTaskState
from tests.e2e.test_tasks_state import QUICK, UNLIMITED
from tests.tasks.records import record

async def main():
    async with KubernetesClient(sys.argv[1], kubeconfig=sys.argv[2], qps=0) as client:
        store = ClusterTaskState(client, "tasks", write_limits=UNLIMITED, terms=QUICK)
        saved = await store.open()
        number = int(saved.resource_version or 0)
        while True:
            number += 1
            await store.commit([record(f"t-{i}", version=number) for i in range(200)], resource_version=str(number))
            print(number, flush=True)

asyncio.run(main())
"""


@pytest_asyncio.fixture(loop_scope="session")
async def kubeconfig(control_plane: Plane, namespace: str) -> Path:
    """Kubeconfig with the permissions of manifests/examples/tasks, on the real control plane."""
    return await kubeconfig_of(control_plane, namespace)


@pytest_asyncio.fixture(loop_scope="session")
async def client(namespace: str, kubeconfig: Path) -> AsyncIterator[KubernetesClient]:
    async with KubernetesClient(namespace, kubeconfig=kubeconfig, qps=0) as client:
        yield client


def state(client: KubernetesClient) -> ClusterTaskState:
    return ClusterTaskState(client, "tasks", write_limits=UNLIMITED, terms=QUICK)


class TestContract(StateContract):
    """Run the tests of file and memory stores."""

    @pytest.fixture
    def open_store(self, client: KubernetesClient) -> OpenStore:
        return lambda: state(client)


async def test_state_is_consistent_after_kill_during_commits(
    namespace: str, kubeconfig: Path, client: KubernetesClient
) -> None:
    for commits in (1, 5, 17):
        writer = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", WRITER, namespace, str(kubeconfig)), cwd=ROOT, stdout=asyncio.subprocess.PIPE
        )
        assert writer.stdout is not None
        lines = [await writer.stdout.readline() for _ in range(commits)]
        writer.kill()
        rest, _ = await writer.communicate()
        last = int([*lines, *rest.splitlines()][-1])
        store = state(client)
        saved = await store.open()
        await store.close()
        versions = {r.version for r in saved.records.values()}
        assert versions <= {last, last + 1}  # delivered updates are kept, one in flight may be
        assert len(saved.records) == 200
        assert int(saved.resource_version or 0) <= min(versions)  # it is never newer than its records


async def test_state_with_a_renewed_lease_is_not_taken_over(client: KubernetesClient) -> None:
    first = state(client)
    await first.open()
    with pytest.raises(StateInUse, match="the Lease tasks is held by "):
        await state(client).open()
    await first.commit([record("a")])
    await first.close()


async def test_former_owner_cannot_write(control_plane: Plane, namespace: str, client: KubernetesClient) -> None:
    """Another owner takes its Lease, as if its process had been frozen for long."""
    first = state(client)
    await first.open()
    await first.commit([record("a")])
    lease = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/tasks"
    await control_plane.api.patch(lease, {"spec": {"holderIdentity": ""}})
    second = state(client)
    await second.open()
    with pytest.raises(StateLost):
        await first.commit([record("a", attempt=2), record("b")])
    await second.commit([record("c")])
    await first.close()
    await second.close()
    third = state(client)
    assert set((await third.open()).records) == {"a", "c"}
    await third.close()


async def test_configmaps_stay_below_the_size_limit(
    control_plane: Plane, namespace: str, client: KubernetesClient
) -> None:
    store = ClusterTaskState(client, "tasks", write_limits=UNLIMITED)
    await store.open()
    await store.commit([record(f"t-{i}", message="x" * 400) for i in range(1_000)], resource_version="1")
    await store.close()
    kept = await control_plane.api.list(f"/api/v1/namespaces/{namespace}/configmaps")
    sizes = [len(json.dumps(item["data"])) for item in kept if item["metadata"]["name"].startswith("tasks-")]
    assert len(sizes) > 5
    assert max(sizes) < 100_000
