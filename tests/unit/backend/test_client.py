"""Kubernetes client against a scripted HTTP server: requests sent and responses decoded."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest

from pyscheduler.api import ApiError
from pyscheduler.backend import ConnectionProblem, KubernetesClient, NamespaceQuota, PodState, Resources
from pyscheduler.backend.decode import pod_of
from pyscheduler.backend.errors import is_retriable, retry_after
from pyscheduler.backend.state.objects import CONFIG_MAPS
from pyscheduler.backend.template import ATTEMPT, FINALIZER, TASK_ID
from tests.properties.pod_stream import manifest
from tests.unit.kube.fake_api import FakeApi, Hangup, Reply, listed, ok, refused
from tests.unit.kube.fixtures import api

__all__ = ["api"]
PODS = "/api/v1/namespaces/jobs/pods"
POD = f"{PODS}/p"


@pytest.fixture
async def client(api: FakeApi) -> AsyncIterator[KubernetesClient]:
    async with KubernetesClient("jobs", server=api.url) as opened:
        yield opened


def pod(name: str, version: int, **status: Any) -> dict[str, Any]:
    annotations = {TASK_ID: f"task {name}", ATTEMPT: "2"}
    meta = {"name": name, "uid": f"uid-{name}", "resourceVersion": str(version), "annotations": annotations}
    return {"metadata": {**meta, "finalizers": [FINALIZER]}, "spec": {"nodeName": "n1"}, "status": status}


async def test_get_decodes_the_status_of_a_pod(api: FakeApi, client: KubernetesClient) -> None:
    ended = {"exitCode": 137, "reason": "OOMKilled", "finishedAt": "2026-01-01T00:00:09Z"}
    statuses = [{"name": "a", "state": {"terminated": {"exitCode": 0}}}, {"name": "b", "state": {"terminated": ended}}]
    condition = {"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI"}
    api.script(POD, ok(pod("p", 7, phase="Failed", containerStatuses=statuses, conditions=[condition])))
    state = await client.get_pod("p")
    assert (state.name, state.uid, state.version, state.task, state.attempt) == ("p", "uid-p", 7, "task p", 2)
    assert (state.phase, state.node, state.has_finalizer, state.stopped) == ("Failed", "n1", True, True)
    assert (state.exit_code, state.exit_reason, state.disruption) == (137, "OOMKilled", "EvictionByEvictionAPI")
    assert state.finished_at == 1767225609.0


async def test_create_release_and_delete_send_the_expected_requests(api: FakeApi, client: KubernetesClient) -> None:
    api.script(PODS, ok(pod("p", 7)))
    api.script(POD, ok(pod("p", 8)), ok(pod("p", 9)))
    assert (await client.create_pod({"metadata": {"name": "p"}})).version == 7
    await client.release_pod("p", "u")
    await client.delete_pod("p", "u", 0)
    create, release, delete = api.calls
    assert (create.method, create.path, create.json["metadata"]) == ("POST", PODS, {"name": "p", "namespace": "jobs"})
    assert create.query["fieldValidation"] == "Strict", "a misspelt field of a template is rejected, not dropped"
    assert (release.method, release.path) == ("PATCH", POD)
    assert release.content_type == "application/strategic-merge-patch+json"
    assert release.json == {"metadata": {"uid": "u", "$deleteFromPrimitiveList/finalizers": [FINALIZER]}}
    assert (delete.method, delete.path) == ("DELETE", POD)
    assert (delete.json["preconditions"], delete.json["gracePeriodSeconds"]) == ({"uid": "u"}, 0)
    assert client.calls == {"POST": 1, "PATCH": 1, "DELETE": 1}


async def test_list_is_complete_over_all_pages(api: FakeApi, client: KubernetesClient) -> None:
    api.script(PODS, listed(pod("a", 3), version=9, next="b"), listed(pod("b", 4), version=9))
    snapshot = await client.list_pods("x=y")
    assert (set(snapshot.pods), snapshot.resource_version, snapshot.complete) == ({"a", "b"}, 9, True)
    assert [call.query["labelSelector"] for call in api.calls] == ["x=y", "x=y"]


async def test_list_with_a_pod_that_cannot_be_decoded_fails(api: FakeApi, client: KubernetesClient) -> None:
    api.script(PODS, listed(pod("a", 3), pod("b", 4, phase=7)))
    with pytest.raises(ApiError, match=r"cannot be decoded: .*phase"):
        await client.list_pods("x=y")


async def test_object_is_replaced_in_the_namespace(api: FakeApi, client: KubernetesClient) -> None:
    path = "/api/v1/namespaces/jobs/configmaps/state"
    body = {"metadata": {"name": "state", "resourceVersion": "4"}, "data": {"a": "b"}}
    api.script(path, ok(body))
    assert (await client.replace_object(CONFIG_MAPS, body))["data"] == {"a": "b"}
    (call,) = api.of("PUT", path)
    assert call.json["metadata"] == {"name": "state", "namespace": "jobs", "resourceVersion": "4"}


async def test_label_is_set_on_the_pod_with_the_uid(api: FakeApi, client: KubernetesClient) -> None:
    api.script(POD, ok(pod("p", 8)))
    await client.label_pod("p", "u", {"a": "b"})
    (call,) = api.of("PATCH", POD)
    assert call.json == {"metadata": {"uid": "u", "labels": {"a": "b"}}}


@pytest.mark.parametrize(
    ("reply", "reason", "retriable", "seconds"),
    [
        pytest.param(refused(409, "AlreadyExists", "it is there", 3), "AlreadyExists", True, 3.0, id="taken"),
        pytest.param(refused(422, "Invalid", "no"), "Invalid", False, 0.0, id="invalid"),
        pytest.param(refused(403, "Forbidden", "quota"), "Forbidden", True, 0.0, id="forbidden"),
        pytest.param(refused(429, "TooManyRequests", "", 3), "TooManyRequests", True, 3.0, id="busy"),
        pytest.param(Reply(503, b"<html>"), "Service Unavailable", True, 0.0, id="a proxy's page"),
    ],
)
async def test_rejected_call_is_sent_once_and_its_error_has_the_retry_rules(
    api: FakeApi, client: KubernetesClient, reply: Reply, reason: str, retriable: bool, seconds: float
) -> None:
    api.script(PODS, reply)
    with pytest.raises(ApiError) as caught:
        await client.create_pod({"metadata": {"name": "p"}})
    problem = caught.value
    assert (problem.status, problem.reason) == (reply.status, reason)
    assert (is_retriable(problem), retry_after(problem)) == (retriable, seconds)
    assert len(api.calls) == 1, "the backend retries with its own backoff"


async def test_create_without_a_response_has_status_0(api: FakeApi, client: KubernetesClient) -> None:
    api.script(PODS, Hangup())
    with pytest.raises(ApiError) as caught:
        await client.create_pod({"metadata": {"name": "p"}})
    assert (caught.value.status, is_retriable(caught.value)) == (0, True)
    assert len(api.calls) == 1


async def test_connection_refused_is_a_retriable_error() -> None:
    async with KubernetesClient("jobs", server="http://127.0.0.1:1") as client:
        with pytest.raises(ApiError, match="connection refused") as caught:
            await client.get_pod("p")
    assert (caught.value.status, is_retriable(caught.value)) == (0, True)


async def test_budget_from_quotas(api: FakeApi, client: KubernetesClient) -> None:
    path = "/api/v1/namespaces/jobs/resourcequotas"
    api.script(path, listed({"status": {"hard": {"pods": "9"}, "used": {"pods": "4"}}}), refused(403, "", "no rights"))
    assert await NamespaceQuota(client).limit(Resources({"pods": 1})) == Resources({"pods": 6})
    with pytest.raises(ApiError, match="the ResourceQuotas of namespace jobs cannot be read: no rights"):
        await NamespaceQuota(client).limit(Resources())


async def test_invalid_pod_in_a_response_raises(api: FakeApi, client: KubernetesClient) -> None:
    api.script(POD, ok({"metadata": {"name": 5}}))
    with pytest.raises(ApiError, match="cannot be decoded"):
        await client.get_pod("p")


async def test_missing_kubeconfig_raises() -> None:
    with pytest.raises(ConnectionProblem, match="kubeconfig /nowhere does not exist"):
        await KubernetesClient("jobs", kubeconfig="/nowhere").__aenter__()


def test_manifests_of_the_tests_are_decoded_into_their_state() -> None:
    state = PodState(
        name="p", uid="u", version=3, task="t", attempt=2, phase="Failed", node="n", has_finalizer=True, deleting=True
    )
    ended = {"exit_code": 3, "exit_reason": "Error", "finished_at": 1.5, "disruption": "Evicted", "message": "m"}
    times = {"grace": 5, "delete_at": 9.0, "created_at": 1.0, "started_at": 1.25, "reason": "r", "waiting": "w"}
    state = msgspec.structs.replace(state, **ended, **times, unschedulable="no node")
    assert pod_of(manifest(state)) == state
