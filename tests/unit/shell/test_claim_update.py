"""Claims with opaque parameters that JSON reformats: extended in protobuf, which preserves the stored bytes."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from pyscheduler.api import ApiError
from pyscheduler.kube.connection import Connection
from pyscheduler.kube.http1 import PROTOBUF
from pyscheduler.kube.protobuf import fields, head, part, raw, text
from pyscheduler.shell.writers.claim_update import extended, extends
from pyscheduler.shell.writers.writer import KubeWriter
from tests.unit.kube.fake_api import FakeApi, Reply, ok, refused

PATH = "/apis/resource.k8s.io/v1/namespaces/a/resourceclaims/c"
PARAMETERS = b'{"mode": "a < b"}'
STORED = part(1, text(1, "c") + text(6, "7") + text(14, "kept")) + part(2, PARAMETERS) + part(3, part(1, b"devices"))
MESSAGE = head("resource.k8s.io/v1", "ResourceClaim") + part(2, STORED)
CURRENT: dict[str, Any] = {
    "apiVersion": "resource.k8s.io/v1",
    "kind": "ResourceClaim",
    "metadata": {"name": "c", "resourceVersion": "7", "finalizers": ["kept"]},
    "spec": {"parameters": {"mode": "a < b"}},
    "status": {"allocation": {"devices": {}}},
}
POD = {"resource": "pods", "name": "p", "uid": "u"}
IMMUTABLE = refused(422, "Invalid", 'ResourceClaim "c" is invalid: spec: field is immutable')


def changed(section: str, **values: object) -> dict[str, Any]:
    claim = copy.deepcopy(CURRENT)
    claim[section] |= values
    return claim


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        pytest.param(changed("metadata", finalizers=["kept", "new"]), True, id="another finalizer"),
        pytest.param(changed("status", reservedFor=[POD]), True, id="another consumer"),
        pytest.param(changed("metadata", managedFields=[]), True, id="managed fields are not compared"),
        pytest.param(changed("metadata", finalizers=["new"]), False, id="a finalizer less"),
        pytest.param(changed("metadata", resourceVersion="6"), False, id="an older version"),
        pytest.param(changed("spec", parameters={}), False, id="other parameters"),
        pytest.param(changed("status", allocation={}), False, id="another allocation"),
    ],
)
def test_only_new_entries_extend_a_claim(body: dict[str, Any], expected: bool) -> None:
    assert extends(CURRENT, body) is expected


def test_extended_message_begins_with_the_stored_one() -> None:
    body = changed("metadata", finalizers=["kept", "new"]) | {"status": {"reservedFor": [POD]}}
    content = raw(extended(MESSAGE, body))
    assert content.startswith(STORED)
    (meta_field, meta), (status_field, status) = fields(content[len(STORED) :])
    assert (meta_field, list(fields(meta))) == (1, [(6, b"7"), (14, b"new")])
    assert (status_field, [dict(fields(each)) for _, each in fields(status)]) == (3, [{3: b"pods", 4: b"p", 5: b"u"}])
    again = raw(extended(head("", "") + part(2, content), body))
    assert again == content + part(1, text(6, "7")), "entries that are there are not appended again"


@pytest.mark.parametrize("message", [b"k8s\x00", b"k8s\x00\x12\x05\x0a\x09ab", b"k8s\x00\x12\x02\x0a\xff"])
def test_unreadable_message_is_an_error(message: bytes) -> None:
    with pytest.raises(ValueError, match="not a ResourceClaim"):
        extended(message, CURRENT)


async def test_finalizer_is_added_in_protobuf_after_json_was_rejected(api: FakeApi, connection: Connection) -> None:
    body = changed("metadata", finalizers=["kept", "new"])
    api.script(PATH, IMMUTABLE, ok(CURRENT), Reply(200, MESSAGE), Reply(200, b"k8s\x00"), ok(body))
    assert await KubeWriter(connection).replace(PATH, body) == body
    assert [call.method for call in api.calls] == ["PUT", "GET", "GET", "PUT", "GET"]
    assert api.calls[3].body == extended(MESSAGE, body)
    assert api.calls[3].content_type == PROTOBUF


async def test_written_status_is_read_from_the_claim(api: FakeApi, connection: Connection) -> None:
    """The role of schedulers may update and patch the status alone, but not read it."""
    body, status = changed("status", reservedFor=[POD]), f"{PATH}/status"
    api.script(status, IMMUTABLE, Reply(200, b"k8s\x00"))
    api.script(PATH, ok(CURRENT), Reply(200, MESSAGE), ok(body))
    assert await KubeWriter(connection).replace(status, body) == body
    assert [call.method for call in api.calls] == ["PUT", "GET", "GET", "PUT", "GET"]


async def test_changed_parameters_are_still_an_error(api: FakeApi, connection: Connection) -> None:
    api.script(PATH, IMMUTABLE, ok(CURRENT))
    with pytest.raises(ApiError, match="field is immutable"):
        await KubeWriter(connection).replace(PATH, changed("spec", parameters={}))
