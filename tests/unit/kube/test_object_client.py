"""Calls for single objects: paths, preconditions, patches, pages, and responses that are no objects."""

from __future__ import annotations

import json
from contextlib import nullcontext

import pytest

from pyscheduler.api import ApiError, ResourceKind
from pyscheduler.kube.connection import Connection
from pyscheduler.kube.object_client import ObjectClient
from pyscheduler.kube.paths import NODES, PODS, object_path
from tests.unit.kube.fake_api import FakeApi, Reply, ok, refused

JOBS = ResourceKind("batch", "v1", "jobs", "Job")


@pytest.mark.parametrize(
    ("kind", "parts", "path"),
    [
        (PODS, (), "/api/v1/pods"),
        (PODS, ("a",), "/api/v1/namespaces/a/pods"),
        (PODS, ("a", "p", "status"), "/api/v1/namespaces/a/pods/p/status"),
        (NODES, ("", "n"), "/api/v1/nodes/n"),
        (NODES, ("ignored", "n"), "/api/v1/nodes/n"),
        (JOBS, ("a", "j"), "/apis/batch/v1/namespaces/a/jobs/j"),
    ],
)
def test_path_of_a_collection_an_object_and_a_subresource(
    kind: ResourceKind, parts: tuple[str, ...], path: str
) -> None:
    assert object_path(kind, *parts) == path


@pytest.fixture
def objects(connection: Connection) -> ObjectClient:
    return ObjectClient(connection)


async def test_created_object_goes_to_its_namespace(api: FakeApi, objects: ObjectClient) -> None:
    api.script("/api/v1/namespaces/a/pods", ok({"metadata": {"name": "p", "uid": "1"}}))
    created = await objects.create(PODS, {"metadata": {"name": "p", "namespace": "a"}})
    assert created["metadata"]["uid"] == "1"


async def test_status_patch_is_strategic_and_has_the_uid_as_precondition(api: FakeApi, objects: ObjectClient) -> None:
    path = "/api/v1/namespaces/a/pods/p/status"
    api.script(path, ok({}))
    await objects.patch_status(PODS, ("a", "p"), {"phase": "Running"}, uid="1")
    (call,) = api.of("PATCH", path)
    assert call.content_type == "application/strategic-merge-patch+json"
    assert call.json == {"metadata": {"uid": "1"}, "status": {"phase": "Running"}}


async def test_delete_has_uid_and_grace_period(api: FakeApi, objects: ObjectClient) -> None:
    path = "/api/v1/namespaces/a/pods/p"
    api.script(path, ok({}))
    await objects.delete(PODS, ("a", "p"), uid="1", grace_seconds=0)
    (call,) = api.of("DELETE", path)
    assert call.json["preconditions"] == {"uid": "1"}
    assert call.json["gracePeriodSeconds"] == 0


async def test_list_reads_all_pages_and_starts_over_when_the_continue_token_has_expired(
    api: FakeApi, objects: ObjectClient
) -> None:
    first = {"metadata": {"resourceVersion": "5", "continue": "x"}, "items": [{"n": 1}]}
    everything = {"metadata": {"resourceVersion": "9"}, "items": [{"n": 1}, {"n": 2}]}
    api.script("/api/v1/pods", ok(first), refused(410, "Expired"), ok(everything))
    listing = await objects.list(PODS, label_selector="app=a")
    assert [json.loads(bytes(item)) for item in listing.items] == [{"n": 1}, {"n": 2}]
    assert listing.version == "9"
    assert [call.query.get("limit") for call in api.of("GET", "/api/v1/pods")] == ["1000", "1000", None]


@pytest.mark.parametrize("body", [b"", b"[]", b"<html>", b"\xff"])
async def test_response_that_is_no_object_is_an_api_error(api: FakeApi, objects: ObjectClient, body: bytes) -> None:
    api.script("/api/v1/nodes/n", Reply(200, body))
    with pytest.raises(ApiError, match="cannot be decoded"):
        await objects.get(NODES, "", "n")


@pytest.mark.parametrize(("retries", "calls"), [(True, 2), (False, 1)])
async def test_failed_read_is_repeated_only_with_retries(
    api: FakeApi, connection: Connection, retries: bool, calls: int
) -> None:
    api.script("/api/v1/nodes/n", refused(503, retry_after=1), ok({"metadata": {"name": "n"}}))
    with nullcontext() if retries else pytest.raises(ApiError):
        await ObjectClient(connection, retries=retries).get(NODES, "", "n")
    assert len(api.calls) == calls
