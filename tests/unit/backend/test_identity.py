"""A state belongs to one cluster, namespace and backend name, and one state has the name: nothing runs twice."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import msgspec
import pytest

from pyscheduler.api import ApiError, ResourceKind
from pyscheduler.backend import BackendStopped, KubernetesTaskBackend, TaskPhase
from pyscheduler.backend.identity import lease_name
from pyscheduler.backend.state import StateIdentity, StateInUse, StateProblem
from pyscheduler.backend.state.memory import MemoryState
from pyscheduler.backend.task import Json
from pyscheduler.kube.errors import RequestError, StatusCause, StatusDetails
from pyscheduler.kube.paths import LEASES
from tests.properties.task_cluster import Cluster, Fate
from tests.properties.task_simulation import SETTINGS
from tests.unit.backend.test_backend import BackendFixture, ObjectsConnection, on_virtual_time, task

EXPIRED = "the Lease pyscheduler-tasks-tasks has expired; pods are not changed until it is renewed"
HERE = {"namespace": "default", "backend": "tasks", "cluster_uid": "uid-kube-system", "namespace_uid": "uid-default"}


def backend_of(connection: ObjectsConnection, state: MemoryState) -> KubernetesTaskBackend:
    return KubernetesTaskBackend(connection, state, settings=SETTINGS, clock=Cluster.now)


@pytest.mark.parametrize(
    ("first_use", "message"),
    [
        pytest.param({"namespace": "jobs"}, "this one has namespace 'default', not 'jobs'; use another state", id="-n"),
        pytest.param({"backend": "night"}, "this one has the name 'tasks', not 'night'", id="--name"),
        pytest.param(
            {"cluster_uid": "u"}, "another cluster, where namespace kube-system has the uid", id="--kubeconfig"
        ),
        pytest.param(
            {"cluster_uid": "", "namespace_uid": "u"}, "where namespace default has the uid", id="without RBAC"
        ),
    ],
)
def test_state_of_another_backend_is_rejected_and_nothing_is_called(first_use: dict[str, str], message: str) -> None:
    @on_virtual_time
    async def scenario() -> None:
        fixture = BackendFixture()
        async with fixture.backend() as backend:
            await backend.submit(task("a"))
        fixture.state.identity = StateIdentity(**{**HERE, **first_use})
        calls = dict(fixture.connection.calls)
        with pytest.raises(StateProblem, match=message):
            async with fixture.backend():
                pass
        assert dict(fixture.connection.calls) == calls
        await fixture.state.open()  # it was closed

    scenario()


@on_virtual_time
async def test_uid_that_becomes_readable_is_added_to_the_identity() -> None:
    fixture = BackendFixture()
    fixture.state.identity = StateIdentity(**{**HERE, "cluster_uid": ""}, state="state-1")
    async with fixture.backend():
        assert fixture.state.identity == StateIdentity(**HERE, state="state-1")


@on_virtual_time
async def test_namespace_that_was_created_again_in_the_same_cluster_is_accepted() -> None:
    fixture = BackendFixture()
    fixture.state.identity = StateIdentity(**{**HERE, "namespace_uid": "earlier"})
    async with fixture.backend() as backend:
        await backend.submit(task("a"))


@on_virtual_time
async def test_second_state_with_the_same_name_is_rejected() -> None:
    fixture = BackendFixture()
    async with fixture.backend():
        with pytest.raises(StateInUse, match=r"Lease pyscheduler-tasks-tasks is held by state-[0-9a-f]{16}: only one"):
            async with backend_of(fixture.connection, MemoryState()):
                pass
    async with backend_of(fixture.connection, MemoryState()):
        pass  # the first has released the Lease


@on_virtual_time
async def test_next_process_on_a_state_does_not_wait_for_the_lease_of_a_killed_one() -> None:
    fixture = BackendFixture()
    async with fixture.backend():
        identity = fixture.state.identity
        assert identity is not None
        copy, copy.identity = MemoryState(), identity  # as a killed process leaves it
        began = asyncio.get_running_loop().time()
        async with backend_of(fixture.connection, copy):
            assert asyncio.get_running_loop().time() - began < 1.0


@pytest.mark.parametrize("releases", [False, True], ids=["while the original runs", "after the original has ended"])
def test_copy_of_a_state_does_not_take_the_lease_of_the_original(releases: bool) -> None:
    @on_virtual_time
    async def scenario() -> None:
        fixture = BackendFixture()
        fixture.state.place = "disk-1/inode-7"
        copy = MemoryState()
        copy.place = "disk-2/inode-7"
        async with fixture.backend():
            copy.identity = fixture.state.identity
            if not releases:
                with pytest.raises(
                    StateInUse, match=r"only one process can use a state, and each backend .* its own name \(--name\)"
                ):
                    async with backend_of(fixture.connection, copy):
                        pass
        async with backend_of(fixture.connection, copy):
            pass

    scenario()


@on_virtual_time
async def test_rejected_credentials_end_the_start_with_one_error() -> None:
    fixture = BackendFixture()

    class Connection(ObjectsConnection):
        async def namespace_uid(self, _: str) -> str:
            raise ApiError(401, "Unauthorized", "Unauthorized")

    fixture.connection = Connection(fixture.cluster, fixture.connection._crash_switch)
    with pytest.raises(ApiError, match=r"the API server has rejected the credentials for \d+ s: Unauthorized"):
        async with asyncio.timeout(120.0), fixture.backend():
            pass
    await fixture.state.open()  # it was closed


@on_virtual_time
async def test_start_that_waits_for_the_cluster_is_a_problem() -> None:
    fixture, server = BackendFixture(), {"down": True}

    class Connection(ObjectsConnection):
        async def namespace_uid(self, name: str) -> str:
            if server["down"]:
                raise ApiError(0, "Unreachable", "connection refused")
            return await super().namespace_uid(name)

    fixture.connection = Connection(fixture.cluster, fixture.connection._crash_switch)
    backend = backend_of(fixture.connection, fixture.state)
    starting = asyncio.create_task(backend.__aenter__())
    await asyncio.sleep(300.0)
    assert backend.problem == "cluster: it cannot be identified: connection refused"
    server["down"] = False
    await starting
    assert backend.problem == ""
    await backend.__aexit__()


@on_virtual_time
async def test_backend_continues_after_an_outage_longer_than_its_lease() -> None:
    fixture, server = BackendFixture(), {"down": False}

    class Connection(ObjectsConnection):
        async def replace_object(self, kind: Any, body: Any) -> Any:
            if server["down"]:
                await asyncio.sleep(1.0)
                raise ApiError(0, "Unreachable", "connection refused")
            return await super().replace_object(kind, body)

    fixture.connection = Connection(fixture.cluster, fixture.connection._crash_switch)
    async with fixture.backend() as backend:
        server["down"] = True
        await asyncio.sleep(100.0)
        await backend.submit(task("a"))
        await asyncio.sleep(30.0)
        assert fixture.connection.calls["create"] == 0, "no call while another backend may have the Lease"
        assert backend.problem == f"lease: {EXPIRED}"
        with ThreadPoolExecutor(1) as scrape:
            assert 'pyscheduler_task_problem{part="lease"} 1.0' in scrape.submit(backend.metrics.text).result()
        server["down"] = False
        await backend.wait_until_settled()
        assert backend.task("a").phase is TaskPhase.SUCCEEDED
        assert backend.problem == ""


@on_virtual_time
async def test_lease_that_was_deleted_is_created_again() -> None:
    fixture = BackendFixture()
    async with fixture.backend() as backend:
        del fixture.cluster.objects.objects[LEASES, lease_name("tasks")]
        await asyncio.sleep(60.0)
        await backend.submit(task("a"))
        async with asyncio.timeout(300.0):
            await backend.wait_until_settled()
        assert (LEASES, lease_name("tasks")) in fixture.cluster.objects.objects


@on_virtual_time
async def test_pods_are_released_in_a_terminating_namespace_without_its_lease() -> None:
    """A namespace loses its Lease before its pods if they end late; a Lease cannot be created there any more."""
    fixture = BackendFixture(a=Fate.FAIL)
    settings = msgspec.structs.replace(SETTINGS, keep_failed_seconds=100.0)

    class Connection(ObjectsConnection):
        is_terminating = False

        async def create_object(self, kind: ResourceKind, body: Json) -> Json:
            if self.is_terminating:
                causes = (StatusCause(reason="NamespaceTerminating"),)
                raise RequestError(403, "Forbidden", "is being terminated", details=StatusDetails(causes=causes))
            return await super().create_object(kind, body)

    connection = fixture.connection = Connection(fixture.cluster, fixture.connection._crash_switch)
    async with fixture.backend(settings=settings) as backend:
        await backend.submit(task("a"))
        while not backend.task("a").final:  # noqa: ASYNC110  # virtual
            await asyncio.sleep(0.1)
        connection.is_terminating = True
        del fixture.cluster.objects.objects[LEASES, lease_name("tasks")]
        async with asyncio.timeout(300.0):
            await backend.wait_until_settled()
        assert (fixture.cluster.pods, backend.problem) == ({}, "")


@on_virtual_time
async def test_backend_stops_when_another_process_has_taken_its_lease() -> None:
    fixture = BackendFixture()
    async with fixture.backend() as backend:
        lease = fixture.cluster.objects.objects[LEASES, lease_name("tasks")]
        lease["spec"]["holderIdentity"] = "state-other"
        lease["metadata"]["resourceVersion"] = "9999"
        await asyncio.sleep(10.0)
        with pytest.raises(BackendStopped, match="state-other has acquired it"):
            await backend.submit(task("a"))


@pytest.mark.parametrize("name", ["Night_Jobs", "a.b", "-x", "ä"])
def test_lease_name_is_valid_for_every_label_value(name: str) -> None:
    assert lease_name(name).isascii()
    assert lease_name(name).removeprefix("pyscheduler-tasks-").isalnum()
