"""Lease on the API server: requests, preserved fields, errors."""

from __future__ import annotations

from typing import Any

import pytest

from pyscheduler.api import ApiError
from pyscheduler.core.leader_election import Lease
from pyscheduler.kube.connection import Connection
from pyscheduler.shell.writers.lease import LeaseLock
from tests.unit.kube.fake_api import FakeApi, Reply, ok, refused

LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"
LEASE = f"{LEASES}/mine"
THEIRS: dict[str, Any] = {
    "metadata": {"name": "mine", "namespace": "kube-system", "resourceVersion": "7", "uid": "u", "labels": {"a": "b"}},
    "spec": {
        "holderIdentity": "other",
        "leaseDurationSeconds": 15,
        "acquireTime": "2026-01-01T00:00:00.000000Z",
        "renewTime": "2026-01-01T00:00:10.000000Z",
        "leaseTransitions": 2,
        "strategy": "kept",
    },
}
OURS = Lease("me", 15, 3, "2026-01-01T00:01:00.000000Z", "2026-01-01T00:01:00.000000Z")
OUR_SPEC = {
    "holderIdentity": "me",
    "leaseDurationSeconds": 15,
    "leaseTransitions": 3,
    "acquireTime": "2026-01-01T00:01:00.000000Z",
    "renewTime": "2026-01-01T00:01:00.000000Z",
}
NONE = refused(404, "NotFound")


@pytest.fixture
async def lock(connection: Connection) -> LeaseLock:
    return LeaseLock(connection, "kube-system", "mine", "my-scheduler")


async def test_a_lease_is_read(api: FakeApi, lock: LeaseLock) -> None:
    api.script(LEASE, ok(THEIRS))
    assert await lock.read() == Lease("other", 15, 2, "2026-01-01T00:00:00.000000Z", "2026-01-01T00:00:10.000000Z")


async def test_missing_lease_is_created(api: FakeApi, lock: LeaseLock) -> None:
    api.script(LEASE, NONE)
    api.script(LEASES, ok({"metadata": {"resourceVersion": "1"}, "spec": OUR_SPEC}))
    assert await lock.read() is None
    await lock.write(OURS)
    (call,) = api.of("POST")
    assert call.json == {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": "mine", "namespace": "kube-system"},
        "spec": OUR_SPEC,
    }


async def test_existing_lease_is_replaced_with_its_other_fields(api: FakeApi, lock: LeaseLock) -> None:
    api.script(LEASE, ok(THEIRS), ok(THEIRS | {"metadata": {"resourceVersion": "8"}}), ok({}))
    await lock.read()
    await lock.write(OURS)
    await lock.write(OURS)
    first, second = api.of("PUT")
    assert first.json == THEIRS | {"spec": {**OUR_SPEC, "strategy": "kept"}}
    assert second.json["metadata"] == {"resourceVersion": "8"}, "a write uses the result of the last one"


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        pytest.param(refused(409, "Conflict", "the object has been modified"), "Conflict", id="written by another"),
        pytest.param(refused(403, "Forbidden"), "Forbidden", id="no permission"),
        pytest.param(Reply(body=b"hello"), "UnreadableResponse", id="not an API server"),
        pytest.param(ok({"spec": {"leaseDurationSeconds": "x"}}), "UnreadableResponse", id="not a Lease"),
    ],
)
async def test_failed_write_has_the_reason(api: FakeApi, lock: LeaseLock, answer: Reply, reason: str) -> None:
    api.script(LEASE, ok(THEIRS), answer)
    await lock.read()
    with pytest.raises(ApiError) as caught:
        await lock.write(OURS)
    assert caught.value.reason == reason


async def test_event_about_the_lease_equals_client_gos(api: FakeApi, lock: LeaseLock) -> None:
    events = "/api/v1/namespaces/kube-system/events"
    api.script(LEASE, ok(THEIRS))
    api.script(events, ok({}))
    await lock.read()
    await lock.record("me became leader", 1_800_000_000.5)
    (call,) = api.of("POST", events)
    event = call.json
    assert event["metadata"] == {"name": "mine.18fae276b1816500", "namespace": "kube-system"}
    assert event["involvedObject"] == {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "namespace": "kube-system",
        "name": "mine",
        "uid": "u",
        "resourceVersion": "7",
    }
    fields = [event[key] for key in ("type", "reason", "message", "count", "firstTimestamp", "lastTimestamp")]
    assert fields == ["Normal", "LeaderElection", "me became leader", 1, "2027-01-15T08:00:00Z", "2027-01-15T08:00:00Z"]
    assert (event["source"], event["reportingComponent"]) == ({"component": "my-scheduler"}, "my-scheduler")
